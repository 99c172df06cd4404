"""The filters of recall give the same hits through library, command line, MCP, HTTP and the Python client."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest
from mcp import Client
from typer.testing import CliRunner

import lukasa
from lukasa.api_connection import ApiConnection, ApiProblem
from lukasa.core.record import Draft
from lukasa.errors import InvalidInput
from lukasa.interfaces.cli.app import app
from lukasa.interfaces.mcp.server import build_server
from lukasa.interfaces.stores import Caller
from support.api_server import run_api_server, token_for

QUESTION = "pump ticket"
TICKETS = {
    "t1": ("ada", "s1", ("tag=red", "tag=urgent"), {"status": "open", "price": 10, "owner": {"team": "blue"}}),
    "t2": ("ben", "s2", ("tag=red",), {"status": "closed", "price": 20, "parts": ["bolt", "nut"]}),
    "t3": ("eve", "s3", ("tag=green",), {"status": "open", "price": 30.5, "done": True}),
}
FILTERS: list[tuple[dict[str, Any], str]] = [
    ({}, "t1 t2 t3"),
    ({"kinds": ["ticket"]}, "t1 t2 t3"),
    ({"kinds": ["memory"]}, ""),
    ({"author": "ada"}, "t1"),
    ({"author": ["ada", "eve"]}, "t1 t3"),
    ({"conversation": "s2"}, "t2"),
    ({"conversation": ["s2", "s3"]}, "t2 t3"),
    ({"labels": ["tag=red"]}, "t1 t2"),
    ({"labels": ["tag=red", "tag=urgent"]}, "t1"),
    ({"any_labels": ["tag=urgent", "tag=green"]}, "t1 t3"),
    ({"exclude": ["tag=red"]}, "t3"),
    ({"exclude": ["session=s1", "session=s3"]}, "t2"),
    ({"where": {"status": "open"}}, "t1 t3"),
    ({"where": {"status": {"ne": "open"}}}, "t2"),
    ({"where": {"price": {"gte": 10, "lt": 30}}}, "t1 t2"),
    ({"where": {"price": {"gt": 20}}}, "t3"),
    ({"where": {"price": {"lte": 20}, "status": "open"}}, "t1"),
    ({"where": {"owner.team": "blue"}}, "t1"),
    ({"where": {"parts": "nut"}}, "t2"),
    ({"where": {"done": True}}, "t3"),
    ({"where": {"done": 1}}, ""),
    ({"where": {"nothing": None}}, ""),
    ({"since": datetime(2026, 1, 2, tzinfo=UTC)}, "t2 t3"),
    ({"until": datetime(2026, 1, 2, tzinfo=UTC)}, "t1 t2"),
    ({"author": ["ada", "ben"], "any_labels": ["tag=red"], "where": {"status": "open"}}, "t1"),
    ({"conversation": ["s1", "s2"], "exclude": ["tag=urgent"]}, "t2"),
]
REFUSED: list[dict[str, Any]] = [
    *({name: "ticket"} for name in ("kinds", "labels", "any_labels", "exclude")),
    {"where": {"price": {"above": 3}}},
]
DOORS = ("library", "command line", "MCP", "HTTP", "client")
_SIGNS = {"eq": "=", "ne": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_OPTIONS = {"kinds": "--kind", "labels": "--label", "any_labels": "--any-label"}
Answer = list[str] | str
"""The ids of the hits in order, or ``refused``."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    location = str(tmp_path_factory.mktemp("filters") / "agents.db")
    with lukasa.open(location, embedder="hash") as memory:
        memory.journal.append(
            Draft(
                "ticket", f"The pump ticket {id}", id=id, author=author, labels=(f"session={session}", *labels), body=body,
                happened_at=datetime(2026, 1, day, tzinfo=UTC),
            )
            for day, (id, (author, session, labels, body)) in enumerate(TICKETS.items(), 1)
        )  # fmt: skip
        memory.recall.index.catch_up()
    return location


@contextmanager
def open_door(name: str, store: str) -> Iterator[Callable[[dict[str, Any]], Answer]]:
    with ExitStack() as stack:
        if name == "library":
            memory = stack.enter_context(lukasa.open(store, embedder="hash"))
            yield lambda filters: [record.id for record in memory.recall(QUESTION, **filters).records]
        elif name == "command line":
            yield lambda filters: _ask_command_line(store, filters)
        elif name == "MCP":
            server, stores = build_server(store, Caller(), embedder="hash")
            stack.callback(stores.close)
            yield lambda filters: anyio.run(_ask_mcp, server, filters)
        else:
            url = stack.enter_context(run_api_server(store, agents=("",)))
            if name == "HTTP":
                connection = ApiConnection(url, token_for(""))
                stack.callback(connection.close)
                yield lambda filters: _ask_http(connection, filters)
            else:
                client = stack.enter_context(lukasa.connect(url, token_for("")))
                yield lambda filters: [hit.record.id for hit in client.recall(QUESTION, **filters).hits]


def _write_times(filters: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in filters.items()}


def _ask_command_line(store: str, filters: dict[str, Any]) -> Answer:
    words: list[str] = []
    for name, value in _write_times(filters).items():
        option = _OPTIONS.get(name, f"--{name}")
        if name != "where":
            words += [word for item in ([value] if isinstance(value, str) else value) for word in (option, item)]
            continue
        for field, wanted in value.items():
            conditions = wanted if isinstance(wanted, dict) else {"eq": wanted}
            for sign, limit in conditions.items():
                text = limit if isinstance(limit, str) else json.dumps(limit)
                words += [option, f"{field}{_SIGNS.get(sign, sign)}{text}"]
    command = ["--store", store, "--json", "recall", QUESTION, *words]
    run = CliRunner().invoke(app, command, env={"LUKASA_EMBEDDER": "hash"})
    return "refused" if run.exit_code else [hit["record"]["id"] for hit in json.loads(run.stdout)["hits"]]


async def _ask_mcp(server: Any, filters: dict[str, Any]) -> Answer:
    async with Client(server) as client:
        answer = await client.call_tool("recall", {"query": QUESTION, **_write_times(filters)})
    return "refused" if answer.is_error else [hit["id"] for hit in answer.structured_content["hits"]]


def _ask_http(connection: ApiConnection, filters: dict[str, Any]) -> Answer:
    found = connection.request("POST", "/v1/recall", {"query": QUESTION, **_write_times(filters)}).content
    return [hit["record"]["id"] for hit in found["hits"]]


@pytest.mark.requirement("RCL-9", "DOO-7")
@pytest.mark.parametrize("door", DOORS)
def test_a_filter_keeps_the_same_hits(door: str, store: str) -> None:
    with open_door(door, store) as ask:
        found = {str(filters): ask(filters) for filters, _ in FILTERS}
    assert {text: " ".join(sorted(ids)) for text, ids in found.items()} == {
        str(filters): ids for filters, ids in FILTERS
    }
    with open_door("library", store) as ask:
        assert found == {str(filters): ask(filters) for filters, _ in FILTERS}


@pytest.mark.requirement("RCL-9", "DOO-7")
@pytest.mark.parametrize("door", DOORS)
def test_a_wrong_filter_is_refused(door: str, store: str) -> None:
    with open_door(door, store) as ask:
        for filters in REFUSED:
            if door == "command line" and "where" not in filters:
                continue  # a repeatable option is always a list
            try:
                answer = ask(filters)
            except (InvalidInput, ApiProblem):
                answer = "refused"
            assert str(answer).startswith("refused"), filters
