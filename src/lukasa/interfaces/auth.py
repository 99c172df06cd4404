"""Authentication of HTTP requests for any ASGI app: API tokens, Host and Origin checks, and the limits of a token.

The checks need only the headers, so a request that fails them is answered before its body is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, unquote

import anyio
import anyio.to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lukasa.canonical_json import encode
from lukasa.clock import SystemClock
from lukasa.errors import LukasaError, NotAllowed
from lukasa.interfaces.api_tokens import ApiToken, ApiTokens, is_readable_by_others, is_secret_of
from lukasa.interfaces.limits import (
    MAX_BODY_BYTES,
    MAX_IMPORT_BYTES,
    RATE_WINDOW,
    LocalCounters,
    RateState,
    TokenLimits,
)
from lukasa.interfaces.outcomes import OutcomeInfo, outcome_of, request_error
from lukasa.interfaces.stores import CALLER_KEY, Caller, CallerStores
from lukasa.journal import Journal

TOKEN_KEY = "lukasa.token"  # noqa: S105 - the name of an entry
"""The entry of an ASGI scope in which the authentication stores the token."""
SAFE_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
"""Headers of every answer. Only the files of the dashboard say themselves how long they may be kept."""
EVENT_STREAM = "text/event-stream"
RECHECK_SECONDS = 1.0
"""How often the token of an open stream is checked."""
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

A = TypeVar("A")
R = TypeVar("R")
TokenSource = Callable[[str], ApiToken | None]
"""Returns the valid token with a secret. One that reads the store is called in a thread, unless it ``reads_at_once``."""


class TokenAuthMiddleware:
    """ASGI middleware that admits requests with a valid token, an allowed Host and no foreign Origin.

    The caller of the token is stored in the ASGI scope, where ``CallerStores.for_request`` finds it. ``reading_paths``
    are those whose POST requests only read, ``streaming_paths`` those whose bodies are read as they arrive.
    """

    def __init__(
        self,
        app: ASGIApp,
        token_source: TokenSource,
        allowed_hosts: Sequence[str],
        *,
        open_paths: frozenset[str] = frozenset(),
        reading_paths: frozenset[str] = frozenset(),
        streaming_paths: frozenset[str] = frozenset(),
        limits: TokenLimits | None = None,
    ) -> None:
        self._app = app
        self._token_source = token_source
        self._allowed_hosts = frozenset(host.lower() for host in allowed_hosts)
        self._open_paths = open_paths
        self._reading_paths = reading_paths
        self._streaming_paths = streaming_paths
        count = token_source.count_requests if isinstance(token_source, StoreTokenSource) else None
        self._limits = limits or TokenLimits(count=count)
        self._threads: anyio.CapacityLimiter | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on together with its caller, or answer with the reason why it is refused."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        max_bytes = MAX_IMPORT_BYTES if scope["path"] in self._streaming_paths else MAX_BODY_BYTES
        if (refused := self._check_headers(headers, max_bytes)) is not None:
            await _refuse(refused, scope, receive, send)
            return
        if scope["path"] in self._open_paths:
            await self._app(scope, limit_body(receive, MAX_BODY_BYTES), send)
            return
        secret = read_secret(scope)
        try:
            at_once = not isinstance(self._token_source, StoreTokenSource) or self._token_source.reads_at_once(secret)
            token, rate = self._admit(secret) if at_once else await self._in_thread(self._admit, secret)
            if token is None:
                await _refuse(
                    request_error("unauthorized", "The request carries no valid token."), scope, receive, send
                )
                return
            if token.read_only and scope["method"] not in _SAFE_METHODS and scope["path"] not in self._reading_paths:
                raise NotAllowed("This token may only read.", hint="Ask the owner of the store for another one.")
            self._limits.begin(token)
        except (LukasaError, OSError) as error:
            await _refuse(outcome_of(error, public=True), scope, receive, send, getattr(error, "state", None))
            return
        try:
            scope[CALLER_KEY] = Caller(token.agent, token.scopes, token.read_only)
            scope[TOKEN_KEY] = token
            receive, send = (
                limit_body(receive, max_bytes),
                _add_headers(send, {} if rate is None else rate.as_headers()),
            )
            if EVENT_STREAM in headers.get("accept", "") and scope["method"] == "GET":
                await self._serve_stream(secret, scope, receive, send)
            else:
                await self._app(scope, receive, send)
        finally:
            self._limits.end(token)

    def _check_headers(self, headers: Headers, max_bytes: int) -> OutcomeInfo | None:
        if headers.get("host", "").lower() not in self._allowed_hosts:
            return request_error("unknown_host", "This server has no such host name.")
        origin = headers.get("origin")
        if origin is not None and origin.lower().partition("://")[2] not in self._allowed_hosts:
            return request_error("foreign_origin", "Pages of other origins may not call this server.")
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > max_bytes:
            return request_error("body_too_large", f"A request may have at most {max_bytes} bytes.")
        return None

    def _admit(self, secret: str) -> tuple[ApiToken | None, RateState | None]:
        """Return the valid token with a secret, and what is left of its rate after this request."""
        token = self._token_source(secret) if secret else None
        return token, None if token is None else self._limits.count(token)

    async def _in_thread(self, work: Callable[[A], R], argument: A) -> R:
        """Run a check in threads of its own, so that slow requests do not keep others waiting."""
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(4)
        return await anyio.to_thread.run_sync(work, argument, limiter=self._threads)

    async def _serve_stream(self, secret: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that may be answered by a stream, and end the stream when its token is no longer valid."""
        streams = False

        async def send_watched(message: Message) -> None:
            nonlocal streams
            if message["type"] == "http.response.start":
                streams = Headers(raw=message["headers"]).get("content-type", "").startswith(EVENT_STREAM)
            await send(message)

        async def watch() -> None:
            while True:
                await anyio.sleep(RECHECK_SECONDS)
                try:
                    valid = await self._in_thread(self._token_source, secret) is not None
                except (LukasaError, OSError):
                    continue  # the store cannot say now; nothing can be read from it either
                if not valid:
                    group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            await self._app(scope, receive, send_watched)
            streams = False
            group.cancel_scope.cancel()
        if streams:
            info = request_error("unauthorized", "The token is no longer valid.")
            await send(
                {"type": "http.response.body", "body": b"event: problem\ndata: %s\n\n" % encode(info.as_problem())}
            )


