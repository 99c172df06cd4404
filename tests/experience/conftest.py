"""What the tests of experience share: stores of both engines, and episodes to fill them with."""

from contextlib import ExitStack
from pathlib import Path

import pytest

import lukasa
from lukasa.testing import CountingIds, FrozenClock

TREE = Path(__file__).parents[2] / "examples" / "loki"
STEPS = ("read_file", "write_file", "run_test", "edit_file", "run_test")


@pytest.fixture
def clock():
    return FrozenClock()


@pytest.fixture
def opened(clock):
    """Opens stores with the test's clock and closes them again."""
    with ExitStack() as stack:

        def open_(place="memory:", **options):
            return stack.enter_context(lukasa.open(place, clock=clock, embedder="hash", **options))

        yield open_


@pytest.fixture(params=["memory", "postgresql"])
def memory(request, opened):
    """The owner's view of a new store, on either engine."""
    return opened("memory:" if request.param == "memory" else request.getfixturevalue("url"))


@pytest.fixture
def local(opened):
    """The owner's view of a new store in this process alone."""
    return opened("memory:")


@pytest.fixture
def file(tmp_path):
    return str(tmp_path / "agents.db")


@pytest.fixture
def place(request, file):
    return file


@pytest.fixture(scope="session")
def tree():
    return TREE


@pytest.fixture(scope="session")
def told():
    """Makes an episode as its document spells it."""

    def told(goal, *, outcome="success", agent="eng-001", steps=STEPS, errors=(), **more):
        context = {"goal": goal, **more.pop("context", {})}
        return {
            "agent": agent,
            "context": context,
            "action_log": [{"t": 10 * at, "action": step} for at, step in enumerate(steps)],
            "outcome": outcome,
            "errors_encountered": [dict(error) for error in errors],
            **more,
        }

    return told


@pytest.fixture(scope="session")
def ids():
    return CountingIds
