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

from lukasa.errors import InvalidInput, LukasaError
from lukasa.interfaces.api_tokens import ApiToken, find_token, read_tokens
from lukasa.interfaces.stores import CALLER_KEY, Caller

MCP_PATH = "/mcp"
_MAX_BODY_BYTES = 8 * 1024 * 1024
_IDLE_SECONDS = 1_800.0
_MAX_SESSIONS = 1_000
_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


class TokenAuthMiddleware:
    """Lets in who shows a token, comes to a name that this server has, and from no other page."""

    def __init__(
        self, app: ASGIApp, token_source: Callable[[], Sequence[ApiToken]], allowed_hosts: Sequence[str]
    ) -> None:
        self._app = app
        self._token_source = token_source
        self._allowed_hosts = frozenset(host.lower() for host in allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on with who calls, or answers why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refused = self._check_headers(headers)
        if refused is None:
            holder = self._authenticate(headers.get("authorization", ""))
            if holder is not None:
                scope = {**scope, CALLER_KEY: Caller(holder.agent, holder.scopes)}
                await self._app(scope, receive, send)
                return
            refused = (401, "unauthorized", "Send a token: `Authorization: Bearer …`; `lukasa token add` makes one.")
        status, code, reason = refused
        told = {"error": {"code": code, "message": reason}}
        extra = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        await JSONResponse(told, status, {**extra, "Connection": "close"})(scope, receive, send)

    def _check_headers(self, headers: Headers) -> tuple[int, str, str] | None:
        if headers.get("host", "").lower() not in self._allowed_hosts:
            return 421, "bad_host", "This server does not go by that name; start it with --host-name to add one."
        origin = headers.get("origin")
        if origin is not None and origin.lower().partition("://")[2] not in self._allowed_hosts:
            return 403, "bad_origin", "Pages of other origins may not call this server."
        return None

    def _authenticate(self, authorization: str) -> ApiToken | None:
        kind, _, token = authorization.partition(" ")
        if kind.lower() != "bearer" or not token:
            return None
        try:
            return find_token(token.strip(), list(self._token_source()))
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


def list_host_names(host: str, port: int, extra_names: Sequence[str] = ()) -> list[str]:
    """What a client may call this server in its Host header."""
    own = _LOOPBACK_NAMES if is_loopback(host) else (f"[{host}]" if ":" in host else host,)
    named = [name if name.rpartition(":")[2].isdecimal() else f"{name}:{port}" for name in extra_names]
    bare = [*own, *extra_names] if port in (80, 443) else []
    return [*(f"{name}:{port}" for name in own), *named, *bare]


def single_token_source(token: ApiToken) -> Callable[[], Sequence[ApiToken]]:
    """One holder, whenever it is asked."""
    return lambda: (token,)


def file_token_source(path: Path) -> Callable[[], Sequence[ApiToken]]:
    """The holders in a file, read again when it has changed."""
    seen: tuple[int, int] | None = None
    holders: Sequence[ApiToken] = ()

    def read() -> Sequence[ApiToken]:
        nonlocal seen, holders
        found = path.stat()
        if (found.st_mtime_ns, found.st_ino) != seen:
            holders = read_tokens(path)
            seen = (found.st_mtime_ns, found.st_ino)
        return holders

    return read


def build_app(
    server: MCPServer[Any], token_source: Callable[[], Sequence[ApiToken]], allowed_hosts: Sequence[str]
) -> ASGIApp:
    """The server behind its door, for any ASGI host."""
    inner = server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        json_response=True,
        max_request_body_size=_MAX_BODY_BYTES,
        session_idle_timeout=_IDLE_SECONDS,
        max_sessions=_MAX_SESSIONS,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the door has looked
    )
    return TokenAuthMiddleware(inner, token_source, allowed_hosts)


async def serve(app: ASGIApp, host: str, port: int, on_started: Callable[[int], None]) -> None:
    """Serves until interrupted; ``started`` is told the port once it listens."""
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
