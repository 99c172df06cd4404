"""The description of the API is complete, and random requests that follow it or break it find no fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

import lukasa
from lukasa.interfaces.api_tokens import ApiTokens
from support.one_of_everything import seed_store

pytestmark = pytest.mark.requirement("DOO-4")
Parameters = Mapping[str, Mapping[str, object]]
SETTINGS = """
[checks.positive_data_acceptance]  # a request of the right shape may still be refused: noise, duplicates, secrets
expected-statuses = ["2xx", 403, 404, 409, 412, 413, 422]

[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 408, 409, 412, 413, 415, 421, 422, 429]
"""
SOME_PATHS = "^/v1/(memories|recall)"
"""The paths that the short test tries with one token; ``make test-fuzz`` tries all with two, every night."""


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
            if "WrittenRecord" in str(operation["responses"].get("201")):
                assert "200" in operation["responses"]


FUZZING_SECONDS = os.environ.get("LUKASA_FUZZING_SECONDS", "900")
NOT_ANSWERED = {
    "GET /v1/jobs/{id}/result": "no worker runs, so no job has a result",
    "POST /v1/jobs/{id}/retry": "no job fails",
    "POST /v1/backups": "the server has no folder for backups",
    "POST /v1/backups/{number}/proof": "likewise",
    "GET /v1/dashboard/states/{scope}/{id}": "the moment that is asked for lies before the session",
    "POST /v1/memories/{id}/corroborations": "nobody corroborates an own memory, and the owner names an author",
    "POST /v1/metrics/preferences": "the id of an episode holds the day",
    "GET /v1/rubrics/{name}": "criteria have rules that the schema does not tell",
    "PUT /v1/rubrics/{name}": "likewise",
    "POST /v1/rubrics/proposals/{id}/application": "likewise",
    "POST /v1/rubrics/proposals/{id}/rejection": "likewise",
}
"""Operations that generated requests reach but that refuse every one of them."""


def run_schemathesis(
    server: Any, folder: Path, secret: str, *words: str, parameters: Parameters | None = None
) -> set[str]:
    """Run schemathesis against a server; fail with its report if it finds anything. It cannot write lines of JSON.

    Return the operations that did something, and use the parameters where a path matches their pattern.
    """
    headers = {"Authorization": f"Bearer {secret}"}
    httpx2.get(f"{server.url}/openapi.json", headers=headers, timeout=120)  # it is built once, in seconds
    settings, report = folder / "schemathesis.toml", folder / "report.ndjson"
    chosen = (
        f"\n[[operations]]\ninclude-path-regex = {json.dumps(f'^{paths}$')}\nparameters = {{ "
        + ", ".join(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in values.items())
        + " }\n"
        for paths, values in (parameters or {}).items()
    )
    settings.write_text(SETTINGS + "".join(chosen), "utf-8")
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(settings), "run"),
        *(f"{server.url}/openapi.json", "-H", f"Authorization: Bearer {secret}", "--workers", "1"),
        *("--suppress-health-check", "all", "--warnings", "off", "--exclude-path", "/v1/import"),
        *("--request-timeout", "90", "--report", "ndjson", "--report-ndjson-path", str(report), *words),
    ]
    hooks = (
        {"SCHEMATHESIS_HOOKS": str(Path(__file__).parents[2] / "support" / "request_examples.py")} if parameters else {}
    )
    environment = os.environ | hooks
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout[:20_000]
    return set(_list_answered(report))


def _list_answered(report: Path) -> Iterator[str]:
    """List the operations that answered some request with success."""
    for line in report.read_text("utf-8").splitlines():
        recorder = json.loads(line).get("ScenarioFinished", {}).get("recorder", {})
        answers = (each.get("response") for each in recorder.get("interactions", {}).values())
        if any(answer and answer["status_code"] < 400 for answer in answers):
            yield recorder["label"]


def test_requests_for_every_limit_of_the_description_find_no_fault(
    start_server: Callable[..., Any], tokens: ApiTokens, tmp_path: Path
) -> None:
    secret = tokens.add("fuzz", agent="ada", rate=0)
    with start_server() as server:
        run_schemathesis(server, tmp_path, secret, "--phases", "examples,coverage", "--include-path-regex", SOME_PATHS)


@pytest.mark.slow
@pytest.mark.fuzz
def test_long_random_and_stateful_requests_reach_every_operation_and_find_no_fault(
    start_server: Callable[..., Any], tokens: ApiTokens, tmp_path: Path
) -> None:
    answered: set[str] = set()
    with start_server() as server:
        document = httpx2.get(
            f"{server.url}/openapi.json", headers={"Authorization": f"Bearer {tokens.add('reader')}"}, timeout=120
        ).json()
        tokens.add("spare", agent="writer")
        for agent in ("ada", ""):
            secret = tokens.add(f"fuzz-{agent or 'owner'}", agent=agent, rate=0)
            with lukasa.open(str(tmp_path / "agents.db"), embedder="hash") as owner:
                parameters = seed_store(owner, agent)
            answered |= run_schemathesis(
                server, tmp_path, secret, "--phases", "examples,coverage", parameters=parameters
            )
            run_schemathesis(server, tmp_path, secret, "--phases", "fuzzing,stateful", "--max-time", FUZZING_SECONDS)
    operations = {f"{verb.upper()} {path}" for path, verbs in document["paths"].items() for verb in verbs}
    assert operations - answered - {"POST /v1/import"} <= set(NOT_ANSWERED)
