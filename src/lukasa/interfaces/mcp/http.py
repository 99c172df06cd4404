"""MCP over streamable HTTP, for many clients. Every request carries a token; ``interfaces/auth`` checks it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lukasa.errors import RateLimited
from lukasa.interfaces.api_tokens import ApiToken
from lukasa.interfaces.auth import TOKEN_KEY, TokenAuthMiddleware, TokenSource, problem_response
from lukasa.interfaces.limits import MAX_BODY_BYTES
from lukasa.interfaces.outcomes import outcome_of

if TYPE_CHECKING:
    from lukasa.interfaces.mcp.server import LukasaMcpServer

MCP_PATH = "/mcp"
MAX_SESSIONS_PER_TOKEN = 100
_IDLE_SECONDS = 1_800.0
_MAX_SESSIONS = 1_000
_SESSION_HEADER = "mcp-session-id"


class TokenSessions:
    """ASGI middleware that binds each MCP session to the token that opened it, and limits the sessions of a token."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._sessions: dict[str, tuple[str, float]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Name the token to the session manager, which answers 404 to the sessions of other tokens."""
        token: ApiToken | None = scope.get(TOKEN_KEY)
        if token is None:
            await self._app(scope, receive, send)
            return
        scope["user"] = AuthenticatedUser(AccessToken(token=token.sha256, client_id=token.sha256, scopes=[]))
        headers = Headers(scope=scope)
        session = headers.get(_SESSION_HEADER)
        if session is None and "mcp-protocol-version" not in headers and self._count(token) >= MAX_SESSIONS_PER_TOKEN:
            hint = "End a session, or wait until one has been idle for half an hour."
            info = outcome_of(RateLimited(f"This token has {MAX_SESSIONS_PER_TOKEN} sessions.", hint=hint))
            await problem_response(info, {"Retry-After": "60"})(scope, receive, send)
            return

        async def send_tracked(message: Message) -> None:
            if message["type"] == "http.response.start":
                opened = Headers(raw=message["headers"]).get(_SESSION_HEADER) or session
                if opened and (message["status"] == 404 or scope["method"] == "DELETE"):
                    self._sessions.pop(opened, None)
                elif opened and message["status"] < 400:
                    self._sessions[opened] = (token.sha256, time.monotonic())
            await send(message)

        await self._app(scope, receive, send_tracked)

    def _count(self, token: ApiToken) -> int:
        oldest = time.monotonic() - _IDLE_SECONDS
        self._sessions = {id: session for id, session in self._sessions.items() if session[1] > oldest}
        return sum(owner == token.sha256 for owner, _ in self._sessions.values())


def build_routes(server: MCPServer[Any]) -> Starlette:
    """Return the app of an MCP server without the token check, for an app that checks tokens itself."""
    app = server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        json_response=True,
        max_request_body_size=MAX_BODY_BYTES,
        session_idle_timeout=_IDLE_SECONDS,
        max_sessions=_MAX_SESSIONS,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the middleware checks
    )
    for route in app.routes:
        route.app = TokenSessions(route.app)  # type: ignore[attr-defined]  # the only route is MCP_PATH
    return app


def build_app(server: LukasaMcpServer, token_source: TokenSource, allowed_hosts: Sequence[str]) -> ASGIApp:
    """Return the ASGI app of an MCP server, behind the token check. It runs the upkeep of the server while it is served."""
    routes = build_routes(server)
    serve_sessions = routes.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with serve_sessions(app):
            with server.upkeep:
                yield

    routes.router.lifespan_context = lifespan
    return TokenAuthMiddleware(routes, token_source, allowed_hosts, reading_paths=frozenset({MCP_PATH}))
