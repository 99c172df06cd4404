"""procrastinate's tables in the schema ``lukasa_jobs``, kept up to date however many processes start at once.

procrastinate ships its schema as numbered migrations and leaves it to its users to remember which were applied. Our
table ``migration`` remembers. Each migration is applied and recorded in one transaction, under one advisory lock for the
whole database, so a process that dies half-way leaves the rest to the next one.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import psycopg
from psycopg import errors

from lukasa.errors import NotAllowed, StoreNewer
from lukasa.jobs.sql import SQL
from lukasa.storage.postgres.pool import Database

SCHEMA = "lukasa_jobs"
_MIGRATION_LOCK = (19533, 0)
RESCUE_LOCK = (19533, 1)


def connect(url: str, *, timeout: float = 10.0) -> Database:
    """Open a connection that finds procrastinate's tables and commits durably whatever the server's default is."""
    seconds = max(1, min(10, int(timeout)))
    database = psycopg.connect(url, autocommit=True, connect_timeout=seconds, application_name="lukasa")
    database.execute(SQL["enter"])
    return database


def load_migrations() -> dict[str, str]:
    """Return procrastinate's migrations by name, in order."""
    folder = files("procrastinate.sql") / "migrations"
    found = {file.name: file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(".sql")}
    return dict(sorted(found.items()))


def migrate_schema(url: str, available: dict[str, str] | None = None) -> None:
    """Bring the schema up to date. Running it twice, or ten times at once, is safe."""
    available = load_migrations() if available is None else available
    with connect(url) as connection:
        if _applied_migrations(connection) == set(available) and _fetch_value(connection, "is_set_up"):
            return
        connection.execute(SQL["lock_migration"], _MIGRATION_LOCK)
        exists = _fetch_value(connection, "schema_exists")
        try:
            if not exists:
                connection.execute(SQL["make_schema"])
            connection.execute(SQL["make_migrations"])
        except errors.InsufficientPrivilege as error:
            if exists:
                raise NotAllowed(
                    "The tables for jobs belong to another role.", hint="Defer and do jobs as the owner of the store."
                ) from error
            role = _fetch_value(connection, "role")
            raise NotAllowed(
                "The database role may not make the tables for jobs.",
                hint=f"Have the database's owner run once: CREATE SCHEMA {SCHEMA} AUTHORIZATION {role};",
            ) from error
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


def _applied_migrations(connection: Database) -> set[str]:
    try:
        return {name for (name,) in connection.execute(SQL["migrations"])}
    except errors.UndefinedTable:
        return set()


def _fetch_value(connection: Database, name: str) -> Any:
    row = connection.execute(SQL[name]).fetchone()
    assert row is not None
    return row[0]
