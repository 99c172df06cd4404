"""What happens to every request, and the parts of it that every route reads: the store of its caller, conditions and times.

A request is counted and logged. One that is repeated with its ``Idempotency-Key`` is done once, and answered again with the
first answer. That answer is a record of the system scope. If it is a record itself, only its key and version are stored; any
other answer is linked to the records in it, so that erasing a record erases the answer too.
"""

from __future__ import annotations

import hashlib
import logging
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import anyio
import anyio.to_thread
from fastapi import Depends, Header, Request
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lukasa.core.canonical_json import decode, encode
from lukasa.core.clock import from_iso
from lukasa.core.names import find_number
from lukasa.core.outcome import Refused
from lukasa.core.record import DERIVED_FROM, Key, Link
from lukasa.core.scope import SYSTEM
from lukasa.errors import InvalidInput
from lukasa.interfaces.auth import TOKEN_KEY, problem_response
from lukasa.interfaces.http.metrics import REQUESTS, SECONDS
from lukasa.interfaces.http.responses import JsonResponse, record_response
from lukasa.interfaces.outcomes import outcome_of, request_error
from lukasa.interfaces.stores import CALLER_KEY, Caller, CallerStores
from lukasa.journal import Journal
from lukasa.memory import Memory

MAX_ITEMS = 1_000
HTTP_ANSWER = "http_answer"
REQUEST_KEY = "lukasa.request"
"""The entry of an ASGI scope with the ``KeyedRequest``."""
MAX_KEY_LENGTH = 200
_MAX_LINKS = 1_000
_WRITING_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_REUSED = Refused("key_reused", "This idempotency key was used for something else; make a new one.")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_access_log = logging.getLogger("lukasa.access")
_log = logging.getLogger(__name__)


class RequestMetrics:
    """ASGI middleware that counts and logs requests by route: no query, no body, no token.

    An error that no handler answered is logged by its type and place alone, because its message may quote a memory.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 0

        async def send_counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                elapsed = time.perf_counter() - began
                method, route = method_of(scope), route_of(scope)
                REQUESTS.labels(method, route, status).inc()
                SECONDS.labels(route).observe(elapsed)
                if _access_log.isEnabledFor(logging.INFO):
                    token, trace = scope.get(TOKEN_KEY), _trace_id(scope)
                    name = "-" if token is None else token.name
                    _access_log.info("%s %s %d %.1f ms %r trace=%s", method, route, status, 1000 * elapsed, name, trace)
            await send(message)

        try:
            await self._app(scope, receive, send_counted)
        except Exception as error:  # noqa: BLE001 - every request gets an answer
            place = "".join(traceback.format_tb(error.__traceback__)[-3:])
            _log.error("A request failed: %s\n%s", type(error).__name__, place)
            if not status:
                await problem_response(outcome_of(error, public=True))(scope, receive, send_counted)


def method_of(scope: Scope) -> str:
    """Return the method of a request, or "other" for one that HTTP does not know."""
    return scope["method"] if scope["method"] in _METHODS else "other"


def route_of(scope: Scope) -> str:
    """Return the path of a request's route, with names in place of values."""
    return str(getattr(scope.get("route"), "path", "unknown"))


def _trace_id(scope: Scope) -> str:
    """Return the trace id in the W3C header ``traceparent``, or "-"."""
    parts = Headers(scope=scope).get("traceparent", "").split("-")
    is_valid = list(map(len, parts)) == [2, 32, 16, 2] and set("0123456789abcdef-").issuperset("-".join(parts))
    return parts[1] if is_valid else "-"


@dataclass(slots=True)
class KeyedRequest:
    """A request with an ``Idempotency-Key``: its id, a digest of its content, and the memory it writes with."""

    id: str
    fingerprint: bytes
    memory: Memory | None = None


