"""Shared by all tests: hypothesis profiles, a PostgreSQL server, and markers for the requirements of the conformance suite."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from support.postgres import shared_server
from support.quick import select_quick

_ANY_SPEED = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "ci",
    derandomize=True,
    max_examples=60,
    deadline=None,
    report_multiple_bugs=False,  # one is enough to fail, and quicker to shrink
    suppress_health_check=_ANY_SPEED,
)
settings.register_profile("quick", settings.get_profile("ci"), max_examples=5)
settings.register_profile(
    "thorough",
    derandomize=False,  # also in CI, where hypothesis would try the same examples for ever
    max_examples=1500,
    deadline=None,
    print_blob=True,
    suppress_health_check=_ANY_SPEED,
)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))))
# No test notes a store in the user's own folder.
os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp(prefix="lukasa-tests-")
atexit.register(shutil.rmtree, os.environ["XDG_DATA_HOME"], ignore_errors=True)
# A shell starts background jobs with SIGINT ignored; processes that tests interrupt must not inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
settings.load_profile(os.environ.get("LUKASA_HYPOTHESIS", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--quick``."""
    parser.addoption(
        "--quick", action="store_true", help="only tests that need nothing but this process, with few examples"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Try few random examples in a quick run."""
    if config.getoption("--quick"):
        settings.load_profile("quick")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out of a quick run what starts a process, a server or a browser."""
    if config.getoption("--quick"):
        selected = select_quick(items)
        config.hook.pytest_deselected(items=list(set(items) - set(selected)))
        items[:] = selected


def pytest_itemcollected(item: pytest.Item) -> None:
    """Turn the numbers on conformance tests into markers; other projects run the suite without registering them."""
    numbers = getattr(getattr(item, "function", None), "requirements", ())
    if numbers:
        item.add_marker(pytest.mark.requirement(*numbers))


@pytest.fixture(scope="session")
def server():
    """Start a real PostgreSQL server."""
    with shared_server() as server:
        yield server


@pytest.fixture
def url(server):
    """Create a database and return its URL."""
    with server.database() as url:
        yield url
