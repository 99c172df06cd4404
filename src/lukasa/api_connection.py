"""A connection to the HTTP API of a Lukasa server: one request, one JSON answer, retried where that is safe.

A request is repeated when the server could not be reached, did not answer, or asks to come back (429, 503), and only if
repeating it cannot write twice: a request that changes nothing, one with an idempotency key, or one that the caller says
may be repeated. All tries together take no longer than the timeout.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import time
import uuid
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from lukasa import errors
from lukasa.storage.location import split_url

_MAX_BYTES = 64_000_000
_MAX_DELAY = 10.0
_CHUNK_BYTES = 65_536
_RETRY_STATUSES = frozenset({429, 502, 503, 504})
_SAFE_METHODS = frozenset({"GET", "PUT", "DELETE"})
_ERRORS = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(): value
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.LukasaError)
}


class ApiProblem(errors.LukasaError):
    """The server refused a request; ``code`` and ``details`` are those of the refusal."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(
            str(problem.get("detail") or f"The server answered with HTTP {status}."), hint=problem.get("next")
        )
        self.status = status
        self.code = str(problem.get("code") or "")
        self.details: Mapping[str, Any] = problem.get("details") or {}


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """The answer to a request: its status, its headers by lower-case name, and its JSON."""

    status: int
    headers: Mapping[str, str]
    content: Any


class SingleSendConnection(http.client.HTTPConnection):
    """Sends the head and the body of a request together, so that the server is woken once."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._held: list[bytes] = []

    def send(self, data: Any) -> None:
        """Hold a part of the request back."""
        self._held.append(data)

    def getresponse(self) -> http.client.HTTPResponse:
        """Send the request, and wait for the response."""
        held, self._held = b"".join(self._held), []
        super().send(held)
        return super().getresponse()


class SingleSendTlsConnection(SingleSendConnection, http.client.HTTPSConnection):
    """The same over TLS."""


@dataclass(slots=True, weakref_slot=True)
class ApiConnection:
    """Sends requests to a server, from any thread, over connections that stay open between requests."""

    url: str
    token: str = field(default="", repr=False)
    timeout: float = 30.0
    retries: int = 4
    sleep: Callable[[float], None] = time.sleep
    _idle: list[http.client.HTTPConnection] = field(default_factory=list, init=False, repr=False)
    _process: int = field(default_factory=os.getpid, init=False, repr=False)

    def __post_init__(self) -> None:
        self.url = self.url.rstrip("/")
        parts = split_url(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            shown = errors.mask_password(self.url)[:120]
            raise errors.InvalidInput(f"{shown!r} is not the address of a server.", hint="Write http://host:8765.")
        weakref.finalize(self, _close_all, self._idle)  # a __del__ may come after that of the sockets

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        with_key: bool = False,
        repeatable: bool = False,
    ) -> ApiResponse:
        """Send a request and return the answer.

        ``with_key`` adds an idempotency key, the same for every try; ``repeatable`` says that the request may be repeated
        without one. Raises ``ApiProblem`` for a refusal or a conflict, the error of the library that the server reports, or
        ``StoreUnavailable`` when no answer came in time.
        """
        target = split_url(self.url).path + path + (f"?{urlencode(query, doseq=True)}" if query else "")
        sent = {"Accept": "application/json", **(headers or {})}
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        if with_key:
            sent.setdefault("Idempotency-Key", uuid.uuid4().hex)
        data = None
        if body is not None:
            try:
                data = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
            except (TypeError, ValueError) as error:
                hint = "Send texts, numbers, lists and mappings."
                raise errors.InvalidInput(f"The request cannot be written as JSON: {error}.", hint=hint) from None
            sent["Content-Type"] = "application/json"
        may_repeat = repeatable or method in _SAFE_METHODS or "Idempotency-Key" in sent
        deadline = time.monotonic() + self.timeout
        for attempt in range(self.retries + 1):
            delay = min(0.1 * 2.0**attempt, _MAX_DELAY) if attempt else 0.0  # an idle connection may be closed by now
            try:
                response = self._send_once(method, target, data, sent, deadline)
            except (OSError, http.client.HTTPException, ValueError) as error:
                reason = str(error) or type(error).__name__
            else:
                if response.status < 400:
                    return response
                if response.status not in _RETRY_STATUSES:
                    raise _read_problem(response)
                reason = f"HTTP {response.status}"
                asked = response.headers.get("retry-after", "")
                delay = min(float(asked), _MAX_DELAY) if asked.isdecimal() else delay
                if not may_repeat or attempt == self.retries or time.monotonic() + delay >= deadline:
                    raise _read_problem(response)
            if not may_repeat or attempt == self.retries or time.monotonic() + delay >= deadline:
                break
            self.sleep(delay)
        raise errors.StoreUnavailable(
            f"The server {self.url} gave no answer ({reason[:200]}).", hint="Check its address, and that it is running."
        )

    def close(self) -> None:
        """Close the open connections; the next request opens another."""
        _close_all(self._idle)

    def _send_once(
        self, method: str, target: str, data: bytes | None, headers: Mapping[str, str], deadline: float
    ) -> ApiResponse:
        if self._process != os.getpid():  # a connection belongs to the process that opened it
            self._idle.clear()
            self._process = os.getpid()
        try:
            connection = self._idle.pop()
        except IndexError:
            parts = split_url(self.url)
            kind = SingleSendTlsConnection if parts.scheme == "https" else SingleSendConnection
            connection = kind(parts.hostname or "", parts.port)
        try:
            response = self._exchange(connection, method, target, data, headers, deadline)
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return response

    @staticmethod
    def _exchange(
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        data: bytes | None,
        headers: Mapping[str, str],
        deadline: float,
    ) -> ApiResponse:
        wait = max(0.001, deadline - time.monotonic())
        connection.timeout = wait
        if connection.sock is not None:
            connection.sock.settimeout(wait)
        connection.request(method, target, data, dict(headers))
        answer = connection.getresponse()
        parts_read, size = list[bytes](), 0
        while part := answer.read1(_CHUNK_BYTES):
            parts_read.append(part)
            size += len(part)
            if size > _MAX_BYTES or time.monotonic() > deadline:
                raise ValueError(f"its answer was too {'large' if size > _MAX_BYTES else 'slow'}")
        answer.close()  # so that the connection takes the next request
        found = {name.lower(): value for name, value in answer.getheaders()}
        content = b"".join(parts_read)
        is_json = "json" in found.get("content-type", "")
        return ApiResponse(answer.status, found, json.loads(content) if is_json and content else None)


def _close_all(connections: list[http.client.HTTPConnection]) -> None:
    while connections:
        with suppress(IndexError):  # another thread took the last one
            connections.pop().close()


def _read_problem(response: ApiResponse) -> errors.LukasaError:
    """Return the error that a response with a problem stands for."""
    problem = response.content if isinstance(response.content, dict) else {}
    code = problem.get("code")
    error = _ERRORS.get(code) if isinstance(code, str) else None
    message = str(problem.get("detail") or f"The server answered with HTTP {response.status}.")
    if error is None and response.status in (401, 429):
        error = errors.NotAllowed if response.status == 401 else errors.RateLimited
    if error is None and response.status >= 500:
        error = errors.StoreUnavailable
    return ApiProblem(response.status, problem) if error is None else error(message, hint=problem.get("next"))
