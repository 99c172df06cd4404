"""One scenario through every interface: library, command line, MCP, HTTP and the Python client give the same outcomes."""

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
from support.api_server import run_api_server, token_for

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
