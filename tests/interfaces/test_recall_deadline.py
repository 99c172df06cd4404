"""A hung embedder stalls no agent: behind every interface, words alone answer after the deadline, and the answer says so."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("mcp")
pytest.importorskip("fastapi")

import anyio
from mcp import Client
from starlette.testclient import TestClient

import lukasa
from lukasa.core.canonical_json import encode
from lukasa.errors import InvalidInput
from lukasa.interfaces.api_tokens import token_from_environment
from lukasa.interfaces.auth import SingleToken
from lukasa.interfaces.hooks.handlers import HookHandlers
from lukasa.interfaces.http.app import build_app
from lukasa.interfaces.mcp.server import build_server
from lukasa.interfaces.stores import Caller, CallerStores

pytestmark = pytest.mark.requirement("RCL-1", "DOO-3", "DOO-4")
TEXT = "Deploys run on Tuesday after the smoke tests."
QUESTION = "When do deploys run?"
SECRET = "a-token-of-some-length"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return a store with a memory, whose embedder is an endpoint that accepts connections and never answers."""
    place = str(tmp_path / "agents.db")
    with socket.create_server(("127.0.0.1", 0), backlog=50) as hung:
        monkeypatch.setenv("LUKASA_EMBEDDER", f"http:http://127.0.0.1:{hung.getsockname()[1]}/v1#m")
        monkeypatch.setenv("LUKASA_RECALL_DEADLINE", "0.3")
        with lukasa.open(place) as memory:
            assert memory.remember(TEXT)  # a write never waits for the embedder
        yield place


@pytest.fixture(autouse=True)
def check_time() -> Iterator[None]:
    """Fail a test that waited for the embedder, whose own timeout is longer."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < 20


def test_the_tool_of_mcp_answers_by_words(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def call(tool: str, **arguments: object) -> dict[str, object]:
        server, stores = build_server(store, Caller("ada"))
        try:
            async with Client(server) as client:
                return dict((await client.call_tool(tool, arguments)).structured_content or {})
        finally:
            stores.close()

    monkeypatch.delenv("LUKASA_RECALL_DEADLINE")
    answer = anyio.run(lambda: call("recall", query=QUESTION, deadline=0.3))
    assert TEXT in str(answer["block"])
    assert "words alone" in str(answer["note"])
    assert anyio.run(lambda: call("recall", query=QUESTION, deadline=0))["outcome"] == "failed"


@pytest.mark.parametrize("deadline", [None, 0.2])
def test_the_http_api_answers_by_words(store: str, deadline: float | None) -> None:
    stores = CallerStores(store, Caller())
    source = SingleToken(token_from_environment(SECRET, "ada", None))
    app = build_app(stores, source, ["testserver"])
    with TestClient(app, headers={"Authorization": f"Bearer {SECRET}"}) as client:
        answer = client.post("/v1/recall", json={"query": QUESTION, "deadline": deadline}).json()
        assert answer["hits"][0]["record"]["text"] == TEXT
        assert "words alone" in answer["note"]
        assert client.post("/v1/before-task", json={"task": "Deploy the page"}).status_code == 200
    stores.close()


def test_a_hook_answers_by_words(store: str) -> None:
    handlers = HookHandlers(store, "ada")
    for event in ("session-start", "user-prompt-submit"):
        answer = handlers.answer(event, encode({"session_id": "s1", "prompt": QUESTION, "source": "startup"}))
        assert TEXT.encode() in answer.text
    handlers.close()


def test_every_recall_of_the_library_has_the_deadline_of_the_environment(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lukasa.open(store) as memory:
        assert "words alone" in memory.recall(QUESTION).note
        memory.before_task("Deploy the page")
        memory.context.append("s1", "user", "We talk about deploys.")
        memory.context.assemble("s1", 500, query=QUESTION)
    for wrong in ("soon", "0", "-1", "inf"):
        monkeypatch.setenv("LUKASA_RECALL_DEADLINE", wrong)
        with lukasa.open(store) as memory, pytest.raises(InvalidInput, match="number of seconds"):
            memory.recall(QUESTION)
