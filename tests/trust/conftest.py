"""What the tests of trust share: stores on both engines, a clock that obeys, agents with a past."""

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
def opened(clock):
    """Opens stores, with the plainest embedder and the test's clock, and closes them again."""
    with ExitStack() as stack:

        def open_(place="memory:", **options):
            options = {"clock": clock, "embedder": "hash", "new_id": seeded_ids(1, clock)} | options
            return stack.enter_context(lukasa.open(place, **options))

        yield open_


@pytest.fixture
def memory(opened):
    return opened()


@pytest.fixture
def trust(memory):
    return memory.trust


@pytest.fixture(params=["file", "postgresql"])
def place(request, tmp_path):
    """A store that several processes can share."""
    return request.getfixturevalue("url") if request.param == "postgresql" else str(tmp_path / "agents.db")


@pytest.fixture(scope="session")
def essay():
    """A text of so many different words, none of which stands in the text of another number."""

    def write(number=0, words=50):
        return " ".join(f"word{number}x{at}" for at in range(words))

    return write
