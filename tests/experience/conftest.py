"""Shared fixtures of the experience tests: stores on both engines, and episodes to fill them with."""

from contextlib import ExitStack
from pathlib import Path

import pytest

import lukasa
from lukasa.testing import FrozenClock

LOKI_TREE = Path(__file__).parents[2] / "examples" / "loki"
STEPS = ("read_file", "write_file", "run_test", "edit_file", "run_test")


@pytest.fixture
def clock():
    return FrozenClock()


@pytest.fixture
def open_store(clock):
    """Return a function that opens stores with the test's clock; they are closed after the test."""
    with ExitStack() as stack:

        def open_store(location="memory:", **options):
            return stack.enter_context(lukasa.open(location, clock=clock, embedder="hash", **options))

        yield open_store


@pytest.fixture(params=["memory", "postgresql"])
def memory(request, open_store):
    """Open a new store as its owner, on either engine."""
    return open_store("memory:" if request.param == "memory" else request.getfixturevalue("url"))


@pytest.fixture
def local(open_store):
    """Open a new store in memory as its owner."""
    return open_store("memory:")


@pytest.fixture
def store_path(tmp_path):
    return str(tmp_path / "agents.db")


@pytest.fixture(scope="session")
def loki_tree():
    return LOKI_TREE


@pytest.fixture
def loki_memory(memory, loki_tree):
    """Import the example tree into a new store and consolidate it."""
    memory.import_(loki_tree, format="loki")
    memory.consolidate()
    return memory


@pytest.fixture(scope="session")
def make_episode():
    """Return a function that makes an episode document."""

    def make_episode(goal, *, outcome="success", agent="eng-001", steps=STEPS, errors=(), **fields):
        context = {"goal": goal, **fields.pop("context", {})}
        return {
            "agent": agent,
            "context": context,
            "action_log": [{"t": 10 * number, "action": step} for number, step in enumerate(steps)],
            "outcome": outcome,
            "errors_encountered": [dict(error) for error in errors],
            **fields,
        }

    return make_episode
