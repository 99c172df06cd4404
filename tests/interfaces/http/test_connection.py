"""How a response leaves the server, and how a request finds its route."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.routing import Match
from starlette.testclient import TestClient

from lukasa.interfaces.http.direct_routes import DirectRoutes
from lukasa.interfaces.http.prefix_router import PrefixRouter
from lukasa.interfaces.http.requests import CallerMemory
from lukasa.interfaces.http.responses import JsonResponse
from lukasa.interfaces.http_connection import MAX_HELD_BYTES, JoinedWrites
from lukasa.interfaces.stores import CALLER_KEY, Caller, CallerStores

pytestmark = pytest.mark.requirement("DOO-4")


class RecordingTransport(asyncio.Transport):
    """A transport that keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[bytes | str] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep bytes."""
        self.calls.append(bytes(data))

    def close(self) -> None:
        """Note the end."""
        self.calls.append("close")

    def abort(self) -> None:
        """Note the end."""
        self.calls.append("abort")


def record_calls(use: Callable[[JoinedWrites], None]) -> list[bytes | str]:
    """Return what a transport was asked to do in one step of the event loop, and right after it."""

    async def run() -> list[bytes | str]:
        transport = RecordingTransport()
        use(JoinedWrites(transport, asyncio.get_running_loop()))
        in_the_step = list(transport.calls)
        await asyncio.sleep(0)
        return [*in_the_step, "next step", *transport.calls[len(in_the_step) :]]

    return asyncio.run(run())


def test_the_head_and_the_body_of_a_response_are_sent_together() -> None:
    def respond(writes: JoinedWrites) -> None:
        writes.write(b"head")
        writes.write(b"body")
        writes.flush()

    assert record_calls(respond) == [b"headbody", "next step"]


def test_a_response_that_has_not_ended_is_sent_with_the_next_step() -> None:
    def respond(writes: JoinedWrites) -> None:
        writes.write(b"head")
        writes.write(b"event")

    assert record_calls(respond) == ["next step", b"headevent"]


def test_a_large_part_of_a_response_is_not_held_back() -> None:
    def respond(writes: JoinedWrites) -> None:
        writes.write(b"head")
        writes.write(bytes(MAX_HELD_BYTES))
        writes.write(b"end")

    assert record_calls(respond) == [b"head" + bytes(MAX_HELD_BYTES), "next step", b"end"]


def test_closing_sends_what_is_held_back_and_aborting_does_not() -> None:
    def respond_and(end: str) -> Callable[[JoinedWrites], None]:
        def respond(writes: JoinedWrites) -> None:
            writes.write(b"head")
            getattr(writes, end)()

        return respond

    assert record_calls(respond_and("close")) == [b"head", "close", "next step"]
    assert record_calls(respond_and("abort")) == ["abort", "next step"]


def test_routes_of_another_prefix_are_not_compared_with_a_request() -> None:
    compared: list[str] = []

    class NotedRoute(APIRoute):
        def matches(self, scope: Any) -> tuple[Match, Any]:
            compared.append(self.path)
            return super().matches(scope)

    app = FastAPI()
    for prefix in ("/v1/others", "/v1/agents/{agent}"):
        router = PrefixRouter(prefix=prefix, route_class=NotedRoute)
        router.add_api_route("", lambda: JsonResponse({"found": True}))
        app.include_router(router)
    client = TestClient(app)
    assert client.get("/v1/agents/ada").status_code == 200
    assert set(compared) == {"/v1/agents/{agent}"}
    compared.clear()
    assert client.get("/v1/records").status_code == 404
    assert compared == []


class Wish(BaseModel):
    """A body."""

    text: str


def test_a_cancelled_request_ends_after_its_call(tmp_path: Any) -> None:
    """A call cannot be interrupted; what is closed after a request must not be closed while the call still uses it."""
    entered, may_end, ended = threading.Event(), threading.Event(), threading.Event()
    router = PrefixRouter(prefix="/v1/wishes")

    @router.post("")
    def make_wish(memory: CallerMemory, body: Wish) -> Any:
        entered.set()
        may_end.wait(10)
        ended.set()
        return JsonResponse({"text": body.text, "position": memory.journal.tip()})

    app = FastAPI()
    app.include_router(router)
    stores = app.state.stores = CallerStores(str(tmp_path / "memory.db"), Caller())
    stores.check()
    direct = DirectRoutes(app, router.routes)
    scope = {
        "type": "http", "method": "POST", "path": "/v1/wishes", "headers": [(b"content-type", b"application/json")],
        CALLER_KEY: Caller(),
    }  # fmt: skip
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b'{"text": "more time"}', "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    async def cancel_in_the_middle() -> bool:
        task = asyncio.create_task(direct(scope, receive, send))
        await asyncio.to_thread(entered.wait, 10)
        task.cancel()
        await asyncio.sleep(0.05)
        ended_early = task.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return ended_early or not ended.is_set()

    assert asyncio.run(cancel_in_the_middle()) is False
    assert sent == []
    stores.close()
