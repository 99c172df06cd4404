"""The MCP transports: standard input and output, and HTTP with tokens. Invalid input and concurrent clients."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import anyio
import httpx2
import psutil
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import lukasa
from support.narrow import present

pytestmark = pytest.mark.requirement("DOO-3")

HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip


def build_call(id, tool, **arguments):
    """Return the request that calls a tool."""
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


class ServerProcess:
    """A server process that reads and writes lines."""

    def __init__(self, program, store):
        command = [program, "--store", str(store), "--agent", "ada", "mcp"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def send(self, *lines):
        """Send messages, given as values or bytes."""
        for line in lines:
            data = line if isinstance(line, bytes) else json.dumps(line).encode()
            present(self.process.stdin).write(data + b"\n")
        present(self.process.stdin).flush()

    def receive(self):
        """Return the next message."""
        return json.loads(present(self.process.stdout).readline())

    def cpu_seconds(self):
        """Return the processor time that the server has used."""
        spent = psutil.Process(self.process.pid).cpu_times()
        return spent.user + spent.system

    def end(self):
        """Close the input and return the exit code."""
        present(self.process.stdin).close()
        code = self.process.wait(20)
        present(self.process.stdout).close()
        return code


@pytest.fixture
def process(lukasa_program, tmp_path):
    """Return a server process on an empty store."""
    server = ServerProcess(lukasa_program, tmp_path / "agents.db")
    yield server
    if server.process.poll() is None:
        server.process.kill()
        server.end()


MALFORMED = [
    (b"garbage", -32700, None),
    (b"\xff\xfe\x00", -32700, None),
    (b"[" * 50_000, -32700, None),
    (
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"recall","arguments":{"query":"\\ud800"}}}',
        -32700,
        7,
    ),
    (b"{}", -32600, None),
    (b"5", -32600, None),
    (b'{"jsonrpc":"1.0","id":8,"method":"ping"}', -32600, 8),
    (b'{"jsonrpc":"2.0","id":9,"method":"nonsense"}', -32601, 9),
    (b'{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":5}}', -32602, 10),
    (b'{"jsonrpc":"2.0","id":11,"method":"tools/call"}', -32602, 11),
    (b'{"jsonrpc":"2.0","id":12,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}', -32602, 12),
    (b'{"jsonrpc":"2.0","id":13,"method":"prompts/get","params":{"name":"none"}}', -32602, 13),
]


def test_serve_answers_malformed_messages_with_little_work_and_goes_on(process):
    process.send(HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert process.receive()["result"]["serverInfo"]["name"] == "lukasa"
    process.send({"jsonrpc": "2.0", "id": 2, "method": "ping"})
    assert process.receive()["id"] == 2  # by now the library of the protocol is loaded
    for line, code, id in MALFORMED:
        before = process.cpu_seconds()
        process.send(line)
        answer = process.receive()
        assert process.cpu_seconds() - before < 1, line[:80]
        assert (answer["error"]["code"], answer["id"]) == (code, id), line[:80]
    process.send(build_call(20, "remember", text="x" * 2_000_000))
    assert process.receive()["result"]["structuredContent"]["code"] == "too_long"
    process.send(build_call(21, "remember", text="The server lives."))
    assert process.receive()["result"]["structuredContent"]["outcome"] == "done"
    assert process.end() == 0


def test_serve_answers_an_invalid_line_before_the_handshake(process):
    process.send(b"not a message", HELLO)
    assert process.receive()["error"]["code"] == -32700
    assert process.receive()["id"] == 1


def test_serve_ignores_discovery_that_is_followed_by_initialize(process):
    probe = {"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {"_meta": {}}}
    process.send(probe, HELLO)
    assert process.receive()["id"] == 1


def test_serve_answers_all_concurrent_calls(process):
    process.send(HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    process.receive()
    process.send(
        *(build_call(id, "context_append", conversation_id="s", content=word) for id, word in enumerate(WORDS, 2))
    )
    answers = [process.receive() for _ in WORDS]
    assert sorted(answer["id"] for answer in answers) == list(range(2, 2 + len(WORDS)))
    assert all(answer["result"]["structuredContent"]["outcome"] == "done" for answer in answers)


def test_serve_reads_messages_in_pieces_and_without_a_last_newline(process):
    data = json.dumps(HELLO).encode() + b"\n" + json.dumps(build_call(2, "snapshot")).encode()
    for piece in (data[:10], data[10:40], data[40:]):
        process.process.stdin.write(piece)
        process.process.stdin.flush()
        time.sleep(0.05)
    process.process.stdin.close()
    answers = [json.loads(line) for line in process.process.stdout]
    assert [answer["id"] for answer in answers] == [1, 2]
    assert process.process.wait(20) == 0
    process.process.stdout.close()


def test_serve_reads_messages_from_a_file(lukasa_program, tmp_path):
    file = tmp_path / "messages"
    file.write_text(json.dumps(HELLO) + "\n" + json.dumps(build_call(2, "snapshot")) + "\n")
    command = [lukasa_program, "--store", str(tmp_path / "agents.db"), "mcp"]
    with file.open("rb") as messages:
        done = subprocess.run(command, stdin=messages, capture_output=True, timeout=60, check=True)
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]


WORDS = ("cellos", "harbours", "granite", "pepper", "lanterns", "orchids", "railways", "violets")


def test_the_sdk_client_calls_a_server_process(start_client):
    async def conversation():
        async with start_client("--agent", "ada") as client:
            await client.call_tool("remember", {"text": "We deploy to Hetzner on Fridays."})
            return (await client.call_tool("recall", {"query": "deploy"})).structured_content

    assert "Hetzner" in anyio.run(conversation)["block"]


# HTTP


@contextlib.contextmanager
def start_http(program, store, *words, **environment):
    """Start a server over HTTP and yield its address, or its error message."""
    command = [program, "--store", str(store), "mcp", "--http", "127.0.0.1:0", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
    try:
        output = present(process.stderr).readline()
        found = re.search(r"http://\S+", output)
        yield found[0] if found else output
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        present(process.stderr).close()


@pytest.fixture
def add_token(lukasa_program, tmp_path):
    """Return a function that adds a token for an agent to the store a.db."""

    def add(agent):
        command = [lukasa_program, "--store", str(tmp_path / "a.db"), "--agent", agent, "token", "add", agent]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    return add


async def converse_over_http(url, token, conversation):
    """Run a conversation with a server over HTTP and return its result."""
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30)
    async with http, Client(streamable_http_client(url, http_client=http)) as client:
        return await conversation(client)


def test_each_token_sees_the_private_memories_of_its_agent_only(lukasa_program, add_token, tmp_path):
    ada, bob = add_token("ada"), add_token("bob")

    async def remember(client):
        return (
            await client.call_tool("remember", {"text": "My plan is the cello.", "private": True})
        ).structured_content

    async def read(client):
        found = (await client.call_tool("recall", {"query": "plan cello"})).structured_content
        return found["hits"], (await client.read_resource("lukasa://snapshot")).contents[0].text

    with start_http(lukasa_program, tmp_path / "a.db") as url:
        assert anyio.run(converse_over_http, url, ada, remember)["scope"] == "ada"
        hits, snapshot = anyio.run(converse_over_http, url, ada, read)
        assert hits
        assert "cello" in snapshot
        assert anyio.run(converse_over_http, url, bob, read) == ([], "")


def test_http_refuses_requests_without_a_valid_token_host_and_origin(lukasa_program, add_token, tmp_path):
    headers = {"Authorization": f"Bearer {add_token('ada')}", "Accept": "application/json, text/event-stream"}
    with start_http(lukasa_program, tmp_path / "a.db") as url:
        root = url.removesuffix("/mcp")

        def status(headers, method="POST", address=url, **body):
            return httpx2.request(method, address, headers=headers, timeout=20, **body).status_code

        for method in ("GET", "POST", "DELETE", "OPTIONS"):
            for address in (url, root + "/", root + "/other"):
                assert status({}, method, address) == 401
        assert status({"Authorization": "Bearer wrong"}, json=HELLO) == 401
        assert status({"Authorization": "Basic " + headers["Authorization"][7:]}, json=HELLO) == 401
        assert status({**headers, "Host": "evil.example"}, json=HELLO) == 421
        assert status({**headers, "Origin": "http://evil.example"}, json=HELLO) == 403
        assert status({**headers, "Origin": "null"}, json=HELLO) == 403
        assert status({**headers, "Origin": root}, json=HELLO) == 200
        assert status(headers, json=HELLO) == 200
        assert status({**headers, "Content-Type": "application/json"}, content=b"{garbage") == 400
        assert status({**headers, "Content-Type": "application/json"}, content=b"x" * 9_000_000) == 413
        command = [lukasa_program, "--store", str(tmp_path / "a.db"), "token", "revoke", "ada"]
        subprocess.run(command, check=True, capture_output=True)
        assert status(headers, json=HELLO) == 401


def test_http_answers_before_it_reads_the_body_of_a_request_without_a_token(lukasa_program, tmp_path):
    with start_http(lukasa_program, tmp_path / "a.db", LUKASA_TOKEN="a-token-of-some-length") as url:
        address = re.search(r"//(.+):(\d+)", url)
        assert address is not None
        host, port = address.groups()
        import socket

        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(f"POST /mcp HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: 1000000\r\n\r\n".encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 401")


def test_a_token_in_the_environment_acts_as_the_agent_of_the_command(lukasa_program, tmp_path):
    async def remember(client):
        return (await client.call_tool("remember", {"text": "Mine alone.", "private": True})).structured_content

    token = "a-token-of-some-length"
    with start_http(lukasa_program, tmp_path / "a.db", LUKASA_TOKEN=token) as url:
        answer = anyio.run(converse_over_http, url, token, remember)
    assert answer["code"] == "invalid_input"  # the owner has no private scope


@pytest.mark.parametrize(
    ("words", "environment", "sentence"),
    [
        ((), {}, "There is no token"),
        ((), {"LUKASA_TOKEN": "short"}, "at least 16"),
        (("--compat", "other"), {}, "not a set of tools"),
    ],
)
def test_http_refuses_to_start_with_unusable_options(lukasa_program, tmp_path, words, environment, sentence):
    with start_http(lukasa_program, tmp_path / "a.db", *words, **environment) as output:
        assert sentence in output


def test_a_session_belongs_to_the_token_that_opened_it(lukasa_program, add_token, tmp_path):
    ada, bob = ({"Authorization": f"Bearer {add_token(agent)}"} for agent in ("ada", "bob"))
    accept = {"Accept": "application/json, text/event-stream"}
    with start_http(lukasa_program, tmp_path / "a.db") as url:
        session = httpx2.post(url, json=HELLO, headers={**ada, **accept}, timeout=20).headers["mcp-session-id"]
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        statuses = [
            httpx2.post(url, json=ping, headers={**who, **accept, "Mcp-Session-Id": session}, timeout=20).status_code
            for who in (ada, bob, ada)
        ]
    assert statuses == [200, 404, 200]


# Concurrent clients


def memory_in_kilobytes(pid):
    """Return the memory that a process uses."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1])


