"""What all tests share: how hard hypothesis tries, a PostgreSQL server, and the requirements that the shipped exam notes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from support.postgres import shared_server

_ANY_SPEED = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "ci",
    derandomize=True,
    max_examples=60,
    deadline=None,
    report_multiple_bugs=False,  # one is enough to fail, and quicker to boil down
    suppress_health_check=_ANY_SPEED,
)
settings.register_profile(
    "thorough", max_examples=1500, deadline=None, print_blob=True, suppress_health_check=_ANY_SPEED
)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))))
settings.load_profile(os.environ.get("LUKASA_HYPOTHESIS", "ci"))


def pytest_itemcollected(item: pytest.Item) -> None:
    """``lukasa.testing`` ships without our markers, so that other projects need not register them; here they count."""
    numbers = getattr(getattr(item, "function", None), "requirements", ())
    if numbers:
        item.add_marker(pytest.mark.requirement(*numbers))


@pytest.fixture(scope="session")
def server():
    """A real PostgreSQL server, for whoever asks for it."""
    with shared_server() as server:
        yield server


@pytest.fixture
def url(server):
    """A database of its own."""
    with server.database() as url:
        yield url
