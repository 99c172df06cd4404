"""Upkeep runs by itself: after tasks and when idle, at most once for what is new, visible as jobs, and undone by label."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

import httpx2
from starlette.testclient import TestClient
from typer.testing import CliRunner

import lukasa
from lukasa.interfaces import upkeep
from lukasa.interfaces.cli.app import app
from lukasa.interfaces.http.app import build_app
from lukasa.interfaces.http.server_jobs import ServerJobs
from lukasa.interfaces.stores import Caller, CallerStores
from lukasa.interfaces.upkeep import UpkeepWatch, defer_upkeep, run_upkeep, watch_upkeep
from lukasa.testing import FrozenClock
from support.api_server import run_api_server, token_for

pytestmark = pytest.mark.requirement("EXP-3")
GOAL = "Implement POST /api/{} endpoint"
BOTH = {"experience.consolidate": "waiting", "experience.prune": "waiting"}
QUIET, TIMEOUT = 600.0, 60


@pytest.fixture(params=["file", "postgresql"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return request.getfixturevalue("url") if request.param == "postgresql" else str(tmp_path / "agents.db")


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def memory(location: str, clock: FrozenClock) -> Iterator[lukasa.Memory]:
    with lukasa.open(location, clock=clock, embedder="hash") as memory:
        yield memory


def record_tasks(memory: lukasa.Memory, *things: str, agent: str = "") -> None:
    for thing in things:
        actions = [{"action": "read_file"}, {"action": "write_file"}, {"action": "run_test"}]
        assert memory.episodes.record(GOAL.format(thing), action_log=actions, agent=agent)


def list_jobs(memory: lukasa.Memory) -> dict[str, str]:
    return {job.name: job.state for job in memory.jobs.list()}


def wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, "the condition never became true"
        time.sleep(0.02)


def upkeep_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "lukasa-upkeep"]


def test_upkeep_is_deferred_once_no_episode_ended_for_a_while(memory: lukasa.Memory, clock: FrozenClock) -> None:
    watch = UpkeepWatch(QUIET, clock)
    running = memory.episodes.start("Draw the logo").unwrap()
    clock.advance(QUIET)
    assert not watch.check(memory)  # nothing ended
    record_tasks(memory, "todos", "users")
    clock.advance(QUIET - 1)
    assert not watch.check(memory)
    clock.advance()
    assert watch.check(memory)
    assert list_jobs(memory) == BOTH
    assert not watch.check(memory)
    assert memory.jobs.run_waiting().done == 2
    assert memory.knowledge.patterns()
    for again in (watch, UpkeepWatch(QUIET, clock)):  # nor does a worker that starts now
        clock.advance(10 * QUIET)
        assert not again.check(memory)
    running.finish()
    clock.advance(QUIET)
    assert watch.check(memory)


def test_upkeep_does_not_wait_for_ever_if_tasks_keep_ending(memory: lukasa.Memory, clock: FrozenClock) -> None:
    watch = UpkeepWatch(QUIET, clock)
    deferred = []
    for number in range(14):
        record_tasks(memory, f"things{number}")
        deferred.append(watch.check(memory))
        clock.advance(QUIET / 2)
    assert deferred == [False] * 12 + [True, False]


def test_what_a_person_took_back_is_not_done_again_by_itself(memory: lukasa.Memory, clock: FrozenClock) -> None:
    record_tasks(memory, "todos", "users")
    clock.advance(QUIET)
    assert UpkeepWatch(QUIET, clock).check(memory)
    (id,) = [job.id for job in memory.jobs.list() if job.name == "experience.consolidate"]
    memory.jobs.run_waiting()
    label = (memory.jobs.result(id) or {})["label"]
    assert memory.journal.undo(label=label).reverted
    assert memory.knowledge.patterns() == []
    clock.advance(10 * QUIET)
    assert not UpkeepWatch(QUIET, clock).check(memory)
    record_tasks(memory, "orders")
    clock.advance(QUIET)
    assert UpkeepWatch(QUIET, clock).check(memory)


def test_pruned_episodes_are_not_new(memory: lukasa.Memory, clock: FrozenClock) -> None:
    watch = UpkeepWatch(QUIET, clock)
    record_tasks(memory, "todos")
    clock.advance(10 * 86_400)
    assert watch.check(memory)
    memory.jobs.run_waiting()
    assert memory.episodes.list()[0].detail == "summary"
    clock.advance(QUIET)
    assert not UpkeepWatch(QUIET, clock).check(memory)


def test_upkeep_by_an_agent_is_about_the_scope_that_it_writes_to(tmp_path: Path) -> None:
    with lukasa.open(tmp_path / "agents.db", embedder="hash") as owner:
        ada = owner.as_agent("ada")
        record_tasks(ada, "todos", "users")
        record_tasks(owner.as_agent("ben"), "orders")
        assert UpkeepWatch(0).check(ada)
        assert {job.scope for job in ada.jobs.list()} == {"shared"}
        run_upkeep(ada)
        assert not ada.jobs.list()
        assert {item.record.author for item in owner.knowledge.patterns()} == {"ada"}
        assert not UpkeepWatch(0).check(ada)


def test_upkeep_can_be_turned_off(memory: lukasa.Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUKASA_UPKEEP", "off")
    record_tasks(memory, "todos")
    defer_upkeep(memory)
    with watch_upkeep(lambda: memory, quiet=0):
        assert upkeep_threads() == []
    assert list_jobs(memory) == {}


def test_nothing_is_written_to_a_store_that_is_only_read(tmp_path: Path) -> None:
    with lukasa.open(tmp_path / "agents.db", embedder="hash") as memory:
        record_tasks(memory, "todos")
        tip = memory.journal.tip()
    with (
        lukasa.open(tmp_path / "agents.db", embedder="hash", read_only=True) as memory,
        watch_upkeep(lambda: memory, quiet=0),
    ):
        wait_until(lambda: not upkeep_threads())
        assert memory.journal.tip() == tip


def test_a_server_consolidates_what_its_clients_record(location: str) -> None:
    stores = CallerStores(location, Caller(), embedder="hash")
    owner = {"Authorization": f"Bearer {token_for('')}"}
    with (
        run_api_server(location) as url,
        ServerJobs("").run_worker(stores, quiet=0),
        httpx2.Client(base_url=url, headers=owner, timeout=TIMEOUT) as client,
    ):

        def knowledge() -> list[Any]:
            return client.get("/v1/knowledge/patterns").json()["patterns"]

        for thing in ("todos", "users"):
            body = {"goal": GOAL.format(thing), "outcome": "success", "action_log": [{"action": "run_test"}]}
            assert client.post("/v1/episodes", json=body).status_code == 201
        wait_until(knowledge)
        wait_until(lambda: not client.get("/v1/jobs").json()["jobs"])
        runs = [
            label
            for record in stores.for_caller(Caller()).journal.read(lukasa.Query(kinds=("pattern",)))
            for label in record.labels
        ]
        (label,) = [label for label in runs if label.startswith("run=")]
        assert client.post("/v1/journal/undo", json={"label": label}).json()["reverted"]
        assert knowledge() == []
    stores.close()


@pytest.mark.parametrize("runs_jobs", [True, False])
def test_a_server_without_a_worker_defers_nothing(tmp_path: Path, runs_jobs: bool) -> None:
    stores = CallerStores(str(tmp_path / "agents.db"), Caller(), embedder="hash")
    with TestClient(build_app(stores, lambda _: None, ["testserver"], runs_jobs=runs_jobs)):
        assert len(upkeep_threads()) == runs_jobs
    assert upkeep_threads() == []
    stores.close()


def test_a_worker_consolidates_without_an_option(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "watch_upkeep", partial(watch_upkeep, quiet=0))
    with lukasa.open(location, embedder="hash") as memory:
        record_tasks(memory, "todos", "users")

        def stop_when_done() -> None:
            try:
                wait_until(lambda: memory.knowledge.patterns() and not memory.jobs.list())
            finally:
                os.kill(os.getpid(), signal.SIGTERM)

        thread = threading.Thread(target=stop_when_done)
        thread.start()
        result = CliRunner().invoke(app, ["--store", location, "worker"], catch_exceptions=False)
        thread.join()
        assert result.exit_code == 0, result.output
        assert "done experience.consolidate" in result.stderr
        assert memory.knowledge.patterns()