async def make_calls(client, name, calls):
    """Make calls, half of them writes. Return how many were not done."""
    failed = 0
    for index in range(calls):
        if index % 2:
            answer = await client.call_tool("recall", {"query": f"{name} {index - 1}", "k": 3})
        else:
            content = f"Turn {index} of {name}: {WORDS[index % 8]} and {index * 7919}."
            arguments = {"conversation_id": name, "content": content, "key": f"{name}/{index}"}
            answer = await client.call_tool("context_append", arguments)
        failed += answer.structured_content["outcome"] != "done"
    return failed


def run_eight_clients(start_client, store, calls):
    """Run eight clients on one store and check that every write was stored once."""
    failures: list[int] = []

    async def run_client(name):
        async with start_client("--agent", name, store=store) as client:
            failures.append(await make_calls(client, name, calls))

    async def run_all():
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(run_client, f"agent-{number}")

    anyio.run(run_all)
    assert failures == [0] * 8
    with lukasa.open(store) as memory:
        for number in range(8):
            name = f"agent-{number}"
            turns = [turn.content for turn in memory.context.within(name).transcript(name)]
            assert len(turns) == len(set(turns)) == (calls + 1) // 2
        assert memory.verify().sound


def test_eight_clients_on_one_store_lose_no_write(start_client, tmp_path):
    run_eight_clients(start_client, tmp_path / "many.db", 10)


