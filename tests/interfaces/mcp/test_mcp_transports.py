"""The ways in: a process spoken to line by line, and HTTP with a door. What comes in damaged, and many at once."""

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
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import lukasa

pytestmark = pytest.mark.requirement("DOO-3")

HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip


def call(id, tool, **arguments):
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


class Process:
    """A server that is spoken to in bytes."""

    def __init__(self, program, store):
        words = [program, "--store", str(store), "--agent", "ada", "mcp"]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def say(self, *lines):
        for line in lines:
            data = line if isinstance(line, bytes) else json.dumps(line).encode()
            self.process.stdin.write(data + b"\n")
        self.process.stdin.flush()

    def hear(self):
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        code = self.process.wait(20)
        self.process.stdout.close()
        return code


@pytest.fixture
def process(lukasa_program, tmp_path):
    made = Process(lukasa_program, tmp_path / "agents.db")
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.end()


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


def test_whatever_is_malformed_gets_a_typed_error_within_a_second_and_the_server_lives(process):
    process.say(HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert process.hear()["result"]["serverInfo"]["name"] == "lukasa"
    for line, code, id in MALFORMED:
        began = time.monotonic()
        process.say(line)
        told = process.hear()
        assert time.monotonic() - began < 1, line[:80]
        assert (told["error"]["code"], told["id"]) == (code, id), line[:80]
    process.say(call(20, "remember", text="x" * 2_000_000))
    assert process.hear()["result"]["structuredContent"]["code"] == "too_long"
    process.say(call(21, "remember", text="The server lives."))
    assert process.hear()["result"]["structuredContent"]["outcome"] == "done"
    assert process.end() == 0


def test_garbage_before_the_first_word_is_told_too(process):
    process.say(b"not a message", HELLO)
    assert process.hear()["error"]["code"] == -32700
    assert process.hear()["id"] == 1


def test_a_question_that_its_client_gave_up_on_does_not_bind_the_conversation(process):
    probe = {"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {"_meta": {}}}
    process.say(probe, HELLO)
    assert process.hear()["id"] == 1


def test_calls_that_come_together_are_all_answered(process):
    process.say(HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    process.hear()
    process.say(*(call(id, "context_append", session="s", content=word) for id, word in enumerate(WORDS, 2)))
    told = [process.hear() for _ in WORDS]
    assert sorted(each["id"] for each in told) == list(range(2, 2 + len(WORDS)))
    assert all(each["result"]["structuredContent"]["outcome"] == "done" for each in told)


def test_messages_come_in_pieces_several_at_once_and_without_a_last_line_end(process):
    data = json.dumps(HELLO).encode() + b"\n" + json.dumps(call(2, "snapshot")).encode()
    for piece in (data[:10], data[10:40], data[40:]):
        process.process.stdin.write(piece)
        process.process.stdin.flush()
        time.sleep(0.05)
    process.process.stdin.close()
    told = [json.loads(line) for line in process.process.stdout]
    assert [each["id"] for each in told] == [1, 2]
    assert process.process.wait(20) == 0
    process.process.stdout.close()


def test_messages_may_stand_in_a_file(lukasa_program, tmp_path):
    file = tmp_path / "messages"
    file.write_text(json.dumps(HELLO) + "\n" + json.dumps(call(2, "snapshot")) + "\n")
    words = [lukasa_program, "--store", str(tmp_path / "agents.db"), "mcp"]
    with file.open("rb") as messages:
        done = subprocess.run(words, stdin=messages, capture_output=True, timeout=60, check=True)
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]


WORDS = ("cellos", "harbours", "granite", "pepper", "lanterns", "orchids", "railways", "violets")


def test_the_sdk_client_uses_a_real_process(spawned):
    async def conversation():
        async with spawned("--agent", "ada") as client:
            await client.call_tool("remember", {"text": "We deploy to Hetzner on Fridays."})
            return (await client.call_tool("recall", {"query": "deploy"})).structured_content

    assert "Hetzner" in anyio.run(conversation)["block"]


# HTTP


@contextlib.contextmanager
def listening(program, store, *words, **environment):
    """A server over HTTP, at the address it tells."""
    line = [program, "--store", str(store), "mcp", "--http", "127.0.0.1:0", *words]
    process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
    try:
        told = process.stderr.readline()
        found = re.search(r"http://\S+", told)
        yield found[0] if found else told
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        process.stderr.close()


@pytest.fixture
def tokens(lukasa_program, tmp_path):
    """Makes tokens in a file of their own: ``tokens("ada")``."""

    def make(agent):
        words = [lukasa_program, "--agent", agent, "token", "add", agent, "--tokens", str(tmp_path / "tokens.json")]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()

    return make


async def over_http(url, token, conversation):
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30)
    async with http, Client(streamable_http_client(url, http_client=http)) as client:
        return await conversation(client)


def test_each_token_has_a_memory_of_its_own(lukasa_program, tokens, tmp_path):
    ada, bob = tokens("ada"), tokens("bob")

    async def remember(client):
        return (
            await client.call_tool("remember", {"text": "My plan is the cello.", "private": True})
        ).structured_content

    async def look(client):
        found = (await client.call_tool("recall", {"query": "plan cello"})).structured_content
        return found["hits"], (await client.read_resource("lukasa://snapshot")).contents[0].text

    with listening(lukasa_program, tmp_path / "a.db", "--tokens", str(tmp_path / "tokens.json")) as url:
        assert anyio.run(over_http, url, ada, remember)["scope"] == "ada"
        hits, snapshot = anyio.run(over_http, url, ada, look)
        assert hits
        assert "cello" in snapshot
        assert anyio.run(over_http, url, bob, look) == ([], "")


def test_nobody_comes_in_without_a_token_from_a_strange_host_or_from_another_page(lukasa_program, tokens, tmp_path):
    good = {"Authorization": f"Bearer {tokens('ada')}", "Accept": "application/json, text/event-stream"}
    file = tmp_path / "tokens.json"
    with listening(lukasa_program, tmp_path / "a.db", "--tokens", str(file)) as url:
        root = url.removesuffix("/mcp")

        def status(headers, method="POST", at=url, **body):
            return httpx2.request(method, at, headers=headers, timeout=20, **body).status_code

        for method in ("GET", "POST", "DELETE", "OPTIONS"):
            for at in (url, root + "/", root + "/other"):
                assert status({}, method, at) == 401
        assert status({"Authorization": "Bearer wrong"}, json=HELLO) == 401
        assert status({"Authorization": "Basic " + good["Authorization"][7:]}, json=HELLO) == 401
        assert status({**good, "Host": "evil.example"}, json=HELLO) == 421
        assert status({**good, "Origin": "http://evil.example"}, json=HELLO) == 403
        assert status({**good, "Origin": "null"}, json=HELLO) == 403
        assert status({**good, "Origin": root}, json=HELLO) == 200
        assert status(good, json=HELLO) == 200
        assert status({**good, "Content-Type": "application/json"}, content=b"{garbage") == 400
        assert status({**good, "Content-Type": "application/json"}, content=b"x" * 9_000_000) == 413
        words = [lukasa_program, "token", "revoke", "ada", "--tokens", str(file)]
        subprocess.run(words, check=True, capture_output=True)
        assert status(good, json=HELLO) == 401


def test_the_body_of_a_stranger_is_not_read(lukasa_program, tmp_path):
    """The answer comes although the body never does."""
    with listening(lukasa_program, tmp_path / "a.db", LUKASA_TOKEN="a-token-of-some-length") as url:
        host, port = re.search(r"//(.+):(\d+)", url).groups()
        import socket

        with socket.create_connection((host, int(port)), timeout=5) as line:
            line.sendall(f"POST /mcp HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: 1000000\r\n\r\n".encode())
            assert line.recv(100).startswith(b"HTTP/1.1 401")


def test_a_token_of_the_environment_stands_for_the_caller_of_the_command(lukasa_program, tmp_path):
    async def remember(client):
        return (await client.call_tool("remember", {"text": "Mine alone.", "private": True})).structured_content

    token = "a-token-of-some-length"
    with listening(lukasa_program, tmp_path / "a.db", LUKASA_TOKEN=token) as url:
        assert (
            anyio.run(over_http, url, token, remember)["code"] == "invalid_input"
        )  # the owner has no scope of its own


@pytest.mark.parametrize(
    ("words", "environment", "sentence"),
    [
        ((), {}, "There is no token"),
        ((), {"LUKASA_TOKEN": "short"}, "at least 16"),
        (("--compat", "other"), {}, "not known"),
    ],
)
def test_a_server_that_nobody_could_enter_is_not_started(lukasa_program, tmp_path, words, environment, sentence):
    environment = {"LUKASA_TOKENS": str(tmp_path / "none.json"), **environment}
    with listening(lukasa_program, tmp_path / "a.db", *words, **environment) as told:
        assert sentence in told


def test_a_file_of_tokens_that_others_may_read_lets_nobody_in(lukasa_program, tokens, tmp_path):
    tokens("ada")
    (tmp_path / "tokens.json").chmod(0o644)
    with listening(lukasa_program, tmp_path / "a.db", "--tokens", str(tmp_path / "tokens.json")) as told:
        assert "chmod 600" in told


def test_a_token_is_kept_as_its_hash_alone(tokens, tmp_path):
    token = tokens("ada")
    kept = (tmp_path / "tokens.json").read_text()
    assert token not in kept
    assert (tmp_path / "tokens.json").stat().st_mode & 0o777 == 0o600


# Many at once


def resident_kilobytes(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])


