"""Fixtures of the network tests: stores of both engines, and real servers over them."""

from contextlib import ExitStack

import pytest

import lukasa
from lukasa.testing import FrozenClock


@pytest.fixture
def clock():
    return FrozenClock()


@pytest.fixture
def open_store(tmp_path, monkeypatch):
    """Open stores that are closed after the test."""
    monkeypatch.setenv("LUKASA_FILES", str(tmp_path / "files"))
    with ExitStack() as stack:
        yield lambda location, **options: stack.enter_context(lukasa.open(location, **options))


@pytest.fixture(params=["file", "postgresql"])
def location(request, tmp_path):
    """Location of a store that several processes can share."""
    return request.getfixturevalue("url") if request.param == "postgresql" else str(tmp_path / "agents.db")


@pytest.fixture
def in_file(tmp_path, open_store, clock):
    """New store in a file, opened by the owner."""
    return open_store(str(tmp_path / "agents.db"), clock=clock)
