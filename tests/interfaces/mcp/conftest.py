"""Fixtures of the MCP tests: servers in this process, clients of the SDK, and real server processes."""

from __future__ import annotations

import os
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


class LocalServer:
    """A server in this process. Every call starts a new conversation with it."""

    def __init__(self, store: Path | str, agent: str = "ada", **options) -> None:
        self.store = str(store)
        self.options = {"embedder": "hash", **options}
        self.agent = agent

    def converse(self, conversation, *, mode: str = "auto"):
        """Run a conversation with a client of the server and return its result."""

        async def run():
            server, stores = build_server(self.store, Caller(self.agent), **self.options)
            try:
                async with Client(server, mode=mode) as client:
                    return await conversation(client)
            finally:
                stores.close()

        return anyio.run(run)

    def call(self, tool, **arguments):
        """Call a tool and return its structured answer."""
        return self.converse(lambda client: client.call_tool(tool, arguments)).structured_content


@pytest.fixture
def server(tmp_path):
    """Return a server for the agent ada."""
    return LocalServer(tmp_path / "agents.db")


@pytest.fixture
def server_for(tmp_path):
    """Return a function that makes a server on the same store for an agent."""
    return lambda agent, **options: LocalServer(tmp_path / "agents.db", agent, **options)


@pytest.fixture
def start_client(tmp_path):
    """Return a function that makes a client of a server process."""

    def start(*words, store=tmp_path / "agents.db", **options):
        args = ["--store", str(store), *words, "mcp"]
        return Client(StdioServerParameters(command=LUKASA, args=args, env=dict(os.environ)), **options)

    return start


@pytest.fixture(scope="module")
def call_tool(tmp_path_factory):
    """Return a function that calls tools of one server in one conversation."""
    store = tmp_path_factory.mktemp("server") / "agents.db"
    server, stores = build_server(str(store), Caller("ada"), embedder="hash")
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(server)) as client:
        yield lambda tool, arguments: portal.call(client.call_tool, tool, arguments).structured_content
    stores.close()


@pytest.fixture
def lukasa_program():
    """Return the path of the installed program."""
    return LUKASA
