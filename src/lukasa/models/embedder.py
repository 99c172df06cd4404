"""The contract of an embedder: texts become vectors whose angles say how near their meanings are.

The name of an embedder identifies everything that its vectors depend on: model, version, preparation of the text. Two
embedders with the same name give the same vectors, so a store can keep vectors by that name and notice a change.

Some vectors all lean one way, as means of word vectors do. They are compared better after the mean of a store's texts is
subtracted from a question's vector; such an embedder has an attribute ``needs_mean_subtraction`` that is true.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lukasa.errors import MissingExtra

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
