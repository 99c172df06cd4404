"""Fixtures of the engine tests: a real PostgreSQL server and fresh stores on it."""

from __future__ import annotations

import contextlib

import pytest

from support.postgres import PostgresServer, shared_server


@pytest.fixture(scope="session")
def postgres():
    """Start the server that all tests of this process share; each test uses its own databases."""
    with shared_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_pair():
    """Start a primary and a standby that follows it."""
    with PostgresServer(durable=True, settings={"fsync": "off", "full_page_writes": "off"}) as primary:
        yield primary, primary.start_standby()


@pytest.fixture
def fresh_store(postgres):
    """Create empty stores, each in a new database, and return their URLs."""
    with contextlib.ExitStack() as stack:
        yield lambda locale=None: stack.enter_context(postgres.database(template_store(postgres, locale)))


@pytest.fixture
def fresh_store_and_replica(postgres_pair):
    """Create empty stores that a standby follows; return the URLs of the store and of the standby's copy."""
    primary, standby = postgres_pair
    names = []

    def make():
        names.append(primary.create(template_store(primary)))
        return primary.url(names[-1]), standby.url(names[-1])

    yield make
    for name in names:
        primary.discard(name)


def template_store(server, locale=None):
    """Return the name of a template database with an empty store."""
    from lukasa.storage.postgres import PostgresEngine

    return server.template(f"store {locale}", lambda url: PostgresEngine(url).close(), locale=locale)
