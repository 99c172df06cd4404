"""Authentication of HTTP requests for any ASGI app: API tokens, Host and Origin checks, and a limit for the body.

The checks need only the headers, so a request that fails them is answered before its body is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lukasa.errors import LukasaError
from lukasa.interfaces.api_tokens import ApiToken, find_token, read_tokens
from lukasa.interfaces.outcomes import OutcomeInfo, request_error
from lukasa.interfaces.stores import CALLER_KEY, Caller

MAX_BODY_BYTES = 8 * 1024 * 1024
TokenSource = Callable[[], Sequence[ApiToken]]


class TokenAuthMiddleware:
    """ASGI middleware that admits requests with a valid token, an allowed Host and no foreign Origin.

    The caller of the token is stored in the ASGI scope, where ``CallerStores.for_request`` finds it.
    """

    def __init__(
        self,
        app: ASGIApp,
        token_source: TokenSource,
        allowed_hosts: Sequence[str],
        *,
        open_paths: frozenset[str] = frozenset(),
    ) -> None:
        self._open_paths = open_paths
        self._app = app
        self._token_source = token_source
        self._allowed_hosts = frozenset(host.lower() for host in allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on together with its caller, or answer with the reason why it is refused."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refused = self._check_headers(headers)
        if not refused and scope["path"] in self._open_paths:
            await self._app(scope, receive, send)
            return
        token = None if refused else self._authenticate(headers.get("authorization", ""))
        if token is not None:
            caller = Caller(token.agent, token.scopes)
            await self._app({**scope, CALLER_KEY: caller}, _limit_body(receive), send)
            return
        info = refused or request_error("unauthorized", "The request carries no valid token.")
        answer_headers = {"Connection": "close"} | ({"WWW-Authenticate": "Bearer"} if info.http_status == 401 else {})
        answer = JSONResponse(info.as_problem(), info.http_status, answer_headers, "application/problem+json")
        await answer(scope, receive, send)

    def _check_headers(self, headers: Headers) -> OutcomeInfo | None:
        if headers.get("host", "").lower() not in self._allowed_hosts:
            return request_error("unknown_host", "This server has no such host name.")
        origin = headers.get("origin")
        if origin is not None and origin.lower().partition("://")[2] not in self._allowed_hosts:
            return request_error("foreign_origin", "Pages of other origins may not call this server.")
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > MAX_BODY_BYTES:
            return request_error("body_too_large", f"A request may have at most {MAX_BODY_BYTES} bytes.")
        return None

    def _authenticate(self, authorization: str) -> ApiToken | None:
        scheme, _, secret = authorization.partition(" ")
        if scheme.lower() != "bearer" or not secret:
            return None
        try:
            return find_token(secret.strip(), list(self._token_source()))
        except (LukasaError, OSError):  # an unreadable file of tokens admits no request
            return None


def _limit_body(receive: Receive) -> Receive:
    """Return a receive call that refuses a body without a declared length once it grows past the limit."""
    received = 0

    async def receive_limited() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > MAX_BODY_BYTES:
            raise HTTPException(413, f"A request may have at most {MAX_BODY_BYTES} bytes.")
        return message

    return receive_limited


def single_token_source(token: ApiToken) -> TokenSource:
    """Return a source of one token."""
    return lambda: (token,)


def file_token_source(path: Path) -> TokenSource:
    """Return a source of the tokens in a file. The file is read again after it has changed."""
    version: tuple[int, int] | None = None
    tokens: Sequence[ApiToken] = ()

    def read() -> Sequence[ApiToken]:
        nonlocal version, tokens
        status = path.stat()
        if (status.st_mtime_ns, status.st_ino) != version:
            tokens = read_tokens(path)
            version = (status.st_mtime_ns, status.st_ino)
        return tokens

    return read
