"""Opening the database file: who owns it, which schema it has, how it is set up."""

from __future__ import annotations

import os
import random
import re
import time
from importlib.resources import files
from pathlib import Path

import apsw

from lukasa.engines.sqlite.faults import translate
from lukasa.errors import StoreError, StoreForeign, StoreMissing, StoreNewer, StoreReadOnly, StoreUnavailable

APPLICATION_ID = 0x4C554B41  # "LUKA" in the file's header
_MIGRATIONS = files("lukasa.engines.sqlite") / "migrations"


def migrations() -> list[tuple[int, str]]:
    """The numbered steps that make up the schema."""
    found = []
    for file in _MIGRATIONS.iterdir():
        if number := re.match(r"(\d{4})_.*\.sql$", file.name):
            found.append((int(number[1]), file.read_text("utf-8")))
    return sorted(found)


SCHEMA_VERSION = migrations()[-1][0]


def create_privately(path: Path) -> None:
    """Makes the folder and an empty file that only its owner can read; SQLite gives its side files the same mode."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreUnavailable(f"The store {path} cannot be made: {reason}.") from error


def connect(path: Path, *, patience: float, vfs: str | None = None, write: bool = True) -> apsw.Connection:
    """A connection set up for durability: WAL, a real fsync at every commit, freed pages overwritten."""
    flags = apsw.SQLITE_OPEN_READWRITE if write else apsw.SQLITE_OPEN_READONLY
    database = apsw.Connection(str(path), flags=flags | apsw.SQLITE_OPEN_NOMUTEX, vfs=vfs, statementcachesize=200)
    set_up(database, patience)
    return database


def set_up(database: apsw.Connection, patience: float) -> None:
    database.set_busy_handler(Patience(patience))
    database.execute(
        "PRAGMA synchronous = FULL; PRAGMA secure_delete = ON; PRAGMA trusted_schema = OFF;"
        "PRAGMA cache_size = -65536; PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY"
    )


class Patience:
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


def inspect(path: Path) -> int:
    """The schema version of the file, 0 when it is empty. Refuses files that are not ours, without touching them."""
    if not path.exists():
        raise StoreMissing(f"There is no store at {path}.")
    if path.is_dir():
        raise StoreForeign(f"{path} is a folder, not a store.")
    try:
        database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            database.set_busy_handler(Patience(30))
            owner = database.pragma("application_id")
            version = int(str(database.pragma("user_version")))
            tables = database.execute("SELECT count(*) FROM sqlite_schema").get
        finally:
            database.close()
    except apsw.NotADBError as error:
        raise StoreForeign(f"{path} is not a Lukasa store; it was left untouched.") from error
    except apsw.Error as error:
        raise translate(error) from error
    if owner != APPLICATION_ID and tables:
        raise StoreForeign(f"{path} is a database of another program; it was left untouched.")
    if version > SCHEMA_VERSION:
        raise StoreNewer(
            f"{path} has schema {version}; this Lukasa knows up to {SCHEMA_VERSION}.", hint="Upgrade Lukasa to open it."
        )
    return version


def migrate(database: apsw.Connection, path: Path | None) -> None:
    """Brings the schema up to date: a copy of an older store first, then all steps in one transaction."""
    if database.pragma("user_version") == SCHEMA_VERSION:
        return
    if path is not None:
        database.execute("PRAGMA journal_mode = WAL")
    with_data = int(str(database.pragma("user_version")))
    if with_data and path is not None:
        copy_to(database, path.with_name(f"{path.name}.before-schema-{SCHEMA_VERSION}"))
    database.execute("BEGIN IMMEDIATE")
    try:
        present = int(str(database.pragma("user_version")))
        for number, script in migrations():
            if number > present:
                database.execute(script)
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}")
        database.execute("COMMIT")
    except BaseException:
        database.execute("ROLLBACK")
        raise


def copy_to(database: apsw.Connection, target: Path) -> None:
    """A consistent copy into a new private file, durable before this returns."""
    if target.exists():
        raise StoreError(f"{target} is already there; a backup never overwrites.")
    part = target.with_name(target.name + ".part")
    part.unlink(missing_ok=True)
    create_privately(part)
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


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def require_writable(path: Path) -> None:
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        raise StoreReadOnly
