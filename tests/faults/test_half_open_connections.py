"""Servers with few descriptors under more half-open connections than they have, all without a token."""

import http.client
import json
import os
import resource
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress

import pytest

pytest.importorskip("fastapi")

TOKEN = "the-token-of-an-agent-in-this-test"
DESCRIPTORS = 256
ATTEMPTS = 1_200
HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}  # fmt: skip
REQUESTS = {"serve": ("GET", "/v1/stats", None), "mcp": ("POST", "/mcp", json.dumps(HELLO))}
HALF_OPEN = {
    "nothing": b"",
    "a part of the headers": b"POST /v1/memories HTTP/1.1\r\nHost: 127",
    "a part of a body": b"POST /login HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{",
}


@pytest.fixture
def many_files():
    """Let this process, the attacker, open enough sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < ATTEMPTS + 300:
        pytest.skip("this machine does not allow enough sockets")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, ATTEMPTS + 300), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def ask(command, port):
    """Return the status of an authorised request, and how long it took."""
    method, path, body = REQUESTS[command]
    headers = {
        "Authorization": f"Bearer {TOKEN}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    connection, began = http.client.HTTPConnection("127.0.0.1", port, timeout=60), time.monotonic()
    try:
        connection.request(method, path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()
        sys.stdout.write(f"{command} answered after {time.monotonic() - began:.2f} s\n")


@pytest.mark.requirement("DOO-3", "DOO-4")
@pytest.mark.parametrize(
    ("command", "sent"), [("serve", "a part of the headers"), ("serve", "a part of a body"), ("mcp", "nothing")]
)
def test_a_server_with_few_descriptors_answers_under_half_open_connections(many_files, tmp_path, command, sent):
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    address = f"127.0.0.1:{port}"
    words = ["serve", "--port", str(port)] if command == "serve" else ["mcp", "--http", address]
    environment = os.environ | {"LUKASA_TOKEN": TOKEN, "LUKASA_EMBEDDER": "hash"}
    log = tmp_path / "server.log"
    with log.open("wb") as output, ExitStack() as stack:
        server = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "lukasa.interfaces.cli", "--store", tmp_path / "memory.db", *words],
                stdout=output,
                stderr=output,
                env=environment,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS)),
            )
        )
        stack.callback(server.kill)
        deadline = time.monotonic() + 120
        while b"Serving" not in log.read_bytes():
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        for number in range(1, ATTEMPTS + 1):
            half_open = stack.enter_context(socket.socket())
            half_open.settimeout(10)
            with suppress(OSError):  # the server makes room for newer ones
                half_open.connect(("127.0.0.1", port))
                half_open.sendall(HALF_OPEN[sent].replace(b"%b", address.encode()))
            if number % 400 == 0:
                assert ask(command, port) == 200
        assert ask(command, port) == 200
        assert server.poll() is None
        server.terminate()
        assert server.wait(30) == 0, log.read_text()
    assert "Too many open files" not in log.read_text()
