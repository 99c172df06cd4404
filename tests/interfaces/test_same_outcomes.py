"""The same outcomes: of one scenario through every interface, and of every operation in the library and the Python client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import anyio
import pytest
from mcp import Client
from typer.testing import CliRunner

import lukasa
from lukasa.api_connection import ApiConnection, ApiProblem
from lukasa.interfaces.cli.app import app
from lukasa.interfaces.mcp.server import build_server
from lukasa.interfaces.stores import Caller
from lukasa.jobs import REGISTRY, Task
from lukasa.methods import find_method, read_type
from lukasa.operations import OVER_HTTP, Operation
from lukasa.value_json import read_value, write_value
from support.api_server import run_api_server, token_for
from support.postgres import PostgresServer
from support.remote_calls import TwoStores, comparable, list_classes, open_two_stores

DEPLOY, MOVED = "We deploy on Tuesdays after the smoke tests.", "We deploy on Thursdays after the smoke tests."
Answer = tuple[Any, ...]


class Interface(Protocol):
    """The calls of the scenario. Each returns what happened in words that all interfaces share."""

    def remember(self, text: str, **fields: Any) -> Answer: ...
    def recall(self, question: str) -> Answer: ...
    def forget(self, id: str) -> Answer: ...
    def say(self, content: str) -> Answer: ...


class LibraryDoor:
    def __init__(self, memory: Any) -> None:
        self.memory = memory

    def remember(self, text: str, **fields: Any) -> Answer:
        return self._answer(self.memory.remember(text, **fields))

    def recall(self, question: str) -> Answer:
        return tuple(hit.record.id for hit in self.memory.recall(question, 3).hits)

    def forget(self, id: str) -> Answer:
        return self._answer(self.memory.forget(id))

    def say(self, content: str) -> Answer:
        return self._answer(self.memory.context.append("s1", "user", content))[:1]

    @staticmethod
    def _answer(outcome: Any) -> Answer:
        return ("done", outcome.record.id, outcome.record.version) if outcome else ("refused", outcome.code)


class CommandLineDoor:
    def __init__(self, store: str) -> None:
        self._store = store

    def _run(self, *words: str) -> Any:
        command = ["--store", self._store, "--agent", "ada", "--json", *words]
        run = CliRunner().invoke(app, command, env={"LUKASA_EMBEDDER": "hash"})
        return json.loads(run.stdout)

    def remember(self, text: str, **fields: Any) -> Answer:
        options = [word for name, value in fields.items() for word in (f"--{name.replace('_', '-')}", value)]
        return self._answer(self._run("remember", text, *options))

    def recall(self, question: str) -> Answer:
        return tuple(hit["record"]["id"] for hit in self._run("recall", question, "-k", "3")["hits"])

    def forget(self, id: str) -> Answer:
        found = self._run("forget", id)
        return self._answer(found[0] if isinstance(found, list) else found)

    def say(self, content: str) -> Answer:
        return self._answer(self._run("context", "append", "s1", "user", content))[:1]

    @staticmethod
    def _answer(found: Any) -> Answer:
        if "error" in found:
            return ("refused", found["error"]["code"])
        return ("done", found["id"], found.get("version", 1))


class McpDoor:
    def __init__(self, store: str) -> None:
        self._store = store

    def _call(self, tool: str, **arguments: Any) -> Any:
        async def converse() -> Any:
            server, stores = build_server(self._store, Caller("ada"), embedder="hash")
            try:
                async with Client(server) as client:
                    return (await client.call_tool(tool, arguments)).structured_content
            finally:
                stores.close()

        return anyio.run(converse)

    def remember(self, text: str, **fields: Any) -> Answer:
        if "distinct_from" in fields:
            fields["distinct_from"] = [fields["distinct_from"]]
        return self._answer(self._call("remember", text=text, **fields))

    def recall(self, question: str) -> Answer:
        return tuple(hit["id"] for hit in self._call("recall", query=question, k=3)["hits"])

    def forget(self, id: str) -> Answer:
        return self._answer(self._call("forget", id=id))

    def say(self, content: str) -> Answer:
        return self._answer(self._call("context_append", conversation_id="s1", content=content))[:1]

    @staticmethod
    def _answer(found: Any) -> Answer:
        return ("done", found["id"], found["version"]) if found["outcome"] == "done" else ("refused", found["code"])


class HttpDoor:
    def __init__(self, url: str) -> None:
        self._connection = ApiConnection(url, token_for("ada"))

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        return self._connection.request(method, path, body).content

    def _answer(self, method: str, path: str, body: Any = None) -> Answer:
        try:
            found = self._call(method, path, body)
        except ApiProblem as problem:
            return ("refused", problem.code)
        return ("done", found["id"], found["version"])

    def remember(self, text: str, **fields: Any) -> Answer:
        if "distinct_from" in fields:
            fields["distinct_from"] = [fields["distinct_from"]]
        return self._answer("POST", "/v1/memories", {"text": text, **fields})

    def recall(self, question: str) -> Answer:
        return tuple(
            hit["record"]["id"] for hit in self._call("POST", "/v1/recall", {"query": question, "k": 3})["hits"]
        )

    def forget(self, id: str) -> Answer:
        return self._answer("DELETE", f"/v1/memories/{id}")

    def say(self, content: str) -> Answer:
        return self._answer("POST", "/v1/conversations/s1/turns", {"role": "user", "content": content})[:1]


@contextmanager
def open_door(name: str, store: str) -> Iterator[Interface]:
    with ExitStack() as stack:
        if name == "library":
            yield LibraryDoor(stack.enter_context(lukasa.open(store, agent="ada", embedder="hash")))
        elif name == "command line":
            yield CommandLineDoor(store)
        elif name == "MCP":
            yield McpDoor(store)
        else:
            url = stack.enter_context(run_api_server(store, agents=("", "ada")))
            yield HttpDoor(url) if name == "HTTP" else LibraryDoor(lukasa.connect(url, token_for("ada")))


def run_scenario(door: Interface) -> list[Answer]:
    """Remember, repeat, contradict, leak a secret, ask, forget, and talk; ids are replaced by their order."""
    answers: list[Answer] = []

    def note(answer: Answer) -> Answer:
        answers.append(answer)
        return answer

    first = note(door.remember(DEPLOY))[1]
    note(door.remember(DEPLOY))
    note(door.remember(MOVED))
    note(door.remember("The AWS key is AKIAQ3EGRT7ZKLM2WX5P for the backup account."))
    note(door.remember("Heartbeat at 12:00"))
    note(door.recall("When do we deploy?"))
    note(door.forget(first)[:2])
    note(door.forget(first)[:2])
    note(door.forget("nothing")[:2])
    note(door.recall("When do we deploy?"))
    note(door.say("The staging server is called heron."))
    note(("found", len(door.recall("What is the staging server called?"))))
    names: dict[str, str] = {}
    known = [answer for answer in answers if answer and answer[0] == "done" and len(answer) > 1]
    for answer in known:
        names.setdefault(str(answer[1]), f"#{len(names) + 1}")
    return [tuple(names.get(str(part), part) for part in answer) for answer in answers]


DOORS = ("library", "command line", "MCP", "HTTP", "client")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[Answer]:
    with open_door("library", str(tmp_path_factory.mktemp("library") / "agents.db")) as door:
        return run_scenario(door)


@pytest.mark.requirement("DOO-7")
def test_the_scenario_covers_every_kind_of_outcome(expected: list[Answer]) -> None:
    assert [answer[:2] for answer in expected[:5]] == [
        ("done", "#1"),
        ("refused", "duplicate"),
        ("done", "#2"),
        ("refused", "pii"),
        ("refused", "noise"),
    ]
    assert sorted(expected[5]) == ["#1", "#2"]
    assert [answer[0] for answer in expected[6:9]] == ["done", "refused", "refused"]


@pytest.mark.requirement("DOO-7")
@pytest.mark.parametrize("name", DOORS[1:])
def test_every_interface_gives_the_same_outcomes(name: str, tmp_path: Path, expected: list[Answer]) -> None:
    with open_door(name, str(tmp_path / "agents.db")) as door:
        assert run_scenario(door) == expected


SERVICES = sorted({method.rpartition(".")[0] for method in OVER_HTTP})


@pytest.fixture
def tidy_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Declare the task that examples defer."""
    monkeypatch.setenv("LUKASA_EMBEDDER", "hash")
    monkeypatch.setitem(REGISTRY, "tidy", Task("tidy", lambda memory: None))


