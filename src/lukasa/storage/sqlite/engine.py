"""The SQLite engine: one file, real transactions, one writer at a time with group commit, any number of readers."""

from __future__ import annotations

import os
import shutil
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import apsw

from lukasa.clock import Clock, SystemClock, to_microseconds
from lukasa.errors import LukasaError, StoreBusy, StoreClosed, StoreDamaged, StoreFull, StoreReadOnly
from lukasa.outcome import Outcome
from lukasa.record import Key, ValidatedDraft
from lukasa.scope import FULL_REACH, Reach
from lukasa.storage.append import find_single_insert
from lukasa.storage.engine import (
    ConditionalBatch,
    EraseResult,
    LogCompactionResult,
    Progress,
    Reader,
    ReplayResult,
    VerifyReport,
    split_into_chunks,
)
from lukasa.storage.sqlite import append, maintenance, store_file
from lukasa.storage.sqlite.batch import SqlitePendingBatch
from lukasa.storage.sqlite.errors import error_translation, translate_error
from lukasa.storage.sqlite.reader import SqliteReader
from lukasa.storage.sqlite.sql import SQL
from lukasa.storage.sqlite.writer import BatchWork, FastPath, SqliteWriter, checkpoint

_REPLAY_CHUNK = 1000
_MAX_IDLE_READERS = 8

T = TypeVar("T")
_VectorRow = tuple[str, int, int, bytes, bytes]


