"""Fixtures of the vault's tests: stores of both engines, a vault with a frozen clock, and worker processes."""

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import lukasa
from lukasa.testing import FrozenClock
from lukasa.vault import VaultSettings

WORKER = Path(__file__).with_name("worker.py")
TIMEOUT = 120


@pytest.fixture
def clock():
    return FrozenClock()


@pytest.fixture
def open_store(clock):
    """Open stores during a test and close them after it."""
    with ExitStack() as stack:

        def open_(location="memory:", **options):
            options.setdefault("embedder", "hash")
            return stack.enter_context(lukasa.open(location, **{"clock": clock, **options}))

        yield open_


@pytest.fixture(params=["file", "postgresql"])
def location(request, tmp_path):
    """Return the location of a store that several processes can share."""
    return request.getfixturevalue("url") if request.param == "postgresql" else str(tmp_path / "agents.db")


@pytest.fixture
def memory(open_store, location):
    return open_store(location)


@pytest.fixture
def vault(open_store):
    """Return the owner's vault in an empty store, with enough capacity."""
    return open_store(profile=VaultSettings(capacity=1_000_000)).vault


@pytest.fixture(scope="session")
def run_concurrently():
    """Run a function of ``worker.py`` in one process for each set of arguments; return what each printed."""

    def run(function, *arguments):
        command = [sys.executable, str(WORKER), function]
        started = [
            subprocess.Popen([*command, json.dumps(given)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for given in arguments
        ]
        results = []
        for process in started:
            output, errors = process.communicate(timeout=TIMEOUT)
            assert process.returncode == 0, errors[-3000:]
            results.append(json.loads(output))
        return results

    return run
