"""Every status that the description documents is given for a real reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from lukasa import errors
from lukasa.interfaces.api_tokens import token_from_environment
from lukasa.interfaces.auth import SingleToken
from lukasa.interfaces.http.app import PROBLEMS, build_app
from lukasa.interfaces.stores import Caller, CallerStores
from lukasa.memory import Memory

pytestmark = pytest.mark.requirement("DOO-4")
JSON = {"Content-Type": "application/json"}
NETWORK_TESTS = Path(__file__).parents[2] / "network" / "test_http_network.py"
DASHBOARD_TESTS = Path(__file__).parents[1] / "dashboard" / "test_figures.py"
NOTE_STATUSES = """
import json, os
from pathlib import Path

def pytest_sessionfinish(session):
    from lukasa.interfaces.http.metrics import REGISTRY

    samples = (sample for metric in REGISTRY.collect() for sample in metric.samples)
    rows = [
        [sample.labels[name] for name in ("method", "route", "status")]
        for sample in samples if sample.name == "lukasa_http_requests_total"
    ]
    Path(os.environ["NOTED_STATUSES"]).write_text(json.dumps(rows))
"""
FACT = b'{"text": "We deploy on Tuesdays."}'
REQUESTS: dict[int, tuple[str, str, dict[str, Any]]] = {
    400: ("POST", "/v1/memories", {"content": b"{", "headers": JSON}),
    401: ("GET", "/v1/stats", {"headers": {"Authorization": "Bearer wrong"}}),
    403: ("POST", "/v1/memories", {"json": {"text": "Ben was here.", "scope": "ben"}}),
    404: ("GET", "/v1/memories/none", {}),
    405: ("PUT", "/v1/memories", {}),
    409: ("POST", "/v1/memories", {"content": FACT, "headers": JSON}),
    412: ("PATCH", "/v1/memories/{id}", {"json": {"text": "Never on Fridays."}, "headers": {"If-Match": '"v9"'}}),
    413: ("POST", "/v1/memories", {"content": FACT, "headers": {**JSON, "Content-Length": "99999999"}}),
    415: ("POST", "/v1/memories", {"content": FACT, "headers": {"Content-Type": "text/plain"}}),
    421: ("GET", "/v1/stats", {"headers": {"Host": "evil.example"}}),
    422: ("POST", "/v1/memories", {"json": {"text": "tick marker for burst 5"}}),
}
ERRORS = {
    429: errors.RateLimited,
    500: ZeroDivisionError,
    501: errors.MissingExtra,
    503: errors.StoreBusy,
    507: errors.StoreFull,
}


@pytest.mark.parametrize("status", REQUESTS)
def test_a_request_gets_each_documented_status(ada: TestClient, status: int) -> None:
    made = ada.post("/v1/memories", content=FACT, headers=JSON).json()["id"]
    verb, path, options = REQUESTS[status]
    answer = ada.request(verb, path.format(id=made), **options)
    assert (answer.status_code, answer.json()["status"]) == (status, status), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["next"]


@pytest.mark.parametrize("status", ERRORS)
def test_an_error_of_the_library_gets_its_status(ada: TestClient, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ERRORS[status]

    monkeypatch.setattr(Memory, "before_task", fail)
    answer = ada.post("/v1/before-task", json={"task": "anything"})
    assert (answer.status_code, answer.json()["status"]) == (status, status)
    assert ("retry-after" in answer.headers) == (status in (429, 503))


def test_a_store_that_cannot_be_reached_is_told_by_503() -> None:
    pytest.importorskip("psycopg")
    stores = CallerStores("postgresql://nobody@127.0.0.1:1/none", Caller(), timeout=1.0)
    token = token_from_environment("a-token-of-some-length", "ada", None)
    client = TestClient(
        build_app(stores, SingleToken(token), ["testserver"]),
        raise_server_exceptions=False,
        headers={"Authorization": "Bearer a-token-of-some-length"},
    )
    for path in ("/readyz", "/v1/stats"):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert client.get("/healthz").status_code == 200


@pytest.mark.slow
def test_the_suite_sees_every_documented_success_of_every_operation(ada: TestClient, tmp_path: Path) -> None:
    """Run the tests of the API in a process that notes the status of every answer, and compare with OpenAPI."""
    (tmp_path / "note_statuses.py").write_text(NOTE_STATUSES, "utf-8")
    seen = tmp_path / "seen.json"
    options = ("-q", "-p", "note_statuses", "-m", "not slow", "-k", "not every_limit_of_the_description")
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *options,
            str(Path(__file__).parent),
            str(NETWORK_TESTS),
            str(DASHBOARD_TESTS),
        ],
        env=os.environ | {"PYTHONPATH": paths, "NOTED_STATUSES": str(seen)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5_000:]
    noted = {tuple(row) for row in json.loads(seen.read_text("utf-8"))}
    documented = {
        (verb.upper(), path, status)
        for path, operations in ada.get("/openapi.json").json()["paths"].items()
        for verb, operation in operations.items()
        for status in operation["responses"]
        if status < "400"
        and not (status == "200" and "201" in operation["responses"])  # a write may make the next version
    }
    assert documented - noted == set()


def test_the_list_of_statuses_is_complete() -> None:
    elsewhere = {408}  # tests/interfaces/http/test_limits.py
    assert set(PROBLEMS) == {*REQUESTS, *ERRORS, *elsewhere}
