"""Fixtures of the adapters whose frameworks ``make test-clients`` installs into an environment of their own."""

from __future__ import annotations

import pytest

import lukasa
from support.postgres import shared_server


@pytest.fixture(params=["file", "postgresql"])
def location(request, tmp_path):
    """Return the place of an empty store, once for each engine."""
    if request.param == "file":
        yield str(tmp_path / "memory.db")
        return
    with shared_server() as server, server.database() as url:
        yield url


@pytest.fixture
def memory(location):
    with lukasa.open(location, embedder="hash") as opened:
        yield opened
