"""The HTTP server that runs an ASGI app of this package: its address, its host names, and uvicorn with time limits."""

from __future__ import annotations

import ipaddress
import os
import resource
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from lukasa.errors import InvalidInput
from lukasa.interfaces.http_connection import CONNECTIONS
from lukasa.interfaces.limits import ConnectionLimits

_ACCEPTED_AT_ONCE = 16
"""Connections that are accepted before one that is too many is closed; each of them takes a descriptor."""
_WAITING_CONNECTIONS = 1_024
"""Connections that the system keeps until the server accepts them."""
_RESERVED_FILES = 200
"""Descriptors for the files of the store, for connections that are being closed, and for what the program opens."""
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
    """Return the names by which clients may call this server: values of the Host header, and before it the scheme unless it is http.

    The names that the operator adds count with the port of the server, and without a port for a proxy in front that ends TLS. A
    name with another port is such a proxy's too. For a proxy without TLS in front, the operator writes its scheme: ``http://NAME``.
    """
    own = _LOOPBACK_NAMES if is_loopback(host) else (f"[{host}]" if ":" in host else host,)
    names = [f"{name}:{port}" for name in own]
    names += own if port in (80, 443) else ()
    for name in extra_names:
        scheme, _, plain = name.rpartition("://")
        outer, _, outer_port = plain.rpartition(":")
        if not outer_port.isdecimal():
            names += [f"{plain}:{port}", name if scheme else plain if port == 80 else f"https://{plain}"]
        else:
            is_own = int(outer_port) == port or is_loopback(outer)
            names.append(name if scheme or is_own else f"https://{plain}")
    return names


def raise_open_files_limit() -> None:
    """Let the process open as many files as the system allows it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(ValueError, OSError):  # some systems allow fewer than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def fit_to_open_files(limits: ConnectionLimits) -> ConnectionLimits:
    """Return the limits with so few connections that files of the store can always be opened."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (
        limits
        if allowed == resource.RLIM_INFINITY
        else replace(limits, connections=max(16, min(limits.connections, allowed - _RESERVED_FILES)))
    )


def build_server(
    app: ASGIApp,
    host: str,
    port: int,
    on_started: Callable[[int], None],
    limits: ConnectionLimits | None = None,
    parser: str = "",
) -> uvicorn.Server:
    """Return a server for an app. It calls ``on_started`` with the port once it listens."""

    class AnnouncingServer(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            for listener in (each for server in self.servers for each in server.sockets):
                with socket.socket(fileno=os.dup(listener.fileno())) as same:
                    same.listen(_WAITING_CONNECTIONS)
            if self.started:
                on_started(self.servers[0].sockets[0].getsockname()[1])

    connection = CONNECTIONS[parser or next(iter(CONNECTIONS))]
    fitting = limits or fit_to_open_files(ConnectionLimits())
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=type("ServerConnection", (connection,), {"limits": fitting}),
        ws="none",
        backlog=_ACCEPTED_AT_ONCE,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=3,
    )
    return AnnouncingServer(config)


async def serve(app: ASGIApp, host: str, port: int, on_started: Callable[[int], None]) -> None:
    """Serve an app until interrupted."""
    raise_open_files_limit()
    await build_server(app, host, port, on_started).serve()
