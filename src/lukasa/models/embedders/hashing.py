"""An embedder without a model: a hash of each word chooses one dimension and a sign."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from lukasa.models.embedder import normalise_vectors

if TYPE_CHECKING:
    from lukasa.models.embedder import Vectors

_WORD = re.compile(r"\w+")


class HashEmbedder:
    """Embedder for which texts are near when they share words."""

    def __init__(self, length: int = 64) -> None:
        self.length = length

    @property
    def name(self) -> str:
        return f"hash-{self.length}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        vectors = np.zeros((len(texts), self.length), dtype=np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for word in _WORD.findall(text.casefold()):
                dimension, sign = _hash_word(word, self.length)
                vector[dimension] += sign
        return normalise_vectors(vectors)


@lru_cache(maxsize=10_000)
def _hash_word(word: str, length: int) -> tuple[int, int]:
    """Return the dimension and the sign of a word."""
    digest = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest())
    return digest % length, 1 if digest >> 63 else -1
