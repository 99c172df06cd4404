"""The generic scenarios of the official conformance suite, against our server over HTTP."""

import asyncio
import re
import socket
import threading

import pytest

pytest.importorskip("mcp")

import uvicorn

from lukasa.interfaces.api_tokens import token_from_environment
from lukasa.interfaces.auth import SingleToken
from lukasa.interfaces.http_server import list_host_names
from lukasa.interfaces.mcp.http import build_app
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
    """Return the address of a server that adds a token to each request, because the suite sends none."""
    server, stores = build_server(
        str(tmp_path_factory.mktemp("conformance") / "agents.db"), Caller("ada"), embedder="hash"
    )
    token = token_from_environment(TOKEN, "ada", None)
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    app = build_app(server, SingleToken(token), list_host_names("127.0.0.1", port))

    async def with_token(scope, receive, send):
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", f"Bearer {TOKEN}".encode())]}
        await app(scope, receive, send)

    running = uvicorn.Server(uvicorn.Config(with_token, port=port, log_level="error"))
    thread = threading.Thread(target=lambda: asyncio.run(running.serve()))
    thread.start()
    while not running.started:
        threading.Event().wait(0.02)
    yield f"http://127.0.0.1:{port}/mcp"
    running.should_exit = True
    thread.join(10)
    stores.close()


@pytest.mark.parametrize("scenario", GENERIC)
def test_the_server_passes_a_generic_scenario(scenario, address, node, run_program):
    program = node("@modelcontextprotocol/conformance", "dist/index.js")
    done = run_program([*program, "server", "--url", address, "--scenario", scenario])
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"0 failed", done.stdout), done.stdout
