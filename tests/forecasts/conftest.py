"""What the tests of forecasts share: stores of every sort."""

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
def clock():
    return FrozenClock()


@pytest.fixture
def opened():
    with ExitStack() as stack:
        yield lambda place, **options: stack.enter_context(lukasa.open(place, **options))


@pytest.fixture(params=["file", "postgresql"])
def place(request, tmp_path):
    if request.param == "file":
        yield str(tmp_path / "agents.db")
    else:
        with request.getfixturevalue("server").database() as url:
            yield url


@pytest.fixture
def memory(place, opened, clock):
    return opened(place, clock=clock)
