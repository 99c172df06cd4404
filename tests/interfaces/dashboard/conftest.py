"""One browser and one server on the demo store for all tests of the dashboard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from playwright.sync_api import Browser

from lukasa.interfaces.demo import fill_store
from support.browser import run_browser
from support.dashboard import DashboardServer, Visitor, serve_dashboard, visit


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return the browser. Playwright occupies the event loop of the thread, so it ends with the tests of a file."""
    with run_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DashboardServer]:
    """Serve the demo store. Tests that change it add records of their own."""
    path = tmp_path_factory.mktemp("dashboard") / "memory.db"
    fill_store(path, embedder="hash")
    with serve_dashboard(path, embedder="hash") as server:
        yield server


@pytest.fixture
def sign_in(browser: Browser, dashboard: DashboardServer) -> Iterator[Callable[..., Visitor]]:
    """Return a function that signs in as owner, ada or reader, and checks at the end that no page was faulty."""
    with ExitStack() as visits:

        def open_browser(who: str = "owner", **options: Any) -> Visitor:
            return visits.enter_context(visit(browser, options.pop("server", dashboard), who, **options))

        yield open_browser


@pytest.fixture(scope="session")
def static_folder() -> Path:
    import lukasa.interfaces.dashboard

    return Path(lukasa.interfaces.dashboard.__file__).parent / "static"
