"""Opening the database file: who owns it, which schema it has, how it is set up."""

from __future__ import annotations

import os
import random
import re
import secrets
import time
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from lukasa.errors import InvalidInput, StoreDamaged, StoreForeign, StoreNewer, StoreUnavailable
from lukasa.storage.files import sync_folder
from lukasa.storage.sqlite.errors import translate_error
from lukasa.storage.text_match import contains_text

APPLICATION_ID = 0x4C554B41  # "LUKA" in the file's header
_MIGRATIONS = files("lukasa.storage.sqlite") / "migrations"


def load_migrations() -> list[tuple[int, str]]:
    """The numbered steps that make up the schema."""
    found = []
    for file in _MIGRATIONS.iterdir():
        if number := re.match(r"(\d{4})_.*\.sql$", file.name):
            found.append((int(number[1]), file.read_text("utf-8")))
    return sorted(found)


SCHEMA_VERSION = load_migrations()[-1][0]


MIN_DATABASE_BYTES = 512
"""No database is smaller."""


def create_private_file(path: Path) -> None:
    """Makes an empty file that only its owner can read; SQLite gives its side files the same mode."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def create_store(path: Path, vfs: str | None = None) -> None:
    """Makes a new store unless there is one. It takes its name only when it is whole, so half a store is never seen."""
    if path.exists():
        return
    part = path.with_name(f".{path.name}.{secrets.token_hex(6)}.new")
    try:
        for folder in (*reversed(path.parent.parents), path.parent):
            if not folder.exists():
                folder.mkdir(mode=0o700, exist_ok=True)
        create_private_file(part)
        database = apsw.Connection(str(part), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
        try:
            migrate(database, part)
        finally:
            database.close()
        with suppress(FileExistsError):  # another process was quicker, with the same result
            os.link(part, path)
        sync_folder(path.parent)
    except OSError as error:
        raise StoreUnavailable(f"The store {path} cannot be made: {error.strerror or error}.") from error
    except apsw.Error as error:
        raise translate_error(error) from error
    finally:
        part.unlink(missing_ok=True)


def connect(path: Path, *, timeout: float, vfs: str | None = None, write: bool = True) -> apsw.Connection:
    """A connection set up for durability: WAL, a real fsync at every commit, freed pages overwritten."""
    flags = apsw.SQLITE_OPEN_READWRITE if write else apsw.SQLITE_OPEN_READONLY
    database = apsw.Connection(str(path), flags=flags | apsw.SQLITE_OPEN_NOMUTEX, vfs=vfs, statementcachesize=200)
    configure_connection(database, timeout)
    return database


def connect_immutable(path: Path) -> apsw.Connection:
    """A connection that takes the file as it is: it locks nothing, makes no side file and sees no write-ahead log."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    database = apsw.Connection(f"file:{quote(str(path))}?immutable=1", flags=flags)
    database.create_scalar_function("says", _contains_text, 2, deterministic=True)
    return database


def _contains_text(*values: Any) -> bool:
    return contains_text(str(values[0]), str(values[1]))


def configure_connection(database: apsw.Connection, timeout: float) -> None:
    database.set_busy_handler(BusyTimeout(timeout))
    database.create_scalar_function("says", _contains_text, 2, deterministic=True)
    for pragma in (
        "synchronous = FULL",  # a commit survives a power cut
        "secure_delete = ON",  # freed space is overwritten
        "trusted_schema = OFF",  # a crafted file runs no functions
        "cache_size = -16384",
        "mmap_size = 0",
        "temp_store = MEMORY",
    ):
        database.execute(f"PRAGMA {pragma}").fetchall()


class BusyTimeout:
    """How long to wait for a lock: short, uneven naps, so that waiting processes take turns instead of colliding."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadline = 0.0

    def __call__(self, attempts: int) -> bool:
        now = time.monotonic()
        if attempts == 0:
            self._deadline = now + self._seconds
        if now >= self._deadline:
            return False
        time.sleep(random.uniform(0.0002, 0.002))  # noqa: S311 - naps need no secrecy
        return True


def check_file(path: Path) -> None:
    """Refuses files that are not ours, without touching them.

    The first look takes the file as unchangeable: nothing is locked and no side file is made. What is still in a
    write-ahead log escapes it, so ``migrate`` looks again once the store is open.
    """
    if path.is_dir():
        raise StoreForeign(f"{path} is a folder, not a store.")
    if path.stat().st_size == 0:
        raise StoreDamaged(f"{path} is empty.", hint="Restore a backup, or remove it to begin anew.")
    if path.stat().st_size < MIN_DATABASE_BYTES:
        raise StoreForeign(f"{path} is too small to be a Lukasa store; it was left untouched.")
    try:
        database = connect_immutable(path)
        try:
            check_owner(database, path)
        finally:
            database.close()
    except apsw.NotADBError as error:
        raise StoreForeign(f"{path} is not a Lukasa store; it was left untouched.") from error
    except (apsw.CorruptError, apsw.CantOpenError, apsw.IOError):
        return  # caught in the middle of somebody's write: the real look will tell


def check_owner(database: apsw.Connection, path: Path | None) -> None:
    """Refuses a database of another program and one of a newer Lukasa."""
    version = int(str(database.pragma("user_version")))
    if database.pragma("application_id") != APPLICATION_ID:
        if database.execute("SELECT count(*) FROM sqlite_schema").get:
            raise StoreForeign(f"{path} is a database of another program; it was left untouched.")
    elif version > SCHEMA_VERSION:
        raise StoreNewer(
            f"{path} has schema {version}; this Lukasa knows up to {SCHEMA_VERSION}.", hint="Upgrade Lukasa to open it."
        )


def migrate(database: apsw.Connection, path: Path | None) -> None:
    """Brings the schema up to date: a copy of an older store first, then all steps in one transaction."""
    check_owner(database, path)
    if database.pragma("user_version") == SCHEMA_VERSION:
        return
    if path is not None:
        database.execute("PRAGMA journal_mode = WAL").fetchall()
    with_data = int(str(database.pragma("user_version")))
    if with_data and path is not None:
        copy_database(database, path.with_name(f"{path.name}.before-schema-{SCHEMA_VERSION}"))
    database.execute("BEGIN IMMEDIATE")
    try:
        present = int(str(database.pragma("user_version")))
        for number, script in load_migrations():
            if number > present:
                database.execute(script)
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}")
        database.execute("COMMIT")
    except BaseException:
        database.execute("ROLLBACK")
        raise


def copy_database(database: apsw.Connection, target: Path) -> None:
    """A consistent copy into a new private file, durable before this returns."""
    if target.exists():
        raise InvalidInput(f"{target} is already there; a backup never overwrites.")
    part = target.with_name(target.name + ".part")
    part.unlink(missing_ok=True)
    create_private_file(part)
    try:
        database.execute("VACUUM INTO ?", (str(part),))
        descriptor = os.open(part, os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        part.rename(target)
        sync_folder(target.parent)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
