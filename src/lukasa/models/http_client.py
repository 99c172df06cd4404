"""Asking an OpenAI-compatible endpoint over HTTP: one question, one JSON answer, within bounds.

Whoever answers may be slow, wrong or broken. The answer is read only so far and only so long; what is worth another try
is tried again; everything else ends in one error that says what happened.
"""

from __future__ import annotations

import json
import time
import urllib.error
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

from lukasa.errors import InvalidInput, StoreUnavailable, mask_password

_CHUNK_BYTES = 65_536
_MAX_BYTES = 64_000_000
_MAX_DELAY = 10.0
_RETRY_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A place to ask. ``retries`` are further tries after the first; ``patience`` is in seconds, for all of them together."""

    url: str
    model: str
    key: str = ""
    timeout: float = 60.0
    retries: int = 0
    max_bytes: int = _MAX_BYTES
    sleep: Callable[[float], None] = time.sleep

    @classmethod
    def from_url(cls, url_and_model: str, **options: Any) -> Self:
        """Reads ``https://host/v1#model``."""
        url, _, model = url_and_model.partition("#")
        if urlsplit(url).scheme not in ("http", "https") or not model:
            raise InvalidInput(
                f"{mask_password(url_and_model)[:120]!r} names no endpoint and model.",
                hint="Write https://host/v1#model-name.",
            )
        return cls(url.rstrip("/"), model, **options)

    @property
    def name(self) -> str:
        """The place and the model, without any password."""
        return f"{mask_password(self.url)}#{self.model}"

    def post_json(self, path: str, body: Mapping[str, Any]) -> Any:
        """The answer to a question. ``StoreUnavailable`` when there is none, with the reason."""
        deadline = time.monotonic() + self.timeout
        for left in range(self.retries, -1, -1):
            try:
                return self._post_once(path, body, deadline)
            except urllib.error.HTTPError as error:
                error.close()
                if left == 0 or error.code not in _RETRY_STATUSES:
                    raise self._no_answer_error(f"HTTP {error.code} {error.reason}") from error
                pause = _retry_delay(error.headers.get("Retry-After"), self.retries - left)
            except (OSError, ValueError) as error:  # URLError and TimeoutError are kinds of OSError
                if left == 0 or isinstance(error, TimeoutError) or time.monotonic() >= deadline:
                    raise self._no_answer_error(str(getattr(error, "reason", error)) or type(error).__name__) from error
                pause = _retry_delay(None, self.retries - left)
            if time.monotonic() + pause >= deadline:
                raise self._no_answer_error("its patience ran out")
            self.sleep(pause)
        raise self._no_answer_error("it was not asked")

    def _post_once(self, path: str, body: Mapping[str, Any], deadline: float) -> Any:
        import urllib.request  # it brings much along, and most stores never ask anybody

        data = json.dumps({"model": self.model, **body}).encode()
        request = urllib.request.Request(f"{self.url}/{path}", data, {"Content-Type": "application/json"})  # noqa: S310 - the scheme was checked
        if self.key:
            request.add_header("Authorization", f"Bearer {self.key}")
        wait = max(0.001, deadline - time.monotonic())
        with urllib.request.urlopen(request, timeout=wait) as answer:  # noqa: S310 - likewise
            parts, size = [], 0
            while part := answer.read1(_CHUNK_BYTES):
                parts.append(part)
                size += len(part)
                if size > self.max_bytes:
                    raise self._no_answer_error(f"it answered with more than {self.max_bytes:,} bytes")
                if time.monotonic() > deadline:
                    raise TimeoutError("it was too slow")
            told = answer.headers.get("Content-Length")
            if told is not None and told.isdigit() and int(told) != size:
                raise ValueError(f"its answer was cut off after {size:,} of {int(told):,} bytes")
        return json.loads(b"".join(parts))

    def _no_answer_error(self, reason: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"The endpoint {self.name} gave no answer ({reason[:200]}).",
            hint="Check the URL, the model's name and the key.",
        )


def _retry_delay(retry_after: str | None, attempt: int) -> float:
    """How long to wait before the next try: as long as was asked for, else twice as long each time."""
    if retry_after is not None and retry_after.isdigit():
        return min(float(retry_after), _MAX_DELAY)
    return min(0.25 * float(2**attempt), _MAX_DELAY)
