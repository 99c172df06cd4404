"""A short way to the routes that take one JSON body and no other parameter, such as those of remember and recall.

FastAPI describes these routes, and answers every request that is not valid. A valid one is passed to the same function
without FastAPI's general way through routers, dependencies and exit stacks, which takes longer than many calls of the library.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from lukasa.interfaces.http.idempotency import read_body, replay_body
from lukasa.interfaces.http.requests import find_memory, find_writing_memory, get_memory, get_writing_memory

_JSON_TYPE = (b"content-type", b"application/json")
_MAX_THREADS = 40
"""More than anyio's limiter lets run at the same time; a thread is made when it is needed."""
_FINDERS: Mapping[Any, Any] = {get_memory: find_memory, get_writing_memory: find_writing_memory}


@dataclass(frozen=True, slots=True)
class DirectRoute:
    """A route, how the memory of its caller is found, and the names and the type of what it takes."""

    route: APIRoute
    find_memory: Any
    memory_name: str
    body_name: str
    body_type: type[BaseModel]


class DirectRoutes:
    """ASGI app that answers valid requests to direct routes, and passes all others to FastAPI."""

    def __init__(self, app: FastAPI, routes: Iterable[BaseRoute]) -> None:
        self._app = app
        self._routes = {found.route.path: found for route in routes if (found := _parse_route(route)) is not None}
        handlers: Any = {kind: handle for kind, handle in app.exception_handlers.items() if kind is not Exception}
        self._threads = ThreadPoolExecutor(_MAX_THREADS, "lukasa-request")
        self._answer_handled = ExceptionMiddleware(self._answer, handlers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        is_direct = (
            scope["type"] == "http"
            and scope["method"] == "POST"
            and scope["path"] in self._routes
            and _JSON_TYPE in scope["headers"]
        )
        await (self._answer_handled if is_direct else self._app)(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        direct = self._routes[scope["path"]]
        scope["route"] = direct.route
        content = await read_body(receive)
        if content is None:
            return  # the client has gone
        try:
            body = direct.body_type.model_validate(json.loads(content))
        except (ValueError, RecursionError):
            await self._app(scope, replay_body(content, receive), send)  # answers why it is not valid
            return
        memory = await direct.find_memory(self._app.state.stores, scope)
        arguments = {direct.memory_name: memory, direct.body_name: body}
        response: Response = await self._run_in_thread(partial(direct.route.endpoint, **arguments))
        await response(scope, receive, send)

    async def _run_in_thread(self, work: Callable[[], Response]) -> Response:
        """Run a call in a thread, as ``anyio.to_thread`` does, but going to the event loop once instead of three times.

        The limit of calls at the same time is that of anyio's threads, so that it holds for all routes together. A request that is
        cancelled ends when its call has ended.
        """
        limiter, borrower = anyio.to_thread.current_default_thread_limiter(), object()
        try:
            limiter.acquire_on_behalf_of_nowait(borrower)
        except anyio.WouldBlock:
            await limiter.acquire_on_behalf_of(borrower)
        try:
            loop = asyncio.get_running_loop()
            future = loop.run_in_executor(self._threads, copy_context().run, work)
            try:
                return await asyncio.shield(future)
            except asyncio.CancelledError:
                await asyncio.wait([future])
                raise
        finally:
            limiter.release_on_behalf_of(borrower)


def _parse_route(route: BaseRoute) -> DirectRoute | None:
    """Return a route that takes only a memory and a body as a direct one."""
    if not isinstance(route, APIRoute) or route.methods != {"POST"}:
        return None
    needs = route.dependant
    others = (*needs.path_params, *needs.query_params, *needs.header_params, *needs.cookie_params)
    if others or needs.request_param_name or [len(needs.dependencies), len(needs.body_params)] != [1, 1]:
        return None
    (dependency,), (body,) = needs.dependencies, needs.body_params
    find = _FINDERS.get(dependency.call)
    body_type: Any = body.field_info.annotation
    if find is None or not dependency.name or not issubclass(body_type, BaseModel):
        return None
    return DirectRoute(route, find, dependency.name, body.name, body_type)
