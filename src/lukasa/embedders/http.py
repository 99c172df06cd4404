"""Any OpenAI-compatible endpoint as an embedder. Only for who asks for it by name: everything else here is offline."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from lukasa.errors import InvalidInput, StoreUnavailable, without_password

if TYPE_CHECKING:
    from lukasa.embedder import Vectors

KEY_VARIABLE = "LUKASA_EMBEDDER_KEY"
_BATCH = 64
_PATIENCE = 60.0


class HttpEmbedder:
    """Asks ``POST {url}/embeddings``; the key, if one is needed, is in ``LUKASA_EMBEDDER_KEY``."""

    def __init__(self, url: str, model: str) -> None:
        self._url = url.rstrip("/")
        self._model = model
        self._length: int | None = None

    @classmethod
    def at(cls, place: str) -> Self:
        """Reads ``https://host/v1#model``."""
        url, _, model = place.partition("#")
        if urlsplit(url).scheme not in ("http", "https") or not model:
            raise InvalidInput(
                f"{without_password(place)[:120]!r} names no endpoint and model.",
                hint="Write http:https://host/v1#model-name.",
            )
        return cls(url, model)

    @property
    def name(self) -> str:
        return f"http:{without_password(self._url)}#{self._model}"

    @property
    def length(self) -> int:
        if self._length is None:
            self._length = int(self.embed(["length"]).shape[1])
        return self._length

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        rows: list[Any] = []
        for start in range(0, len(texts), _BATCH):
            rows += self._ask(texts[start : start + _BATCH])
        if not rows:
            return np.zeros((0, self._length or 0), dtype=np.float32)
        vectors = np.array(rows, dtype=np.float32)
        self._length = vectors.shape[1]
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.divide(vectors, lengths, out=vectors, where=lengths > 0)
        return vectors

    def _ask(self, texts: Sequence[str]) -> list[Any]:
        body = json.dumps({"model": self._model, "input": [text or " " for text in texts]}).encode()
        request = urllib.request.Request(f"{self._url}/embeddings", body, {"Content-Type": "application/json"})  # noqa: S310 - the scheme was checked
        if key := os.environ.get(KEY_VARIABLE):
            request.add_header("Authorization", f"Bearer {key}")
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:  # noqa: S310 - likewise
                data = json.load(answer)["data"]
        except (urllib.error.URLError, TimeoutError, OSError, ValueError, KeyError, TypeError) as error:
            raise StoreUnavailable(
                f"The embedder at {without_password(self._url)} gave no vectors ({error}).",
                hint="Check the URL, the model's name and the key, or use an offline embedder.",
            ) from error
        if len(data) != len(texts):
            raise StoreUnavailable(
                f"The embedder at {without_password(self._url)} answered {len(data)} of {len(texts)}."
            )
        return [row["embedding"] for row in sorted(data, key=lambda row: row.get("index", 0))]
