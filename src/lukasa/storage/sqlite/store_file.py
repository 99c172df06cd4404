"""The database file of a SQLite store: creation, ownership checks, migrations, settings, copies and errors."""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from lukasa.errors import (
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from lukasa.storage.engine import Progress
from lukasa.storage.files import check_output_path, create_part, delete_if_abandoned, give_name, sync_folder
from lukasa.storage.migrations import Migrations
from lukasa.storage.reader import contains_text
from lukasa.storage.sqlite.sql import SQL
from lukasa.text.terms import to_index_form

APPLICATION_ID = 0x4C554B41  # "LUKA" in the file's header
_TOKEN_SECONDS = 5.0
_MIN_DATABASE_BYTES = 512  # the smallest page of SQLite

_ERROR_TYPES: tuple[tuple[type[Exception], type[StoreError]], ...] = (
    (apsw.BusyError, StoreBusy),
    (apsw.LockedError, StoreBusy),
    (apsw.FullError, StoreFull),
    (apsw.ReadOnlyError, StoreReadOnly),
    (apsw.NotADBError, StoreForeign),
    (apsw.CorruptError, StoreDamaged),
    (apsw.ConnectionClosedError, StoreClosed),
)

_SIGNS_OF_DAMAGE = ("malformed JSON", "no such column", "no such table")
"""The messages of SQLite about a statement of the package when an entry or the schema is damaged."""


def translate_error(error: apsw.Error | MemoryError) -> StoreError:
    """Return the Lukasa error for an error of SQLite. No error of ``apsw`` leaves the engine."""
    for sqlite_type, store_type in _ERROR_TYPES:
        if isinstance(error, sqlite_type):
            return store_type()
    if isinstance(error, apsw.IOError | apsw.CantOpenError):
        return StoreUnavailable(f"The storage failed ({error}); the write was not acknowledged.")
    if any(sign in str(error) for sign in _SIGNS_OF_DAMAGE):
        return StoreDamaged()
    return StoreError(f"SQLite refused: {error}")


MIGRATIONS = Migrations(Path(__file__).with_name("migrations"))


def create_store(path: Path, vfs: str | None = None, before_naming: Callable[[Path, str], None] | None = None) -> None:
    """Create a store unless there is one. The file gets its name only when it is complete.

    ``before_naming`` gets the path and the token just before, so that no crash leaves a store that nobody knows to be his.
    """
    if path.exists():
        return
    part = path.with_name(f".{path.name}.{secrets.token_hex(6)}.new")
    try:
        for folder in (*reversed(path.parent.parents), path.parent):
            if not folder.exists():
                folder.mkdir(mode=0o700, exist_ok=True)
        # Only the owner can read it; SQLite gives its side files the same mode.
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        database = apsw.Connection(str(part), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
        try:
            migrate(database, part)
            database.execute(SQL["make_head_token"])
            token = str(database.execute(SQL["head_token"]).get)
        finally:
            database.close()
        if before_naming is not None:
            before_naming(path, token)
        with suppress(FileExistsError):  # another process created it first, with the same content
            os.link(part, path)
        sync_folder(path.parent)
    except OSError as error:
        raise StoreUnavailable(f"The store {path} cannot be made: {error.strerror or error}.") from error
    except apsw.Error as error:
        raise translate_error(error) from error
    finally:
        part.unlink(missing_ok=True)


def connect(path: Path, *, timeout: float, vfs: str | None = None, write: bool = True) -> apsw.Connection:
    """Open a durable connection: WAL, a real fsync at every commit, freed pages overwritten."""
    flags = apsw.SQLITE_OPEN_READWRITE if write else apsw.SQLITE_OPEN_READONLY
    database = apsw.Connection(str(path), flags=flags | apsw.SQLITE_OPEN_NOMUTEX, vfs=vfs, statementcachesize=200)
    configure_connection(database, timeout)
    return database


def connect_immutable(path: Path) -> apsw.Connection:
    """Open a connection that locks nothing, creates no side file and ignores the write-ahead log."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    database = apsw.Connection(f"file:{quote(str(path))}?immutable=1", flags=flags)
    keep_prepared(database)
    register_functions(database)
    return database


def register_functions(database: apsw.Connection) -> None:
    """Register the SQL functions ``says``, for queries, and ``index_form``, which the views of the text index use."""
    database.create_scalar_function("says", _contains_text, 2, deterministic=True)
    database.create_scalar_function("index_form", _index_form, 1, deterministic=True, flags=apsw.SQLITE_INNOCUOUS)


def _contains_text(*values: Any) -> bool:
    return contains_text(values[0], str(values[1]))


def _index_form(*values: Any) -> str | None:
    return None if values[0] is None else to_index_form(str(values[0]))


def configure_connection(database: apsw.Connection, timeout: float) -> None:
    """Set the pragmas, the busy handler and the SQL functions of a connection."""
    database.set_busy_handler(BusyTimeout(timeout))
    keep_prepared(database)
    register_functions(database)
    for pragma in (
        "synchronous = FULL",  # a commit survives a power cut
        "secure_delete = ON",  # freed space is overwritten
        "trusted_schema = OFF",  # a crafted file runs no functions
        "cache_size = -16384",
        "mmap_size = 0",
        "temp_store = MEMORY",
    ):
        database.execute(f"PRAGMA {pragma}").fetchall()


def keep_prepared(database: apsw.Connection) -> None:
    """Prepare each statement once: a plan does not depend on the values that are bound.

    Otherwise SQLite, where it is built with ``STAT4``, prepares most statements again at each execution. A store holds no
    statistics of its values, so the plans are the same.
    """
    database.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


class BusyTimeout:
    """A busy handler that waits in short random sleeps, so that waiting processes take turns."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadline = 0.0

    def __call__(self, attempts: int) -> bool:
        now = time.monotonic()
        if attempts == 0:
            self._deadline = now + self._seconds
        if now >= self._deadline:
            return False
        time.sleep(random.uniform(0.0002, 0.002))  # noqa: S311 - a sleep needs no secrecy
        return True


def check_file(path: Path) -> None:
    """Refuse files that are not Lukasa stores, without touching them.

    The file is opened as immutable: nothing is locked and no side file is created. That misses what is still in a
    write-ahead log, so ``migrate`` checks again once the store is open.
    """
    if path.is_dir():
        raise StoreForeign(f"{path} is a folder, not a store.")
    if path.stat().st_size == 0:
        raise StoreDamaged(f"{path} is empty.", hint="Restore a backup, or remove it to start over.")
    if path.stat().st_size < _MIN_DATABASE_BYTES:
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
        return  # another process is writing; migrate checks again


def read_token(path: Path) -> str:
    """Return the random token of a store, which each copy of it has changed. Nothing is written."""
    check_file(path)
    database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        database.set_busy_handler(BusyTimeout(_TOKEN_SECONDS))
        try:
            found = database.execute(SQL["head_token"]).get
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError):  # a folder that cannot hold SQLite's side files
            database.close()
            database = connect_immutable(path)
            found = database.execute(SQL["head_token"]).get
    except apsw.Error as error:
        raise translate_error(error) from error
    finally:
        database.close()
    if not found:
        raise StoreForeign(f"{path} has no token of its own.", hint="Name it with --store, and write to it once.")
    return str(found)


def check_owner(database: apsw.Connection, path: Path | None) -> None:
    """Refuse a database of another program, and a store of a newer Lukasa."""
    if database.pragma("application_id") == APPLICATION_ID:
        MIGRATIONS.check(int(str(database.pragma("user_version"))), str(path))
    elif database.execute(SQL["count_schema"]).get:
        raise StoreForeign(f"{path} is a database of another program; it was left untouched.")


def check_current(database: apsw.Connection, path: Path | None) -> None:
    """Refuse to read a store of an older Lukasa where it cannot be migrated."""
    if database.pragma("user_version") != MIGRATIONS.latest:
        raise StoreReadOnly(
            f"{path} was written by an older Lukasa and cannot be migrated here.",
            hint="Open it once where it can be written.",
        )


def migrate(database: apsw.Connection, path: Path | None, progress: Progress | None = None) -> None:
    """Bring the schema up to date: copy an older store first, then run all steps in one transaction."""
    check_owner(database, path)
    register_functions(database)
    if database.pragma("user_version") == MIGRATIONS.latest:
        return
    if path is not None:
        database.execute("PRAGMA journal_mode = WAL").fetchall()
    database.execute("BEGIN IMMEDIATE")  # the one lock of a migration: others wait here, and find it done
    try:
        present = int(str(database.pragma("user_version")))
        scripts = MIGRATIONS.after(present)
        if present and scripts and path is not None:
            target, number = path.with_name(f"{path.name}.before-schema-{MIGRATIONS.latest}"), 1
            while target.exists():  # the copy of a migration that was killed
                number += 1
                target = path.with_name(f"{path.name}.before-schema-{MIGRATIONS.latest}-{number}")
            with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as reader:
                register_functions(reader)  # another connection, because this one is in a transaction
                copy_database(reader, target)
        for done, script in enumerate(scripts, start=1):
            database.execute(script)
            if present and progress is not None:
                progress(done, len(scripts))
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {MIGRATIONS.latest}")
        database.execute("COMMIT")
    except BaseException:
        database.execute("ROLLBACK")
        raise


def copy_database(database: apsw.Connection, target: Path) -> None:
    """Write a consistent copy to a new private file, durable before this returns."""
    check_output_path(target, replace=False)
    for part in target.parent.glob(".lukasa-*.part"):  # of copies that were killed
        delete_if_abandoned(part)
    part, descriptor = create_part(target)
    try:
        database.execute(SQL["copy_database"], (str(part),))
        copy = apsw.Connection(str(part), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            copy.execute(SQL["renew_head_token"])
        finally:
            copy.close()
        os.fsync(descriptor)
        give_name(part, target, replace=False)
    finally:
        os.close(descriptor)
        part.unlink(missing_ok=True)
