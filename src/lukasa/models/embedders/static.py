"""Word vectors distilled from all-MiniLM-L6-v2: a text is the sum of its tokens, and no network runs.

The vector of each token was chosen so that the sums are as near to each other as the vectors that MiniLM gives to the same
texts. Frequent tokens say little and have short vectors. A text has the same vector in every store.

The vectors are a file next to this one, made by ``tools/distil_static.py``; the vocabulary is that of MiniLM.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lukasa.models.embedder import normalise_vectors, read_model_file, refuse_model_file
from lukasa.models.embedders.minilm import read_vocabulary
from lukasa.models.embedders.word_pieces import WordPieceTokenizer

if TYPE_CHECKING:
    from lukasa.models.embedder import Vectors

_LENGTH = 256
ROW = [("scale", "<f4"), ("vector", "i1", (_LENGTH,))]
VECTORS = Path(__file__).with_name("static_vectors.bin")
"""For each token a number, and the vector that is multiplied by it, in eight bits."""
CHECKSUMS = Path(__file__).with_name("static_checksums.bin")
"""The SHA-256 of every block of the vectors, so that a question reads and checks those of its own words only."""
_CHECKSUMS_SHA256 = "c883d6e49d2956496fe1781ee7d9b96629f1526abd230774d87f8448ff72ddcd"
BLOCK_TOKENS = 64
_MAX_TOKENS = 512


class StaticEmbedder:
    """Embedder on the vectors of single tokens, which stay in their file until they are used."""

    name = "minilm-l6-v2-tokens-256"
    length = _LENGTH
    cosine_range = (0.1, 0.6)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._checked: set[int] = set()

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        tokenizer, table, _ = self._model
        vectors = np.zeros((len(texts), self.length), dtype=np.float32)
        for index, text in enumerate(texts):
            tokens = tokenizer.encode(text.encode("utf-8", "replace").decode(), _MAX_TOKENS)
            if tokens:
                self._check_blocks({token // BLOCK_TOKENS for token in tokens})
                rows = table[tokens]
                vectors[index] = rows["scale"] @ rows["vector"].astype(np.float32)
        return normalise_vectors(vectors)

    def _check_blocks(self, blocks: set[int]) -> None:
        """Compare the blocks that are used for the first time with their checksums."""
        _, table, checksums = self._model
        for block in blocks - self._checked:
            data = table[block * BLOCK_TOKENS : (block + 1) * BLOCK_TOKENS]
            if hashlib.sha256(data).digest() != checksums[block * 32 : block * 32 + 32]:
                raise refuse_model_file(VECTORS)
            self._checked.add(block)

    @cached_property
    def _model(self) -> tuple[WordPieceTokenizer, Any, bytes]:
        """Return the tokenizer, the vectors of all tokens and the checksums."""
        with self._lock:
            import numpy as np

            vocabulary = read_vocabulary()
            checksums = read_model_file(CHECKSUMS, _CHECKSUMS_SHA256)
            row = np.dtype(ROW)
            if not VECTORS.is_file() or VECTORS.stat().st_size != len(vocabulary) * row.itemsize:
                raise refuse_model_file(VECTORS)
            table = np.asarray(np.memmap(VECTORS, dtype=row, mode="r", shape=(len(vocabulary),)))
            return WordPieceTokenizer(vocabulary), table, checksums
