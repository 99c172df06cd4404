"""procrastinate's tables in a schema of their own, kept up to date however many processes start at once.

procrastinate ships its schema as numbered migrations and leaves it to its users to remember which were applied. A table
of ours remembers. Each migration is applied and remembered in one transaction, under one lock for the whole database,
so a process that dies half-way leaves the rest to the next.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import psycopg
from psycopg import errors

from lukasa.errors import NotAllowed, StoreNewer
from lukasa.jobs.sql import SQL

SCHEMA = "lukasa_jobs"
_MIGRATION_LOCK = (19533, 0)
RESCUE_LOCK = (19533, 1)


def load_migrations() -> dict[str, str]:
    """procrastinate's migrations in their order."""
    folder = files("procrastinate.sql") / "migrations"
    found = {file.name: file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(".sql")}
    return dict(sorted(found.items()))


def migrate_schema(url: str, available: dict[str, str] | None = None) -> None:
    """Brings the schema up to date. Doing it twice, or ten times at once, is fine."""
    available = load_migrations() if available is None else available
    with psycopg.connect(url, autocommit=True) as connection:
        if _applied_migrations(connection) == set(available) and _fetch_value(connection, "is_set_up"):
            return
        connection.execute("SELECT pg_advisory_lock(%s, %s)", _MIGRATION_LOCK)  # let go of when the connection closes
        _create_schema(connection)
        applied = _applied_migrations(connection)
        if newer := applied - set(available):
            raise StoreNewer(
                f"The jobs in this database were set up by a newer procrastinate ({max(newer)}).",
                hint="Upgrade procrastinate to work on them.",
            )
        for name, statements in available.items():
            if name not in applied:
                with connection.transaction():
                    connection.execute(statements.encode())
                    connection.execute(SQL["note_migration"], (name,))
        connection.execute(SQL["make_failures"])


def _applied_migrations(connection: psycopg.Connection[Any]) -> set[str]:
    connection.execute(SQL["enter"])
    try:
        return {name for (name,) in connection.execute(SQL["migrations"])}
    except errors.UndefinedTable:
        return set()


def _create_schema(connection: psycopg.Connection[Any]) -> None:
    there = _fetch_value(connection, "schema_exists")
    try:
        if not there:
            connection.execute(SQL["make_schema"])
        connection.execute(SQL["enter"])
        connection.execute(SQL["make_books"])
    except errors.InsufficientPrivilege as error:
        if there:
            raise NotAllowed(
                "The tables for jobs belong to another role.", hint="Defer and do jobs as the owner of the store."
            ) from error
        role = _fetch_value(connection, "role")
        raise NotAllowed(
            "The database role may not make the tables for jobs.",
            hint=f"Have the database's owner run once: CREATE SCHEMA {SCHEMA} AUTHORIZATION {role};",
        ) from error


def _fetch_value(connection: psycopg.Connection[Any], name: str) -> Any:
    row = connection.execute(SQL[name]).fetchone()
    assert row is not None
    return row[0]
