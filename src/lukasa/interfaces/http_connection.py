"""Connections of the HTTP server: uvicorn's protocols with limits for slow, many and hostile clients.

The parser in C (httptools) takes a quarter of the time of the one in Python (h11), which is used if it is not installed.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from lukasa.core.canonical_json import encode
from lukasa.errors import InvalidInput
from lukasa.interfaces.auth import SAFE_HEADERS, TOKEN_KEY
from lukasa.interfaces.limits import MAX_HEAD_BYTES, ConnectionLimits
from lukasa.interfaces.outcomes import request_error

if TYPE_CHECKING:
    _Parser = H11Protocol
else:
    _Parser = asyncio.Protocol


class LimitedConnection(_Parser):
    """A connection that is closed when its client is too slow, or when another one needs its place.

    One timer waits for the headers of a request, or for more of its body; another one for a client that does not read.
    A subclass adds the parser, a protocol of uvicorn.
    """

    limits = ConnectionLimits()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place among the connections, or the place of one that waits (see ``_makes_room``)."""
        super().connection_made(transport)
        self._waiting_since = self.loop.time()
        self._waits = True
        self._read_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._start_read_timer(self.limits.header_seconds)
        if len(self.connections) > self.limits.connections:
            others = [other for other in self.connections if other is not self and isinstance(other, LimitedConnection)]
            staying = [other for other in others if not other.transport.is_closing()]
            if len(staying) < self.limits.connections:
                return  # others have made room in this step of the event loop
            waiting = [other for other in staying if other._makes_room()]
            if waiting:
                min(waiting, key=lambda other: (other.cycle is not None, other._waiting_since)).transport.abort()
            else:
                self._answer("too_many_connections", "The server has no connection left.")

    def _makes_room(self) -> bool:
        """Return whether the connection may be closed for a new one: it waits for a request, or for the body of one without a token.

        Connections that never sent the head of a request go first, then the ones that have waited longest.
        """
        cycle: Any = self.cycle
        return self._waits or (cycle.more_body and TOKEN_KEY not in cycle.scope)

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived, then wait for the headers of a request or for more of its body, but not for ever."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        cycle: Any = self.cycle  # None before the first request
        if cycle is None or cycle.response_complete:
            if self._read_timer is None:
                self._start_read_timer(self.limits.header_seconds)
        elif self.cycle.more_body:
            self._waits = False
            self._start_read_timer(self.limits.body_seconds)
        else:
            self._waits = False
            self._stop_timers()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._waiting_since, self._waits = self.loop.time(), True
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None
        super().on_response_complete()
        if not self.cycle.response_complete:  # the next request had arrived already
            self._waits = False
            if self.cycle.more_body:
                self._start_read_timer(self.limits.body_seconds)

    def pause_writing(self) -> None:
        """Wait for a client that does not read, but not for ever."""
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.limits.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on writing."""
        if self._write_timer is not None:
            self._write_timer.cancel()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self._stop_timers()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no request with a problem."""
        self._answer("not_http", msg)

    def _start_read_timer(self, seconds: float) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
        self._read_timer = self.loop.call_later(seconds, self._end_slow_request)

    def _stop_timers(self) -> None:
        for timer in (self._read_timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        self._read_timer = self._write_timer = None

    def _end_slow_request(self) -> None:
        if self.flow.read_paused:  # the server is the slow one
            self._start_read_timer(self.limits.body_seconds)
        else:
            self._answer("too_slow", "The request did not arrive in time.")

    def _answer(self, code: str, message: str) -> None:
        """Answer with a problem unless a response has begun, and close the connection."""
        if self.transport.is_closing():
            return
        cycle: Any = self.cycle  # None before the first request
        waits_its_turn = bool(getattr(self, "pipeline", None))  # behind a request whose response may have begun
        if cycle is None or cycle.response_complete or not (cycle.response_started or waits_its_turn):
            info = request_error(code, message)
            body = encode(info.as_problem())
            phrase = HTTPStatus(info.row.http_status).phrase
            more = "".join(f"{name}: {value}\r\n" for name, value in SAFE_HEADERS.items())
            more += "Retry-After: 1\r\n" if info.row.http_status == 503 else ""
            head = (
                f"HTTP/1.1 {info.row.http_status} {phrase}\r\nContent-Type: application/problem+json\r\n"
                f"Content-Length: {len(body)}\r\n{more}Connection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
        if cycle is not None:
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()


class H11Connection(LimitedConnection, H11Protocol):
    """A connection whose requests are parsed in Python."""


CONNECTIONS: dict[str, type[LimitedConnection]] = {"h11": H11Connection}
"""Connections by the name of their parser. The first one is taken."""

try:
    import httptools
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
except ImportError:  # h11 does the same more slowly
    pass
else:

    class StrictHttpToolsProtocol(HttpToolsProtocol):
        """A protocol of uvicorn that refuses and ignores the same input as h11.

        By itself, the parser in C has no limit for the head of a request, admits two Host headers, takes trailers for headers, and loses
        the body of a request that offers another protocol, as some clients do with each request.
        """

        _in_head = True
        _unfinished_bytes = 0
        _head_without_upgrade = b""

        def data_received(self, data: bytes) -> None:
            """Parse what has arrived. Refuse a head, or text around the chunks of a body, that is too long."""
            self._unset_keepalive_if_required()
            self._unfinished_bytes += len(data)
            while data:
                try:
                    self.parser.feed_data(data)
                    data = b""
                except httptools.HttpParserUpgrade as error:
                    data = self._head_without_upgrade + data[error.args[0] :]
                    self._head_without_upgrade = b""
                except httptools.HttpParserError:
                    self.send_400_response("The request is not valid HTTP.")
                    return
            if self._unfinished_bytes > MAX_HEAD_BYTES:
                self.send_400_response("The head of the request is too long.")

        def on_message_begin(self) -> None:
            """Begin a request."""
            self._in_head = True
            super().on_message_begin()

        def on_header(self, name: bytes, value: bytes) -> None:
            """Add a header, but no trailer."""
            if self._in_head:
                super().on_header(name, value)

        def on_headers_complete(self) -> None:
            """Begin to answer. Have a request that offers another protocol parsed again without the offer."""
            self._in_head, self._unfinished_bytes = False, 0
            size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            is_tunnel = self.parser.get_method() == b"CONNECT"
            if size > MAX_HEAD_BYTES or is_tunnel or sum(name == b"host" for name, _ in self.headers) > 1:
                raise InvalidInput("The head of the request is not valid.")
            if self.parser.should_upgrade():
                lines = [b"%s: %s" % header for header in self.headers if header[0] != b"upgrade"]
                first = b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
                self._head_without_upgrade = b"\r\n".join((first, *lines, b"", b""))
            else:
                super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            """Add to the body."""
            self._unfinished_bytes = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            """End the request."""
            self._unfinished_bytes = 0
            if not self._head_without_upgrade:
                super().on_message_complete()

    class HttpToolsConnection(LimitedConnection, StrictHttpToolsProtocol):  # type: ignore[misc]  # typed for one parser
        """A connection whose requests are parsed in C."""

    CONNECTIONS = {"httptools": HttpToolsConnection, **CONNECTIONS}