@pytest.mark.slow
def test_eight_clients_with_a_thousand_calls_each_lose_no_write(start_client, tmp_path):
    run_eight_clients(start_client, tmp_path / "many.db", 1_000)


@pytest.mark.slow
def test_a_server_with_eight_clients_does_not_grow(lukasa_program, tmp_path):
    """The same calls are repeated, so the store does not grow after the first round."""
    token = "a-token-of-some-length"
    command = [lukasa_program, "--store", str(tmp_path / "a.db"), "--agent", "ada", "mcp", "--http", "127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "LUKASA_TOKEN": token})
    found = re.search(r"http://\S+", present(process.stderr).readline())
    assert found is not None
    url = found[0]

    async def run_round(calls, failures):
        async with anyio.create_task_group() as group:
            for number in range(8):

                async def run_client(name=f"client-{number}"):
                    failures.append(
                        await converse_over_http(url, token, lambda client: make_calls(client, name, calls))
                    )

                group.start_soon(run_client)

    try:
        sizes: list[int] = []
        failures: list[int] = []
        for _ in range(5):
            anyio.run(run_round, 60, failures)
            sizes.append(memory_in_kilobytes(process.pid))
        assert failures == [0] * 5 * 8
        assert sizes[-1] < 1.1 * sizes[1], sizes
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        present(process.stderr).close()
