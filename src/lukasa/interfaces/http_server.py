"""The HTTP server that runs an ASGI app of this package: its address, its host names, and uvicorn with time limits."""

from __future__ import annotations

import asyncio
import ipaddress
import resource
from collections.abc import Callable, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from lukasa.canonical_json import encode
from lukasa.errors import InvalidInput
from lukasa.interfaces.limits import ConnectionLimits
from lukasa.interfaces.outcomes import request_error

_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


def parse_address(text: str) -> tuple[str, int]:
    """Parse a host and a port: ``127.0.0.1:8765``, ``[::1]:8765``, or a port alone."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise InvalidInput(f"{text!r:.80} is not an address.", hint="Use HOST:PORT, such as 127.0.0.1:8765.")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Return whether a host is reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def list_host_names(host: str, port: int, extra_names: Sequence[str] = ()) -> list[str]:
    """Return the values of the Host header that a client may send to this server.

    The names that the operator adds count without a port too: a proxy in front may listen on 443.
    """
    own = _LOOPBACK_NAMES if is_loopback(host) else (f"[{host}]" if ":" in host else host,)
    extra = [f"{name}:{port}" for name in extra_names if not name.rpartition(":")[2].isdecimal()]
    without_port = list(own) if port in (80, 443) else []
    return [*(f"{name}:{port}" for name in own), *extra, *extra_names, *without_port]


def fit_to_open_files(limits: ConnectionLimits) -> ConnectionLimits:
    """Return the limits with so few connections that files of the store can always be opened."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (
        limits
        if allowed == resource.RLIM_INFINITY
        else replace(limits, connections=max(16, min(limits.connections, allowed - 200)))
    )


class LimitedConnection(H11Protocol):
    """A connection that is closed when its client is too slow, or when another one needs its place.

    One timer waits for the headers of a request, or for more of its body; another one for a client that does not read.
    """

    limits = ConnectionLimits()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place among the connections, or the place of the one that has waited longest for its next request."""
        super().connection_made(transport)
        self._waiting_since: float | None = self.loop.time()
        self._read_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._start_read_timer(self.limits.header_seconds)
        if len(self.connections) > self.limits.connections:
            others = [other for other in self.connections if other is not self and isinstance(other, LimitedConnection)]
            idle = [other for other in others if other._waiting_since is not None]
            if idle:
                min(idle, key=lambda other: other._waiting_since or 0.0).transport.abort()
            else:
                self._answer("too_many_connections", "The server has no connection left.")

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
            self._waiting_since = None
            self._start_read_timer(self.limits.body_seconds)
        else:
            self._waiting_since = None
            self._stop_timers()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._waiting_since = self.loop.time()
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None
        super().on_response_complete()

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
        if cycle is None or cycle.response_complete or not cycle.response_started:
            info = request_error(code, message)
            body = encode(info.as_problem())
            phrase = HTTPStatus(info.http_status).phrase
            more = "Retry-After: 1\r\n" if info.http_status == 503 else ""
            head = (
                f"HTTP/1.1 {info.http_status} {phrase}\r\nContent-Type: application/problem+json\r\n"
                f"Content-Length: {len(body)}\r\n{more}Connection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
        if cycle is not None:
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()


def build_server(
    app: ASGIApp, host: str, port: int, on_started: Callable[[int], None], limits: ConnectionLimits | None = None
) -> uvicorn.Server:
    """Return a server for an app. It calls ``on_started`` with the port once it listens."""

    class AnnouncingServer(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started:
                on_started(self.servers[0].sockets[0].getsockname()[1])

    class ServerConnection(LimitedConnection):
        pass

    ServerConnection.limits = limits or fit_to_open_files(ConnectionLimits())
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=ServerConnection,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=3,
    )
    return AnnouncingServer(config)


async def serve(app: ASGIApp, host: str, port: int, on_started: Callable[[int], None]) -> None:
    """Serve an app until interrupted."""
    await build_server(app, host, port, on_started).serve()