@pytest.mark.requirement("DOO-7", "DOO-8")
@pytest.mark.usefixtures("tidy_task")
@pytest.mark.parametrize("service", SERVICES)
def test_every_operation_answers_through_the_client_as_in_the_library(service: str, tmp_path: Path) -> None:
    faults: list[str] = []
    for number, operation in enumerate(list_operations(service)):
        with open_two_stores(str(tmp_path / f"{number}.db"), str(tmp_path / f"{number}-served.db")) as stores:
            faults += list_differences(operation, stores)
    assert faults == []


@pytest.mark.requirement("DOO-7", "DOO-8")
@pytest.mark.usefixtures("tidy_task")
@pytest.mark.parametrize("service", SERVICES)
def test_operations_answer_through_the_client_on_postgresql(service: str, server: PostgresServer) -> None:
    faults: list[str] = []
    for operation in list_operations(service)[:2]:
        with ExitStack() as stack:
            places = (stack.enter_context(server.database()) for _ in range(2))
            faults += list_differences(operation, stack.enter_context(open_two_stores(*places)))
    assert faults == []


def list_operations(service: str) -> list[Operation]:
    return [operation for method, operation in OVER_HTTP.items() if method.rpartition(".")[0] == service]


def list_differences(operation: Operation, stores: TwoStores) -> Iterator[str]:
    """Run the example of an operation in the library and through the client, and yield what differs."""
    try:
        direct, remote = stores.call_both(operation)
    except Exception as error:  # noqa: BLE001 - whatever an example raises is its fault
        yield f"{operation.method}: {error!r}"
        return
    if not direct:
        yield f"{operation.method}: its example does not call it"
    if comparable(direct) != comparable(remote):
        yield f"{operation.method}: {comparable(direct)} is not {comparable(remote)}"
    if list_classes(direct) != list_classes(remote):
        yield f"{operation.method}: {list_classes(direct)} is not {list_classes(remote)}"
    method = find_method(operation)
    returned = read_type(method.__annotations__["return"], method)
    for answer in direct if "RunningEpisode" not in str(returned) else ():
        if write_value(read_value(returned, write_value(answer))) != write_value(answer):
            yield f"{operation.method}: {returned} is lost in JSON"
