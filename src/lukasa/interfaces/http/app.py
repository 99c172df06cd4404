"""The ASGI app of ``lukasa serve``: the API, MCP, health, metrics and a start page behind one token check."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp

import lukasa
from lukasa.errors import LukasaError
from lukasa.interfaces.auth import TokenAuthMiddleware, TokenSource
from lukasa.interfaces.http.metrics import RequestMetrics
from lukasa.interfaces.http.responses import PROBLEM_MEDIA_TYPE, Problem, problem_response
from lukasa.interfaces.http.routes import conversations, events, hub, log, memories, operations, recall, records
from lukasa.interfaces.outcomes import NotAccepted, outcome_of, request_error, usage_error
from lukasa.interfaces.stores import CallerStores

OPEN_PATHS = frozenset({"/", "/healthz", "/readyz"})
"""Paths that need no token. They show nothing of the store."""

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": description, "content": {PROBLEM_MEDIA_TYPE: {}}}
    for status, description in (
        (400, "The request is not valid."),
        (401, "The token is missing or not valid."),
        (403, "The token may not do this."),
        (404, "There is no such thing."),
        (405, "The path has no such method."),
        (409, "The request conflicts with what is stored."),
        (412, "The record has another version than If-Match says."),
        (413, "The body is too large."),
        (415, "The body is not JSON."),
        (421, "The server has no such host name."),
        (422, "The request was refused; `code` says why."),
        (429, "Too many requests."),
        (500, "The server failed."),
        (503, "The store is not available."),
        (507, "The disk is full."),
    )
}

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Lukasa</title>
<h1>Lukasa is running</h1><p>The API is at <code>/v1</code>, its description at <code>/openapi.json</code>, MCP at
<code>/mcp</code>. Send <code>Authorization: Bearer TOKEN</code>; <code>lukasa token add NAME</code> makes a token.</p></html>"""

_log = logging.getLogger(__name__)


def build_app(
    stores: CallerStores, token_source: TokenSource, allowed_hosts: Sequence[str], mcp_app: Starlette | None = None
) -> ASGIApp:
    """Return the app for one store. ``mcp_app`` adds its routes, so that MCP is served on the same port."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            if mcp_app is not None:
                await stack.enter_async_context(mcp_app.router.lifespan_context(mcp_app))
            yield

    app = FastAPI(
        title="Lukasa",
        version=lukasa.__version__,
        description="Memory for AI agents. The scope and the agent of a request come from its token.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        responses=PROBLEMS,
    )
    app.state.stores = stores
    for routes in (memories, recall, records, conversations, events, hub, log, operations):
        app.include_router(routes.router)
    app.add_route("/", lambda _: HTMLResponse(_PAGE, headers=_PAGE_HEADERS), include_in_schema=False)
    if mcp_app is not None:
        app.router.routes.extend(mcp_app.routes)
    _add_error_handlers(app)
    return TokenAuthMiddleware(RequestMetrics(app), token_source, allowed_hosts, open_paths=OPEN_PATHS)


_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}


def _add_error_handlers(app: FastAPI) -> None:
    stores: CallerStores = app.state.stores

    def handle_expected(request: Request, error: Exception) -> Response:
        info = outcome_of(error, public=True)
        if info.http_status == 409 and info.code == "conflict" and "if-match" in request.headers:
            info = info.with_status(412)
        return problem_response(info)

    def handle_broken_store(request: Request, error: Exception) -> Response:
        stores.close_if_broken(error)
        return handle_expected(request, error)

    def handle_validation(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        faults = [f"{'.'.join(map(str, fault['loc']))[:80]}: {fault['msg']}"[:200] for fault in error.errors()[:5]]
        info = usage_error("; ".join(faults))
        malformed = any(fault["type"] == "json_invalid" for fault in error.errors())
        return problem_response(info.with_status(400) if malformed else info)

    def handle_http(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = {404: "no_such_path", 405: "no_such_method", 413: "body_too_large", 415: "not_json"}.get(
            error.status_code, "usage"
        )
        return problem_response(request_error(code, str(error.detail)), error.headers)

    def handle_unexpected(_: Request, error: Exception) -> Response:
        _log.error("A request failed: %s", type(error).__name__, exc_info=error)
        return problem_response(outcome_of(error, public=True))

    app.add_exception_handler(LukasaError, handle_broken_store)
    app.add_exception_handler(NotAccepted, handle_expected)
    app.add_exception_handler(OSError, handle_expected)
    app.add_exception_handler(RequestValidationError, handle_validation)
    app.add_exception_handler(HTTPException, handle_http)
    app.add_exception_handler(Exception, handle_unexpected)
