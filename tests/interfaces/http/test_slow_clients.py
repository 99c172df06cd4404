"""Clients that read or send slowly, or for longer than their token holds. Real sockets."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from lukasa.core.record import Draft
from lukasa.interfaces.api_tokens import ApiTokens
from lukasa.interfaces.http.app import MAX_THREADS
from lukasa.interfaces.http.routes import transfer
from lukasa.interfaces.limits import ConnectionLimits
from lukasa.interfaces.stores import Caller, CallerStores
from lukasa.storage.log_file import MAX_HEADER_BYTES

pytestmark = pytest.mark.requirement("DOO-4")
Start = Callable[..., Any]
Connect = Callable[[str], TestClient]
PATIENT = ConnectionLimits(write_seconds=300, body_seconds=300)
"""So patient that a stall would last longer than any test waits."""
JSON_LINES = {"Content_Type": "application/x-ndjson"}


@contextmanager
def slow_reader(server: Any, secret: str, path: str) -> Iterator[socket.socket]:
    """Ask for something large and read only its beginning."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(server.request("GET", path, Authorization=f"Bearer {secret}"))
        assert connection.recv(1024).startswith(b"HTTP/1.1 200 ")
        yield connection


def fill(stores: CallerStores, count: int = 80) -> None:
    notes = [Draft("note", f"note {index} " + "x" * 500_000) for index in range(count)]
    assert stores.for_caller(Caller()).journal.append(notes)


def test_readers_of_an_export_that_wait_keep_nobody_waiting(
    start_server: Start, secrets: dict[str, str], stores: CallerStores
) -> None:
    fill(stores, 20)
    with start_server(PATIENT) as server, ExitStack() as stack:
        for _ in range(2 * MAX_THREADS):
            stack.enter_context(slow_reader(server, secrets[""], "/v1/export"))
        headers = {"Authorization": f"Bearer {secrets['ada']}"}
        body = {"text": "The heron nests in the reeds."}
        for _ in range(MAX_THREADS):
            assert httpx2.get(f"{server.url}/v1/stats", headers=headers, timeout=60).status_code == 200
        written = httpx2.post(f"{server.url}/v1/memories", headers=headers, json=body, timeout=60)
        assert written.status_code == 201  # and no snapshot of theirs keeps a writer waiting


def test_an_export_holds_what_was_written_before_it_began(connect: Connect, stores: CallerStores) -> None:
    fill(stores, 3)
    owner = connect("")
    before = owner.get("/v1/export").content
    assert owner.get("/v1/export").content == before
    lines = transfer.encode_export(stores.for_caller(Caller()).journal)
    first = next(lines) + next(lines)
    fill(stores, 1)
    assert (first + b"".join(lines)) == before


def test_a_long_poll_of_a_revoked_token_ends_at_once(start_server: Start, tokens: ApiTokens) -> None:
    secret = tokens.add("guest", agent="guest")
    with start_server() as server:
        headers = {"Authorization": f"Bearer {secret}"}
        answers: list[httpx2.Response] = []

        def poll() -> None:
            answers.append(httpx2.get(f"{server.url}/v1/events?wait=60", headers=headers, timeout=90))

        thread = threading.Thread(target=poll)
        began = time.monotonic()
        thread.start()
        time.sleep(0.5)  # it waits by now, or it is refused at the door
        assert tokens.revoke("guest")
        thread.join(90)
        assert (answers[0].status_code, answers[0].json()["code"]) == (401, "unauthorized")
        assert time.monotonic() - began < 40  # far less than it asked for


def test_nothing_that_is_written_after_a_token_was_revoked_reaches_its_long_poll(
    start_server: Start, tokens: ApiTokens, stores: CallerStores
) -> None:
    for number in range(3):
        secret = tokens.add(f"guest {number}", agent="guest")
        with start_server() as server:
            request = server.request("GET", "/v1/events?wait=60", Authorization=f"Bearer {secret}")
            with server.connect(request) as connection:
                connection.settimeout(60)
                time.sleep(0.3)
                tokens.revoke(f"guest {number}")
                time.sleep(0.1)
                stores.for_caller(Caller()).journal.write("note", "The word of the day is heron.")
                received = connection.recv(65536)
                assert received.startswith(b"HTTP/1.1 401 ")
                assert b"heron" not in received


def test_an_export_is_cut_off_when_its_token_is_revoked(
    start_server: Start, tokens: ApiTokens, stores: CallerStores
) -> None:
    fill(stores)
    secret = tokens.add("guest")
    with start_server(PATIENT) as server, slow_reader(server, secret, "/v1/export") as connection:
        assert tokens.revoke("guest")
        received = 0
        while chunk := connection.recv(1_000_000):
            received += len(chunk)
        assert received < 30_000_000


def test_an_import_is_checked_as_it_arrives(
    start_server: Start, secrets: dict[str, str], stores: CallerStores, connect: Connect
) -> None:
    """What is no log is refused at its first line, while a gigabyte was announced and a few bytes were sent."""
    log = connect("ada").get("/v1/export").content.splitlines(keepends=True)
    headers = {"Authorization": f"Bearer {secrets['ada']}", "Content_Length": str(10**9), **JSON_LINES}
    with start_server(PATIENT) as server:
        for body in (b"no log\n", b"x" * (MAX_HEADER_BYTES + 1), log[0] + b"{}\n" + b"x" * 2_000_000):
            with server.connect(server.request("POST", "/v1/import", body, **headers)) as connection:
                connection.settimeout(60)
                answer = b""
                while b'"format_error"' not in answer and (chunk := connection.recv(65536)):
                    answer += chunk
            assert answer.startswith(b"HTTP/1.1 422 ")
            assert b'"format_error"' in answer


