"""HTTP client of an OpenAI-compatible endpoint: one request, one JSON answer, within limits of size and time.

A server may be slow, wrong or broken. The client limits the bytes and the seconds that it reads, retries failures
that may pass, and turns every other one into an error that names it.
"""

from __future__ import annotations

import json
import time
import urllib.error
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from lukasa.errors import InvalidInput, StoreUnavailable, mask_password
from lukasa.storage.location import split_url

_CHUNK_BYTES = 65_536
_MAX_BYTES = 64_000_000
_MAX_DELAY = 10.0
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


@dataclass(frozen=True, slots=True)
class Endpoint:
    """URL, model and key of an endpoint. ``retries`` follow the first try; ``timeout`` is in seconds, for all tries together."""

    url: str
    model: str
    key: str = ""
    timeout: float = 60.0
    retries: int = 0
    max_bytes: int = _MAX_BYTES
    sleep: Callable[[float], None] = time.sleep
    breaker: CircuitBreaker = field(default_factory=CircuitBreaker, compare=False)

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
        deadline = time.monotonic() + self.timeout
        for retries_left in range(self.retries, -1, -1):
            try:
                return self._post_once(path, body, deadline)
            except urllib.error.HTTPError as error:
                error.close()
                if retries_left == 0 or error.code not in _RETRY_STATUSES:
                    raise self._no_answer_error(f"HTTP {error.code} {error.reason}") from error
                delay = _retry_delay(error.headers.get("Retry-After"), self.retries - retries_left)
            except (OSError, ValueError) as error:  # URLError and TimeoutError are subclasses of OSError
                if retries_left == 0 or isinstance(error, TimeoutError) or time.monotonic() >= deadline:
                    raise self._no_answer_error(str(getattr(error, "reason", error)) or type(error).__name__) from error
                delay = _retry_delay(None, self.retries - retries_left)
            if time.monotonic() + delay >= deadline:
                raise self._no_answer_error("the timeout passed")
            self.sleep(delay)
        raise self._no_answer_error("no request was sent")

    def _post_once(self, path: str, body: Mapping[str, Any], deadline: float) -> Any:
        import urllib.request  # a slow import, and most stores never use it

        data = json.dumps({"model": self.model, **body}).encode()
        request = urllib.request.Request(f"{self.url}/{path}", data, {"Content-Type": "application/json"})  # noqa: S310 - the scheme was checked
        if self.key:
            request.add_header("Authorization", f"Bearer {self.key}")
        wait = max(0.001, deadline - time.monotonic())
        with urllib.request.urlopen(request, timeout=wait) as answer:  # noqa: S310 - the scheme was checked
            parts, size = [], 0
            while part := answer.read1(_CHUNK_BYTES):
                parts.append(part)
                size += len(part)
                if size > self.max_bytes:
                    raise self._no_answer_error(f"it answered with more than {self.max_bytes:,} bytes")
                if time.monotonic() > deadline:
                    raise TimeoutError("it was too slow")
            announced = answer.headers.get("Content-Length")
            if announced is not None and announced.isdigit() and int(announced) != size:
                raise ValueError(f"its answer was cut off after {size:,} of {int(announced):,} bytes")
        return json.loads(b"".join(parts))

    def _no_answer_error(self, reason: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"The endpoint {self.name} gave no answer ({reason[:200]}).",
            hint="Check the URL, the model's name and the key.",
        )


def _retry_delay(retry_after: str | None, attempt: int) -> float:
    """Return the seconds before the next try: as long as the server asks, or twice as long each time."""
    if retry_after is not None and retry_after.isdigit():
        return min(float(retry_after), _MAX_DELAY)
    return min(0.25 * float(2**attempt), _MAX_DELAY)
