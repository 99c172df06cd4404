"""Rerankers: models that read a question and a text together and say how well the text answers.

    http:URL#model   the rerank API of Jina, Cohere and vLLM: ``http:https://host/v1#model``
    http:URL         that of Text Embeddings Inference, which serves one model and wants no name
    onnx:PATH        a cross-encoder that you have: an ONNX file next to its ``tokenizer.json`` (extra ``minilm``)

None is used unless it is named, and nothing is ever downloaded.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property, lru_cache
from math import exp, isfinite
from pathlib import Path
from typing import Any, Protocol

from lukasa.errors import InvalidInput, MissingExtra, StoreUnavailable
from lukasa.models.endpoint import Endpoint
from lukasa.models.onnx import open_onnx_session

_TIMEOUT = 10.0
_MAX_TOKENS = 512
_BATCH_SIZE = 16


class Reranker(Protocol):
    """Scores texts by how well they answer a question."""

    @property
    def name(self) -> str:
        """Identifier of the model."""

    def score(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return one number per text, in order: the better the text answers, the higher."""


class HttpReranker:
    """Client of ``POST {url}/rerank``."""

    def __init__(self, url_and_model: str, key: str = "") -> None:
        self._is_named = "#" in url_and_model
        address = url_and_model if self._is_named else f"{url_and_model}#rerank"
        self._endpoint = Endpoint.from_url(address, key=key, timeout=_TIMEOUT)
        self.name = f"http:{self._endpoint.name}"

    def score(self, question: str, texts: Sequence[str]) -> list[float]:
        field = "documents" if self._is_named else "texts"
        body: dict[str, Any] = {"query": question, field: list(texts)}
        try:
            answer = self._endpoint.post_json("rerank", body)
            rows = answer["results"] if isinstance(answer, dict) else answer
            scores = {row["index"]: float(row.get("relevance_score", row.get("score"))) for row in rows}
            return [scores[index] for index in range(len(texts))]
        except (StoreUnavailable, KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreUnavailable(
                f"The reranker at {self._endpoint.name} gave no scores ({error}).",
                hint="Check the URL, the model's name and the key in LUKASA_RERANKER.",
            ) from error


class OnnxReranker:
    """A cross-encoder in an ONNX file. The model is loaded for the first question."""

    def __init__(self, path: str) -> None:
        self._file = Path(path)
        self._tokenizer_file = self._file.with_name("tokenizer.json")
        for file in (self._file, self._tokenizer_file):
            if not file.is_file():
                raise InvalidInput(
                    f"There is no file {file}.", hint="Write onnx:PATH of a model next to its tokenizer.json."
                )
        self._lock = threading.Lock()
        self.name = f"onnx:{self._file.name}"

    def score(self, question: str, texts: Sequence[str]) -> list[float]:
        import numpy as np

        session, tokenizer = self._model_and_tokenizer
        expected = {node.name for node in session.get_inputs()}
        scores: list[float] = []
        for start in range(0, len(texts), _BATCH_SIZE):
            encoded = tokenizer.encode_batch([(question, text) for text in texts[start : start + _BATCH_SIZE]])
            columns = {
                "input_ids": [encoding.ids for encoding in encoded],
                "attention_mask": [encoding.attention_mask for encoding in encoded],
                "token_type_ids": [encoding.type_ids for encoding in encoded],
            }
            inputs = {name: np.array(rows, dtype=np.int64) for name, rows in columns.items() if name in expected}
            logits = np.asarray(session.run(None, inputs)[0], dtype=np.float64).reshape(len(encoded), -1)
            scores += (logits[:, -1] - (logits[:, 0] if logits.shape[1] > 1 else 0.0)).tolist()
        return scores

    @cached_property
    def _model_and_tokenizer(self) -> tuple[Any, Any]:
        with self._lock:
            try:
                from tokenizers import Tokenizer

                session = open_onnx_session(self._file)
                tokenizer = Tokenizer.from_file(str(self._tokenizer_file))
            except ImportError as error:
                raise MissingExtra(
                    "A reranker in an ONNX file needs onnxruntime and tokenizers.",
                    hint="Run: pip install 'lukasa[minilm]'",
                ) from error
            except Exception as error:  # both raise errors of their own that share no class
                raise StoreUnavailable(f"The reranker {self._file} cannot be loaded ({error}).") from error
            tokenizer.enable_truncation(_MAX_TOKENS)
            tokenizer.enable_padding()
            return session, tokenizer


@lru_cache(maxsize=8)
def open_reranker(name: str, key: str = "") -> Reranker | None:
    """Open a reranker by name; none without one. ``key`` is the API key of an endpoint."""
    if not name or name == "none":
        return None
    if name.startswith("http:"):
        return HttpReranker(name.removeprefix("http:"), key)
    if name.startswith("onnx:"):
        return OnnxReranker(name.removeprefix("onnx:"))
    raise InvalidInput(f"There is no reranker {name[:60]!r}.", hint="Use none, http:URL#model or onnx:PATH.")


def scale_scores(scores: Sequence[float]) -> list[float]:
    """Return scores between 0 and 1: as they are if all are, else each by the logistic function."""
    if not all(map(isfinite, scores)):
        raise StoreUnavailable("The reranker gave a score that is no number.")
    if all(0.0 <= score <= 1.0 for score in scores):
        return list(scores)
    return [1.0 / (1.0 + exp(-min(max(score, -50.0), 50.0))) for score in scores]
