"""What the exams of engines share: a real PostgreSQL server, and fresh stores on it."""

from __future__ import annotations

import pytest

from lukasa.testing.postgres import shared_server


@pytest.fixture(scope="session")
def postgres():
    """A server for everybody in this process who keeps to databases of their own."""
    with shared_server() as server:
        yield server


@pytest.fixture
def fresh_store(postgres):
    """Makes empty stores, each in a database of its own, by their URL."""
    from lukasa.engines.postgres import PostgresEngine

    made = []

    def make(locale=None):
        template = postgres.template(f"store {locale}", lambda url: PostgresEngine(url).close(), locale=locale)
        made.append(postgres.create(template))
        return postgres.url(made[-1])

    yield make
    for name in made:
        postgres.discard(name)
