"""Word vectors that were distilled from a language model: no network runs, a text is a weighted mean of its tokens.

Frequent tokens say little and rare ones much, so each counts the less the more frequent it is; and what all texts have
in common is taken away. Both come from the model's own vocabulary, whose order is that of frequency, and from nothing
else, so a text has the same vector in every store.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lukasa.errors import MissingExtra

if TYPE_CHECKING:
    from lukasa.models.embedder import Vectors

_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_MAX_TOKENS = 512


class StaticEmbedder:
    """The bundled vectors of ``wordllama``, read directly; its own loader would look for them on the network."""

    name = "wordllama-l2-256"
    length = 256
    needs_mean_subtraction = True

    def __init__(self) -> None:
        self._weights_file, self._tokenizer_file = _find_package_file(_WEIGHTS), _find_package_file(_TOKENIZER)
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        table, weights, common, tokenizer = self._weights_and_tokenizer
        vectors = np.zeros((len(texts), self.length), dtype=np.float32)
        encoded = tokenizer.encode_batch(
            [text.encode("utf-8", "replace").decode() for text in texts], add_special_tokens=False
        )
        for at, each in enumerate(encoded):
            ids = np.array(each.ids, dtype=np.int64)
            if len(ids):
                share = weights[ids]
                vectors[at] = (table[ids] * share[:, None]).sum(axis=0) / share.sum() - common
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.divide(vectors, lengths, out=vectors, where=lengths > 0)
        return vectors

    @cached_property
    def _weights_and_tokenizer(self) -> tuple[Any, Any, Any, Any]:
        with self._lock:
            import numpy as np
            from safetensors.numpy import load_file
            from tokenizers import Tokenizer

            (table,) = load_file(str(self._weights_file)).values()
            table = table.astype(np.float32)
            rank = np.arange(len(table), dtype=np.float32)
            frequency = 1 / (rank + 10)
            frequency /= frequency.sum()
            weights = 1e-3 / (1e-3 + frequency)
            seen = frequency * weights
            common = (table * seen[:, None]).sum(axis=0) / seen.sum()
            tokenizer = Tokenizer.from_file(str(self._tokenizer_file))
            tokenizer.enable_truncation(_MAX_TOKENS)
            tokenizer.no_padding()
            return table, weights.astype(np.float32), common, tokenizer


def _find_package_file(name: str) -> Path:
    """A data file of the installed package, which is not imported for it."""
    spec = find_spec("wordllama")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (path := Path(folder) / name).exists():
            return path
    raise MissingExtra("The embedder 'static' is not installed.", hint="Run: pip install 'lukasa[static]'")
