"""What the server does with clients that are slow, many, or hostile. Real sockets."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from lukasa.core.clock import SystemClock
from lukasa.core.record import Draft
from lukasa.interfaces.api_tokens import ApiTokens
from lukasa.interfaces.http_connection import CONNECTIONS
from lukasa.interfaces.limits import MAX_BODY_BYTES, ConnectionLimits
from lukasa.interfaces.stores import Caller, CallerStores

pytestmark = pytest.mark.requirement("DOO-4")
Start = Callable[..., Any]
HASTY = ConnectionLimits(connections=40, header_seconds=0.5, body_seconds=0.5, write_seconds=0.5)


@pytest.fixture(params=list(CONNECTIONS))
def parser(request: pytest.FixtureRequest) -> str:
    """Return the name of each parser in turn."""
    return str(request.param)


def read_all(connection: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    received = b""
    with suppress(ConnectionResetError):
        while chunk := connection.recv(65536):
            received += chunk
    return received


def read_answer(connection: socket.socket) -> bytes:
    """Read one answer whose head says how long it is."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536)
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split()[0])
    while len(body) < length:
        body += connection.recv(65536)
    return head


def is_well(server: Any, secret: str) -> bool:
    """Return whether the server answers another client, while its slow clients still wait."""
    headers = {"Authorization": f"Bearer {secret}"}
    return httpx2.get(f"{server.url}/v1/stats", headers=headers, timeout=15).status_code == 200


@pytest.mark.parametrize("count", [120, pytest.param(1_300, marks=pytest.mark.slow)])
def test_many_half_open_requests_without_a_token_do_no_harm(
    start_server: Start, secrets: dict[str, str], count: int
) -> None:
    limits = ConnectionLimits(connections=max(40, count // 4), header_seconds=60)
    with start_server(limits) as server, ExitStack() as stack:
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=15))
            connection.sendall(b"POST /v1/memories HTTP/1.1\r\nHost: 127")
        began = time.process_time()  # of client and server, however busy the machine is
        assert all(is_well(server, secrets["ada"]) for _ in range(5))
        assert time.process_time() - began < 5


def test_headers_that_come_too_slowly_are_answered_with_408(start_server: Start, secrets: dict[str, str]) -> None:
    with start_server(HASTY) as server, server.connect(b"GET /v1/stats HTTP/1.1\r\n") as connection:
        stop = threading.Event()

        def drip() -> None:
            while not stop.wait(0.1):
                with suppress(OSError):
                    connection.sendall(b"X: y\r\n")

        thread = threading.Thread(target=drip)
        thread.start()
        answer = read_all(connection)
        stop.set()
        thread.join()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "too_slow"
        assert is_well(server, secrets["ada"])


def test_slow_headers_after_an_answer_are_limited_too(start_server: Start, secrets: dict[str, str]) -> None:
    with start_server(HASTY) as server, server.connect() as connection:
        connection.sendall(server.request("GET", "/healthz"))
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET /healthz HT")
        assert b"HTTP/1.1 408 " in read_all(connection)


def test_a_body_that_stops_is_answered_with_408(start_server: Start, secrets: dict[str, str]) -> None:
    with start_server(HASTY) as server:
        headers = {"Authorization": f"Bearer {secrets['ada']}", "Content_Type": "application/json"}
        with server.connect(server.request("POST", "/v1/recall", b'{"query', **headers, Content_Length="100")) as slow:
            assert read_all(slow).startswith(b"HTTP/1.1 408 ")
        assert is_well(server, secrets["ada"])


