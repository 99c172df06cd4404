"""The contract of an embedder: texts become vectors whose angles say how near their meanings are.

The name of an embedder identifies everything that its vectors depend on: model, version, preparation of the text. Two
embedders with the same name give the same vectors, so a store can keep vectors by that name and notice a change.

An embedder may have an attribute ``cosine_range``: the usual cosine of texts that have nothing to do with each other, and that
of a question and its answer; or ``None`` if its cosines say no more than shared words do. Recall measures them otherwise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lukasa.errors import MissingExtra, StoreError
from lukasa.text.terms import find_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]
    Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into vectors, offline unless its name says otherwise."""

    @property
    def name(self) -> str:
        """Identifier of everything the vectors depend on."""

    @property
    def length(self) -> int:
        """Number of dimensions."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text, in order; a text without any meaning gets zeros."""


def normalise_vectors(vectors: Vectors) -> Vectors:
    """Scale vectors to length one in place; zeros stay zeros."""
    import numpy as np

    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    np.divide(vectors, lengths, out=vectors, where=lengths > 0)
    return vectors


def find_package_file(package: str, name: str, embedder: str) -> Path:
    """Return a data file of an installed package without importing it, or raise ``MissingExtra``."""
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (path := Path(folder) / name).exists():
            return path
    raise MissingExtra(f"The embedder {embedder!r} is not installed.", hint=f"Run: pip install 'lukasa[{embedder}]'")


def read_model_file(path: Path, sha256: str) -> bytes:
    """Return the content of a model file whose SHA-256 is the published one, or raise ``StoreError``.

    The bytes that are returned are those that were checked, in every process and wherever the file was installed.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise refuse_model_file(path) from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise refuse_model_file(path)
    return content


def refuse_model_file(path: Path) -> StoreError:
    """Return the error of a model file that is missing or has other bytes than the published one."""
    return StoreError(
        f"{path} is missing or is not the model file that was published; it is not used.",
        hint="Install the package that it belongs to again: pip install --force-reinstall.",
    )


class HashEmbedder:
    """An embedder without a model, for which texts are near when they share words.

    A hash of each word chooses one dimension and a sign.
    """

    cosine_range = None

    def __init__(self, length: int = 64) -> None:
        self.length = length

    @property
    def name(self) -> str:
        return f"hash-{self.length}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        vectors = np.zeros((len(texts), self.length), dtype=np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for word in find_words(text.casefold()):
                digest = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest())
                vector[digest % self.length] += 1 if digest >> 63 else -1
        return normalise_vectors(vectors)
