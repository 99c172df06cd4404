"""MCP over streamable HTTP, for many clients. Every request carries a token; ``interfaces/auth`` checks it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.types import ASGIApp

from lukasa.interfaces.auth import MAX_BODY_BYTES, TokenAuthMiddleware, TokenSource

MCP_PATH = "/mcp"
_IDLE_SECONDS = 1_800.0
_MAX_SESSIONS = 1_000


def build_routes(server: MCPServer[Any]) -> Starlette:
    """Return the app of an MCP server without the token check, for an app that checks tokens itself."""
    return server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        json_response=True,
        max_request_body_size=MAX_BODY_BYTES,
        session_idle_timeout=_IDLE_SECONDS,
        max_sessions=_MAX_SESSIONS,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the middleware checks
    )


def build_app(server: MCPServer[Any], token_source: TokenSource, allowed_hosts: Sequence[str]) -> ASGIApp:
    """Return the ASGI app of an MCP server, behind the token check."""
    return TokenAuthMiddleware(build_routes(server), token_source, allowed_hosts)
