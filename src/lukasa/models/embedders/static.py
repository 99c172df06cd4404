"""Word vectors distilled from a language model: a text is a weighted mean of its tokens, and no network runs.

Frequent tokens say little and rare ones much, so each counts the less the more frequent it is; and the part that all texts
have in common is subtracted. Both come from the vocabulary of the model, whose order is that of frequency, and from nothing
else, so a text has the same vector in every store.
"""

from __future__ import annotations

import threading
from base64 import b64decode
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lukasa.models.embedder import find_package_file, normalise_vectors, verify_model_file

if TYPE_CHECKING:
    from lukasa.models.embedder import Vectors

_WEIGHTS = ("wordllama", "weights/l2_supercat_256.safetensors")
_TOKENIZER = ("wordllama", "tokenizers/l2_supercat_tokenizer_config.json")
_WEIGHTS_SHA256 = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
_TOKENIZER_SHA256 = "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"
_MEAN_FILE = Path(__file__).with_name("static_mean.txt")
"""The mean of all tokens, weighted: what all texts have in common. It follows from the weights and takes long to compute."""
_MAX_TOKENS = 512


class StaticEmbedder:
    """Embedder on the bundled vectors of ``wordllama``, read directly: its loader would look for them on the network."""

    name = "wordllama-l2-256"
    length = 256
    needs_mean_subtraction = True
    cosine_range = (-0.15, 0.35)

    def __init__(self) -> None:
        self._weights_file = find_package_file(*_WEIGHTS, "static")
        self._tokenizer_file = find_package_file(*_TOKENIZER, "static")
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        table, weights, mean, tokenizer = self._weights_and_tokenizer
        vectors = np.zeros((len(texts), self.length), dtype=np.float32)
        encoded = tokenizer.encode_batch(
            [text.encode("utf-8", "replace").decode() for text in texts], add_special_tokens=False
        )
        for index, encoding in enumerate(encoded):
            ids = np.array(encoding.ids, dtype=np.int64)
            if len(ids):
                share = weights[ids]
                vectors[index] = (table[ids].astype(np.float32) * share[:, None]).sum(axis=0) / share.sum() - mean
        return normalise_vectors(vectors)

    @cached_property
    def _weights_and_tokenizer(self) -> tuple[Any, Any, Any, Any]:
        with self._lock:
            import numpy as np
            from tokenizers import Tokenizer

            table = map_table(verify_model_file(self._weights_file, _WEIGHTS_SHA256), self.length)
            _, weights = weigh_tokens(len(table))
            mean = np.frombuffer(b64decode(_MEAN_FILE.read_text("ascii")), dtype="<f4")
            tokenizer = Tokenizer.from_file(str(verify_model_file(self._tokenizer_file, _TOKENIZER_SHA256)))
            tokenizer.enable_truncation(_MAX_TOKENS)
            tokenizer.no_padding()
            return table, weights, mean, tokenizer


def map_table(file: Path, length: int) -> Any:
    """Return the half-precision vectors of all tokens, which stay in the file until they are used."""
    import numpy as np

    with file.open("rb") as opened:
        start = 8 + int.from_bytes(opened.read(8), "little")  # a file of safetensors begins with the size of its header
    return np.memmap(file, dtype="<f2", mode="r", offset=start).reshape(-1, length)


def weigh_tokens(count: int) -> tuple[Any, Any]:
    """Return how frequent each token is taken to be, and how much it counts."""
    import numpy as np

    frequency = 1 / (np.arange(count, dtype=np.float32) + 10)
    frequency /= frequency.sum()
    weights = 1e-3 / (1e-3 + frequency)
    return frequency, weights
