"""Fixtures: stores on both engines, with a frozen clock."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import lukasa
from lukasa.testing import FrozenClock


@pytest.fixture
def open_store() -> Iterator[Callable[..., lukasa.Memory]]:
    """Return a function that opens stores; they are closed after the test."""
    with ExitStack() as stack:

        def open_one(store: str = "memory:", **options: Any) -> lukasa.Memory:
            options = {"clock": FrozenClock(), "embedder": "hash", **options}
            return stack.enter_context(lukasa.open(store, **options))

        yield open_one


@pytest.fixture(params=["file", "postgresql"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where a store of each engine lives."""
    return str(request.getfixturevalue("url") if request.param == "postgresql" else tmp_path / "agents.db")
