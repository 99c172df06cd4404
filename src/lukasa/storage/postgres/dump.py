"""A store in one file: every table as PostgreSQL copies it, at one moment, in a zip archive."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

from lukasa.errors import FormatError, InvalidInput, StoreNewer
from lukasa.storage.files import sync_folder
from lukasa.storage.postgres import vectors
from lukasa.storage.postgres.connection import fetch_single_row
from lukasa.storage.postgres.pool import Database
from lukasa.storage.postgres.schema import latest_version

_TABLES = ("log", "link", "hidden", "quarantine", "tally", "model", "idempotency", "meta")
_FORMAT = "lukasa-postgres"


def dump_store(database: Database, target: Path) -> None:
    """Writes everything there is at one moment to a new private file, durable before this returns."""
    if target.exists():
        raise InvalidInput(f"{target} is already there; a backup never overwrites.")
    part = target.with_name(target.name + ".part")
    part.unlink(missing_ok=True)
    database.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), "w+b") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                lengths = database.execute("SELECT number, length FROM model ORDER BY number").fetchall()
                (position,) = fetch_single_row(database.execute("SELECT newest_position()"))
                facts = {"format": _FORMAT, "schema": latest_version(), "position": position, "models": lengths}
                archive.writestr("manifest.json", json.dumps(facts))
                for table in (*_TABLES, *vectors.list_tables(database)):
                    rows = f"COPY (SELECT {_list_columns(database, table)} FROM {table}) TO STDOUT"  # noqa: S608 - our own table names
                    with archive.open(table, "w", force_zip64=True) as out, database.cursor().copy(rows) as copy:
                        for data in copy:
                            out.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.rename(target)
        sync_folder(target.parent)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    finally:
        database.execute("ROLLBACK")


def load_dump(database: Database, source: Path) -> None:
    """Brings a dumped store into a database whose store is empty."""
    try:
        with zipfile.ZipFile(source) as archive:
            _load_archive(database, archive)
    except (zipfile.BadZipFile, KeyError, json.JSONDecodeError) as error:
        raise FormatError(f"{source} is not a backup of a PostgreSQL store.") from error


def _load_archive(database: Database, archive: zipfile.ZipFile) -> None:
    facts = json.loads(archive.read("manifest.json"))
    if facts.get("format") != _FORMAT:
        raise FormatError("The archive is not a backup of a PostgreSQL store.")
    if facts["schema"] > latest_version():
        raise StoreNewer("The backup was written by a newer Lukasa; upgrade Lukasa to read it.")
    database.execute("BEGIN")
    if fetch_single_row(database.execute("SELECT EXISTS (SELECT 1 FROM log)"))[0]:
        raise InvalidInput("There are records in this database already; a backup is restored into an empty one.")
    database.execute("DELETE FROM meta")
    tables: Sequence[str] = [name for name in archive.namelist() if name in _TABLES]
    for table in tables:
        _load_table(database, archive, table)
    for number, length in facts["models"]:
        vectors.create_table(database, int(number), int(length))
        _load_table(database, archive, f"vector_{int(number)}")
    database.execute(
        "SELECT setval(pg_get_serial_sequence('model', 'number'), greatest((SELECT max(number) FROM model), 1))"
    )
    database.execute("SELECT setval('position', %s)", (max(int(facts["position"]), 1),))
    database.execute("COMMIT")


def _load_table(database: Database, archive: zipfile.ZipFile, table: str) -> None:
    with (
        archive.open(table) as data,
        database.cursor() as cursor,
        cursor.copy(f"COPY {table} ({_list_columns(database, table)}) FROM STDIN") as copy,
    ):
        while chunk := data.read(1 << 16):
            copy.write(chunk)


def _list_columns(database: Database, table: str) -> str:
    """The columns of a table that are not made from others."""
    found = database.execute(
        """SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
        WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''""",
        (table,),
    )
    return str(fetch_single_row(found)[0])
