"""Stores and processes that the conversation tests share."""

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

PROCESS_PARTS = Path(__file__).with_name("process_parts.py")
TIMEOUT = 60


@pytest.fixture
def database_file(tmp_path) -> str:
    return str(tmp_path / "agents.db")


@pytest.fixture(params=["file", "postgresql"])
def location(request) -> str:
    """Return where a store goes that several processes can share."""
    return request.getfixturevalue("url" if request.param == "postgresql" else "database_file")


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def open_store(monkeypatch):
    """Open stores with the smallest embedder and no language model; close them after the test."""
    monkeypatch.delenv("LUKASA_LLM", raising=False)
    with ExitStack() as stack:

        def open_store(location="memory:", **options):
            return stack.enter_context(lukasa.open(location, **{"embedder": "hash", **options}))

        yield open_store


@pytest.fixture(params=["memory", "postgresql"])
def memory(request, open_store, clock):
    """Open a new store as its owner, on both engines."""
    return open_store(request.getfixturevalue("url") if request.param == "postgresql" else "memory:", clock=clock)


@pytest.fixture
def conversations(memory):
    return memory.context


@pytest.fixture
def in_memory(open_store, clock):
    """Open conversations on the fastest engine, for rules that do not depend on the engine."""
    return open_store(clock=clock).context


@pytest.fixture
def append_turns():
    """Append numbered turns to a conversation."""

    def append_turns(conversations, session_id, count, *, start=1, role="user", **more):
        for number in range(start, start + count):
            assert conversations.append(session_id, role, f"Message {number}", **more)

    return append_turns


class Processes:
    """Runs the functions of ``process_parts.py`` in separate processes."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[str]] = []

    def start(self, function: str, **arguments) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(PROCESS_PARTS), function, json.dumps(arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def finish(self, *processes: subprocess.Popen[str]) -> None:
        for process in processes:
            _, errors = process.communicate(timeout=TIMEOUT)
            assert process.returncode == 0, errors[-4000:]

    def kill(self, process: subprocess.Popen[str]) -> str:
        """Kill a process and return what it printed and was not read yet."""
        os.kill(process.pid, signal.SIGKILL)
        output, _ = process.communicate(timeout=TIMEOUT)
        return output

    def end(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def processes():
    processes = Processes()
    yield processes
    processes.end()