class SqliteEngine:
    """Keeps the engine promise in one SQLite file, or with ``path=None`` in memory."""

    def __init__(
        self,
        path: Path | None,
        *,
        clock: Clock | None = None,
        timeout: float = 30.0,
        vfs: str | None = None,
    ) -> None:
        self.path = path
        self._clock = clock or SystemClock()
        self._timeout = timeout
        self._vfs = vfs
        self._read_only = False
        self._private_copy: TemporaryDirectory[str] | None = None
        self._has_residue = False  # something was erased whose old bytes may still be in the file
        self._shared_caches: dict[
            str, Any
        ] = {}  # filled when vectors are first asked for, which loads what computes with them
        self._idle_connections: list[apsw.Connection] = []
        self._closed = False
        self._memory_lock: threading.RLock | None = None
        if path is None:
            self._memory_lock = threading.RLock()  # in memory there is one connection, so a writer keeps readers out
            database = apsw.Connection(":memory:")
            store_file.configure_connection(database, timeout)
            store_file.migrate(database, None)
            self._writer = SqliteWriter(lambda: database)
            self._idle_connections.append(database)
        else:
            store_file.create_store(path, vfs)
            store_file.check_file(path)
            self._writer = SqliteWriter(self._connect_writer)
            self._open_file()
        _open_engines.add(self)

    def _open_file(self) -> None:
        try:
            database = self._connect_writer()
            store_file.migrate(database, self.path)
            self._read_only = database.readonly("main")
            if self._read_only:
                self._idle_connections.append(database)
            else:
                self._writer.use_connection(database)
        except (apsw.ReadOnlyError, apsw.CantOpenError) as error:
            self._read_only = True
            try:
                self._idle_connections.append(self._connect_reader())
            except apsw.Error:
                raise translate_error(error) from error
        except apsw.Error as error:
            raise translate_error(error) from error

    def _connect_writer(self) -> apsw.Connection:
        assert self.path is not None
        if self._read_only:
            raise StoreReadOnly
        return store_file.connect(self.path, timeout=self._timeout, vfs=self._vfs)

    def _connect_reader(self) -> apsw.Connection:
        assert self.path is not None
        if not self._read_only:
            return store_file.connect(self.path, timeout=self._timeout, vfs=self._vfs)
        try:
            database = store_file.connect(self.path, timeout=self._timeout, vfs=self._vfs, write=False)
            database.execute("SELECT count(*) FROM sqlite_schema")
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            # A read-only folder cannot hold the shared-memory file. With nothing left in the write-ahead log the
            # database file alone is the whole truth and nobody can change it; otherwise both are read from a copy.
            leftover = self.path.with_name(self.path.name + "-wal")
            if leftover.exists() and leftover.stat().st_size:
                return store_file.connect(self._copy_store(leftover), timeout=self._timeout, vfs=self._vfs)
            database = store_file.connect_immutable(self.path)
        return database

    def _copy_store(self, wal_file: Path) -> Path:
        """A private copy of a store on a read-only disk, with what is still in its write-ahead log."""
        assert self.path is not None
        if self._private_copy is None:
            self._private_copy = TemporaryDirectory(prefix="lukasa-")
            for file in (self.path, wal_file):
                shutil.copyfile(file, Path(self._private_copy.name) / file.name)
        return Path(self._private_copy.name) / self.path.name

    # Log

    @contextmanager
    def snapshot(self, reach: Reach, *, single_query: bool = False) -> Iterator[SqliteReader]:  # noqa: ARG002 - it costs nothing here
        with error_translation(), self._borrow_connection() as database:
            within = database.in_transaction  # in memory: a look inside another look, or inside a write
            if not within:
                database.execute("BEGIN")
            try:
                yield SqliteReader(database, reach, self._shared_caches)
            finally:
                if not within and database.in_transaction:
                    database.execute("COMMIT")

    def append(
        self, reach: Reach, batch: Sequence[ValidatedDraft] | ConditionalBatch, *, key: str | None = None
    ) -> Outcome:
        now = self._clock.now
        one = None if key is not None or callable(batch) else find_single_insert(reach, batch)
        return self._write(
            lambda pending: append.append_batch(pending, now(), reach, batch, key),
            None if one is None else lambda database: append.insert_single(database, now(), one),
        )

    def replay(self, reach: Reach, lines: Iterable[tuple[bytes, bytes]]) -> Iterator[ReplayResult]:
        for chunk in split_into_chunks(lines, _REPLAY_CHUNK):
            yield from self._write(_build_replay_work(reach, chunk))

    def put_vectors(self, model: str, vectors: Iterable[tuple[int, int, Sequence[float]]]) -> None:
        from lukasa.storage.sqlite.vectors import encode_vectors

        given = list(vectors)
        halves = encode_vectors([vector for _, _, vector in given])
        rows = [(model, seq, chunk, *both) for (seq, chunk, _), both in zip(given, halves, strict=True)]

        def work(pending: SqlitePendingBatch) -> None:
            database = pending.take_connection()
            new = _select_new_vectors(database, model, rows)
            replaced = sorted({row[:2] for row in new})
            if replaced and database.execute(SQL["vectors_from"], replaced[0]).get:
                database.execute(SQL["new_edition"], (model,))
                database.executemany(SQL["forget_vectors"], replaced)
            database.executemany(SQL["put_vector"], new)

        self._write(work)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._has_residue:
            self._overwrite_residue()
        while self._idle_connections:
            self._idle_connections.pop().close(True)
        self._writer.close()
        if self._private_copy is not None:
            self._private_copy.cleanup()

    # Upkeep

    def verify(self, progress: Progress | None = None) -> VerifyReport:
        if self._closed:
            raise StoreClosed
        with error_translation():
            if self.path is None:
                with self._borrow_connection() as database:
                    return maintenance.verify(database, progress, writable=True)
            database = self._connect_reader()  # a new one: an old one may check its own cached copy of the text index
            try:
                return maintenance.verify(database, progress, writable=not self._read_only)
            finally:
                database.close()

    def reindex(self, progress: Progress | None = None) -> None:
        try:
            self._write(lambda pending: maintenance.reindex(pending.take_connection(), progress))
        except StoreDamaged:
            self._write(lambda pending: maintenance.rebuild_damaged(pending.take_connection(), progress))
            self._writer.run_exclusively(_vacuum)

    def compact(self, *, before: datetime | None = None, progress: Progress | None = None) -> LogCompactionResult:
        bound = 2**63 - 1 if before is None else to_microseconds(before)
        bytes_before = self._size_in_bytes()
        dropped = self._write(lambda pending: maintenance.compact(pending.take_connection(), bound, progress))
        if dropped:
            with self._memory_lock or nullcontext():
                self._writer.run_exclusively(_vacuum)
                self._checkpoint()
        return LogCompactionResult(dropped, bytes_before, self._size_in_bytes())

    def erase(
        self, choose: Callable[[Reader], Sequence[Key]], receipt: Callable[[EraseResult], ValidatedDraft]
    ) -> EraseResult:
        def work(pending: SqlitePendingBatch) -> EraseResult:
            erased = maintenance.erase(pending.take_connection(), choose)
            if erased.versions:
                append.append_batch(pending, self._clock.now(), FULL_REACH, [receipt(erased)], None)
            return erased

        erased = self._write(work)
        self._has_residue = True
        return replace(erased, residue=self._overwrite_residue())

    def _checkpoint(self) -> bool:
        """Moves the write-ahead log into the file and empties it, unless a reader is in the way."""
        return self._writer.run_exclusively(checkpoint)

    def _overwrite_residue(self) -> str | None:
        """Rewrites the file without what was erased. Pages that were split or moved hold old bytes until then."""
        try:
            with self._memory_lock or nullcontext():
                self._writer.run_exclusively(_vacuum)
                emptied = self._checkpoint()
        except (StoreBusy, StoreFull) as error:
            return f"the file could not be rewritten yet: {error.message}"
        if not emptied:
            return "another process still reads an older page of the store"
        self._has_residue = False
        return None

    def backup(self, target: Path) -> None:
        with error_translation(), self._borrow_connection() as database:
            store_file.copy_database(database, target)

    def describe(self) -> Mapping[str, Any]:
        with error_translation(), self._borrow_connection() as database:
            facts: dict[str, Any] = {
                "engine": "sqlite",
                "sqlite": apsw.sqlite_lib_version(),
                "schema": store_file.SCHEMA_VERSION,
                "store": "memory" if self.path is None else str(self.path),
                "journal_mode": database.pragma("journal_mode"),
                "synchronous": database.pragma("synchronous"),
                "read_only": self._read_only,
            }
        if self.path is not None:
            facts["bytes"] = self._size_in_bytes()
            facts["file_mode"] = f"{self.path.stat().st_mode & 0o777:04o}"
        return facts

    def _size_in_bytes(self) -> int:
        if self.path is None:
            return 0
        side = [self.path.with_name(self.path.name + end) for end in ("", "-wal")]
        return sum(file.stat().st_size for file in side if file.exists())

    # Connections

    def _write(self, work: BatchWork[T], fast_path: FastPath[T] | None = None) -> T:
        if self._memory_lock is None:
            result = self._writer.run(work, fast_path)
            if self._has_residue:
                self._overwrite_residue()
            return result
        with self._memory_lock:
            if (
                self._idle_connections
                and self._idle_connections[0].in_transaction
                and not self._writer.is_writing_thread
            ):
                raise LukasaError(
                    "This store lives in memory and has one look at a time.", hint="Write after the look."
                )
            return self._writer.run(work, fast_path)

    @contextmanager
    def _borrow_connection(self) -> Iterator[apsw.Connection]:
        if self._closed:
            raise StoreClosed
        if self._memory_lock is not None:
            with self._memory_lock:
                yield self._idle_connections[0]
            return
        try:
            database = self._idle_connections.pop()
        except IndexError:
            database = self._connect_reader()
        try:
            yield database
        except apsw.IOError:
            database.close(True)
            raise
        except BaseException:
            self._return_connection(database)
            raise
        else:
            self._return_connection(database)

    def _return_connection(self, database: apsw.Connection) -> None:
        if self._closed or len(self._idle_connections) >= _MAX_IDLE_READERS:
            database.close(True)
        else:
            self._idle_connections.append(database)

    def _reset_after_fork(self) -> None:
        """A fork inherits connections it must not use: it starts with none of its own."""
        if self.path is not None:
            _parent_connections.extend((*self._idle_connections, self._writer))
            self._idle_connections = []
            self._writer = SqliteWriter(self._connect_writer)


def _select_new_vectors(database: apsw.Connection, model: str, rows: list[_VectorRow]) -> list[_VectorRow]:
    """The vectors without those that are there already: two processes often make the same ones at the same time."""
    newest = database.execute(SQL["newest_vector"], (model,)).get or 0
    by_position: dict[int, list[_VectorRow]] = {}
    for row in rows:
        by_position.setdefault(row[1], []).append(row)
    return [
        row
        for seq, own in by_position.items()
        if seq > newest or sorted(own) != database.execute(SQL["vectors_at"], (model, seq)).fetchall()
        for row in own
    ]


def _vacuum(database: apsw.Connection) -> None:
    database.execute("VACUUM")


def _build_replay_work(reach: Reach, chunk: list[tuple[bytes, bytes]]) -> BatchWork[list[ReplayResult]]:
    return lambda pending: append.SqliteReplay(pending, reach).run(chunk)


_parent_connections: list[object] = []
"""Connections and writers of a parent process, kept so that they are never closed here: closing would drop the parent's locks."""

_open_engines: weakref.WeakSet[SqliteEngine] = weakref.WeakSet()


def _reset_engines_after_fork() -> None:
    for engine in list(_open_engines):
        engine._reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_engines_after_fork)