def read_secret(scope: Scope) -> str:
    """Return the secret in a request: of its Authorization header or, from a page of this server, of its cookie."""
    headers = Headers(scope=scope)
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    if scheme:
        return secret.strip() if scheme.lower() == "bearer" else ""
    return (
        unquote(cookie_parser(headers.get("cookie", "")).get(cookie_name(headers), "")) if is_same_origin(scope) else ""
    )


def token_to_cookie(secret: str) -> str:
    """Return the value of the cookie for a token."""
    return quote(secret, safe="")


def cookie_name(headers: Headers) -> str:
    """Return the name of the cookie with the token. It holds the port, because browsers share cookies between ports."""
    port = headers.get("host", "").rpartition(":")[2]
    return f"lukasa_token_{port}" if port.isdecimal() else "lukasa_token"


def is_same_origin(scope: Scope) -> bool:
    """Return whether a browser sent a request from a page of this server, or a person typed its address.

    Browsers send Sec-Fetch-Site to loopback and over TLS, and Origin with every request that is not a GET or HEAD.
    """
    headers = Headers(scope=scope)
    reads = scope["method"] in _SAFE_METHODS
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is None:
        return reads and site in (None, "same-origin", "none")
    return origin.lower().partition("://")[2] == headers.get("host", "").lower() and site in (None, "same-origin")


async def _refuse(
    info: OutcomeInfo, scope: Scope, receive: Receive, send: Send, state: RateState | None = None
) -> None:
    headers = {"Connection": "close"}
    if info.http_status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if info.http_status in (429, 503):
        headers["Retry-After"] = "1" if state is None else str(state.seconds)
    if state is not None:
        headers |= state.as_headers()
    answer = Response(encode(info.as_problem()), info.http_status, headers, "application/problem+json")
    await answer(scope, receive, send)


def _add_headers(send: Send, more: dict[str, str]) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update({"X-Content-Type-Options": "nosniff", **more})
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return send_with_headers


def limit_body(receive: Receive, max_bytes: int) -> Receive:
    """Return a receive call that refuses a body without a declared length once it grows past the limit."""
    received = 0

    async def receive_limited() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > max_bytes:
            raise HTTPException(413, f"A request may have at most {max_bytes} bytes.")
        return message

    return receive_limited


def single_token_source(token: ApiToken) -> TokenSource:
    """Return a source of one token."""
    return lambda secret: token if is_secret_of(secret, token) else None


class StoreTokenSource:
    """The tokens of a store, read at every request, so that a revoked one is refused at the next request on every server.

    ``secret_file`` holds the owner's first token. While other users may read that file, the token in it is refused.
    """

    def __init__(self, stores: CallerStores, secret_file: Path | None = None) -> None:
        self._stores = stores
        self._secret_file = secret_file
        self._opened: tuple[Journal, ApiTokens, bool] | None = None
        self._own_counters = LocalCounters()

    def count_requests(self, name: str, amount: int) -> tuple[int, int]:
        """Add to a counter that all servers on the store share, or to one of this process if the engine has none."""
        journal = self._stores.for_caller(Caller()).journal
        return journal.add_to_counter(name, amount, int(RATE_WINDOW)) or self._own_counters(name, amount)

    def __call__(self, secret: str) -> ApiToken | None:
        """Return the valid token with a secret."""
        try:
            tokens = self.open()
            token = tokens.find(secret)
            if token is not None:
                self._refuse_readable_file(secret)
                with suppress(LukasaError):  # a store that cannot be written can still be read
                    tokens.note_use(token)
            return token
        except LukasaError as error:
            self._stores.close_if_broken(error)
            raise

    def reads_at_once(self, secret: str) -> bool:
        """Return whether finding the token takes microseconds: it is in an open file, and its use needs no record now."""
        memory, opened = self._stores.find_open(Caller()), self._opened
        if memory is None or opened is None or opened[0] is not memory.journal:
            return False
        _, tokens, is_file = opened
        return is_file and tokens.is_use_noted(secret)

    def open(self) -> ApiTokens:
        """Return the tokens of the store, which is opened if it is closed."""
        journal = self._stores.for_caller(Caller()).journal
        if self._opened is None or self._opened[0] is not journal:
            is_file = journal.change_stamp() is not None
            self._opened = (journal, ApiTokens(journal, SystemClock()), is_file)
        return self._opened[1]

    def _refuse_readable_file(self, secret: str) -> None:
        path = self._secret_file
        try:
            if path is not None and is_readable_by_others(path) and path.read_text("utf-8").strip() == secret:
                raise NotAllowed("Other users may read the file of this token.", hint="Run chmod 600 on that file.")
        except FileNotFoundError:
            return
