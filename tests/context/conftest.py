"""What the tests of sessions share: stores of every sort, and processes of their own."""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import lukasa
from lukasa.testing import FrozenClock

ACTORS = Path(__file__).with_name("actors.py")
PATIENCE = 60


@pytest.fixture
def file(tmp_path):
    return str(tmp_path / "agents.db")


@pytest.fixture(params=["file", "postgresql"])
def place(request):
    """A store that several processes can share."""
    return request.getfixturevalue("url" if request.param == "postgresql" else "file")


@pytest.fixture
def clock():
    return FrozenClock()


@pytest.fixture
def opened(monkeypatch):
    """Opens stores with the smallest embedder and no language model, and closes them again."""
    monkeypatch.delenv("LUKASA_LLM", raising=False)
    with ExitStack() as stack:

        def open_(place="memory:", **options):
            return stack.enter_context(lukasa.open(place, **{"embedder": "hash", **options}))

        yield open_


@pytest.fixture(params=["memory", "postgresql"])
def memory(request, opened, clock):
    """The owner's view of a new store, on both engines."""
    return opened(request.getfixturevalue("url") if request.param == "postgresql" else "memory:", clock=clock)


@pytest.fixture
def contexts(memory):
    return memory.context


@pytest.fixture
def quick(opened, clock):
    """Sessions on the engine that opens fastest, for rules that no engine could change."""
    return opened(clock=clock).context


@pytest.fixture
def talk():
    """Appends numbered turns to a session."""

    def talk(contexts, session, count, *, start=1, role="user", **more):
        for number in range(start, start + count):
            assert contexts.append(session, role, f"Message {number}", **more)

    return talk


class Company:
    """Starts the parts of ``actors.py`` in processes of their own."""

    def __init__(self):
        self._started = []

    def start(self, part, **facts):
        process = subprocess.Popen(
            [sys.executable, str(ACTORS), part, json.dumps(facts)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def finish(self, *processes):
        for process in processes:
            _, complaint = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, complaint[-4000:]

    def kill(self, process):
        os.kill(process.pid, signal.SIGKILL)
        said, _ = process.communicate(timeout=PATIENCE)
        return said

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
