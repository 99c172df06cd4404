"""The Python client: the operations of the library over HTTP, retries that write once, and errors of the library."""

from __future__ import annotations

import asyncio
import gc
import http.server
import inspect
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, assert_type

import pytest

import lukasa
from lukasa.api_connection import ApiConnection
from lukasa.client import RemoteMemory
from lukasa.core.outcome import Conflict, Outcome, Refused
from lukasa.errors import InvalidInput, NotAllowed, StoreUnavailable
from lukasa.experience import Episode, Handoff
from lukasa.methods import find_method
from lukasa.operations import OVER_HTTP
from lukasa.recall import RecallResult
from lukasa.storage.engine import Query
from lukasa.vault import VaultMemory
from support.api_server import run_api_server, token_for

LEFT_OUT: Mapping[str, str] = {
    "the token says who writes": "author from_agent agent by_agent",
    "the server notes where a record comes from": "origin source",
    "only a call within the process can have it": "progress network propose hidden links labels",
    "recovery of a store's own checkpoints sets it": "checkpoint_number retention last_updated",
    "a query of a GET has no room for it": "filters",
}
"""Parameters that a method of a connection does not have, by the reason."""


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with run_api_server(str(tmp_path / "agents.db"), agents=("", "ada", "ben")) as address:
        yield address


@pytest.fixture
def ada(url: str) -> Iterator[RemoteMemory]:
    with lukasa.connect(url, token_for("ada")) as memory:
        yield memory


@pytest.mark.requirement("DOO-8")
def test_every_method_has_the_name_the_parameters_and_the_text_of_the_library(ada: RemoteMemory) -> None:
    left_out = {name for names in LEFT_OUT.values() for name in names.split()}
    for operation in OVER_HTTP.values():
        function = inspect.unwrap(find_method(operation))
        method: Any = ada
        for name in operation.method.split("."):
            assert name in dir(method)
            method = getattr(method, name)
        assert inspect.getdoc(method) == inspect.getdoc(function)
        expected = dict(inspect.signature(function).parameters)
        del expected["self"]
        for name in set(expected) - set(inspect.signature(method).parameters):
            assert name in left_out, f"{operation.method} misses {name}"
            del expected[name]
        assert dict(inspect.signature(method).parameters) == expected


@pytest.mark.requirement("DOO-8")
def test_arguments_are_checked_before_anything_is_sent() -> None:
    nowhere: Any = lukasa.connect("http://127.0.0.1:9", "t" * 20, retries=0)
    with pytest.raises(InvalidInput, match="text must be str, not int: 3"):
        nowhere.remember(3)
    with pytest.raises(InvalidInput, match=r"Write kinds=\['note'\]"):
        nowhere.recall("x", kinds="note")
    with pytest.raises(TypeError, match="unexpected keyword argument 'author'"):
        nowhere.vault.note("x", author="ben")
    with pytest.raises(TypeError, match="missing a required argument"):
        nowhere.vault.get()
    with pytest.raises(InvalidInput, match="id as a text that is not empty"):
        nowhere.vault.get("")
    with pytest.raises(InvalidInput, match="hidden"):
        list(nowhere.journal.read(Query(hidden=True)))
    with pytest.raises(InvalidInput, match="candidates must be Iterable"):
        nowhere.trust.assign_devils_advocate([object()])
    for missing in ("as_agent", "close_", "hub"):
        with pytest.raises(AttributeError, match="has no attribute"):
            getattr(nowhere, missing)


def test_the_module_of_the_client_is_light() -> None:
    script = "import sys, lukasa; lukasa.connect; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pydantic", "fastapi", "apsw", "numpy", "lukasa.memory", "lukasa.api_calls"} & set(loaded)


@pytest.mark.requirement("DOO-8")
def test_facts_are_remembered_recalled_confirmed_and_forgotten(ada: RemoteMemory) -> None:
    stored = ada.remember("Deploys run on Tuesday.", tags=["ops"], expires_at=datetime(2999, 1, 1, tzinfo=UTC))
    assert_type(stored, Outcome)
    record = stored.unwrap()
    again = ada.remember("Deploys run on Tuesday.")
    assert isinstance(again, Refused)
    assert (again.code, again.details["duplicate_of"]) == ("duplicate", record.id)
    answer = ada.recall("When do deploys run?")
    assert_type(answer, RecallResult)
    assert answer.hits[0].record == record
    assert answer.hits[0].signals
    assert "Deploys run on Tuesday." in lukasa.build_prompt_block(answer, 200).text
    moved = ada.remember("Deploys run on Thursday.")
    assert isinstance(moved, lukasa.Accepted)
    assert moved.details["similar_to"][0]["id"] == record.id
    assert_type(ada.vault.get(record.id), VaultMemory | None)
    assert [(memory.text, memory.author) for memory in ada.vault.history(record.id)] == [(record.text, "ada")]
    assert ada.vault.get("nothing") is None
    assert ada.confirm(record.id)
    assert ada.forget(record.id)
    gone = ada.forget(record.id)
    assert isinstance(gone, Refused)
    assert gone.code == "not_found"


