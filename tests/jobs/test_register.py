"""Registering functions as jobs, and what that loads."""

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
    """Does nothing."""


@pytest.mark.parametrize("name", ["", "Tidy", "1st", "tidy up", "tidy\n", "ü", "x" * 41, "../tidy"])
def test_a_name_is_short_and_plain(register, name):
    with pytest.raises(InvalidInput, match="name of a job"):
        register.job(name)(nothing)


@pytest.mark.parametrize("name", ["a", "tidy", "recall.embed-all_2", "x" * 40])
def test_a_plain_name_is_taken(register, name):
    assert register.job(name)(nothing) is nothing
    assert register[name] == Task(name, nothing)


def test_a_name_stands_for_one_function(register):
    register.job("tidy")(nothing)
    register.job("tidy")(nothing)
    with pytest.raises(InvalidInput, match="Two functions"):
        register.job("tidy")(lambda memory: None)


def test_words_of_defer_cannot_be_parameters(register):
    with pytest.raises(InvalidInput, match="'scope'"):
        register.job("tidy")(lambda memory, scope: None)


@pytest.mark.parametrize(
    "bad", [{"attempts": 0}, {"backoff": -1}, {"backoff": float("inf")}, {"backoff": float("nan")}]
)
def test_attempts_and_pauses_are_sensible(register, bad):
    with pytest.raises(InvalidInput):
        register.job("tidy", **bad)(nothing)


def test_pauses_double_up_to_an_hour():
    work = Task("tidy", nothing, attempts=2000, backoff=10)
    assert [work.retry_delay(attempts).total_seconds() for attempts in (1, 2, 3, 4)] == [10, 20, 40, 80]
    assert work.retry_delay(9) == timedelta(seconds=2560)
    assert work.retry_delay(10) == work.retry_delay(1999) == timedelta(hours=1)


def test_the_one_register_serves_every_memory():
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
    ("error", "said"),
    [
        (ValueError("two\n lines"), "ValueError: two lines"),
        (ValueError(), "ValueError"),
        (ValueError("\0\ud83d"), "ValueError: \\ud83d"),
        (ValueError("x" * 1000), "ValueError: " + "x" * 487 + "…"),
    ],
)
def test_an_error_is_told_in_one_short_line(error, said):
    assert describe_error(error) == said


def test_nothing_heavy_is_loaded_before_it_is_needed():
    code = """
import sys, lukasa, lukasa.jobs
with lukasa.open("memory:") as memory:
    memory.jobs.run_waiting()
print([name for name in ("psycopg", "psycopg_pool", "procrastinate", "asyncio") if name in sys.modules])
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "[]\n"
