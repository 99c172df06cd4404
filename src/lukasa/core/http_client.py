"""Requests to one HTTP server: connections that stay open, limits of bytes and seconds, and repeats where they are safe.

A server may be away, slow, wrong or broken. A request that may be repeated is sent again when the server could not be
reached, gave no whole answer, or asked to try again later. All tries together take no longer than the timeout.
"""

from __future__ import annotations

import http.client
import json
import os
import time
import weakref
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

_CHUNK_BYTES = 65_536
_MAX_DELAY = 10.0
_RETRY_STATUSES = frozenset({429, 502, 503, 504})


class NoAnswer(Exception):
    """No whole answer came in time; the text says why."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The answer to a request: its status, its headers by lower-case name, and its JSON."""

    status: int
    headers: Mapping[str, str]
    content: Any


class SingleSendConnection(http.client.HTTPConnection):
    """Sends the head and the body of a request in one piece, so that the server reads both at once."""

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
    """Sends the head and the body of a request in one piece, over TLS."""


@dataclass(slots=True, weakref_slot=True)
class HttpClient:
    """Sends requests to a server, from any thread, over connections that stay open between requests.

    An answer with one of ``retry_statuses`` asks to try again later. ``any_type`` reads every answer as JSON, whatever type
    it declares. With ``uses_proxy`` an https address is reached through the proxy that the environment names, if any.
    """

    address: SplitResult
    timeout: float = 30.0
    retries: int = 4
    max_bytes: int = 64_000_000
    retry_statuses: frozenset[int] = _RETRY_STATUSES
    any_type: bool = False
    uses_proxy: bool = False
    sleep: Callable[[float], None] = time.sleep
    _idle: list[http.client.HTTPConnection] = field(default_factory=list, init=False, repr=False)
    _process: int = field(default_factory=os.getpid, init=False, repr=False)

    def __post_init__(self) -> None:
        weakref.finalize(self, _close_all, self._idle)  # a __del__ may come after that of the sockets

    def request(
        self, method: str, target: str, data: bytes | None, headers: Mapping[str, str], *, may_repeat: bool = True
    ) -> HttpResponse:
        """Send a request and return the last answer, whatever its status. Raises ``NoAnswer`` when there is none."""
        deadline = time.monotonic() + self.timeout
        attempt = 0
        while True:
            answer: HttpResponse | NoAnswer
            delay = 0.25 * 2.0**attempt
            try:
                answer = self._send_once(method, target, data, headers, deadline)
            except (OSError, http.client.HTTPException, ValueError) as error:
                answer = NoAnswer(str(error) or type(error).__name__)
                delay = delay if attempt else 0.0  # an idle connection may be closed by now
            else:
                if answer.status not in self.retry_statuses:
                    return answer
                asked = answer.headers.get("retry-after", "")
                delay = float(asked) if asked.isdecimal() else delay
            delay = min(delay, _MAX_DELAY)
            if not may_repeat or attempt >= self.retries or time.monotonic() + delay >= deadline:
                break
            attempt += 1
            self.sleep(delay)
        if isinstance(answer, NoAnswer):
            raise answer
        return answer

    def close(self) -> None:
        """Close the open connections; the next request opens another."""
        _close_all(self._idle)

    def _send_once(
        self, method: str, target: str, data: bytes | None, headers: Mapping[str, str], deadline: float
    ) -> HttpResponse:
        if self._process != os.getpid():  # a connection belongs to the process that opened it
            self._idle.clear()
            self._process = os.getpid()
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            response = self._exchange(connection, method, target, data, headers, deadline)
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return response

    def _connect(self) -> http.client.HTTPConnection:
        parts = self.address
        is_secure = parts.scheme == "https"
        kind = SingleSendTlsConnection if is_secure else SingleSendConnection
        proxy = _find_proxy(parts) if self.uses_proxy and is_secure else None
        if proxy is None:
            return kind(parts.hostname or "", parts.port)
        connection = http.client.HTTPSConnection(proxy.hostname or "", proxy.port)
        login = f"{unquote(proxy.username or '')}:{unquote(proxy.password or '')}".encode()
        headers = {"Proxy-Authorization": f"Basic {b64encode(login).decode()}"} if proxy.username else {}
        connection.set_tunnel(parts.hostname or "", parts.port, headers)
        return connection

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        data: bytes | None,
        headers: Mapping[str, str],
        deadline: float,
    ) -> HttpResponse:
        wait = max(0.001, deadline - time.monotonic())
        connection.timeout = wait
        if connection.sock is not None:
            connection.sock.settimeout(wait)
        connection.request(method, target, data, dict(headers))
        answer = connection.getresponse()
        parts, size = list[bytes](), 0
        while part := answer.read1(_CHUNK_BYTES):
            parts.append(part)
            size += len(part)
            if size > self.max_bytes:
                raise ValueError(f"its answer had more than {self.max_bytes:,} bytes")
            if time.monotonic() > deadline:
                raise TimeoutError("its answer was too slow")
        if answer.length:
            raise ValueError(f"its answer was cut off after {size:,} of {size + answer.length:,} bytes")
        answer.close()  # so that the connection takes the next request
        found = {name.lower(): value for name, value in answer.getheaders()}
        is_json = size and ("json" in found.get("content-type", "") or (self.any_type and answer.status < 400))
        return HttpResponse(answer.status, found, json.loads(b"".join(parts)) if is_json else None)


def _close_all(connections: list[http.client.HTTPConnection]) -> None:
    while connections:
        with suppress(IndexError):  # another thread took the last one
            connections.pop().close()


def _find_proxy(address: SplitResult) -> SplitResult | None:
    """Return the proxy that the environment names for an address."""
    from urllib.request import getproxies, proxy_bypass  # a slow import, and most stores ask no model

    if proxy_bypass(address.netloc.rpartition("@")[2]):
        return None
    proxy = getproxies().get(address.scheme)
    return urlsplit(proxy if "://" in proxy else f"http://{proxy}") if proxy else None
