"""The registry of job functions, and the modules that it imports."""

import subprocess
import sys
from datetime import timedelta

import pytest

import lukasa
from lukasa.errors import InvalidInput
from lukasa.jobs import REGISTRY, RunSummary, Task, job
from lukasa.jobs.job import describe_error

pytestmark = pytest.mark.requirement("OPS-3")


def nothing(memory):
    """Do nothing."""


@pytest.mark.parametrize("name", ["", "Tidy", "1st", "tidy up", "tidy\n", "ü", "x" * 41, "../tidy"])
def test_a_job_name_that_is_long_or_not_plain_is_refused(register, name):
    with pytest.raises(InvalidInput, match="name of a job"):
        register.job(name)(nothing)


@pytest.mark.parametrize("name", ["a", "tidy", "recall.embed-all_2", "x" * 40])
def test_a_plain_job_name_is_accepted(register, name):
    assert register.job(name)(nothing) is nothing
    assert register[name] == Task(name, nothing)


def test_a_second_function_under_the_same_name_is_refused(register):
    register.job("tidy")(nothing)
    register.job("tidy")(nothing)
    with pytest.raises(InvalidInput, match="Two functions"):
        register.job("tidy")(lambda memory: None)


def test_a_job_function_cannot_have_a_parameter_of_defer(register):
    with pytest.raises(InvalidInput, match="'scope'"):
        register.job("tidy")(lambda memory, scope: None)


@pytest.mark.parametrize(
    "bad", [{"attempts": 0}, {"backoff": -1}, {"backoff": float("inf")}, {"backoff": float("nan")}]
)
def test_bad_attempts_and_pauses_are_refused(register, bad):
    with pytest.raises(InvalidInput):
        register.job("tidy", **bad)(nothing)


def test_the_retry_delay_doubles_up_to_an_hour():
    task = Task("tidy", nothing, attempts=2000, backoff=10)
    assert [task.retry_delay(attempts).total_seconds() for attempts in (1, 2, 3, 4)] == [10, 20, 40, 80]
    assert task.retry_delay(9) == timedelta(seconds=2560)
    assert task.retry_delay(10) == task.retry_delay(1999) == timedelta(hours=1)


def test_the_default_registry_serves_every_memory():
    done = []
    job("test.serve")(lambda memory: done.append(memory.place.engine))
    try:
        with lukasa.open("memory:") as memory:
            memory.jobs.defer("test.serve")
            assert memory.jobs.run_waiting() == RunSummary(done=1)
        assert done == ["memory"]
    finally:
        REGISTRY.forget("test.serve")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("two\n lines"), "ValueError: two lines"),
        (ValueError(), "ValueError"),
        (ValueError("\0\ud83d"), "ValueError: \\ud83d"),
        (ValueError("x" * 1000), "ValueError: " + "x" * 487 + "…"),
    ],
)
def test_an_error_is_described_in_one_short_line(error, line):
    assert describe_error(error) == line


def test_jobs_without_postgresql_import_no_heavy_module():
    code = """
import sys, lukasa, lukasa.jobs
with lukasa.open("memory:") as memory:
    memory.jobs.run_waiting()
print([name for name in ("psycopg", "psycopg_pool", "procrastinate", "asyncio") if name in sys.modules])
"""
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output == "[]\n"
