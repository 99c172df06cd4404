"""The ASGI app of ``lukasa serve``: the API, MCP, health, metrics and the dashboard behind one token check."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import anyio.to_thread
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp

import lukasa
from lukasa.core.clock import SystemClock
from lukasa.core.outcome import Accepted, RepeatedRequest
from lukasa.errors import LukasaError, NotAccepted
from lukasa.interfaces.auth import PROBLEM_MEDIA_TYPE, TokenAuthMiddleware, TokenSource, problem_response
from lukasa.interfaces.dashboard import login
from lukasa.interfaces.dashboard.assets import PAGE_PATHS, read_assets, serve_asset
from lukasa.interfaces.dashboard.login import LOGIN_PATHS
from lukasa.interfaces.http.build import build_routers
from lukasa.interfaces.http.openapi import OPEN_PATHS, describe_api
from lukasa.interfaces.http.requests import IdempotencyMiddleware, RequestMetrics
from lukasa.interfaces.http.responses import JsonResponse, Problem, answer_with_values
from lukasa.interfaces.http.routes import (
    dashboard,
    dashboard_pages,
    events,
    hub,
    jobs,
    log,
    mem0,
    operations,
    tokens,
    transfer,
)
from lukasa.interfaces.http.server_jobs import ServerJobs
from lukasa.interfaces.mcp.http import MCP_PATH
from lukasa.interfaces.outcomes import outcome_of, request_error
from lukasa.interfaces.page_sessions import PageSessions
from lukasa.interfaces.stores import CallerStores
from lukasa.operations import OPERATIONS

STREAMING_PATHS = frozenset({"/v1/import"})
"""Paths whose bodies are read as they arrive."""

LONG_PATHS = frozenset({"/v1/events", "/v1/export", "/v1/import"})
"""Paths whose requests end when their token does."""

READING_PATHS = frozenset(
    {MCP_PATH, *(each.path for each in OPERATIONS if each.verb == "POST" and each.effect == "reads")}
)
"""Paths whose POST requests a read-only token may send. MCP refuses the writes of such a token itself."""

MAX_THREADS = 4
"""Requests that run at the same time. More threads only take turns at the interpreter, and each then takes longer."""

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": description, "content": {PROBLEM_MEDIA_TYPE: {}}}
    for status, description in (
        (400, "The request is not valid."),
        (401, "The token is missing or not valid."),
        (403, "The token may not do this."),
        (404, "There is no such thing."),
        (405, "The path has no such method."),
        (408, "The request did not arrive in time."),
        (409, "The request conflicts with what is stored."),
        (412, "The record has another version than If-Match says."),
        (413, "The body is too large."),
        (415, "The body is not JSON."),
        (421, "The server has no such host name."),
        (422, "The request was refused; `code` says why."),
        (429, "Too many requests."),
        (500, "The server failed."),
        (501, "A part that the request needs is not installed."),
        (503, "The store is not available."),
        (507, "The disk is full."),
    )
}

ROUTERS = (
    *build_routers(), jobs.router, transfer.router, tokens.router, events.router, hub.router, log.router,
    operations.router, dashboard.router, dashboard_pages.router, dashboard_pages.doctor_router, login.router,
)  # fmt: skip


def build_app(
    stores: CallerStores,
    token_source: TokenSource,
    allowed_hosts: Sequence[str],
    mcp_app: Starlette | None = None,
    *,
    backup_url: str = "",
    runs_jobs: bool = False,
    compat: str = "",
) -> ASGIApp:
    """Return the app for one store. ``mcp_app`` adds its routes, so that MCP is served on the same port.

    With ``runs_jobs`` the app is a worker too, while it is served. ``compat="mem0"`` adds the paths of mem0's API and takes
    tokens as its clients send them.
    """
    server_jobs = ServerJobs(backup_url)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = MAX_THREADS
        async with AsyncExitStack() as stack:
            if mcp_app is not None:
                await stack.enter_async_context(mcp_app.router.lifespan_context(mcp_app))
            if runs_jobs:
                stack.enter_context(server_jobs.run_worker(stores))
            yield

    app = FastAPI(
        title="Lukasa",
        version=lukasa.__version__,
        description="Memory for AI agents. The scope and the agent of a request come from its token.",
        openapi_url=None,
        lifespan=lifespan,
        responses=PROBLEMS,
    )
    app.state.stores = stores
    app.state.server_jobs = server_jobs
    app.state.running_imports = set()
    app.state.token_source = token_source
    sessions = PageSessions(stores, getattr(token_source, "find_hash", lambda _: None), SystemClock())
    app.state.page_sessions = sessions
    for router in ROUTERS:
        app.include_router(router)
    if compat == "mem0":
        app.include_router(mem0.router)
    app.add_api_route("/openapi.json", lambda: JsonResponse(describe_api(app)), include_in_schema=False)
    assets = read_assets()
    for path in (*PAGE_PATHS, "/static/{path:path}"):
        app.add_route(path, partial(serve_asset, assets), include_in_schema=False)
    if mcp_app is not None:
        app.router.routes.extend(mcp_app.routes)
    _add_error_handlers(app)
    admitted = TokenAuthMiddleware(
        IdempotencyMiddleware(
            answer_with_values(app),
            app.router.routes,
            stores,
            STREAMING_PATHS | READING_PATHS | mem0.READING_PATHS | {"/v1/tokens"},
        ),
        token_source,
        allowed_hosts,
        open_paths=OPEN_PATHS | LOGIN_PATHS | assets.keys(),
        reading_paths=READING_PATHS | mem0.READING_PATHS if compat == "mem0" else READING_PATHS,
        streaming_paths=STREAMING_PATHS,
        long_paths=LONG_PATHS,
        sessions=sessions,
    )
    return RequestMetrics(mem0.accept_mem0_tokens(admitted) if compat == "mem0" else admitted)


def _add_error_handlers(app: FastAPI) -> None:
    stores: CallerStores = app.state.stores

    def handle_expected(request: Request, error: Exception) -> Response:
        info = outcome_of(error, public=True)
        if info.row.http_status == 409 and info.code == "conflict" and "if-match" in request.headers:
            info = info.with_status(412)
        return problem_response(info)

    def handle_broken_store(request: Request, error: Exception) -> Response:
        stores.close_if_broken(error)
        return handle_expected(request, error)

    def handle_validation(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        in_body = all(fault["loc"][:1] == ("body",) for fault in error.errors())
        if in_body and media_type and not media_type.endswith(("/json", "+json")):
            return problem_response(request_error("not_json", f"{media_type[:80]!r} is not JSON."))
        faults = [f"{'.'.join(map(str, fault['loc']))[:80]}: {fault['msg']}"[:200] for fault in error.errors()[:5]]
        info = request_error("usage", "; ".join(faults))
        malformed = any(fault["type"] == "json_invalid" for fault in error.errors())
        return problem_response(info.with_status(400) if malformed else info)

    def handle_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        headers = dict(error.headers or {})
        if error.status_code == 405:  # Starlette names the methods of the first matching route only
            matching = (route for route in app.router.routes if route.matches(request.scope)[0] is not Match.NONE)
            headers["Allow"] = ", ".join(sorted({name for route in matching for name in getattr(route, "methods", ())}))
        code = {404: "no_such_path", 405: "no_such_method", 413: "body_too_large", 415: "not_json"}.get(
            error.status_code, "usage"
        )
        return problem_response(request_error(code, str(error.detail)), headers)

    def handle_repeated(_: Request, error: Exception) -> Response:
        """Answer with the records that the earlier request wrote; its answer was lost, for instance in a crash."""
        assert isinstance(error, RepeatedRequest)
        if isinstance(error.outcome, Accepted):
            return JsonResponse({"records": error.outcome.records}, headers={"Idempotent-Replayed": "true"})
        return problem_response(outcome_of(error.outcome))

    app.add_exception_handler(RepeatedRequest, handle_repeated)
    app.add_exception_handler(LukasaError, handle_broken_store)
    app.add_exception_handler(NotAccepted, handle_expected)
    app.add_exception_handler(OSError, handle_expected)
    app.add_exception_handler(RequestValidationError, handle_validation)
    app.add_exception_handler(HTTPException, handle_http)
    app.add_exception_handler(Exception, lambda _, error: problem_response(outcome_of(error, public=True)))
