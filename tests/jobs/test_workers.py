"""Workers in other processes, killed and raced, on a file and on PostgreSQL."""

import signal
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from lukasa.jobs import JobCounts, RunSummary
from lukasa.testing import FrozenClock

pytestmark = pytest.mark.requirement("OPS-3")


@pytest.fixture
def open_an_hour_later(location, open_store):
    """Open the store at a time when every heartbeat of a killed worker is an hour old."""

    def open_later():
        if not location.startswith("postgresql"):
            return open_store(location, clock=FrozenClock(datetime.now(UTC) + timedelta(hours=1)))
        with psycopg.connect(location) as connection:
            connection.execute(
                "UPDATE lukasa_jobs.procrastinate_workers SET last_heartbeat = now() - interval '1 hour'"
            )
        return open_store(location)

    return open_later


@pytest.fixture(autouse=True)
def functions(register, ledger):
    """Register the jobs of ``actors.py`` with functions that end."""
    register.job("write-down")(lambda memory, what: ledger(what))
    register.job("hang")(lambda memory: ledger("done"))
    register.job("do-and-die")(lambda memory: ledger("done"))
    register.job("do-and-die-at-once", attempts=1)(lambda memory: ledger("done"))


def race(location, open_store, actors, ledger, workers, jobs):
    """Let workers in other processes run jobs at the same time; each job runs once."""
    memory = open_store(location)
    for number in range(jobs):
        assert memory.jobs.defer("write-down", what=f"job {number}")
    actors.finish(
        *(actors.start("run_due_jobs", location=location, ledger=ledger.path, workers=workers) for _ in range(workers))
    )
    assert sorted(ledger.lines()) == sorted([f"job {number}" for number in range(jobs)] + ["ready"] * workers)
    assert memory.jobs.status() == JobCounts()


def test_two_workers_run_a_hundred_jobs_once_each(location, open_store, actors, ledger):
    race(location, open_store, actors, ledger, workers=2, jobs=100)


@pytest.mark.slow
def test_eight_workers_run_two_thousand_jobs_once_each(location, open_store, actors, ledger):
    race(location, open_store, actors, ledger, workers=8, jobs=2000)


def test_a_killed_workers_job_is_run_by_another_worker_after_its_lease(
    location, open_store, actors, ledger, open_an_hour_later
):
    memory = open_store(location)
    memory.jobs.defer("hang")
    worker = actors.start("work", location=location, ledger=ledger.path)
    ledger.wait_for("hanging")
    assert memory.jobs.status() == JobCounts(running=1)
    actors.kill(worker)
    assert memory.jobs.run_waiting() == RunSummary()
    assert open_an_hour_later().jobs.run_waiting() == RunSummary(done=1)
    assert ledger.lines() == ["hanging", "done"]


def test_a_living_worker_keeps_its_job(location, open_store, actors, ledger):
    memory = open_store(location)
    memory.jobs.defer("hang")
    actors.start("work", location=location, ledger=ledger.path)
    ledger.wait_for("hanging")
    assert memory.jobs.run_waiting() == RunSummary()


def test_a_job_whose_worker_died_before_recording_it_runs_again(
    location, open_store, actors, ledger, open_an_hour_later
):
    open_store(location).jobs.defer("do-and-die")
    worker = actors.start("work", location=location, ledger=ledger.path)
    worker.wait(60)
    assert worker.returncode == -signal.SIGKILL
    assert ledger.lines() == ["done"]
    assert open_an_hour_later().jobs.run_waiting() == RunSummary(done=1)
    assert ledger.lines() == ["done", "done"]


def test_a_job_that_kills_its_worker_at_the_last_attempt_fails(
    location, open_store, actors, ledger, open_an_hour_later
):
    open_store(location).jobs.defer("do-and-die-at-once")
    actors.start("work", location=location, ledger=ledger.path).wait(60)
    memory = open_an_hour_later()
    assert memory.jobs.run_waiting() == RunSummary(failed=1)
    assert [job.error for job in memory.jobs.list("failed")] == ["Its worker died or gave no sign of life."]
    assert ledger.lines() == ["done"]


def test_a_deferred_job_survives_the_death_of_the_process_that_deferred_it(location, open_store, actors, ledger):
    process = actors.start("defer_and_die", location=location, ledger=ledger.path)
    process.wait(60)
    assert process.returncode == -signal.SIGKILL
    assert open_store(location).jobs.run_waiting() == RunSummary(done=1)
    assert ledger.lines() == ["a promise"]


def test_ten_processes_that_start_at_once_all_defer(location, open_store, actors, ledger, tmp_path):
    processes = [
        actors.start("defer_one", location=location, ledger=ledger.path, go=tmp_path / "go") for _ in range(10)
    ]
    (tmp_path / "go").touch()
    actors.finish(*processes)
    assert open_store(location).jobs.run_waiting() == RunSummary(done=10)
    assert len(set(ledger.lines())) == 10