async def hammer(client, name, calls):
    """So many calls, half of them writes; how many were not done."""
    failed = 0
    for at in range(calls):
        if at % 2:
            answer = await client.call_tool("recall", {"query": f"{name} {at - 1}", "k": 3})
        else:
            content = f"Turn {at} of {name}: {WORDS[at % 8]} and {at * 7919}."
            arguments = {"session": name, "content": content, "key": f"{name}/{at}"}
            answer = await client.call_tool("context_append", arguments)
        failed += answer.structured_content["outcome"] != "done"
    return failed


def eight_clients(spawned, store, calls):
    failures = []

    async def one(name):
        async with spawned("--agent", name, store=store) as client:
            failures.append(await hammer(client, name, calls))

    async def all_of_them():
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(one, f"agent-{number}")

    anyio.run(all_of_them)
    assert failures == [0] * 8
    with lukasa.open(store) as memory:
        for number in range(8):
            name = f"agent-{number}"
            turns = [turn.content for turn in memory.context.within(name).transcript(name)]
            assert len(turns) == len(set(turns)) == (calls + 1) // 2
        assert memory.verify().sound


def test_eight_clients_on_one_store_lose_nothing(spawned, tmp_path):
    eight_clients(spawned, tmp_path / "many.db", 10)


@pytest.mark.slow
def test_eight_clients_with_a_thousand_calls_each_lose_nothing(spawned, tmp_path):
    eight_clients(spawned, tmp_path / "many.db", 1_000)


@pytest.mark.slow
def test_a_server_with_eight_clients_stays_as_large_as_it_is(lukasa_program, tmp_path):
    """The same calls again and again: the store stays as it is after the first round, and so must the server."""
    token = "a-token-of-some-length"
    line = [lukasa_program, "--store", str(tmp_path / "a.db"), "--agent", "ada", "mcp", "--http", "127.0.0.1:0"]
    process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True, env={**os.environ, "LUKASA_TOKEN": token})
    url = re.search(r"http://\S+", process.stderr.readline())[0]

    async def round_of(calls, failures):
        async with anyio.create_task_group() as group:
            for number in range(8):

                async def one(name=f"client-{number}"):
                    failures.append(await over_http(url, token, lambda client: hammer(client, name, calls)))

                group.start_soon(one)

    try:
        sizes, failures = [], []
        for _ in range(5):
            anyio.run(round_of, 60, failures)
            sizes.append(resident_kilobytes(process.pid))
        assert failures == [0] * 5 * 8
        assert sizes[-1] < 1.1 * sizes[1], sizes
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        process.stderr.close()
