"""Fixtures of the tests of trust: stores on both engines, a frozen clock, and texts of distinct words."""

from contextlib import ExitStack
from datetime import UTC, datetime

import pytest

import lukasa
from lukasa.testing import FrozenClock, seeded_ids

NOON = datetime(2026, 2, 3, 12, tzinfo=UTC)


@pytest.fixture
def clock():
    return FrozenClock(NOON)


@pytest.fixture
def open_store(clock):
    """Open stores with the hash embedder and the test's clock, and close them after the test."""
    with ExitStack() as stack:

        def open_(location="memory:", **options):
            options = {"clock": clock, "embedder": "hash", "new_id": seeded_ids(1, clock)} | options
            return stack.enter_context(lukasa.open(location, **options))

        yield open_


@pytest.fixture
def memory(open_store):
    return open_store()


@pytest.fixture
def trust(memory):
    return memory.trust


@pytest.fixture(params=["file", "postgresql"])
def location(request, tmp_path):
    """Return the location of a store that several processes can share."""
    return request.getfixturevalue("url") if request.param == "postgresql" else str(tmp_path / "agents.db")


@pytest.fixture(scope="session")
def essay():
    """Return a function that writes a text of distinct words; texts with different numbers share no word."""

    def write(number=0, words=50):
        return " ".join(f"word{number}x{index}" for index in range(words))

    return write
