"""The embedder promise: texts become vectors whose angles tell how near their meanings are.

An embedder has a name that stands for everything its vectors depend on: model, version, preparation of the text. Two
embedders with the same name give the same vectors, so a store can keep vectors by that name and notice when another
one is used.

Vectors that all lean one way (means of word vectors do) tell more when a question's is seen from the middle of a store's
texts; an embedder that makes such says so by an attribute ``leaning`` that is true.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]
    Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """Makes vectors of texts, offline unless its name says otherwise."""

    @property
    def name(self) -> str:
        """Stands for everything the vectors depend on."""

    @property
    def length(self) -> int:
        """How many numbers a vector has."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One unit vector per text, in order; a text without any meaning to it gets a vector of zeros."""
