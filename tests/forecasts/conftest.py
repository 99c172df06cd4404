"""Stores that the forecast tests share."""

from contextlib import ExitStack

import pytest

import lukasa
from lukasa.testing import FrozenClock
from support.postgres import shared_server


@pytest.fixture(scope="session")
def server():
    with shared_server() as server:
        yield server


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def open_store():
    """Open stores and close them after the test."""
    with ExitStack() as stack:
        yield lambda location, **options: stack.enter_context(lukasa.open(location, **options))


@pytest.fixture(params=["file", "postgresql"])
def location(request, tmp_path):
    """Yield where a new store goes: a SQLite file, then a PostgreSQL database."""
    if request.param == "file":
        yield str(tmp_path / "agents.db")
    else:
        with request.getfixturevalue("server").database() as url:
            yield url


@pytest.fixture
def memory(location, open_store, clock):
    return open_store(location, clock=clock)
