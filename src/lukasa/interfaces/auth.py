"""Authentication of HTTP requests for any ASGI app: API tokens, Host and Origin checks, and the limits of a token.

The checks need only the headers, so a request that fails them is answered before its body is read.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lukasa.core.canonical_json import encode
from lukasa.core.clock import SystemClock
from lukasa.errors import LukasaError, NotAllowed
from lukasa.interfaces.api_tokens import (
    RATE_WINDOW,
    ApiToken,
    ApiTokens,
    LocalCounters,
    RateState,
    TokenLimits,
    hash_token,
    is_readable_by_others,
)
from lukasa.interfaces.limits import MAX_BODY_BYTES, MAX_IMPORT_BYTES, MAX_OPEN_BODY_BYTES
from lukasa.interfaces.outcomes import OutcomeInfo, outcome_of, request_error
from lukasa.interfaces.page_sessions import PageSessions
from lukasa.interfaces.stores import CALLER_KEY, Caller, CallerStores
from lukasa.journal import Journal

TOKEN_KEY = "lukasa.token"  # noqa: S105 - the name of an entry
"""The entry of an ASGI scope in which the authentication stores the token."""
SAFE_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
"""Headers of every answer. Only the files of the dashboard say themselves how long they may be kept."""
EVENT_STREAM = "text/event-stream"
PROBLEM_MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 1
RECHECK_SECONDS = 0.25
"""How often the token of a request that takes long is checked."""
_FRESH_SECONDS = 0.05
"""How long ago a token may have been checked when a part of such an answer is sent."""
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

R = TypeVar("R")
TokenSource = Callable[[str], ApiToken | None]
"""Returns the valid token with a secret. One that reads the store is called in a thread, unless it ``reads_at_once``."""
FindToken = Callable[[], ApiToken | None]
"""Returns the valid token of a request."""


class TokenAuthMiddleware:
    """ASGI middleware that admits requests with a valid token, an allowed Host and no foreign Origin.

    The caller of the token is stored in the ASGI scope, where ``CallerStores.for_request`` finds it. ``reading_paths``
    are those whose POST requests only read, ``streaming_paths`` those whose bodies are read as they arrive, ``long_paths`` those
    whose requests end when their token does. An allowed host is a name that the server itself has, or one with the scheme of
    the proxy in front: ``https://hub.example``. ``sessions`` are those of the dashboard, if there is one.
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
        long_paths: frozenset[str] = frozenset(),
        sessions: PageSessions | None = None,
        limits: TokenLimits | None = None,
    ) -> None:
        self._app = app
        self._token_source = token_source
        names = [host.lower() for host in allowed_hosts]
        self._allowed_hosts = frozenset(name.rpartition("://")[2] for name in names)
        self._allowed_origins = frozenset(name if "://" in name else f"http://{name}" for name in names)
        self._open_paths = open_paths
        self._reading_paths = reading_paths
        self._streaming_paths = streaming_paths
        self._long_paths = long_paths
        self._sessions = sessions
        count = token_source.count_requests if isinstance(token_source, StoreTokenSource) else None
        self._limits = limits or TokenLimits(count=count)
        self._threads: anyio.CapacityLimiter | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on together with its caller, or answer with the reason why it is refused."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, path = Headers(scope=scope), scope["path"]
        max_bytes = MAX_IMPORT_BYTES if path in self._streaming_paths else MAX_BODY_BYTES
        if is_open := path in self._open_paths:
            max_bytes = MAX_OPEN_BODY_BYTES
        rate_headers: dict[str, str] = {}
        send = _add_headers(send, rate_headers)
        if (refused := self._check_headers(headers, max_bytes)) is not None:
            await _refuse(refused, scope, receive, send)
            return
        if is_open:
            await self._app(scope, limit_body(receive, max_bytes), send)
            return
        secret, source = read_secret(scope), self._token_source
        find, at_once = source, not isinstance(source, StoreTokenSource) or source.reads_at_once(secret)
        if not secret and self._sessions is not None and (secret := read_session(scope)):
            find, at_once = self._sessions.find, False
        find_token = partial(find, secret)
        try:
            token, rate = (
                self._admit(find_token) if at_once else await self._in_thread(partial(self._admit, find_token))
            )
            if token is None:
                await _refuse(request_error("unauthorized", "The token is missing or not valid."), scope, receive, send)
                return
            if token.read_only and scope["method"] not in _SAFE_METHODS and path not in self._reading_paths:
                raise NotAllowed("This token may only read.", hint="Ask the owner of the store for another one.")
            self._limits.begin(token)
        except (LukasaError, OSError) as error:
            await _refuse(outcome_of(error, public=True), scope, receive, send, getattr(error, "state", None))
            return
        try:
            scope[CALLER_KEY] = Caller(token.agent, token.scopes, token.read_only)
            scope[TOKEN_KEY] = token
            receive = limit_body(receive, max_bytes)
            if rate is not None:
                rate_headers |= rate.as_headers()
            if path in self._long_paths or (EVENT_STREAM in headers.get("accept", "") and scope["method"] == "GET"):
                await self._serve_long(find_token, scope, receive, send)
            else:
                await self._app(scope, receive, send)
        finally:
            self._limits.end(token)

    def _check_headers(self, headers: Headers, max_bytes: int) -> OutcomeInfo | None:
        if headers.get("host", "").lower() not in self._allowed_hosts:
            return request_error("unknown_host", "This server has no such host name.")
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self._allowed_origins:
            return request_error("foreign_origin", "Pages of other origins may not call this server.")
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > max_bytes:
            return request_error("body_too_large", f"A request may have at most {max_bytes} bytes.")
        return None

    def _admit(self, find_token: FindToken) -> tuple[ApiToken | None, RateState | None]:
        """Return the valid token of a request, and the rest of its rate after this request."""
        token = find_token()
        return token, None if token is None else self._limits.count(token)

    async def _in_thread(self, work: Callable[[], R]) -> R:
        """Run a check in threads of its own, so that slow requests do not keep others waiting."""
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(4)
        return await anyio.to_thread.run_sync(work, limiter=self._threads)

    async def _serve_long(self, find_token: FindToken, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that may take long, and end it when its token is no longer valid.

        Then a request whose answer has not begun is refused, a stream of events ends with a problem, and any other answer is cut off.
        """
        started, is_stream, ended, checked_at = False, False, False, time.monotonic()

        async def check() -> None:
            nonlocal ended, checked_at
            checked_at = time.monotonic()
            try:
                ended = await self._in_thread(find_token) is None
            except (LukasaError, OSError):
                return  # the store cannot say now; nothing can be read from it either
            if ended:
                group.cancel_scope.cancel()
                await anyio.lowlevel.checkpoint()

        async def send_watched(message: Message) -> None:
            nonlocal started, is_stream
            if time.monotonic() - checked_at > _FRESH_SECONDS:
                await check()
            if message["type"] == "http.response.start":
                started = True
                is_stream = Headers(raw=message["headers"]).get("content-type", "").startswith(EVENT_STREAM)
            await send(message)

        async def watch() -> None:
            while True:
                await anyio.sleep(RECHECK_SECONDS)
                await check()

        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            await self._app(scope, receive, send_watched)
            group.cancel_scope.cancel()
        info = request_error("unauthorized", "The token is no longer valid.")
        if ended and not started:
            await _refuse(info, scope, receive, send)
        elif ended and is_stream:
            last = b"event: problem\ndata: %s\n\n" % encode(info.as_problem())
            await send({"type": "http.response.body", "body": last})


def read_secret(scope: Scope) -> str:
    """Return the secret in the Authorization header of a request."""
    scheme, _, secret = Headers(scope=scope).get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def read_session(scope: Scope) -> str:
    """Return the secret in the cookie of a request from a page of this server. With an Authorization header it does not count."""
    headers = Headers(scope=scope)
    if "authorization" in headers or not is_same_origin(scope):
        return ""
    return cookie_parser(headers.get("cookie", "")).get(cookie_name(headers), "")


def cookie_name(headers: Headers) -> str:
    """Return the name of the cookie of a page. It holds the port, because browsers share cookies between ports."""
    port = headers.get("host", "").rpartition(":")[2]
    return f"lukasa_session_{port}" if port.isdecimal() else "lukasa_session"


def is_same_origin(scope: Scope) -> bool:
    """Return whether a browser sent a request from a page of this server, or a person typed its address.

    The middleware has compared the scheme of the origin, and that the server has this name.
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
    if info.row.http_status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if state is not None:
        headers |= {"Retry-After": str(state.seconds), **state.as_headers()}
    await problem_response(info, headers)(scope, receive, send)


def problem_response(info: OutcomeInfo, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response for a refusal, a conflict or an error."""
    more = {"Retry-After": str(RETRY_AFTER_SECONDS)} if info.row.http_status in (429, 503) else {}
    return Response(
        encode(info.as_problem()), info.row.http_status, {**SAFE_HEADERS, **more, **(headers or {})}, PROBLEM_MEDIA_TYPE
    )


def _add_headers(send: Send, more: dict[str, str]) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(more)
            for name, value in SAFE_HEADERS.items():
                headers.setdefault(name, value)
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


@dataclass(frozen=True, slots=True)
class SingleToken:
    """A source of one token."""

    token: ApiToken

    def __call__(self, secret: str) -> ApiToken | None:
        """Return the token if it has a secret. Compares in constant time."""
        return self.token if hmac.compare_digest(hash_token(secret), self.token.sha256) else None

    def find_hash(self, sha256: str) -> ApiToken | None:
        """Return the token if its secret has a hash."""
        return self.token if sha256 == self.token.sha256 else None


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
        return self.find_hash(hash_token(secret)) if secret else None

    def find_hash(self, sha256: str) -> ApiToken | None:
        """Return the valid token whose secret has a hash."""
        try:
            tokens = self.open()
            token = tokens.find_hash(sha256)
            if token is not None:
                self._refuse_readable_file(sha256)
                with suppress(LukasaError):  # a store that cannot be written can still be read
                    tokens.note_use(token)
            return token
        except LukasaError as error:
            self._stores.close_if_broken(error)
            raise

    def reads_at_once(self, secret: str) -> bool:
        """Return whether finding the token takes microseconds: it is in an open file, and its use needs no record now."""
        memory, opened = self._stores.opened.get(Caller()), self._opened
        if memory is None or opened is None or opened[0] is not memory.journal:
            return False
        _, tokens, is_file = opened
        return is_file and tokens.is_use_noted(secret)

    def open(self) -> ApiTokens:
        """Return the tokens of the store, which is opened if it is closed."""
        owner = Caller()
        journal = (self._stores.opened.get(owner) or self._stores.for_caller(owner)).journal
        if self._opened is None or self._opened[0] is not journal:
            is_file = journal.change_stamp() is not None
            self._opened = (journal, ApiTokens(journal, SystemClock()), is_file)
        return self._opened[1]

    def _refuse_readable_file(self, sha256: str) -> None:
        path = self._secret_file
        try:
            if (
                path is not None
                and is_readable_by_others(path)
                and hash_token(path.read_text("utf-8").strip()) == sha256
            ):
                raise NotAllowed("Other users may read the file of this token.", hint="Run chmod 600 on that file.")
        except FileNotFoundError:
            return
