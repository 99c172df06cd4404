"""Authentication of HTTP requests, and the store that an authenticated request gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

import anyio
import httpx2

from lukasa.errors import NotAllowed
from lukasa.interfaces.api_tokens import token_from_environment
from lukasa.interfaces.auth import SingleToken, StoreTokenSource, TokenAuthMiddleware
from lukasa.interfaces.limits import MAX_BODY_BYTES
from lukasa.interfaces.stores import CALLER_KEY, CURRENT_REQUEST, Caller, CallerStores

pytestmark = pytest.mark.requirement("DOO-3")

SECRET = "a-token-of-some-length"
AUTHORIZED = {"Authorization": f"Bearer {SECRET}"}


def request(headers: dict[str, str]) -> tuple[Any, list[Any]]:
    """Send a request through the middleware. Return the response and the callers that reached the app."""
    callers: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        callers.append(scope[CALLER_KEY])
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def run() -> Any:
        source = SingleToken(token_from_environment(SECRET, "ada", ("ada",)))
        transport = httpx2.ASGITransport(TokenAuthMiddleware(app, source, ["localhost:80"]))
        async with httpx2.AsyncClient(transport=transport) as client:
            return await client.post("http://localhost:80/", headers={"Host": "localhost:80", **headers})

    return anyio.run(run), callers


def test_the_middleware_passes_the_caller_of_the_token_on() -> None:
    response, callers = request(AUTHORIZED)
    assert (response.status_code, callers) == (204, [Caller("ada", ("ada",))])


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({}, 401, "unauthorized"),
        ({"Authorization": "Bearer wrong"}, 401, "unauthorized"),
        ({**AUTHORIZED, "Host": "evil.example"}, 421, "unknown_host"),
        ({**AUTHORIZED, "Origin": "http://evil.example"}, 403, "foreign_origin"),
        ({**AUTHORIZED, "Content-Length": str(MAX_BODY_BYTES + 1)}, 413, "body_too_large"),
    ],
)
def test_the_middleware_answers_a_refused_request_with_a_problem(
    headers: dict[str, str], status: int, code: str
) -> None:
    response, callers = request(headers)
    assert (response.status_code, callers) == (status, [])
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["code"] == code
    assert ("www-authenticate" in response.headers) == (status == 401)


def test_a_request_gets_the_store_of_its_caller_and_none_without_a_caller(tmp_path: Path) -> None:
    stores = CallerStores(str(tmp_path / "agents.db"), Caller(), embedder="hash")
    try:
        assert stores.for_request({CALLER_KEY: Caller("ada")}).journal.author == "ada"
        assert stores.for_request(None).journal.author == ""
        with pytest.raises(NotAllowed):
            stores.for_request({})
        with pytest.raises(LookupError):
            stores.current()
        CURRENT_REQUEST.set({CALLER_KEY: Caller("bob")})
        assert stores.current().journal.author == "bob"
    finally:
        stores.close()


def test_a_token_in_a_file_is_read_at_once_and_its_revocation_elsewhere_is_seen(tmp_path: Path) -> None:
    place = str(tmp_path / "agents.db")
    stores, other_server = (CallerStores(place, Caller(), embedder="none") for _ in range(2))
    source = StoreTokenSource(stores)
    assert not source.reads_at_once("nobody's")
    secret = source.open().add("laptop", agent="ada")
    assert not source.reads_at_once(secret)  # its first use is recorded
    assert source(secret) is not None
    assert source.reads_at_once(secret)
    assert StoreTokenSource(other_server).open().revoke("laptop")
    assert source.reads_at_once(secret)
    assert source(secret) is None
    stores.close()
    assert not source.reads_at_once(secret)  # opening the store takes longer
    other_server.close()


def test_a_token_that_is_not_in_a_file_is_read_in_a_thread() -> None:
    stores = CallerStores("memory:", Caller(), embedder="none")
    source = StoreTokenSource(stores)
    assert source(secret := source.open().add("laptop", agent="ada")) is not None
    assert not source.reads_at_once(secret)
    stores.close()
