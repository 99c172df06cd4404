"""What the tests of jobs share: stores of every sort, functions to defer, and workers in processes of their own."""

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
PATIENCE = 60


@pytest.fixture(params=["file", "postgresql"])
def place(request):
    """A store that several processes can share."""
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
def opened(register):
    """Opens stores and closes them again; jobs are those of the test's own register."""
    with ExitStack() as stack:

        def open_(place, **options):
            memory = stack.enter_context(lukasa.open(place, **options))
            memory.jobs = memory.jobs.serving(register)
            return memory

        yield open_


@pytest.fixture(params=["file", "memory", "postgresql"])
def memory(request, opened, clock):
    """The owner's view of a new store, of each sort that keeps jobs."""
    if request.param == "memory":
        return opened("memory:", clock=clock)
    return opened(request.getfixturevalue("url" if request.param == "postgresql" else "file"), clock=clock)


@pytest.fixture
def working():
    """Starts workers in threads; each comes with a function that stops it and tells what it did."""
    stops = []

    def start(memory, **options):
        stop, ran = threading.Event(), []
        thread = threading.Thread(target=lambda: ran.append(memory.jobs.work(stop, **options)))
        thread.start()

        def end():
            stop.set()
            thread.join(PATIENCE)
            assert not thread.is_alive()
            return ran

        stops.append(end)
        return stop, end

    yield start
    for end in stops:
        end()


class Ledger:
    """What was done, noted outside any store, by whichever process did it."""

    def __init__(self, path):
        self.path = path

    def __call__(self, line):
        with self.path.open("a") as file:
            file.write(f"{line}\n")

    def lines(self):
        return self.path.read_text().splitlines() if self.path.exists() else []

    def wait_for(self, line):
        until(lambda: line in self.lines())


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger")


def until(holds):
    """Waits for what another process or thread does."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it never came to pass"
        time.sleep(0.005)


@pytest.fixture(scope="session")
def eventually():
    return until


class Company:
    """Starts the parts of ``actors.py`` in processes of their own."""

    def __init__(self):
        self._started = []

    def start(self, part, **facts):
        process = subprocess.Popen(
            [sys.executable, str(ACTORS), part, json.dumps(facts, default=str)], stderr=subprocess.PIPE, text=True
        )
        self._started.append(process)
        return process

    def finish(self, *processes):
        for process in processes:
            _, complaint = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, complaint[-4000:]

    def play(self, part, **facts):
        self.finish(self.start(part, **facts))

    def kill(self, process):
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == -signal.SIGKILL

    def end(self):
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def company():
    company = Company()
    yield company
    company.end()
