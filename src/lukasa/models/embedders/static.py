"""Word vectors distilled from a language model: a text is a weighted mean of its tokens, and no network runs.

Frequent tokens say little and rare ones much, so each counts the less the more frequent it is; and the part that all texts
have in common is subtracted. Both come from the vocabulary of the model, whose order is that of frequency, and from nothing
else, so a text has the same vector in every store.

The vectors and the vocabulary are files next to this one, from ``wordllama`` 0.4.0 (``static.LICENSE.txt``).
"""

from __future__ import annotations

import hashlib
import threading
from base64 import b64decode
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lukasa.models.embedder import normalise_vectors, refuse_model_file, verify_model_file
from lukasa.models.embedders.llama_tokenizer import LlamaTokenizer

if TYPE_CHECKING:
    from lukasa.models.embedder import Vectors

_VECTORS = Path(__file__).with_name("static_vectors.safetensors")
_HEADER_SIZE = 96
_CHECKSUMS = Path(__file__).with_name("static_checksums.bin")
"""The SHA-256 of every block of the vectors, so that a question reads and checks those of its own words only."""
_CHECKSUMS_SHA256 = "69e2f3d48fc2dc39750e15911c5d94098359dc4175d945c4909542d36a62c9ad"
_BLOCK_TOKENS = 64
_VOCABULARY = Path(__file__).with_name("static_vocabulary.txt")
_VOCABULARY_SHA256 = "7015eebad70f6975a0c548ce982fb76a4aa0835644628a5ed0b1fd41ff9a2912"
_MEAN_FILE = Path(__file__).with_name("static_mean.txt")
"""The mean of all tokens, weighted: what all texts have in common. It follows from the weights and takes long to compute."""
_MAX_TOKENS = 512


class StaticEmbedder:
    """Embedder on the vectors of ``wordllama``, which stay in their file until they are used."""

    name = "wordllama-l2-256"
    length = 256
    needs_mean_subtraction = True
    cosine_range = (-0.15, 0.35)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._checked: set[int] = set()

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        tokenizer, table, weights, mean, _ = self._model
        vectors = np.zeros((len(texts), self.length), dtype=np.float32)
        for index, text in enumerate(texts):
            tokens = tokenizer.encode(text.encode("utf-8", "replace").decode(), _MAX_TOKENS)
            if tokens:
                self._check_blocks({token // _BLOCK_TOKENS for token in tokens})
                ids = np.array(tokens, dtype=np.int64)
                share = weights[ids]
                vectors[index] = (table[ids].astype(np.float32) * share[:, None]).sum(axis=0) / share.sum() - mean
        return normalise_vectors(vectors)

    def _check_blocks(self, blocks: set[int]) -> None:
        """Compare the blocks that are used for the first time with their checksums."""
        _, table, _, _, checksums = self._model
        for block in blocks - self._checked:
            data = table[block * _BLOCK_TOKENS : (block + 1) * _BLOCK_TOKENS]
            if hashlib.sha256(data).digest() != checksums[block * 32 : block * 32 + 32]:
                raise refuse_model_file(_VECTORS)
            self._checked.add(block)

    @cached_property
    def _model(self) -> tuple[LlamaTokenizer, Any, Any, Any, bytes]:
        """Return the tokenizer, the vectors of all tokens, their weights, their mean and the checksums."""
        with self._lock:
            import numpy as np

            vocabulary = verify_model_file(_VOCABULARY, _VOCABULARY_SHA256).read_bytes().decode().split("\n")[:-1]
            checksums = verify_model_file(_CHECKSUMS, _CHECKSUMS_SHA256).read_bytes()
            shape = (len(vocabulary), self.length)
            if not _VECTORS.is_file() or _VECTORS.stat().st_size != _HEADER_SIZE + 2 * shape[0] * shape[1]:
                raise refuse_model_file(_VECTORS)
            table = np.asarray(np.memmap(_VECTORS, dtype="<f2", mode="r", offset=_HEADER_SIZE, shape=shape))
            _, weights = weigh_tokens(len(vocabulary))
            mean = np.frombuffer(b64decode(_MEAN_FILE.read_text("ascii")), dtype="<f4")
            return LlamaTokenizer(vocabulary), table, weights, mean, checksums


def weigh_tokens(count: int) -> tuple[Any, Any]:
    """Return how frequent each token is taken to be, and how much it counts."""
    import numpy as np

    frequency = 1 / (np.arange(count, dtype=np.float32) + 10)
    frequency /= frequency.sum()
    weights = 1e-3 / (1e-3 + frequency)
    return frequency, weights
