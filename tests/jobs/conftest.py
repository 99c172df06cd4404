"""Fixtures of the job tests: stores of every engine, a registry, workers in threads and in other processes."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

import lukasa
from lukasa.jobs import TaskRegistry
from lukasa.testing import FrozenClock

ACTORS = Path(__file__).with_name("actors.py")
TIMEOUT = 60


@pytest.fixture(params=["file", "postgresql"])
def location(request):
    """Location of a store that several processes can share."""
    return request.getfixturevalue("url") if request.param == "postgresql" else request.getfixturevalue("file")


@pytest.fixture
def file(tmp_path):
    return str(tmp_path / "agents.db")


@pytest.fixture
def clock():
    return FrozenClock()


@pytest.fixture
def register():
    return TaskRegistry()


@pytest.fixture
def open_store(register):
    """Open stores that are closed after the test; their jobs use the test's registry."""
    with ExitStack() as stack:

        def open_(location, **options):
            memory = stack.enter_context(lukasa.open(location, **options))
            memory.jobs = memory.jobs.serving(register)
            return memory

        yield open_


@pytest.fixture(params=["file", "memory", "postgresql"])
def memory(request, open_store, clock):
    """New store of each engine, opened by the owner."""
    if request.param == "memory":
        return open_store("memory:", clock=clock)
    return open_store(request.getfixturevalue("url" if request.param == "postgresql" else "file"), clock=clock)


@pytest.fixture
def start_worker():
    """Start workers in threads; each start returns its stop event and a function that ends it and returns its summary."""
    end_functions = []

    def start(memory, **options):
        stop, summaries = threading.Event(), []
        thread = threading.Thread(target=lambda: summaries.append(memory.jobs.work(stop, **options)))
        thread.start()

        def end():
            stop.set()
            thread.join(TIMEOUT)
            assert not thread.is_alive()
            return summaries

        end_functions.append(end)
        return stop, end

    yield start
    for end in end_functions:
        end()


class Ledger:
    """File outside of any store, in which jobs of every process note that they ran."""

    def __init__(self, path):
        self.path = path

    def __call__(self, line):
        with self.path.open("a") as file:
            file.write(f"{line}\n")

    def lines(self):
        return self.path.read_text().splitlines() if self.path.exists() else []

    def wait_for(self, line):
        wait_until(lambda: line in self.lines())


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger")


def wait_until(condition):
    """Wait until another process or thread has made a condition true."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, "the condition never became true"
        time.sleep(0.005)


@pytest.fixture(scope="session")
def eventually():
    return wait_until


class Actors:
    """Runs the functions of ``actors.py`` in other processes."""

    def __init__(self):
        self._processes = []

    def start(self, part, **settings):
        process = subprocess.Popen(
            [sys.executable, str(ACTORS), part, json.dumps(settings, default=str)], stderr=subprocess.PIPE, text=True
        )
        self._processes.append(process)
        return process

    def finish(self, *processes):
        for process in processes:
            _, errors = process.communicate(timeout=TIMEOUT)
            assert process.returncode == 0, errors[-4000:]

    def kill(self, process):
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=TIMEOUT)
        assert process.returncode == -signal.SIGKILL

    def end(self):
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def actors():
    actors = Actors()
    yield actors
    actors.end()
