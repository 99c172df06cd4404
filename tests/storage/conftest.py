"""What the exams of engines share: a real PostgreSQL server, and fresh stores on it."""

from __future__ import annotations

import contextlib

import pytest

from support.postgres import PostgresServer, shared_server


@pytest.fixture(scope="session")
def postgres():
    """A server for everybody in this process who keeps to databases of their own."""
    with shared_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_pair():
    """A primary and a standby that follows it."""
    with PostgresServer(durable=True, settings={"fsync": "off", "full_page_writes": "off"}) as primary:
        yield primary, primary.start_standby()


@pytest.fixture
def fresh_store(postgres):
    """Makes empty stores, each in a database of its own, by their URL."""
    with contextlib.ExitStack() as stack:
        yield lambda locale=None: stack.enter_context(postgres.database(store(postgres, locale)))


@pytest.fixture
def fresh_store_and_replica(postgres_pair):
    """Makes empty stores that a standby follows; gives the URL of the store, and of the standby's copy."""
    primary, standby = postgres_pair
    made = []

    def make():
        made.append(primary.create(store(primary)))
        return primary.url(made[-1]), standby.url(made[-1])

    yield make
    for name in made:
        primary.discard(name)


def store(server, locale=None):
    """The name of a database that holds an empty store, to copy from."""
    from lukasa.storage.postgres import PostgresEngine

    return server.template(f"store {locale}", lambda url: PostgresEngine(url).close(), locale=locale)
