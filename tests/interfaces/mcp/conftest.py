"""What the tests of the MCP door share: servers in this process, clients of the SDK, a store each."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest
from anyio.from_thread import start_blocking_portal

pytest.importorskip("mcp")

from mcp import Client
from mcp.client.stdio import StdioServerParameters

from lukasa.interfaces.mcp.server import build_server
from lukasa.interfaces.stores import Caller

LUKASA = str(Path(sys.executable).with_name("lukasa"))


class Served:
    """A server in this process and a client that calls it. Each call is a whole conversation."""

    def __init__(self, store: Path | str, agent: str = "ada", **options) -> None:
        self.store = str(store)
        self.options = {"embedder": "hash", **options}
        self.agent = agent

    def talk(self, conversation, *, mode: str = "auto"):
        """Runs a conversation with the server; what it returns."""

        async def run():
            server, stores = build_server(self.store, Caller(self.agent), **self.options)
            try:
                async with Client(server, mode=mode) as client:
                    return await conversation(client)
            finally:
                stores.close()

        return anyio.run(run)

    def call(self, tool, **arguments):
        """The structured answer of one call."""

        async def one(client):
            return await client.call_tool(tool, arguments)

        return self.talk(one).structured_content


@pytest.fixture
def served(tmp_path):
    return Served(tmp_path / "agents.db")


@pytest.fixture
def serving(tmp_path):
    """Makes servers on the same store for other agents."""
    return lambda agent, **options: Served(tmp_path / "agents.db", agent, **options)


@pytest.fixture
def spawned(tmp_path):
    """A client of a real server process on a store of its own."""

    def spawn(*words, store=tmp_path / "agents.db", **options):
        args = ["--store", str(store), *words, "mcp"]
        return Client(StdioServerParameters(command=LUKASA, args=args), **options)

    return spawn


@pytest.fixture(scope="module")
def steady(tmp_path_factory):
    """One server for many calls."""
    place = tmp_path_factory.mktemp("steady") / "agents.db"
    server, stores = build_server(str(place), Caller("ada"), embedder="hash")
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(server)) as client:
        yield lambda tool, arguments: portal.call(client.call_tool, tool, arguments).structured_content
    stores.close()


@pytest.fixture
def lukasa_program():
    return LUKASA