def test_a_body_of_a_gigabyte_is_refused_before_it_is_read(start_server: Start, secrets: dict[str, str]) -> None:
    with start_server() as server:
        headers = {"Authorization": f"Bearer {secrets['ada']}", "Content_Length": str(2**30)}
        with server.connect(server.request("POST", "/v1/memories", **headers)) as connection:
            assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")
        headers = {"Authorization": f"Bearer {secrets['ada']}", "Transfer_Encoding": "chunked"}
        with server.connect(server.request("POST", "/v1/memories", **headers)) as connection:
            sent = 0
            with suppress(OSError):
                while sent < 4 * MAX_BODY_BYTES:
                    connection.sendall(b"%x\r\n%s\r\n" % (2**20, b" " * 2**20))
                    sent += 2**20
            assert read_all(connection).startswith(b"HTTP/1.1 413 ")
        assert is_well(server, secrets["ada"])


def test_bytes_that_are_no_request_get_a_problem(start_server: Start) -> None:
    with start_server() as server, server.connect(b"\x16\x03\x01\x02\x00 hello\r\n\r\n") as connection:
        answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "not_http"


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Host": "evil.example"}, 421), ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403)],
)
def test_a_hostile_host_or_origin_is_refused(ada: TestClient, headers: dict[str, str], status: int) -> None:
    answer = ada.get("/v1/stats", headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


def test_a_stream_that_is_not_read_is_closed_and_others_are_served(
    start_server: Start, secrets: dict[str, str], stores: CallerStores
) -> None:
    notes = [Draft("note", f"note {index} " + "x" * 500_000) for index in range(40)]
    assert stores.for_caller(Caller()).journal.append(notes)
    with start_server(HASTY) as server:
        headers = {"Authorization": f"Bearer {secrets['']}", "Accept": "text/event-stream"}
        for pause in (2.5, 10, 25):  # a busy machine may need longer to begin the stream
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(5)
            connection.connect(("127.0.0.1", server.port))
            with connection, suppress(TimeoutError):
                connection.sendall(server.request("GET", "/v1/events?after=0", **headers))
                time.sleep(pause)
                assert is_well(server, secrets["ada"])
                received = read_all(connection)
                break
        else:
            pytest.fail("The server did not close a stream that nobody read.")
        assert 0 < len(received) < 40 * 500_000


@pytest.mark.parametrize("parser", list(CONNECTIONS)[:1])  # it does not matter here
@pytest.mark.parametrize("ending", ["revoked", "expired"])
def test_a_stream_ends_when_its_token_is_no_longer_valid(
    start_server: Start, tokens: ApiTokens, secrets: dict[str, str], ending: str
) -> None:
    end = SystemClock().now() + timedelta(seconds=3) if ending == "expired" else None
    secret = tokens.add("guest", agent="guest", expires_at=end)
    headers = {"Authorization": f"Bearer {secret}", "Accept": "text/event-stream"}
    with (
        start_server() as server,
        httpx2.stream("GET", f"{server.url}/v1/events", headers=headers, timeout=20) as answer,
    ):
        assert answer.status_code == 200
        lines = answer.iter_lines()
        assert next(lines) == "retry: 1000"
        if ending == "revoked":
            assert tokens.revoke("guest")
        rest = "\n".join(lines)
        assert "event: problem" in rest
        assert "no longer valid" in rest
        refused = httpx2.get(f"{server.url}/v1/stats", headers={"Authorization": f"Bearer {secret}"}, timeout=5)
        assert refused.status_code == 401
        assert is_well(server, secrets["ada"])


def test_a_token_is_refused_beyond_its_rate_and_says_when_to_come_back(
    connect: Callable[[str], TestClient], tokens: ApiTokens
) -> None:
    client = connect(tokens.add("guest", agent="guest", rate=3))
    answers = [client.get("/v1/stats") for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert answers[0].headers["ratelimit-policy"] == '"default";q=3;w=60'
    assert answers[0].headers["ratelimit"].startswith('"default";r=2;t=')
    assert answers[3].json()["code"] == "too_many_requests"
    assert 1 <= int(answers[3].headers["retry-after"]) <= 60
    assert connect("ada").get("/v1/stats").status_code == 200


def test_a_read_only_token_reads_and_never_writes(connect: Callable[[str], TestClient], tokens: ApiTokens) -> None:
    connect("ada").post("/v1/memories", json={"text": "We deploy on Tuesdays."})
    reader = connect(tokens.add("reader", agent="ada", read_only=True))
    assert reader.post("/v1/recall", json={"query": "deploy"}).json()["hits"]
    assert reader.get("/v1/memories").json()["memories"]
    for method, path in (("POST", "/v1/memories"), ("DELETE", "/v1/records/shared/memory/x"), ("PATCH", "/v1/x")):
        answer = reader.request(method, path, json={"text": "Nothing."})
        assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")


HOSTILE_HEADS = (
    b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 400_000 + b"\r\n\r\n",
    b"GET /" + b"x" * 400_000,
    b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 70_000,
    b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n",
    b"POST /v1/recall HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    b"POST /v1/recall HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\nabcd",
)


def test_a_head_that_is_too_long_or_ambiguous_is_refused(start_server: Start, secrets: dict[str, str]) -> None:
    with start_server() as server:
        for head in HOSTILE_HEADS:
            with server.connect() as connection:
                with suppress(OSError):
                    connection.sendall(head)
                answer = read_all(connection)
            assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 501 ")) or (not answer and len(head) > 300_000), head
        assert is_well(server, secrets["ada"])


def test_what_surrounds_the_chunks_of_a_body_is_limited(start_server: Start, secrets: dict[str, str]) -> None:
    headers = {"Authorization": f"Bearer {secrets['ada']}", "Transfer_Encoding": "chunked"}
    with start_server() as server:
        for around in (b"1;" + b"x" * 400_000, b"0\r\nX: " + b"x" * 400_000, b"0\r\n" + b"X: y\r\n" * 70_000):
            with server.connect(server.request("POST", "/v1/recall", **headers)) as connection:
                with suppress(OSError):
                    connection.sendall(around)
                assert read_all(connection)[:13] in (b"", b"HTTP/1.1 400 "), around[:9]
        assert is_well(server, secrets["ada"])


def test_trailers_are_no_headers(start_server: Start, secrets: dict[str, str]) -> None:
    body = b'7\r\n{"query\r\nb\r\n": "lunch"}\r\n0\r\nIdempotency-Key: x\r\nHost: evil.example\r\n\r\n'
    headers = {"Authorization": f"Bearer {secrets['ada']}", "Content_Type": "application/json"}
    with start_server() as server, server.connect() as connection:
        request = server.request("POST", "/v1/recall", body, **headers, Transfer_Encoding="chunked")
        for _ in range(2):
            connection.sendall(request)
            assert read_answer(connection).startswith(b"HTTP/1.1 200 ")


def test_requests_that_are_sent_ahead_are_answered_in_order(start_server: Start, secrets: dict[str, str]) -> None:
    headers = {"Authorization": f"Bearer {secrets['ada']}"}
    with start_server(HASTY) as server, server.connect() as connection:
        ahead = [server.request("GET", path, **headers) for path in ("/v1/stats", "/healthz", "/v1/none", "/healthz")]
        connection.sendall(b"".join(ahead) + server.request("GET", "/healthz", **headers, Connection="close"))
        statuses = [part[:3] for part in read_all(connection).split(b"HTTP/1.1 ")[1:]]
        assert statuses == [b"200", b"200", b"404", b"200", b"200"]


def test_a_request_to_change_the_protocol_is_answered_as_any_other(
    start_server: Start, secrets: dict[str, str]
) -> None:
    headers = {"Authorization": f"Bearer {secrets['ada']}", "Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c"}
    with start_server() as server, server.connect() as connection:
        for _ in range(2):
            body = b'{"query": "lunch"}'
            more = {**headers, "Content_Type": "application/json", "Content_Length": str(len(body))}
            connection.sendall(server.request("POST", "/v1/recall", body, **more))
            assert read_answer(connection).startswith(b"HTTP/1.1 200 ")
            connection.sendall(server.request("GET", "/v1/stats", **headers))
            assert read_answer(connection).startswith(b"HTTP/1.1 200 ")
