"""What the tests of the vault share: stores of both engines, and a vault with a clock that stands still."""

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import lukasa
from lukasa.testing import FrozenClock
from lukasa.vault import VaultSettings

ACTORS = Path(__file__).with_name("actors.py")
PATIENCE = 120


@pytest.fixture
def clock():
    return FrozenClock()


@pytest.fixture
def opened(clock):
    """Opens stores and closes them again."""
    with ExitStack() as stack:

        def open_(place="memory:", **options):
            options.setdefault("embedder", "hash")
            return stack.enter_context(lukasa.open(place, **{"clock": clock, **options}))

        yield open_


@pytest.fixture(params=["file", "postgresql"])
def place(request, tmp_path):
    """A store that several processes can share."""
    return request.getfixturevalue("url") if request.param == "postgresql" else str(tmp_path / "agents.db")


@pytest.fixture
def memory(opened, place):
    return opened(place)


@pytest.fixture
def vault(opened):
    """The owner's vault in a store of its own, with room enough."""
    return opened(profile=VaultSettings(capacity=1_000_000)).vault


@pytest.fixture(scope="session")
def together():
    """Plays parts of ``actors.py`` in processes of their own, all at once; returns what each printed."""

    def play(part, *facts):
        command = [sys.executable, str(ACTORS), part]
        started = [
            subprocess.Popen([*command, json.dumps(fact)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for fact in facts
        ]
        said = []
        for process in started:
            out, complaint = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, complaint[-3000:]
            said.append(json.loads(out))
        return said

    return play
