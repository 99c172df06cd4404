"""The schema of a PostgreSQL store: numbered migrations, and access of database roles to scopes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psycopg

from lukasa.errors import LukasaError, NotAllowed, StoreForeign, StoreMissing
from lukasa.storage.engine import Progress
from lukasa.storage.migrations import Migrations
from lukasa.storage.postgres.connection import fetch_single_row
from lukasa.storage.postgres.pool import Database
from lukasa.storage.postgres.sql import SQL

MIGRATIONS = Migrations(Path(__file__).with_name("migrations"))


def migrate(database: Database, *, create: bool = True, progress: Progress | None = None) -> None:
    """Bring the schema up to date in one transaction; other processes that migrate wait for a lock."""
    (encoding,) = fetch_single_row(database.execute(SQL["server_encoding"]))
    if encoding != "UTF8":
        raise StoreForeign(
            f"The database has the encoding {encoding}, which cannot hold every text.",
            hint="Make a database with ENCODING 'UTF8'.",
        )
    found = _read_version(database)
    if found == MIGRATIONS.latest:
        return
    if not found and not create:
        raise StoreMissing("There is no store in the database.", hint="Name another one.")
    database.execute("BEGIN")
    try:
        if found:  # any role can hold an advisory lock, but no other can lock this table
            database.execute(SQL["lock_version"])
        else:
            database.execute(SQL["lock_migration"])
        present = _read_version(database)
        if not present:
            if fetch_single_row(database.execute(SQL["count_foreign"]))[0]:
                raise StoreForeign("The schema 'lukasa' of the database holds something else; it was left untouched.")
            database.execute(SQL["create_schema"])
        scripts = MIGRATIONS.after(present)
        for done, script in enumerate(scripts, start=1):
            database.execute(script)
            if present and progress is not None:
                progress(done, len(scripts))
        _install_pgvector(database)
        database.execute(SQL["set_schema_version"], (str(MIGRATIONS.latest),))
        database.execute("COMMIT")
    except psycopg.errors.InsufficientPrivilege as error:
        raise NotAllowed(
            "This role may not set up a store in the database.",
            hint="Let the database's owner open it once, or run: GRANT CREATE ON DATABASE … TO …",
        ) from error
    finally:
        if database.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            with suppress(psycopg.Error):  # the first error matters more
                database.execute("ROLLBACK")


def _install_pgvector(database: Database) -> None:
    """Install pgvector if this role may; otherwise the first use of vectors reports that it is missing."""
    database.execute("SAVEPOINT vectors")
    try:
        database.execute(SQL["create_pgvector"])
    except (
        psycopg.errors.InsufficientPrivilege,
        psycopg.errors.FeatureNotSupported,
        psycopg.errors.UndefinedFile,
        psycopg.errors.InvalidSchemaName,
    ):
        database.execute("ROLLBACK TO vectors")


def _read_version(database: Database) -> int:
    """Return the version of the schema in the database; 0 when there is none.

    The catalog itself is read: to_regclass() answers from the session's cache, which inside a transaction may not yet know of a
    schema that another process committed while this one waited for the lock.
    """
    if not fetch_single_row(database.execute(SQL["has_meta"]))[0]:
        return 0
    row = database.execute(SQL["schema_version"]).fetchone()
    present = int(row[0]) if row is not None else 0
    MIGRATIONS.check(present, "The database")
    return present


def is_owner(database: Database) -> bool:
    """Return whether the connection may act as the owner of the store."""
    return bool(fetch_single_row(database.execute(SQL["is_owner"]))[0])


def grant_scopes(
    database: Database, role: str, read: frozenset[str], write: frozenset[str], agent: str | None = None
) -> None:
    """Give a role access to exactly these scopes from now on; what it writes must name the agent, if there is one."""
    if not role or "\0" in role:
        raise LukasaError("The role has no name.")
    database.execute("BEGIN")
    database.execute(SQL["revoke_scopes"], (role,))
    with database.cursor() as cursor:
        cursor.executemany(SQL["grant_scope"], [(role, scope, scope in write, agent) for scope in sorted(read | write)])
    database.execute(SQL["grant_reading"], (role,))
    database.execute("COMMIT")
