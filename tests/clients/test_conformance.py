"""The official conformance suite against our server over HTTP: its generic scenarios, which need no tools of its own."""

import asyncio
import re
import threading

import pytest

pytest.importorskip("mcp")

import uvicorn

from lukasa.interfaces.api_tokens import token_from_environment
from lukasa.interfaces.mcp import http
from lukasa.interfaces.mcp.server import build_server
from lukasa.interfaces.stores import Caller

pytestmark = [pytest.mark.slow, pytest.mark.requirement("DOO-3")]

GENERIC = (
    "server-initialize",
    "ping",
    "tools-list",
    "resources-list",
    "prompts-list",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
)
TOKEN = "a-token-for-the-conformance-suite"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A server whose door is shown a token for the suite, which has none."""
    server, stores = build_server(
        str(tmp_path_factory.mktemp("conformance") / "agents.db"), Caller("ada"), embedder="hash"
    )
    holder = token_from_environment(TOKEN, "ada", None)
    hosts: list[str] = []

    async def with_token(scope, receive, send):
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", f"Bearer {TOKEN}".encode())]}
        door._allowed_hosts = frozenset(hosts)
        await door(scope, receive, send)

    door = http.build_app(server, lambda: [holder], [])
    running = uvicorn.Server(uvicorn.Config(with_token, port=0, log_level="error"))
    thread = threading.Thread(target=lambda: asyncio.run(running.serve()))
    thread.start()
    while not running.started:
        threading.Event().wait(0.02)
    port = running.servers[0].sockets[0].getsockname()[1]
    hosts += http.list_host_names("127.0.0.1", port)
    yield f"http://127.0.0.1:{port}/mcp"
    running.should_exit = True
    thread.join(10)
    stores.close()


@pytest.mark.parametrize("scenario", GENERIC)
def test_a_generic_scenario_of_the_suite_passes(scenario, address, node, run_program):
    program = node("@modelcontextprotocol/conformance", "dist/index.js")
    said = run_program([*program, "server", "--url", address, "--scenario", scenario])
    assert said.returncode == 0, said.stdout + said.stderr
    assert re.search(r"0 failed", said.stdout), said.stdout
