"""Long work that no request waits for: ``Prefer: respond-async`` makes it a job, a server runs it, its result is fetched."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from lukasa.interfaces.api_tokens import ApiTokens
from lukasa.interfaces.auth import StoreTokenSource
from lukasa.interfaces.http.app import build_app
from lukasa.interfaces.http.server_jobs import KEPT_EXPORTS
from lukasa.interfaces.stores import Caller, CallerStores
from lukasa.jobs import REGISTRY, Task
from lukasa.transfer.sync import read_log_page

pytestmark = pytest.mark.requirement("DOO-4")
ASYNC = {"Prefer": "respond-async, wait=5"}
Open = Callable[..., TestClient]


@pytest.fixture(params=["file", "postgresql"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CallerStores]:
    is_file = request.param == "file"
    place = str(tmp_path / "agents.db") if is_file else request.getfixturevalue("url")
    stores = CallerStores(place, Caller(), embedder="hash")
    yield stores
    stores.close()


def fail_with_text(memory: Any, text: str) -> None:
    raise RuntimeError(text)


@pytest.fixture
def open_client(
    stores: CallerStores, secrets: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Open]:
    """Return a function that opens a client of a server that runs jobs and has a place for backups."""
    monkeypatch.setenv("LUKASA_FILES", str(tmp_path / "files"))
    monkeypatch.setitem(REGISTRY, "test.fails", Task("test.fails", fail_with_text, attempts=1))
    app = build_app(
        stores, StoreTokenSource(stores), ["testserver"], backup_url=f"file://{tmp_path}/backups", runs_jobs=True
    )
    with TestClient(app, raise_server_exceptions=False) as base:

        def open_client(agent: str) -> TestClient:
            base.headers["Authorization"] = f"Bearer {secrets[agent]}"
            return base

        yield open_client


def wait_for_result(client: TestClient, deferred: Any) -> Any:
    """Return the job that an answer names, once it is done."""
    assert deferred.status_code == 202, deferred.text
    assert deferred.headers["preference-applied"] == "respond-async"
    end = time.monotonic() + 60
    while time.monotonic() < end:
        job = client.get(deferred.headers["location"]).json()
        if job["state"] == "done":
            return job
        assert job["state"] in ("waiting", "running"), job
        time.sleep(0.1)
    raise AssertionError("the job was not done")


def test_an_export_becomes_a_job_whose_result_is_the_log(open_client: Open, tmp_path: Path) -> None:
    owner = open_client("")
    owner.post("/v1/memories", json={"text": "We deploy on Tuesdays."})
    for _ in range(KEPT_EXPORTS + 1):
        deferred = owner.get("/v1/export", headers=ASYNC)
        job = wait_for_result(owner, deferred)
    log = owner.get(f"{deferred.headers['location']}/result")
    assert log.headers["content-type"] == "application/x-ndjson"
    assert len(log.content) == job["result"]["bytes"]
    assert b"We deploy on Tuesdays." in log.content
    again = owner.post("/v1/import", content=log.content, headers={"Content-Type": "application/x-ndjson"})
    assert again.json()["added"] == 0
    assert len(list((tmp_path / "backups" / "exports").glob("*.jsonl"))) == KEPT_EXPORTS


def test_a_backup_becomes_a_job_whose_result_describes_it(open_client: Open) -> None:
    owner = open_client("")
    deferred = owner.post("/v1/backups", headers=ASYNC)
    job = wait_for_result(owner, deferred)
    assert owner.get(f"{deferred.headers['location']}/result").json() == job["result"]
    (listed,) = owner.get("/v1/backups").json()["backups"]
    assert (listed["number"], listed["sha256"]) == (job["result"]["number"], job["result"]["sha256"])
    wait_for_result(owner, owner.get("/v1/export", headers=ASYNC))
    assert len(owner.get("/v1/backups").json()["backups"]) == 1  # exports beside them are no backups


def test_a_consolidation_becomes_a_job_whose_result_names_its_run(open_client: Open) -> None:
    ada = open_client("ada")
    for number in range(4):
        step = {"action": "test", "target": "tests/test_login.py", "result": "passed"}
        body = {"goal": "Fix the login page again", "outcome": "success", "action_log": [step], "task_id": f"t{number}"}
        assert ada.post("/v1/episodes", json=body | {"scope": "ada"}).status_code == 201
    deferred = ada.post("/v1/consolidation", json={}, headers=ASYNC)
    label = wait_for_result(ada, deferred)["result"]["label"]
    assert "reverted" in ada.post("/v1/journal/undo", json={"label": label}).json()
    assert open_client("ben").get(deferred.headers["location"]).status_code == 404


def test_the_error_of_a_failed_job_is_told_to_its_owner_and_not_logged(
    open_client: Open, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    owner = open_client("")
    body = {"name": "test.fails", "arguments": {"text": "The canary sings."}}
    place = owner.post("/v1/jobs", json=body).headers["location"]
    end = time.monotonic() + 60
    while (job := owner.get(place).json())["state"] != "failed" and time.monotonic() < end:
        time.sleep(0.1)
    assert "canary" in job["error"]
    assert not [record for record in caplog.records if "canary" in record.getMessage() + str(record.exc_info)]


def test_an_agent_cannot_defer_what_writes_to_the_disk_of_the_server(open_client: Open) -> None:
    ada = open_client("ada")
    assert ada.post("/v1/backups", headers=ASYNC).status_code == 403
    log = ada.get("/v1/export", headers=ASYNC)  # the preference is not applied: an agent reads its own log at once
    assert (log.status_code, "preference-applied" in log.headers) == (200, False)
    for name in ("server.export", "server.backup"):
        assert ada.post("/v1/jobs", json={"name": name}).json()["code"] == "unknown_job"
    assert ada.get("/v1/jobs/none").status_code == 404
    assert ada.get("/v1/jobs/none/result").json()["code"] == "not_found"


def test_a_server_without_a_place_for_backups_answers_at_once(stores: CallerStores, tokens: ApiTokens) -> None:
    app = build_app(stores, StoreTokenSource(stores), ["testserver"])
    client = TestClient(app, headers={"Authorization": f"Bearer {tokens.add('owner')}"})
    assert client.get("/v1/export", headers=ASYNC).status_code == 200
    assert client.post("/v1/backups", headers=ASYNC).json()["code"] == "invalid_input"


def test_jobs_and_their_results_stay_in_their_store(stores: CallerStores) -> None:
    memory = stores.for_caller(Caller()).as_agent("ada")
    memory.journal.write("job_result", body={"name": "experience.consolidate", "result": {}}, id="j1", scope="ada")
    memory.journal.write("note", "mine", scope="ada")
    assert [record.kind for record in read_log_page(memory.journal, 0).records] == ["note"]
