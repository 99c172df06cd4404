"""An OpenAI-compatible endpoint of a model: one request, one JSON answer, or an error that names the endpoint."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import responses
from typing import Any, Self

from lukasa.core.http_client import HttpClient, NoAnswer
from lukasa.errors import InvalidInput, StoreUnavailable, mask_password
from lukasa.storage.location import split_url

_RETRY_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504})


class CircuitBreaker:
    """Stops asking an endpoint that failed several times in a row, for a while: the next to ask fails at once."""

    def __init__(self, failures: int = 3, seconds: float = 30.0) -> None:
        self._limit, self._seconds = failures, seconds
        self._failures = 0
        self._closed_until = 0.0

    def check(self) -> None:
        """Raise ``StoreUnavailable`` while the endpoint is not to be asked."""
        left = self._closed_until - time.monotonic()
        if left > 0:
            raise StoreUnavailable(f"The endpoint failed {self._failures} times; it is asked again in {left:.0f} s.")

    def note(self, *, succeeded: bool) -> None:
        """Count a failure, or forget the failures after a success."""
        self._failures = 0 if succeeded else self._failures + 1
        if self._failures >= self._limit:
            self._closed_until = time.monotonic() + self._seconds


@dataclass(slots=True)
class Endpoint:
    """URL, model and key of an endpoint. ``retries`` follow the first try; ``timeout`` is in seconds, for all tries together."""

    url: str
    model: str
    key: str = ""
    timeout: float = 60.0
    retries: int = 0
    max_bytes: int = 64_000_000
    sleep: Callable[[float], None] = time.sleep
    breaker: CircuitBreaker = field(default_factory=CircuitBreaker, compare=False)
    _client: HttpClient = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        self._client = HttpClient(
            split_url(self.url),
            self.timeout,
            self.retries,
            self.max_bytes,
            _RETRY_STATUSES,
            any_type=True,
            uses_proxy=True,
            sleep=self.sleep,
        )

    @classmethod
    def from_url(cls, url_and_model: str, **options: Any) -> Self:
        """Parse ``https://host/v1#model``."""
        url, _, model = url_and_model.partition("#")
        if split_url(url).scheme not in ("http", "https") or not model:
            raise InvalidInput(
                f"{mask_password(url_and_model)[:120]!r} names no endpoint and model.",
                hint="Write https://host/v1#model-name.",
            )
        return cls(url.rstrip("/"), model, **options)

    @property
    def name(self) -> str:
        """URL and model, without any password."""
        return f"{mask_password(self.url)}#{self.model}"

    def post_json(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the JSON answer to a request. Raises ``StoreUnavailable`` with the reason when there is none."""
        self.breaker.check()
        try:
            answer = self._post(path, body)
        except StoreUnavailable:
            self.breaker.note(succeeded=False)
            raise
        self.breaker.note(succeeded=True)
        return answer

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        data = json.dumps({"model": self.model, **body}).encode()
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        try:
            answer = self._client.request("POST", f"{split_url(self.url).path}/{path}", data, headers)
            if answer.status < 300:
                return answer.content
            reason = f"HTTP {answer.status} {responses.get(answer.status, '')}".strip()
        except NoAnswer as error:
            reason = str(error)
        raise StoreUnavailable(
            f"The endpoint {self.name} gave no answer ({reason[:200]}).",
            hint="Check the URL, the model's name and the key.",
        )