class IdempotencyMiddleware:
    """ASGI middleware that answers a repeated request with its first answer.

    ``excluded_paths`` are those whose answers must not be stored, or whose bodies are too long to keep.
    """

    def __init__(
        self, app: ASGIApp, routes: Sequence[BaseRoute], stores: CallerStores, excluded_paths: frozenset[str]
    ) -> None:
        self._app = app
        self._routes = routes
        self._stores = stores
        self._excluded_paths = excluded_paths
        self._locks: dict[str, tuple[anyio.Lock, int]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = Headers(scope=scope).get("idempotency-key") if scope["type"] == "http" else None
        token = scope.get(TOKEN_KEY)
        if (
            key is None
            or token is None
            or scope["method"] not in _WRITING_METHODS
            or scope["path"] in self._excluded_paths
        ):
            await self._app(scope, receive, send)
            return
        if not any(route.matches(scope)[0] is Match.FULL for route in self._routes):
            await self._app(scope, receive, send)  # answers 404 or 405
            return
        if not 0 < len(key) <= MAX_KEY_LENGTH:
            info = request_error("usage", f"An Idempotency-Key has 1 to {MAX_KEY_LENGTH} characters.")
            await problem_response(info)(scope, receive, send)
            return
        id = hashlib.sha256(f"{token.sha256}/{key}".encode()).hexdigest()
        lock, waiting = self._locks.get(id, (anyio.Lock(), 0))
        self._locks[id] = (lock, waiting + 1)
        try:
            async with lock:
                await self._answer_once(id, scope, receive, send)
        finally:
            lock, waiting = self._locks.pop(id)
            if waiting > 1:
                self._locks[id] = (lock, waiting - 1)

    async def _answer_once(self, id: str, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await read_body(receive)
        except HTTPException as error:  # of the limit for the body
            await problem_response(request_error("body_too_large", error.detail))(scope, receive, send)
            return
        if body is None:
            return  # the client has gone
        head = [scope["method"], scope["path"], scope["query_string"].decode("latin-1")]
        fingerprint = hashlib.sha256(encode(head) + body).hexdigest()
        stored = await anyio.to_thread.run_sync(self._find_answer, id, fingerprint)
        if stored is not None:
            await stored(scope, receive, send)
            return
        request = scope[REQUEST_KEY] = KeyedRequest(id, bytes.fromhex(fingerprint))
        messages: list[Message] = []

        async def keep(message: Message) -> None:
            messages.append(message)

        try:
            await self._app(scope, replay_body(body, receive), keep)
        finally:
            await anyio.to_thread.run_sync(self._end_request, request, messages)
        for message in messages:
            await send(message)

    def _journal(self) -> Journal:
        return self._stores.for_caller(Caller()).journal

    def _find_answer(self, id: str, fingerprint: str) -> Response | None:
        journal = self._journal()
        stored = journal.get(Key(SYSTEM, HTTP_ANSWER, id))
        if stored is None:
            return None
        if stored.body["fingerprint"] != fingerprint:
            return problem_response(outcome_of(_REUSED))
        status, pointer = stored.body["status"], stored.body.get("record")
        response: Response
        if pointer is None:
            response = JsonResponse(stored.body["answer"], status)
        else:
            *key, version = pointer
            versions = [record for record in journal.history(Key(*key)) if record.version == version]
            response = (
                record_response(versions[0], status=status) if versions else JsonResponse({"records": []}, status)
            )
        response.headers["Idempotent-Replayed"] = "true"
        return response

    def _end_request(self, request: KeyedRequest, messages: Sequence[Message]) -> None:
        """Close the memory of a request, and store the answer if it was done.

        An answer that is too large is not stored; a repeated request then names what was written.
        """
        if request.memory is not None:
            request.memory.journal.end_request()
            request.memory.close()
        status = messages[0]["status"] if messages else 500
        if not 200 <= status < 300:
            return
        content = b"".join(message.get("body", b"") for message in messages)
        answer = decode(content) if content else None
        body: dict[str, Any] = {"fingerprint": request.fingerprint.hex(), "status": status}
        keys = list(dict.fromkeys(find_keys(answer)))
        if len(keys) > _MAX_LINKS:
            return
        if isinstance(answer, dict) and {"scope", "kind", "id", "version", "digest"} <= answer.keys():
            body["record"] = [answer["scope"], answer["kind"], answer["id"], answer["version"]]
        else:
            body["answer"] = answer
        links = tuple(Link(DERIVED_FROM, key) for key in keys)
        self._journal().write(HTTP_ANSWER, body=body, id=request.id, scope=SYSTEM, links=links)


async def read_body(receive: Receive) -> bytes | None:
    """Return the body of a request; ``None`` if the client has gone."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body"):
            return bytes(body)


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a receive call that yields a body that has been read already, and then all further messages."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again


def find_keys(value: Any) -> Iterator[Key]:
    """Yield the keys of the records in an answer."""
    if isinstance(value, dict):
        if all(isinstance(value.get(name), str) and value[name] for name in ("scope", "kind", "id")):
            yield Key(value["scope"], value["kind"], value["id"])
        for item in value.values():
            yield from find_keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from find_keys(item)


def _refuse_other_notations(value: Any) -> Any:
    if isinstance(value, str) and find_number(value.removeprefix("-"), "", digits=range(1, 20)) is None:
        raise ValueError("it must be a whole number in digits")
    return value


WholeNumber = Annotated[int, BeforeValidator(_refuse_other_notations)]
"""A number in a query. ``5.0`` and ``1_000`` are refused, as the description of the API says."""


class RequestModel(BaseModel):
    """The body of a request. An unknown field is an error, so that no misspelt option is ignored; so is a wrong type."""

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)


async def get_memory(request: Request) -> Memory:
    """Return the store for the caller of a request. Only opening it needs a thread."""
    stores: CallerStores = request.app.state.stores
    caller = request.scope.get(CALLER_KEY)
    memory = stores.opened.get(caller) if isinstance(caller, Caller) else None
    return await anyio.to_thread.run_sync(stores.for_request, request.scope) if memory is None else memory


CallerMemory = Annotated[Memory, Depends(get_memory)]

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=MAX_KEY_LENGTH,
        description="A request that is repeated with its key writes once and gets the first answer again.",
    ),
]


async def get_writing_memory(memory: CallerMemory, request: Request, key: IdempotencyKey = None) -> Memory:  # noqa: ARG001 - see below
    """Return the store for the caller of a request that writes; with an Idempotency-Key, its writes are done once.

    OpenAPI describes the key, which the middleware reads.
    """
    keyed: KeyedRequest | None = request.scope.get(REQUEST_KEY)
    if keyed is not None:
        memory = keyed.memory = memory.for_request(keyed.id, keyed.fingerprint)
    return memory


WritingMemory = Annotated[Memory, Depends(get_writing_memory)]
"""The store for a request that writes. A repeated one ends with ``RepeatedRequest``."""


def _read_expected_version(if_match: Annotated[str | None, Header()] = None) -> int | None:
    if if_match is None:
        return None
    found = find_number(if_match.strip().removeprefix("W/"), '"v', '"', digits=range(1, 19))
    if found is None:
        raise InvalidInput(f"{if_match!r:.60} is not an entity tag.", hint='Send the ETag of a read, such as "v7".')
    return found


ExpectedVersion = Annotated[int | None, Depends(_read_expected_version)]
"""The version in ``If-Match``: the write happens only if the record still has it."""


IfNoneMatch = Annotated[str | None, Header(description="The entity tag of the version that the caller has.")]


def parse_time(text: str) -> datetime:
    """Parse a time in ISO 8601."""
    try:
        return from_iso(text)
    except InvalidInput as error:
        raise ValueError(error.message) from error


def _prefers_async(prefer: Annotated[str, Header(max_length=200)] = "") -> bool:
    return any(part.strip().lower() == "respond-async" for part in prefer.split(","))


RespondAsync = Annotated[bool, Depends(_prefers_async)]
"""Whether ``Prefer: respond-async`` asks for a job instead of an answer that takes long."""

Moment = Annotated[
    str, AfterValidator(lambda text: parse_time(text) and text), Field(max_length=40, examples=["2026-11-17T09:00:00Z"])
]
"""A time in ISO 8601 with an offset."""
Name = Annotated[str, Field(min_length=1, max_length=200)]
