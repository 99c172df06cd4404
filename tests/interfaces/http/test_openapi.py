"""The description of the API is complete, and random requests that follow it or break it find no fault."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from lukasa.interfaces.api_tokens import ApiTokens

pytestmark = pytest.mark.requirement("DOO-4")
SETTINGS = """
[checks.positive_data_acceptance]  # a request of the right shape may still be refused: noise, duplicates, secrets
expected-statuses = ["2xx", 403, 404, 409, 412, 413, 422]

[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 408, 409, 412, 413, 415, 421, 422, 429]
"""
SOME_PATHS = "^/v1/(memories|recall|records|handoffs|tokens)"
"""The paths that the quick test tries; ``make test-fuzz`` tries all."""


def test_every_operation_describes_its_answers_and_its_problems(ada: TestClient) -> None:
    document = ada.get("/openapi.json").json()
    assert len(document["paths"]) > 100
    seen: set[str] = set()
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            place = f"{verb} {path}"
            assert operation.get("description"), place
            assert operation["operationId"] not in seen, place
            seen.add(operation["operationId"])
            statuses = set(operation["responses"])
            assert statuses & {"200", "201", "202"}, place
            assert {"400", "401", "403", "404", "409", "413", "422", "429", "500", "503"} <= statuses, place
            if verb != "get" and path.startswith("/v1") and "requestBody" in operation:
                assert operation["requestBody"]["content"], place


def test_the_description_names_every_type_of_problem(ada: TestClient) -> None:
    types = {problem["type"]: problem for problem in ada.get("/openapi.json").json()["x-problem-types"]}
    assert types["urn:lukasa:problem:duplicate"]["status"] == 409
    assert types["urn:lukasa:problem:unauthorized"]["next"]
    assert ada.get("/v1/records/shared/memory/none").json()["type"] in types


def test_a_write_that_had_to_change_nothing_gets_a_documented_answer(ada: TestClient) -> None:
    fact = {"fact": "Switches live in the database.", "id": "switches"}
    answers = [ada.post("/v1/knowledge/facts", json=fact) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200]
    assert answers[1].json() == {"records": []}
    for operations in ada.get("/openapi.json").json()["paths"].values():
        for operation in operations.values():
            assert "201" not in operation["responses"] or "200" in operation["responses"]


def run_schemathesis(server: Any, folder: Path, secret: str, *words: str) -> None:
    """Run schemathesis against a server; fail with its report if it finds anything. It cannot write lines of JSON."""
    headers = {"Authorization": f"Bearer {secret}"}
    httpx2.get(f"{server.url}/openapi.json", headers=headers, timeout=120)  # it is built once, in seconds
    settings = folder / "schemathesis.toml"
    settings.write_text(SETTINGS, "utf-8")
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(settings), "run"),
        *(f"{server.url}/openapi.json", "-H", f"Authorization: Bearer {secret}", "--workers", "1"),
        *(
            "--suppress-health-check",
            "all",
            "--warnings",
            "off",
            "--exclude-path",
            "/v1/import",
            "--request-timeout",
            "90",
            *words,
        ),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 0, done.stdout[:20_000]


@pytest.mark.parametrize("agent", ["", "ada"])
def test_requests_for_every_limit_of_the_description_find_no_fault(
    start_server: Callable[..., Any], tokens: ApiTokens, tmp_path: Path, agent: str
) -> None:
    secret = tokens.add("fuzz", agent=agent, rate=0)
    with start_server() as server:
        run_schemathesis(server, tmp_path, secret, "--phases", "examples,coverage", "--include-path-regex", SOME_PATHS)


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.parametrize("agent", ["", "ada"])
def test_long_random_and_stateful_requests_find_no_fault(
    start_server: Callable[..., Any], tokens: ApiTokens, tmp_path: Path, agent: str
) -> None:
    secret = tokens.add("fuzz", agent=agent, rate=0)
    with start_server() as server:
        run_schemathesis(server, tmp_path, secret, "--phases", "examples,coverage")
        run_schemathesis(server, tmp_path, secret, "--phases", "fuzzing,stateful", "--max-time", "900")
