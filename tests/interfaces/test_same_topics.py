"""A second fact about the same topic replaces the first, through every interface and in bulk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from mcp import Client
from typer.testing import CliRunner

import lukasa
from lukasa.api_connection import ApiConnection
from lukasa.interfaces.cli.app import app
from lukasa.interfaces.mcp.server import build_server
from lukasa.interfaces.stores import Caller
from support.api_server import run_api_server, token_for

FACTS = ("We deploy on Tuesdays.", "We deploy on Wednesdays.")


def remember_in_python(store: str) -> None:
    with lukasa.open(store, embedder="hash") as memory:
        for fact in FACTS:
            assert memory.remember(fact, topic="deploy day")


def add_in_python(store: str) -> None:
    with lukasa.open(store, embedder="hash") as memory:
        for fact in FACTS:
            assert memory.vault.judge({"text": fact, "topic_id": "deploy day"}) is None
            assert memory.vault.add_memory(fact, topic_id="deploy day")


def add_in_bulk(store: str) -> None:
    with lukasa.open(store, embedder="hash") as memory:
        assert all(memory.vault.bulk_add([{"text": fact, "topic_id": "deploy day"} for fact in FACTS]))


def remember_in_the_shell(store: str) -> None:
    for fact in FACTS:
        command = ["--store", store, "remember", fact, "--topic", "deploy day"]
        assert CliRunner().invoke(app, command, env={"LUKASA_EMBEDDER": "hash"}).exit_code == 0


def remember_over_http(store: str) -> None:
    with run_api_server(store, agents=("",)) as url:
        for fact in FACTS:
            ApiConnection(url, token_for("")).request("POST", "/v1/memories", {"text": fact, "topic": "deploy day"})


def remember_in_bulk_over_http(store: str) -> None:
    with run_api_server(store, agents=("",)) as url:
        items = [{"text": fact, "topic_id": "deploy day"} for fact in FACTS]
        ApiConnection(url, token_for("")).request("POST", "/v1/memories/bulk", {"items": items})


def remember_over_mcp(store: str) -> None:
    async def converse() -> None:
        server, stores = build_server(store, Caller(""), embedder="hash")
        try:
            async with Client(server) as client:
                for fact in FACTS:
                    await client.call_tool("remember", {"text": fact, "topic": "deploy day"})
        finally:
            stores.close()

    anyio.run(converse)


DOORS = (
    remember_in_python, add_in_python, add_in_bulk, remember_in_the_shell, remember_over_http,
    remember_in_bulk_over_http, remember_over_mcp,
)  # fmt: skip


@pytest.mark.requirement("VLT-5")
@pytest.mark.parametrize("remember", DOORS)
def test_a_second_fact_about_a_topic_replaces_the_first(remember: Callable[[str], None], tmp_path: Path) -> None:
    store = str(tmp_path / "agents.db")
    remember(store)
    with lukasa.open(store, embedder="hash") as memory:
        (found,) = memory.vault.list()
    assert (found.text, found.tier, found.topic_id, found.version) == (FACTS[1], "register", "deploy day", 2)


@pytest.mark.requirement("VLT-5")
def test_canon_that_is_asked_for_keeps_its_topic_as_a_label() -> None:
    with lukasa.open("memory:", embedder="hash") as memory:
        for fact in FACTS:
            assert memory.vault.add_memory(fact, tier="canon", topic_id="deploy day")
        assert [found.tier for found in memory.vault.list(topic_id="deploy day")] == ["canon", "canon"]
