"""Upkeep of the MCP server: deferred after an episode, run when no tool is called, and never waited for."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")
pytest.importorskip("starlette")

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from starlette.testclient import TestClient

import lukasa
from lukasa.interfaces.mcp.http import build_app
from lukasa.interfaces.mcp.server import build_server
from lukasa.interfaces.stores import Caller

pytestmark = pytest.mark.requirement("EXP-3", "DOO-3")
BOTH = {"experience.consolidate", "experience.prune"}
TIMEOUT = 60


def episode(thing: str) -> dict[str, Any]:
    steps = ["read_file", "write_file", "run_test"]
    return {"goal": f"Implement POST /api/{thing} endpoint", "outcome": "success", "steps": steps}


@pytest.fixture(params=["file", "postgresql"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return request.getfixturevalue("url") if request.param == "postgresql" else str(tmp_path / "agents.db")


def converse(location: str, agent: str, *calls: tuple[str, dict[str, Any]], until: Callable[[], object] | None) -> None:
    """Call tools of a server in this process, and wait until something is true."""
    server, stores = build_server(location, Caller(agent), embedder="hash")
    server.upkeep.idle_seconds = 0.05

    async def run() -> None:
        async with Client(server) as client:
            for name, arguments in calls:
                answer = (await client.call_tool(name, arguments)).structured_content
                assert answer is not None
                assert answer["outcome"] == "done"
            end = time.monotonic() + TIMEOUT
            while until is not None and not until():
                assert time.monotonic() < end, "the condition never became true"
                await anyio.sleep(0.02)

    try:
        with server.upkeep:
            anyio.run(run)
    finally:
        stores.close()


def test_episodes_are_consolidated_once_the_server_is_idle(location: str) -> None:
    with lukasa.open(location, embedder="hash") as memory:

        def is_done() -> bool:
            return bool(memory.knowledge.patterns()) and not memory.jobs.list()

        calls = [("record_episode", episode(thing)) for thing in ("todos", "users")]
        converse(location, "", *calls, until=is_done)
        (pattern,) = memory.knowledge.patterns()
        (label,) = [label for label in pattern.record.labels if label.startswith("run=")]
        assert memory.journal.undo(label=label).reverted
        assert memory.knowledge.patterns() == []


def test_an_agent_on_postgresql_leaves_the_jobs_to_a_worker(url: str) -> None:
    with lukasa.open(url, embedder="hash") as memory:
        calls = [("record_episode", episode(thing)) for thing in ("todos", "users")]
        converse(url, "ada", *calls, until=lambda: {job.name for job in memory.jobs.list()} == BOTH)
        assert memory.jobs.run_waiting().done == 2
        assert memory.knowledge.patterns()[0].record.author == "ada"


def test_a_server_process_leaves_the_jobs_of_a_short_session_to_the_next_one(tmp_path: Path) -> None:
    args = ["--store", str(tmp_path / "agents.db"), "--agent", "ada", "mcp"]
    program = str(Path(sys.executable).with_name("lukasa"))

    async def record() -> None:
        async with Client(StdioServerParameters(command=program, args=args, env=dict(os.environ))) as client:
            for thing in ("todos", "users"):
                await client.call_tool("record_episode", episode(thing))

    anyio.run(record)
    with lukasa.open(tmp_path / "agents.db", embedder="hash") as memory:
        assert {job.name for job in memory.jobs.list()} == BOTH
        assert memory.knowledge.patterns() == []
        looked = ("snapshot", dict[str, Any]())
        converse(str(tmp_path / "agents.db"), "ada", looked, until=lambda: not memory.jobs.list())
        assert memory.knowledge.patterns()


def test_a_conversation_without_episodes_defers_nothing(tmp_path: Path) -> None:
    store = tmp_path / "agents.db"
    server, stores = build_server(str(store), Caller("ada"), embedder="hash")
    memory = stores.for_request(None)
    with server.upkeep:
        server.upkeep.note_call()
    assert memory.jobs.list() == []
    stores.close()


@pytest.mark.parametrize("is_on", [True, False])
def test_serving_mcp_over_http_runs_upkeep_unless_it_is_turned_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_on: bool
) -> None:
    if not is_on:
        monkeypatch.setenv("LUKASA_UPKEEP", "off")
    server, stores = build_server(str(tmp_path / "agents.db"), Caller(), embedder="hash")
    memory = stores.for_request(None)
    with TestClient(build_app(server, lambda _: None, ["testserver"])):
        assert memory.episodes.record("Draw the logo")
        server.upkeep.note_episode(memory)
    assert {job.name for job in memory.jobs.list()} == (BOTH if is_on else set())
    stores.close()


def test_tools_of_another_server_defer_nothing_by_themselves(tmp_path: Path) -> None:
    """``lukasa serve`` leaves upkeep to its worker, and does none with ``--no-worker``."""
    server, stores = build_server(str(tmp_path / "agents.db"), Caller(), embedder="hash")

    async def run() -> None:
        async with Client(server) as client:
            await client.call_tool("record_episode", episode("todos"))

    anyio.run(run)
    assert stores.for_request(None).jobs.list() == []
    stores.close()