def test_an_import_that_meets_a_fault_says_what_it_did_before(connect: Connect, tokens: ApiTokens) -> None:
    ada, owner = connect("ada"), connect("")
    for number in range(5):
        ada.post("/v1/memories", json={"text": f"Heron {number} nests in reed bed {number * 7}."})
    head, *entries, end = ada.get("/v1/export").content.splitlines(keepends=True)
    for entry in entries:
        record = json.loads(entry)["record"]
        owner.request("POST", "/v1/journal/erasures", json={"keys": [{n: record[n] for n in ("scope", "kind", "id")}]})
    altered = entries[1].replace(b"Heron", b"Stork")
    broken = owner.post(
        "/v1/import", content=b"".join((head, *entries[:1], altered, entries[2], b"{}\n", *entries[3:]))
    )
    assert (broken.status_code, broken.json()["code"]) == (422, "format_error")
    done = broken.json()["details"]
    assert done["added"] + done["present"] + len(done["refused"]) == 3
    assert any("digest" in line["reason"] and line["line"] == 3 for line in done["refused"])
    whole = owner.post("/v1/import", content=b"".join((head, *entries, end)))
    assert whole.status_code == 200


def test_a_token_imports_one_log_at_a_time(start_server: Start, secrets: dict[str, str], connect: Connect) -> None:
    log = connect("ada").get("/v1/export").content
    headers = {**JSON_LINES, "Content_Length": str(len(log))}
    with start_server(PATIENT) as server, ExitStack() as stack:
        one = {"Authorization": f"Bearer {secrets['ada']}", **headers}
        slow = stack.enter_context(server.connect(server.request("POST", "/v1/import", log[:5], **one)))
        slow.settimeout(60)
        url, plain = f"{server.url}/v1/import", {"Authorization": f"Bearer {secrets['ada']}"}
        for _ in range(200):  # until the server has begun with the slow one
            second = httpx2.post(url, headers=plain, content=log, timeout=60)
            if second.status_code == 409:
                break
        assert second.json()["code"] == "import_running"
        other = httpx2.post(url, headers={"Authorization": f"Bearer {secrets['ben']}"}, content=log, timeout=60)
        assert other.status_code == 200
        slow.sendall(log[5:])
        assert slow.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert httpx2.post(url, headers=plain, content=log, timeout=60).status_code == 200


def test_refused_lines_of_an_import_are_listed_up_to_a_limit(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "MAX_REFUSED_LINES", 2)
    head, *_ = connect("").get("/v1/export").content.splitlines(keepends=True)
    line = b'{"sha256":"%b","record":{}}\n' % (b"0" * 64)
    answer = connect("ada").post("/v1/import", content=head + line * 5 + b"{}\n").json()
    assert len(answer["details"]["refused"]) == 2
    assert answer["details"]["refused_more"] == 3


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_body_is_split_into_the_same_lines_however_it_arrives(size: int) -> None:
    body = b"head\r\n" + b"y" * 3_000 + b"\n\nz\nlast"
    splitter, lines = transfer.LineSplitter(), list[bytes]()
    for start in range(0, len(body), size):
        lines += splitter.split(body[start : start + size])
    assert lines + splitter.rest() == [b"head", b"y" * 3_000, b"", b"z", b"last"]


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/healthz", {}, 200),
        ("GET", "/metrics", {}, 200),
        ("GET", "/openapi.json", {}, 200),
        ("GET", "/login/status", {}, 200),
        ("GET", "/v1/stats", {}, 200),
        ("GET", "/v1/export", {}, 200),
        ("GET", "/v1/events", {}, 200),
        ("GET", "/v1/none", {}, 404),
        ("GET", "/static/none", {}, 404),
        ("PUT", "/v1/stats", {}, 405),
        ("POST", "/v1/recall", {}, 422),
        ("POST", "/mcp", {}, 404),
        ("GET", "/v1/stats", {"Authorization": "Bearer wrong"}, 401),
        ("GET", "/v1/stats", {"Host": "evil.example"}, 421),
        ("GET", "/v1/stats", {"Origin": "http://evil.example"}, 403),
        ("POST", "/v1/recall", {"Content-Length": "99999999"}, 413),
    ],
)
def test_every_answer_says_that_it_is_neither_kept_nor_sniffed(
    ada: TestClient, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    answer = ada.request(method, path, headers=headers)
    assert answer.status_code == status
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


def test_answers_of_the_server_itself_are_neither_kept_nor_sniffed(start_server: Start) -> None:
    with start_server(ConnectionLimits(header_seconds=0.5)) as server:
        for sent in (b"no request\r\n\r\n", b"GET /healthz HT"):
            with server.connect(sent) as connection:
                answer = connection.recv(65536).lower()
            assert b"x-content-type-options: nosniff" in answer
            assert b"cache-control: no-store" in answer
