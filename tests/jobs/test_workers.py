"""Workers in processes of their own, killed and raced, on a file and on PostgreSQL."""

import signal
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from lukasa.jobs import JobCounts, RunSummary
from lukasa.testing import FrozenClock

pytestmark = pytest.mark.requirement("OPS-3")


@pytest.fixture
def later(place, opened):
    """The store once every sign of life of a killed worker is an hour old."""

    def later():
        if not place.startswith("postgresql"):
            return opened(place, clock=FrozenClock(datetime.now(UTC) + timedelta(hours=1)))
        with psycopg.connect(place) as connection:
            connection.execute(
                "UPDATE lukasa_jobs.procrastinate_workers SET last_heartbeat = now() - interval '1 hour'"
            )
        return opened(place)

    return later


@pytest.fixture(autouse=True)
def functions(register, ledger):
    """The jobs of ``actors.py`` as they are done here: to the end."""
    register.job("write-down")(lambda memory, what: ledger(what))
    register.job("hang")(lambda memory: ledger("done"))
    register.job("do-and-die")(lambda memory: ledger("done"))
    register.job("do-and-die-at-once", attempts=1)(lambda memory: ledger("done"))


def race(place, opened, company, ledger, workers, jobs):
    memory = opened(place)
    for number in range(jobs):
        assert memory.jobs.defer("write-down", what=f"job {number}")
    company.finish(
        *(company.start("do_what_is_due", place=place, ledger=ledger.path, workers=workers) for _ in range(workers))
    )
    assert sorted(ledger.lines()) == sorted([f"job {number}" for number in range(jobs)] + ["ready"] * workers)
    assert memory.jobs.status() == JobCounts()


def test_two_workers_do_a_hundred_jobs_once_each(place, opened, company, ledger):
    race(place, opened, company, ledger, workers=2, jobs=100)


@pytest.mark.slow
def test_eight_workers_do_two_thousand_jobs_once_each(place, opened, company, ledger):
    race(place, opened, company, ledger, workers=8, jobs=2000)


def test_the_job_of_a_killed_worker_is_taken_up_by_another_and_not_too_early(place, opened, company, ledger, later):
    memory = opened(place)
    memory.jobs.defer("hang")
    worker = company.start("work", place=place, ledger=ledger.path)
    ledger.wait_for("hanging")
    assert memory.jobs.status() == JobCounts(running=1)
    company.kill(worker)
    assert memory.jobs.run_waiting() == RunSummary()
    assert later().jobs.run_waiting() == RunSummary(done=1)
    assert ledger.lines() == ["hanging", "done"]


def test_a_living_worker_keeps_its_job(place, opened, company, ledger):
    memory = opened(place)
    memory.jobs.defer("hang")
    company.start("work", place=place, ledger=ledger.path)
    ledger.wait_for("hanging")
    assert memory.jobs.run_waiting() == RunSummary()


def test_a_job_that_was_done_but_not_noted_is_done_again(place, opened, company, ledger, later):
    opened(place).jobs.defer("do-and-die")
    worker = company.start("work", place=place, ledger=ledger.path)
    worker.wait(60)
    assert worker.returncode == -signal.SIGKILL
    assert ledger.lines() == ["done"]
    assert later().jobs.run_waiting() == RunSummary(done=1)
    assert ledger.lines() == ["done", "done"]


def test_a_job_that_kills_its_last_worker_ends_as_failed(place, opened, company, ledger, later):
    opened(place).jobs.defer("do-and-die-at-once")
    company.start("work", place=place, ledger=ledger.path).wait(60)
    memory = later()
    assert memory.jobs.run_waiting() == RunSummary(failed=1)
    assert [job.error for job in memory.jobs.find("failed")] == ["Its worker died or gave no sign of life."]
    assert ledger.lines() == ["done"]


def test_a_deferred_job_survives_the_death_of_whoever_deferred_it(place, opened, company, ledger):
    promising = company.start("defer_and_die", place=place, ledger=ledger.path)
    promising.wait(60)
    assert promising.returncode == -signal.SIGKILL
    assert opened(place).jobs.run_waiting() == RunSummary(done=1)
    assert ledger.lines() == ["a promise"]


def test_ten_processes_that_start_at_once_all_defer(place, opened, company, ledger, tmp_path):
    ten = [company.start("defer_one", place=place, ledger=ledger.path, go=tmp_path / "go") for _ in range(10)]
    (tmp_path / "go").touch()
    company.finish(*ten)
    assert opened(place).jobs.run_waiting() == RunSummary(done=10)
    assert len(set(ledger.lines())) == 10
