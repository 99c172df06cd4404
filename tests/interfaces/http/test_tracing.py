"""OpenTelemetry: a server that is told of a collector sends it a span of each request, without any text."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from starlette.testclient import TestClient
from typer.testing import CliRunner

from lukasa.interfaces.auth import StoreTokenSource
from lukasa.interfaces.cli.app import app
from lukasa.interfaces.http.app import build_app
from lukasa.interfaces.http.tracing import RequestTracing, open_tracer
from lukasa.interfaces.stores import CallerStores

pytestmark = pytest.mark.requirement("DOO-3")

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """Run a collector; yield its address and the bodies it got."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1/traces", bodies
    server.shutdown()
    thread.join()
    server.server_close()


def spans_in(bodies: list[bytes]) -> list[Span]:
    requests = [ExportTraceServiceRequest.FromString(body) for body in bodies]
    return [
        span
        for request in requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def attributes_of(span: Span) -> dict[str, str | int]:
    return {item.key: item.value.string_value or item.value.int_value for item in span.attributes}


def test_each_request_is_a_span_of_the_callers_trace_and_tells_no_text(
    stores: CallerStores, secrets: dict[str, str], collector: tuple[str, list[bytes]]
) -> None:
    address, bodies = collector
    headers = {"Authorization": f"Bearer {secrets['ada']}", "traceparent": f"00-{TRACE}-{PARENT}-01"}
    with open_tracer(address) as tracer:
        traced = RequestTracing(build_app(stores, StoreTokenSource(stores), ["testserver"]), tracer)
        with TestClient(traced, headers=headers) as client:
            assert client.post("/v1/memories", json={"text": "The zebra sleeps in the harbour."}).status_code == 201
            assert client.get("/v1/memories/no-such-zebra").status_code == 404
    remembered, missed = spans_in(bodies)
    assert (remembered.name, missed.name) == ("POST /v1/memories", "GET /v1/memories/{id}")
    assert (remembered.trace_id.hex(), remembered.parent_span_id.hex()) == (TRACE, PARENT)
    assert attributes_of(remembered) == {
        "http.request.method": "POST",
        "http.route": "/v1/memories",
        "http.response.status_code": 201,
        "enduser.id": "ada",
    }
    assert attributes_of(missed)["http.response.status_code"] == 404
    sent = b"".join(bodies)
    assert b"zebra" not in sent
    assert secrets["ada"].encode() not in sent


def test_a_request_without_a_trace_begins_one(
    stores: CallerStores, secrets: dict[str, str], collector: tuple[str, list[bytes]]
) -> None:
    address, bodies = collector
    with open_tracer(address) as tracer:
        traced = RequestTracing(build_app(stores, StoreTokenSource(stores), ["testserver"]), tracer)
        with TestClient(traced, headers={"traceparent": "nonsense"}) as client:
            assert client.get("/v1/memories").status_code == 401
    (refused,) = spans_in(bodies)
    assert refused.trace_id.hex() != TRACE
    assert not refused.parent_span_id
    assert "enduser.id" not in attributes_of(refused)


def test_a_collector_that_is_not_there_stops_no_request(stores: CallerStores, secrets: dict[str, str]) -> None:
    with open_tracer("http://127.0.0.1:9/v1/traces") as tracer:
        traced = RequestTracing(build_app(stores, StoreTokenSource(stores), ["testserver"]), tracer)
        with TestClient(traced, headers={"Authorization": f"Bearer {secrets['ada']}"}) as client:
            assert client.get("/v1/memories").status_code == 200


def test_serve_refuses_an_address_that_is_no_collector(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["--store", str(tmp_path / "a.db"), "serve", "--traces", "localhost:4318"])
    assert done.exit_code == 2
    assert "http://localhost:4318/v1/traces" in done.stderr
