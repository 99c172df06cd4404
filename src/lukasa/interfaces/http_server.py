"""The HTTP server that runs an ASGI app of this package: its address, its host names, and uvicorn."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from typing import Any

from starlette.types import ASGIApp

from lukasa.errors import InvalidInput

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
    """Return the values of the Host header that a client may send to this server."""
    own = _LOOPBACK_NAMES if is_loopback(host) else (f"[{host}]" if ":" in host else host,)
    extra = [name if name.rpartition(":")[2].isdecimal() else f"{name}:{port}" for name in extra_names]
    without_port = [*own, *extra_names] if port in (80, 443) else []
    return [*(f"{name}:{port}" for name in own), *extra, *without_port]


async def serve(app: ASGIApp, host: str, port: int, on_started: Callable[[int], None]) -> None:
    """Serve an app until interrupted. Calls ``on_started`` with the port once the server listens."""
    import uvicorn

    class AnnouncingServer(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started:
                on_started(self.servers[0].sockets[0].getsockname()[1])

    config = uvicorn.Config(
        app, host=host, port=port, log_level="warning", access_log=False, timeout_graceful_shutdown=3
    )
    await AnnouncingServer(config).serve()
