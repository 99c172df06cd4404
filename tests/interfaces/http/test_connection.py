"""How a request finds its route, and how it ends when its client has gone."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import anyio.to_thread
import pytest
from fastapi import APIRouter, FastAPI
from pydantic import BaseModel

from lukasa.interfaces.http.requests import CallerMemory
from lukasa.interfaces.http.responses import JsonResponse
from lukasa.interfaces.stores import CALLER_KEY, Caller, CallerStores

pytestmark = pytest.mark.requirement("DOO-4")


class Wish(BaseModel):
    """A body."""

    text: str


def test_a_cancelled_request_ends_after_its_call(tmp_path: Any) -> None:
    """A call cannot be interrupted; what is closed after a request must not be closed while the call still uses it."""
    entered, may_end, ended = threading.Event(), threading.Event(), threading.Event()
    router = APIRouter(prefix="/v1/wishes")

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
    scope = {
        "type": "http", "method": "POST", "path": "/v1/wishes", "query_string": b"",
        "headers": [(b"content-type", b"application/json")], CALLER_KEY: Caller(),
    }  # fmt: skip

    async def receive() -> Any:
        return {"type": "http.request", "body": b'{"text": "more time"}', "more_body": False}

    async def send(_: Any) -> None:
        pass

    async def cancel_in_the_middle() -> bool:
        async with anyio.create_task_group() as group:
            group.start_soon(app, scope, receive, send)
            assert await anyio.to_thread.run_sync(entered.wait, 10)
            threading.Timer(0.05, may_end.set).start()
            group.cancel_scope.cancel()
        return ended.is_set()

    assert anyio.run(cancel_in_the_middle)
    stores.close()
