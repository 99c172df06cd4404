"""Serving many clients over streamable HTTP. Nobody gets past the door without a token, from a strange host or page.

The door looks at the headers alone and answers before any of the body is read. Tokens are read anew when their file
changes, so one that is revoked is refused from the next request on.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from lukasa.doors.mcp.callers import CALLER, Caller
from lukasa.doors.tokens import Holder, holder_of, read_tokens
from lukasa.errors import InvalidInput, LukasaError

PATH = "/mcp"
_LARGEST = 8 * 1024 * 1024
_IDLE_SECONDS = 1_800.0
_MOST_SESSIONS = 1_000
_LOCAL = ("127.0.0.1", "localhost", "[::1]")


class Door:
    """Lets in who shows a token, comes to a name that this server has, and from no other page."""

    def __init__(self, app: ASGIApp, holders: Callable[[], Sequence[Holder]], hosts: Sequence[str]) -> None:
        self._app = app
        self._holders = holders
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on with who calls, or answers why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refused = self._objection(headers)
        if refused is None:
            holder = self._holder(headers.get("authorization", ""))
            if holder is not None:
                scope = {**scope, CALLER: Caller(holder.agent, holder.scopes)}
                await self._app(scope, receive, send)
                return
            refused = (401, "unauthorized", "Send a token: `Authorization: Bearer …`; `lukasa token add` makes one.")
        status, code, reason = refused
        told = {"error": {"code": code, "message": reason}}
        extra = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        await JSONResponse(told, status, {**extra, "Connection": "close"})(scope, receive, send)

    def _objection(self, headers: Headers) -> tuple[int, str, str] | None:
        if headers.get("host", "").lower() not in self._hosts:
            return 421, "bad_host", "This server does not go by that name; start it with --host-name to add one."
        origin = headers.get("origin")
        if origin is not None and origin.lower().partition("://")[2] not in self._hosts:
            return 403, "bad_origin", "Pages of other origins may not call this server."
        return None

    def _holder(self, authorization: str) -> Holder | None:
        kind, _, token = authorization.partition(" ")
        if kind.lower() != "bearer" or not token:
            return None
        try:
            return holder_of(token.strip(), list(self._holders()))
        except (LukasaError, OSError):  # a file of tokens that cannot be read lets nobody in
            return None


def parse_address(text: str) -> tuple[str, int]:
    """A host and a port: ``127.0.0.1:8765``, ``[::1]:8765``, or a port alone."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise InvalidInput(f"{text!r:.80} is not an address.", hint="Say HOST:PORT, such as 127.0.0.1:8765.")
    return host, int(port)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def names_of(host: str, port: int, more: Sequence[str] = ()) -> list[str]:
    """What a client may call this server in its Host header."""
    own = _LOCAL if is_loopback(host) else (f"[{host}]" if ":" in host else host,)
    named = [name if name.rpartition(":")[2].isdecimal() else f"{name}:{port}" for name in more]
    bare = [*own, *more] if port in (80, 443) else []
    return [*(f"{name}:{port}" for name in own), *named, *bare]


def always(holder: Holder) -> Callable[[], Sequence[Holder]]:
    """One holder, whenever it is asked."""
    return lambda: (holder,)


def reading(path: Path) -> Callable[[], Sequence[Holder]]:
    """The holders in a file, read again when it has changed."""
    seen: tuple[int, int] | None = None
    holders: Sequence[Holder] = ()

    def read() -> Sequence[Holder]:
        nonlocal seen, holders
        found = path.stat()
        if (found.st_mtime_ns, found.st_ino) != seen:
            holders = read_tokens(path)
            seen = (found.st_mtime_ns, found.st_ino)
        return holders

    return read


def application(server: MCPServer[Any], holders: Callable[[], Sequence[Holder]], hosts: Sequence[str]) -> ASGIApp:
    """The server behind its door, for any ASGI host."""
    inner = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        max_request_body_size=_LARGEST,
        session_idle_timeout=_IDLE_SECONDS,
        max_sessions=_MOST_SESSIONS,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the door has looked
    )
    return Door(inner, holders, hosts)


async def serve(app: ASGIApp, host: str, port: int, started: Callable[[int], None]) -> None:
    """Serves until interrupted; ``started`` is told the port once it listens."""
    import uvicorn

    class Announced(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started:
                started(self.servers[0].sockets[0].getsockname()[1])

    config = uvicorn.Config(
        app, host=host, port=port, log_level="warning", access_log=False, timeout_graceful_shutdown=3
    )
    await Announced(config).serve()
