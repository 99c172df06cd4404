"""The Python client: the everyday calls over HTTP, retries that write once, and errors of the library."""

from __future__ import annotations

import asyncio
import gc
import http.server
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest

import lukasa
from lukasa.api_connection import ApiConnection
from lukasa.client import RemoteMemory
from lukasa.errors import NotAllowed, StoreUnavailable
from lukasa.storage.engine import Query
from support.api_server import run_api_server, token_for
from support.narrow import present


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with run_api_server(str(tmp_path / "agents.db"), agents=("", "ada", "ben")) as address:
        yield address


@pytest.fixture
def ada(url: str) -> Iterator[RemoteMemory]:
    with lukasa.connect(url, token_for("ada")) as memory:
        yield memory


@pytest.mark.requirement("DOO-8")
def test_facts_are_remembered_recalled_confirmed_and_forgotten(ada: RemoteMemory) -> None:
    stored = ada.remember("Deploys run on Tuesday.", tags=["ops"], expires_at=datetime(2999, 1, 1, tzinfo=UTC))
    assert stored
    again = ada.remember("Deploys run on Tuesday.")
    assert (again.code, again.details["duplicate_of"]) == ("duplicate", stored.record.id)
    answer = ada.recall("When do deploys run?", explain=True, budget=200)
    assert answer.hits[0].record == stored.record
    assert answer.hits[0].signals
    assert answer.block is not None
    assert "Deploys run on Tuesday." in answer.block
    moved = ada.remember("Deploys run on Thursday.")
    assert moved.details["similar_to"][0]["id"] == stored.record.id
    assert ada.confirm(stored.record.id)
    assert ada.forget(stored.record.id)
    assert ada.forget(stored.record.id).code == "not_found"


@pytest.mark.requirement("DOO-8")
def test_conversations_sessions_episodes_handoffs_trust_and_forecasts(ada: RemoteMemory, url: str) -> None:
    assert ada.context.append("s1", "user", "The staging server is heron.", speaker="Ada")
    assert [turn["content"] for turn in ada.context.transcript("s1")] == ["The staging server is heron."]
    assert ada.context.load("s1")["session_id"] == "s1"
    assert ada.context.assemble("s1", 500)
    assert [found["session_id"] for found in ada.context.list()] == ["s1"]

    state = {"metadata": {"agent_id": "ada"}, "configuration": {"confidence_threshold": 0.5}}
    ada.sessions.save_checkpoint(state, "run-1")
    assert ada.sessions.state("run-1")["configuration"]["confidence_threshold"] == 0.5
    assert len(ada.sessions.checkpoints("run-1")) == 1
    assert [found["id"] for found in ada.sessions.list()] == ["run-1"]

    episode = ada.episodes.record("Fix the login page", outcome="success", duration_seconds=60)
    assert episode
    assert ada.episodes.list()[-1]["context"]["goal"] == "Fix the login page"
    assert ada.before_task("login page")

    sent = ada.handoffs.create("ben", "The login page is half done.")
    with lukasa.connect(url, token_for("ben")) as ben:
        (waiting,) = ben.handoffs.inbox()
        assert waiting["id"] == sent.unwrap().id
        assert ben.handoffs.accept(sent.unwrap().id)
        assert ben.trust.file_dissent("The rollout is too fast.")
        assert 0 <= ben.trust.score("ben")["trust_score"] <= 1

    made = ada.forecasts.predict("Will the release be on time?", 0.7)
    assert made
    (prediction,) = ada.forecasts.list()
    assert ada.forecasts.resolve(prediction["prediction_id"], True)
    assert ada.forecasts.scores()


@pytest.mark.requirement("DOO-8")
def test_the_client_works_asynchronously(url: str) -> None:
    async def run() -> str:
        async with lukasa.aio.connect(url, token_for("ada")) as memory:
            await memory.remember("Anna likes tea.")
            return (await memory.recall("What does Anna like?")).hits[0].text

    assert asyncio.run(run()) == "Anna likes tea."


@pytest.mark.requirement("DOO-8")
def test_an_agent_writes_only_as_itself_and_a_wrong_token_is_an_error(ada: RemoteMemory, url: str) -> None:
    stored = ada.remember("Deploys run on Tuesday.")
    assert stored.unwrap().author == "ada"
    assert not ada.remember("Only ben reads this.", scope="ben")
    with pytest.raises(NotAllowed, match="token"):
        lukasa.connect(url, "a-token-that-nobody-knows").recall("x")
    with pytest.raises(StoreUnavailable, match="no answer"):
        lukasa.connect("http://127.0.0.1:9", "t" * 20, retries=1).recall("x")


class LosingProxy(http.server.BaseHTTPRequestHandler):
    """Passes requests on, and loses the answer to every first one."""

    target: ClassVar[ApiConnection]
    lost: ClassVar[set[str]] = set()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        key = self.headers["Idempotency-Key"]
        import json

        answer = self.target.request("POST", self.path, json.loads(body), headers={"Idempotency-Key": key})
        if key not in self.lost:
            self.lost.add(key)
            self.connection.close()
            return
        content = json.dumps(answer.content).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        for name in ("idempotent-replayed",):
            if name in answer.headers:
                self.send_header(name, answer.headers[name])
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None: ...


@pytest.mark.requirement("DOO-8")
def test_a_write_whose_answer_was_lost_is_repeated_and_stored_once(url: str, tmp_path: Path) -> None:
    LosingProxy.target = ApiConnection(url, token_for("ada"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), LosingProxy) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        with lukasa.connect(f"http://127.0.0.1:{proxy.server_address[1]}", token_for("ada")) as memory:
            assert present(memory.remember("Deploys run on Tuesday.")).repeated
            assert memory.context.append("s1", "user", "hello")
        proxy.shutdown()
    LosingProxy.target.close()
    with lukasa.open(str(tmp_path / "agents.db"), embedder="hash") as store:
        kinds = [record.kind for record in store.journal.read(Query(kinds=("memory", "turn"), every_version=True))]
        assert sorted(kinds) == ["memory", "turn"]


def test_a_connection_that_is_forgotten_closes_its_sockets(url: str) -> None:
    connection = ApiConnection(url, token_for("ada"))
    assert connection.request("GET", "/v1/stats").status == 200
    idle = connection._client._idle
    forgotten: dict[str, Any] = {"connection": connection}
    forgotten["itself"] = forgotten  # only the garbage collector finds it
    del connection, forgotten
    gc.collect()
    assert idle == []
