"""Fixtures for the tests of personal data and secrets: stores of both engines, and a vault with a frozen clock."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import lukasa
from lukasa.testing import FrozenClock


@pytest.fixture
def opened() -> Iterator[Callable[..., lukasa.Memory]]:
    """Open stores and close them at the end."""
    with ExitStack() as stack:

        def open_store(store: str = "memory:", **options: Any) -> lukasa.Memory:
            options = {"clock": FrozenClock(), "embedder": "hash", **options}
            return stack.enter_context(lukasa.open(store, **options))

        yield open_store


@pytest.fixture(params=["file", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Name a store that several processes can share."""
    return str(request.getfixturevalue("url") if request.param == "postgresql" else tmp_path / "agents.db")