@pytest.mark.requirement("DOO-8")
def test_conversations_sessions_episodes_handoffs_trust_and_forecasts(ada: RemoteMemory, url: str) -> None:
    assert ada.context.append("s1", "user", "The staging server is heron.", speaker="Ada")
    assert [turn.content for turn in ada.context.transcript("s1")] == ["The staging server is heron."]
    assert ada.context.load("s1").session_id == "s1"
    assert ada.context.assemble("s1", 500).text
    assert [found.id for found in ada.context.list()] == ["s1"]

    state = {"metadata": {"agent_id": "ada"}, "configuration": {"confidence_threshold": 0.5}}
    assert ada.sessions.save_checkpoint(state, "run-1")
    restored = ada.sessions.state("run-1")
    assert restored is not None
    assert restored["configuration"]["confidence_threshold"] == 0.5
    assert len(ada.sessions.checkpoints("run-1")) == 1
    assert [found.id for found in ada.sessions.list()] == ["run-1"]

    running = ada.episodes.start("Fix the login page")
    assert not isinstance(running, Refused)
    with running:
        assert running.step("write_file", target="login.py")
    (episode,) = ada.episodes.list()
    assert_type(episode, Episode)
    assert (episode.goal, episode.outcome, episode.actions) == ("Fix the login page", "success", ("write_file",))
    assert ada.before_task("login page").relevant

    sent = ada.handoffs.create("ben", "The login page is half done.").unwrap()
    with lukasa.connect(url, token_for("ben")) as ben:
        (waiting,) = ben.handoffs.inbox()
        assert_type(waiting, Handoff)
        assert (waiting.id, waiting.from_agent) == (sent.id, "ada")
        assert ben.handoffs.accept(sent.id)
        assert ben.trust.file_dissent("The rollout is too fast.")
        assert 0 <= ben.trust.score("ben").trust <= 1

    assert ada.forecasts.predict("Will the release be on time?", 0.7, prediction_id="p-1")
    assert ada.forecasts.resolve("p-1", True)
    assert ada.forecasts.scores().count == 1


@pytest.mark.requirement("DOO-8")
def test_a_write_with_a_key_is_done_once_and_an_expected_version_is_kept(ada: RemoteMemory) -> None:
    first = ada.context.append("s1", "user", "Hello", key="k1")
    again = ada.context.append("s1", "user", "Hello", key="k1")
    assert first.unwrap() == again.unwrap()
    assert isinstance(again, lukasa.Accepted)
    assert again.repeated
    other = ada.context.append("s1", "user", "Goodbye", key="k1")
    assert isinstance(other, Refused)
    assert other.code == "key_reused"

    record = ada.remember("Deploys run on Tuesday.").unwrap()
    assert ada.vault.update(record.id, "Deploys run on Friday.", expected=1)
    late = ada.vault.update(record.id, "Deploys run on Monday.", expected=1)
    assert late == Conflict(record.key, 1, 2)


@pytest.mark.requirement("DOO-8")
def test_records_come_page_by_page_and_lists_whole(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lukasa.api_calls.PAGE_SIZE", 40)
    with lukasa.connect(url, token_for("")) as memory:
        turns = [{"role": "user", "content": f"Turn {number}"} for number in range(130)]
        stored = memory.context.extend("s1", turns).unwrap_all()
        turn_ids = [record.id for record in stored]
        assert [record.id for record in memory.journal.read(Query(kinds=("turn",)))] == turn_ids
        newest = memory.journal.read(Query(kinds=("turn",), newest_first=True, limit=90))
        assert [record.id for record in newest] == turn_ids[:-91:-1]
        assert [turn.id for turn in memory.context.transcript("s1")] == turn_ids


@pytest.mark.requirement("DOO-8")
def test_the_client_works_asynchronously(url: str) -> None:
    async def run() -> str:
        async with lukasa.aio.connect(url, token_for("ada")) as memory:
            await memory.remember("Anna likes tea.")
            episode = await memory.episodes.start("Make tea")
            assert not isinstance(episode, Refused)
            assert await episode.finish()
            assert [found.goal for found in await memory.episodes.list()] == ["Make tea"]
            return (await memory.recall("What does Anna like?")).hits[0].text

    assert asyncio.run(run()) == "Anna likes tea."


@pytest.mark.requirement("DOO-8")
def test_an_agent_writes_only_as_itself_and_a_wrong_token_is_an_error(ada: RemoteMemory, url: str) -> None:
    assert ada.remember("Deploys run on Tuesday.").unwrap().author == "ada"
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

        headers = {"Idempotency-Key": key, "Accept": self.headers["Accept"]}
        answer = self.target.request("POST", self.path, json.loads(body), headers=headers)
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
            stored = memory.remember("Deploys run on Tuesday.")
            assert isinstance(stored, lukasa.Accepted)
            assert stored.repeated
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
