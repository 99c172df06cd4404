"""Any OpenAI-compatible endpoint as an embedder. It is used only when it is named; every other embedder is offline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from lukasa.errors import StoreUnavailable
from lukasa.models.embedder import normalise_vectors
from lukasa.models.endpoint import Endpoint

if TYPE_CHECKING:
    from lukasa.models.embedder import Vectors

_BATCH_SIZE = 64


class HttpEmbedder:
    """Client of ``POST {url}/embeddings``."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._length: int | None = None

    @classmethod
    def from_url(cls, url_and_model: str, key: str = "") -> Self:
        """Parse ``https://host/v1#model``."""
        return cls(Endpoint.from_url(url_and_model, key=key))

    @property
    def name(self) -> str:
        return f"http:{self._endpoint.name}"

    @property
    def length(self) -> int:
        if self._length is None:
            self._length = int(self.embed(["length"]).shape[1])
        return self._length

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        rows: list[Any] = []
        for start in range(0, len(texts), _BATCH_SIZE):
            rows += self._fetch_vectors(texts[start : start + _BATCH_SIZE])
        if not rows:
            return np.zeros((0, self._length or 0), dtype=np.float32)
        vectors = np.array(rows, dtype=np.float32)
        self._length = vectors.shape[1]
        return normalise_vectors(vectors)

    def _fetch_vectors(self, texts: Sequence[str]) -> list[Any]:
        try:
            data = self._endpoint.post_json("embeddings", {"input": [text or " " for text in texts]})["data"]
            if len(data) != len(texts):
                raise StoreUnavailable(f"{len(data)} of {len(texts)} texts were answered")
            return [row["embedding"] for row in sorted(data, key=lambda row: row.get("index", 0))]
        except (StoreUnavailable, KeyError, TypeError, AttributeError) as error:
            raise StoreUnavailable(
                f"The embedder at {self._endpoint.name} gave no vectors ({error}).",
                hint="Check the URL, the model's name and the key, or use an offline embedder.",
            ) from error
