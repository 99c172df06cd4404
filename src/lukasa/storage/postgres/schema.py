"""The schema of a PostgreSQL store: numbered migrations, and access of database roles to scopes."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib.resources import files

import psycopg

from lukasa.errors import LukasaError, NotAllowed, StoreForeign, StoreMissing, StoreNewer
from lukasa.storage.engine import Progress
from lukasa.storage.postgres.connection import fetch_single_row
from lukasa.storage.postgres.maintenance import refresh_text_index
from lukasa.storage.postgres.pool import Database

_FIRST_SCHEMA_OF_INDEX_FORM = 4
_MIGRATION_LOCK = (19531, 1)

# Schemas 1 and 2 called it "fact". The catalog itself is read: to_regclass() answers from the session's cache, which
# inside a transaction may not yet know of a schema that another process committed while this one waited for the lock.
_VERSION_TABLE = """
    SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = 'lukasa' AND relname IN ('meta', 'fact') ORDER BY relname DESC LIMIT 1
"""


@cache
def load_migrations() -> tuple[tuple[int, str], ...]:
    """Load the numbered migrations, in order."""
    scripts = [file for file in files(__package__).joinpath("migrations").iterdir() if file.name.endswith(".sql")]
    return tuple((int(file.name[:4]), file.read_text("utf-8")) for file in sorted(scripts, key=lambda file: file.name))


def latest_version() -> int:
    """Return the newest schema this Lukasa knows."""
    return load_migrations()[-1][0]


def migrate(database: Database, *, create: bool = True, progress: Progress | None = None) -> None:
    """Bring the schema up to date in one transaction; other processes that migrate wait for a lock."""
    (encoding,) = fetch_single_row(database.execute("SHOW server_encoding"))
    if encoding != "UTF8":
        raise StoreForeign(
            f"The database has the encoding {encoding}, which cannot hold every text.",
            hint="Make a database with ENCODING 'UTF8'.",
        )
    found = _read_version(database)
    if found == latest_version():
        return
    if not found and not create:
        raise StoreMissing("There is no store in the database.", hint="Name another one.")
    database.execute("BEGIN")
    try:
        if found:  # any role can hold an advisory lock, but no other can lock this table
            database.execute(f"LOCK TABLE lukasa.{_find_version_table(database)} IN SHARE ROW EXCLUSIVE MODE")
        else:
            database.execute("SELECT pg_advisory_xact_lock(%s, %s)", _MIGRATION_LOCK)
        present = _read_version(database)
        if not present:
            foreign = "SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('lukasa')"
            if fetch_single_row(database.execute(foreign))[0]:
                raise StoreForeign("The schema 'lukasa' of the database holds something else; it was left untouched.")
            database.execute("CREATE SCHEMA IF NOT EXISTS lukasa")
        for number, script in load_migrations():
            if number > present:
                database.execute(script)
        if 0 < present < _FIRST_SCHEMA_OF_INDEX_FORM:
            refresh_text_index(database, progress)
        _install_pgvector(database)
        database.execute(
            "INSERT INTO meta (name, value) VALUES ('schema', %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (str(latest_version()),),
        )
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
        database.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
    except (
        psycopg.errors.InsufficientPrivilege,
        psycopg.errors.FeatureNotSupported,
        psycopg.errors.UndefinedFile,
        psycopg.errors.InvalidSchemaName,
    ):
        database.execute("ROLLBACK TO vectors")


def _find_version_table(database: Database) -> str | None:
    table = database.execute(_VERSION_TABLE).fetchone()
    return None if table is None else str(table[0])


def _read_version(database: Database) -> int:
    """Return the version of the schema in the database; 0 when there is none."""
    table = _find_version_table(database)
    if table is None:
        return 0
    row = database.execute(f"SELECT value FROM lukasa.{table} WHERE name = 'schema'").fetchone()  # noqa: S608 - one of two names
    present = int(row[0]) if row is not None else 0
    if present > latest_version():
        raise StoreNewer(
            f"The database has schema {present}; this Lukasa knows up to {latest_version()}.",
            hint="Upgrade Lukasa to open it.",
        )
    return present


def is_owner(database: Database) -> bool:
    """Return whether the connection may act as the owner of the store."""
    statement = "SELECT pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'lukasa'"
    return bool(fetch_single_row(database.execute(statement))[0])


def grant_scopes(
    database: Database, role: str, read: frozenset[str], write: frozenset[str], agent: str | None = None
) -> None:
    """Give a role access to exactly these scopes from now on; what it writes must name the agent, if there is one."""
    if not role or "\0" in role:
        raise LukasaError("A role has a name.")
    database.execute("BEGIN")
    database.execute("DELETE FROM admission WHERE role = %s", (role,))
    with database.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO admission (role, scope, writes, agent) VALUES (%s, %s, %s, %s)",
            [(role, scope, scope in write, agent) for scope in sorted(read | write)],
        )
    database.execute("SELECT grant_reading(%s)", (role,))
    database.execute("COMMIT")
