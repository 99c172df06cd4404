"""The SQLite engine: one file, real transactions, one writer at a time with group commit, any number of readers."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import apsw

from lukasa.core.canonical_json import encode_text
from lukasa.core.clock import Clock, SystemClock, to_microseconds
from lukasa.core.outcome import Outcome, Refused
from lukasa.core.record import Draft, ValidatedDraft, encode_draft
from lukasa.core.scope import FULL_REACH, SYSTEM, Reach
from lukasa.core.text_cache import ClearedDict, empty_caches
from lukasa.errors import (
    InvalidInput,
    LukasaError,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreMissing,
    StoreReadOnly,
)
from lukasa.storage.engine import (
    LOSS,
    ChooseErased,
    ConditionalBatch,
    DamagedEntry,
    EraseResult,
    FindFault,
    Finding,
    ImportReceiptDraft,
    LogCompactionResult,
    Progress,
    ReplayResult,
    VerifyReport,
    split_into_chunks,
)
from lukasa.storage.engines import EngineOptions, register_for_fork
from lukasa.storage.files import open_output_file
from lukasa.storage.integrity import describe_loss, find_damaged
from lukasa.storage.location import IN_MEMORY, StoreLocation
from lukasa.storage.log_file import read_log, write_log
from lukasa.storage.reader import EntryCache
from lukasa.storage.sqlite import append, maintenance, store_file
from lukasa.storage.sqlite.append import SqlitePendingBatch
from lukasa.storage.sqlite.reader import SqliteReader
from lukasa.storage.sqlite.sql import SQL
from lukasa.storage.sqlite.store_file import translate_error
from lukasa.storage.sqlite.writer import (
    AcknowledgedHead,
    BatchWork,
    FastPath,
    HeadWriter,
    SqliteWriter,
    checkpoint,
    find_single_insert,
    insert_single,
    read_head,
)

_logger = logging.getLogger(__name__)
_REPLAY_CHUNK = 1000
_BRIEF_TIMEOUT = 0.25
_COPY_FOLDERS = (None, "/dev/shm")  # noqa: S108 - the second is used where the first is full
_MAX_IDLE_READERS = 8
_MAX_CHUNK = 0xFFF  # the part of a vector's place that is the chunk
_READER_CACHE = "PRAGMA cache_size = -2048"  # an eighth of a writer's: the operating system caches the file too

T = TypeVar("T")

_watcher_numbers = count()
_parent_connections: list[object] = []
"""Connections and writers of a parent process. They are never closed: closing would drop the parent's locks."""


class SqliteErrorTranslation:
    """Turns the errors of SQLite in a block into those of Lukasa. A class, because a generator takes four times as long."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, apsw.Error):
            raise translate_error(error) from error
        if isinstance(error, UnicodeDecodeError):
            raise StoreDamaged from error


_TRANSLATED_ERRORS = SqliteErrorTranslation()


class SqliteSnapshot:
    """A reader over a borrowed connection, in a transaction unless it runs a single query."""

    __slots__ = ("_database", "_engine", "_is_nested", "_reach", "_single_query")

    def __init__(self, engine: SqliteEngine, reach: Reach, *, single_query: bool) -> None:
        self._engine = engine
        self._reach = reach
        self._single_query = single_query

    def __enter__(self) -> SqliteReader:
        try:
            database = self._database = self._engine.acquire_connection()
            try:
                # In memory a snapshot may be inside another one, or inside a write.
                self._is_nested = database.in_transaction
                if not self._is_nested and not self._single_query:
                    database.execute("BEGIN")
                return self._engine.open_reader(database, self._reach)
            except BaseException as error:
                self._engine.release_connection(database, is_broken=isinstance(error, apsw.IOError))
                raise
        except apsw.Error as error:
            raise translate_error(error) from error

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        with _TRANSLATED_ERRORS:
            failure = error
            try:
                if not self._is_nested and self._database.in_transaction:
                    self._database.execute("COMMIT")
            except BaseException as second:
                failure = second
                raise
            finally:
                self._engine.release_connection(self._database, is_broken=isinstance(failure, apsw.IOError))
        if error is not None:
            _TRANSLATED_ERRORS.__exit__(None, error, None)


class SqliteEngine:
    """A store in one SQLite file, or in memory with ``path=None``.

    The texts of ``near_duplicate_kinds`` get near-duplicate keys. ``progress`` is called while an older store is migrated,
    ``before_naming`` with the path and the token of a new store before its file has its name.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        clock: Clock | None = None,
        timeout: float = 30.0,
        vfs: str | None = None,
        read_only: bool = False,
        near_duplicate_kinds: frozenset[str] = frozenset(),
        progress: Progress | None = None,
        before_naming: Callable[[Path, str], None] | None = None,
    ) -> None:
        self.path = path
        self._clock = clock or SystemClock()
        self._timeout = timeout
        self._vfs = vfs
        self._near_duplicate_kinds = near_duplicate_kinds
        self._make_batch = partial(SqlitePendingBatch, near_duplicate_kinds=near_duplicate_kinds)
        self._read_only = read_only
        self._private_copy: TemporaryDirectory[str] | None = None
        self._has_residue = False  # old bytes of erased content may still be in the file
        self._entries = EntryCache()
        # Records, vectors and sketches; the first vector query loads numpy.
        self._shared_caches: ClearedDict[Any, Any] = ClearedDict()
        self._idle_connections: list[apsw.Connection] = []
        self._watcher: tuple[int, apsw.Connection] | None = None  # a number of its own, and a connection
        self._watcher_lock = threading.Lock()
        self._closed = False
        self._memory_lock: threading.RLock | None = None
        self._head: HeadWriter | None = None
        self._lacks_head = False
        self._unrecorded_loss: Finding | None = None
        if path is None:
            self._memory_lock = threading.RLock()  # a store in memory has one connection, so a writer excludes readers
            database = apsw.Connection(":memory:")
            store_file.configure_connection(database, timeout)
            store_file.migrate(database, None)
            self._writer = self._brief_writer = SqliteWriter(lambda: database, self._make_batch)
            self._idle_connections.append(database)
        else:
            if not read_only:
                store_file.create_store(path, vfs, before_naming)
            store_file.check_file(path)
            self._create_writers()
            wal_file, acknowledged = path.with_name(path.name + "-wal"), read_head(path)
            self._lacks_head = acknowledged is None and wal_file.exists() and wal_file.stat().st_size > 0
            self._open_file(progress)
            if acknowledged is not None:
                self._check_head(acknowledged)
        register_for_fork(self)

    def _create_writers(self) -> None:
        self._writer = SqliteWriter(self._connect_writer, self._make_batch, self._note_head)
        brief = min(self._timeout, _BRIEF_TIMEOUT)
        self._brief_writer = SqliteWriter(partial(self._connect_writer, brief), self._make_batch)

    def _open_file(self, progress: Progress | None) -> None:
        try:
            database = self._connect_writer()
            store_file.migrate(database, self.path, progress)
            self._read_only = database.readonly("main")
            if self._read_only:
                self._idle_connections.append(database)
            else:
                self._writer.use_connection(database)
        except (*_NOT_WRITABLE, StoreReadOnly) as error:
            self._read_only = True
            try:
                database = self._connect_reader()
                store_file.check_current(database, self.path)
                self._idle_connections.append(database)
            except apsw.Error as second:
                raise translate_error(error if isinstance(error, apsw.Error) else second) from error
        except apsw.Error as error:
            raise translate_error(error) from error

    def _note_head(self, database: apsw.Connection, position: int) -> None:
        """Note a position as acknowledged. An older store gets its token at the first write."""
        if self._head is None and self.path is not None:
            with suppress(apsw.Error):  # the commit is durable, with a head or without one
                database.execute(SQL["make_head_token"])
                self._head = HeadWriter(self.path, str(database.execute(SQL["head_token"]).get))
        if self._head is not None:
            self._head.note(position)

    def _check_head(self, acknowledged: AcknowledgedHead) -> None:
        """Record that acknowledged entries are missing, if they are, and go on after their positions."""
        with _TRANSLATED_ERRORS, self._borrow_connection() as database:
            token, tip = database.execute(SQL["head_token"]).get, database.execute(SQL["tip"]).get
        if tip >= acknowledged.seq or token not in (None, acknowledged.token):
            return
        self._unrecorded_loss = describe_loss(tip, acknowledged.seq)
        _logger.warning("%s is damaged: %s.", self.path, self._unrecorded_loss.what)

        def record_loss(pending: SqlitePendingBatch) -> None:
            database = pending.take_connection()
            if database.execute(SQL["tip"]).get < acknowledged.seq:  # no other process has recorded it
                database.execute(SQL["raise_high_water"], (acknowledged.seq,))
                pending.reset_to(acknowledged.seq + 1)
                body = {"after": tip, "until": acknowledged.seq, "accepted": False}
                draft = Draft(LOSS, body=body, id=f"{tip + 1}-{acknowledged.seq}", scope=SYSTEM, origin="recovery")
                append.append_batch(pending, self._clock.now(), FULL_REACH, [encode_draft(draft)], None)

        with suppress(StoreError):  # busy or full: verify reports it all the same, and the next to open records it
            if not self._read_only:
                self._write(record_loss)
                self._unrecorded_loss = None

    def _connect_writer(self, timeout: float | None = None) -> apsw.Connection:
        assert self.path is not None
        if self._read_only:
            raise StoreReadOnly
        return store_file.connect(self.path, timeout=self._timeout if timeout is None else timeout, vfs=self._vfs)

    def _connect_reader(self) -> apsw.Connection:
        assert self.path is not None
        if not self._read_only:
            database = store_file.connect(self.path, timeout=self._timeout, vfs=self._vfs)
            database.execute(_READER_CACHE)
            return database
        try:
            database = store_file.connect(self.path, timeout=self._timeout, vfs=self._vfs, write=False)
            database.execute(SQL["count_schema"])
        except _NOT_WRITABLE:
            # A read-only folder or a full disk cannot hold the shared-memory file. If the write-ahead log is empty, the
            # database file is complete and cannot change. Otherwise both files are read from a private copy.
            wal_file = self.path.with_name(self.path.name + "-wal")
            if not wal_file.exists() or not wal_file.stat().st_size:
                return store_file.connect_immutable(self.path)
            if self._private_copy is None:
                self._private_copy = _copy_files(self.path, wal_file)
            copy = Path(self._private_copy.name) / self.path.name
            return store_file.connect(copy, timeout=self._timeout, vfs=self._vfs)
        return database

    def snapshot(self, reach: Reach, *, single_query: bool = False) -> SqliteSnapshot:
        return SqliteSnapshot(self, reach, single_query=single_query)

    def open_reader(self, database: apsw.Connection, reach: Reach) -> SqliteReader:
        """Return a reader that shares the caches of the engine."""
        return SqliteReader(database, reach, self._shared_caches, self._entries)

    def change_stamp(self) -> tuple[int, int] | None:
        """Return a value that differs once anybody committed anything; None for a store in memory.

        SQLite counts the commits of other connections for a connection that does nothing else.
        """
        if self.path is None:
            return None
        with _TRANSLATED_ERRORS, self._watcher_lock:
            if self._closed:
                raise StoreClosed
            if self._watcher is None:
                self._watcher = next(_watcher_numbers), self._connect_reader()
            number, database = self._watcher
            return number, database.execute("PRAGMA data_version").get

    def append(
        self, reach: Reach, batch: Sequence[ValidatedDraft] | ConditionalBatch, *, key: str | None = None
    ) -> Outcome:
        now, kinds = self._clock.now, self._near_duplicate_kinds
        fast_path: FastPath[Outcome] | None = None
        if key is None and callable(batch):
            condition: ConditionalBatch = batch

            def append_conditionally(cursor: apsw.Cursor) -> tuple[Outcome, int]:
                """Append what the condition returns, in a transaction of its own; return the newest position too."""
                at, start = now(), cursor.execute(SQL["start_of_write"]).get
                database = cursor.connection
                reader = SqliteReader(database, reach, entries=self._entries)
                if not start[1]:  # a quarantine may hide what is added
                    reader.position = start[0]
                drafts = condition(reader)
                if isinstance(drafts, Refused):
                    return drafts, start[0]
                single = find_single_insert(reach, drafts)
                inserted = None if single is None else insert_single(cursor, at, single, kinds, start)
                if inserted is not None:
                    return inserted
                pending = SqlitePendingBatch(database, kinds, start=start)
                outcome = append.add_drafts(pending, at, reach, drafts)
                pending.flush()
                return outcome, pending.next_seq - 1

            fast_path = append_conditionally
        elif key is None and not callable(batch) and (single := find_single_insert(reach, batch)) is not None:
            fast_path = lambda cursor: insert_single(cursor, now(), single, kinds)  # noqa: E731
        return self._write(lambda pending: append.append_batch(pending, now(), reach, batch, key), fast_path)

    def replay(
        self, reach: Reach, lines: Iterable[tuple[bytes, bytes]], receipt: ImportReceiptDraft | None = None
    ) -> Iterator[ReplayResult]:
        for chunk in split_into_chunks(lines, _REPLAY_CHUNK):
            options: Any = {"now": self._clock.now(), "reach": reach, "lines": chunk, "receipt": receipt}
            yield from self._write(partial(append.replay_entries, **options))

    def put_vectors(
        self, model: str, vectors: Iterable[tuple[int, int, Sequence[float]]], *, briefly: bool = False
    ) -> None:
        from lukasa.storage.sqlite.vectors import encode_vectors, pack_sketches, repack_sketches

        given = list(vectors)
        if not all(0 <= chunk <= _MAX_CHUNK for _, chunk, _ in given):
            raise InvalidInput(f"The number of a chunk is from 0 to {_MAX_CHUNK:,}.")
        encoded = encode_vectors([vector for _, _, vector in given])
        rows = [(seq, chunk, data) for (seq, chunk, _), data in zip(given, encoded, strict=True)]

        def work(pending: SqlitePendingBatch) -> None:
            database = pending.take_connection()
            newest = database.execute(SQL["newest_vector"], (model,)).get or 0
            by_position: dict[int, list[tuple[int, int, bytes]]] = {}
            for row in [row for row in rows if row[0] <= newest]:
                by_position.setdefault(row[0], []).append(row)
            changed = [  # two processes often make the same vectors at the same time; the second writes nothing
                row
                for seq, kept in by_position.items()
                if sorted(kept) != database.execute(SQL["vectors_at"], (model, seq)).fetchall()
                for row in kept
            ]
            replaced = sorted({row[0] for row in changed})
            changed += [row for row in rows if row[0] > newest]
            if not changed:
                return
            database.execute(SQL["put_model"], (model,))
            first: int = database.execute(SQL["first_place"], (model,)).get
            if replaced:
                database.execute(SQL["raise_vector_edition"], (model,))
                database.executemany(SQL["delete_vectors"], [(model, seq) for seq in replaced])
            positions = encode_text([row[0] for row in changed])  # of which some may have been erased by now
            erased = {row[0] for row in database.execute(SQL["missing_positions"], (positions,))}
            new = [(first + (seq << 12) + chunk, data) for seq, chunk, data in changed if seq not in erased]
            database.executemany(SQL["put_vector"], new)
            if replaced:
                repack_sketches(database, model, replaced)
            pack_sketches(database, model)

        if briefly and self.path is not None:
            self._brief_writer.run(work)
        else:
            self._write(work)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._has_residue:
            self._overwrite_residue()
        while self._idle_connections:
            self._idle_connections.pop().close(True)
        with self._watcher_lock:
            if self._watcher is not None:
                self._watcher[1].close(True)
        self._brief_writer.close()
        self._writer.close()
        if self._head is not None:
            self._head.close()
        if self._private_copy is not None:
            self._private_copy.cleanup()

    def verify(self, progress: Progress | None = None, find_fault: FindFault | None = None) -> VerifyReport:
        if self._closed:
            raise StoreClosed
        kinds = self._near_duplicate_kinds
        with _TRANSLATED_ERRORS:
            if self.path is None:
                with self._borrow_connection() as database:
                    return maintenance.verify(database, progress, kinds, find_fault, writable=True)
            database = self._connect_reader()  # an older connection might check its cached copy of the text index
            try:
                report = maintenance.verify(database, progress, kinds, find_fault, writable=not self._read_only)
            finally:
                database.close()
            loss = self._unrecorded_loss
            return report if loss is None else replace(report, findings=(*report.findings, loss))

    def find_damaged(self, find_fault: FindFault | None) -> list[DamagedEntry]:
        with _TRANSLATED_ERRORS, self._borrow_connection() as database:
            return find_damaged(maintenance.read_pages(database), find_fault)[0]

    def set_aside(self, find_fault: FindFault | None, receipt: Callable[[DamagedEntry], ValidatedDraft]) -> int:
        def work(pending: SqlitePendingBatch) -> int:
            found = maintenance.set_aside(pending.take_connection(), find_fault)
            append.append_batch(pending, self._clock.now(), FULL_REACH, [receipt(entry) for entry in found], None)
            return len(found)

        return self._write(work)

    def reindex(self, progress: Progress | None = None) -> None:
        kinds = self._near_duplicate_kinds
        try:
            self._write(lambda pending: maintenance.reindex(pending.take_connection(), progress, kinds))
        except StoreDamaged:
            self._write(lambda pending: maintenance.rebuild_damaged(pending.take_connection(), progress, kinds))
            self._writer.run_exclusively(_vacuum)

    def compact(self, *, before: datetime | None = None, progress: Progress | None = None) -> LogCompactionResult:
        bound = 2**63 - 1 if before is None else to_microseconds(before)
        bytes_before = self._size_in_bytes()
        kinds = self._near_duplicate_kinds
        dropped = self._write(lambda pending: maintenance.compact(pending.take_connection(), bound, progress, kinds))
        if dropped:
            self._forget()
            self._rewrite_file()
        return LogCompactionResult(dropped, bytes_before, self._size_in_bytes())

    def erase(self, choose: ChooseErased, receipt: Callable[[EraseResult], ValidatedDraft]) -> EraseResult:
        def work(pending: SqlitePendingBatch) -> EraseResult:
            erased = maintenance.erase(pending.take_connection(), choose, self._near_duplicate_kinds)
            if erased.versions:
                append.append_batch(pending, self._clock.now(), FULL_REACH, [receipt(erased)], None)
            return erased

        erased = self._write(work)
        self._forget()
        self._has_residue = True
        return replace(erased, residue=self._overwrite_residue())

    def _forget(self) -> None:
        """Forget the values that this process made of texts of records, and close connections that keep pages of them."""
        empty_caches()
        if self.path is not None:
            while self._idle_connections:
                self._idle_connections.pop().close(True)

    def _rewrite_file(self) -> bool:
        """Rewrite the file without freed pages; return False if a reader kept the write-ahead log from being emptied."""
        with self._memory_lock or nullcontext():
            self._writer.run_exclusively(_vacuum)
            return self._writer.run_exclusively(checkpoint)

    def _overwrite_residue(self) -> str | None:
        """Rewrite the file, because split or moved pages keep old bytes; return why traces may remain."""
        try:
            emptied = self._rewrite_file()
        except (StoreBusy, StoreFull) as error:
            return f"the file could not be rewritten yet: {error.message}"
        if not emptied:
            return "another process still reads an older page of the store"
        self._has_residue = False
        return None

    def backup(self, target: Path) -> set[int]:
        try:
            with _TRANSLATED_ERRORS, self._borrow_connection() as database:
                store_file.copy_database(database, target)
            return set()
        except StoreDamaged:  # pages that cannot be copied: export what can be read
            with self.snapshot(FULL_REACH) as reader, open_output_file(target) as file:
                write_log(read_log(reader), file, reader.damaged)
                return reader.damaged

    def __repr__(self) -> str:
        return IN_MEMORY if self.path is None else str(self.path)

    def describe(self) -> Mapping[str, Any]:
        with _TRANSLATED_ERRORS, self._borrow_connection() as database:
            facts: dict[str, Any] = {
                "engine": "sqlite",
                "sqlite": apsw.sqlite_lib_version(),
                "schema": store_file.MIGRATIONS.latest,
                "store": "memory" if self.path is None else str(self.path),
                "journal_mode": database.pragma("journal_mode"),
                "synchronous": database.pragma("synchronous"),
                "read_only": self._read_only,
            }
        if self.path is not None:
            facts["bytes"] = self._size_in_bytes()
            facts["lacks_head"] = self._lacks_head
            facts["file_mode"] = f"{self.path.stat().st_mode & 0o777:04o}"
        return facts

    def _size_in_bytes(self) -> int:
        if self.path is None:
            return 0
        files = [self.path.with_name(self.path.name + suffix) for suffix in ("", "-wal")]
        return sum(file.stat().st_size for file in files if file.exists())

    def _write(self, work: BatchWork[T], fast_path: FastPath[T] | None = None) -> T:
        if self._memory_lock is None:
            result = self._writer.run(work, fast_path)
            if self._has_residue:
                self._overwrite_residue()
            return result
        with self._memory_lock:
            in_snapshot = self._idle_connections and self._idle_connections[0].in_transaction
            if in_snapshot and not self._writer.is_writing_thread:
                raise LukasaError(
                    "A store in memory has one connection, and a snapshot is using it.",
                    hint="Write after the snapshot is closed.",
                )
            return self._writer.run(work, fast_path)

    @contextmanager
    def _borrow_connection(self) -> Iterator[apsw.Connection]:
        """Lend a connection for reading, taken from those that are idle and returned afterwards."""
        database, is_broken = self.acquire_connection(), False
        try:
            yield database
        except apsw.IOError:
            is_broken = True
            raise
        finally:
            self.release_connection(database, is_broken=is_broken)

    def acquire_connection(self) -> apsw.Connection:
        """Return an idle connection, or a new one. A store in memory has one connection, which one thread uses at a time."""
        if self._closed:
            raise StoreClosed
        if self._memory_lock is not None:
            self._memory_lock.acquire()
            return self._idle_connections[0]
        try:
            return self._idle_connections.pop()
        except IndexError:
            return self._connect_reader()

    def release_connection(self, database: apsw.Connection, *, is_broken: bool) -> None:
        """Keep a connection for the next reader, unless it is broken or there are enough."""
        if self._memory_lock is not None:
            self._memory_lock.release()
        elif is_broken or self._closed or len(self._idle_connections) >= _MAX_IDLE_READERS:
            database.close(True)
        else:
            self._idle_connections.append(database)

    def reset_after_fork(self) -> None:
        """Drop the connections that a forked child inherited and must not use."""
        if self.path is not None:
            _parent_connections.extend((*self._idle_connections, self._watcher, self._writer, self._brief_writer))
            self._idle_connections, self._watcher, self._watcher_lock = [], None, threading.Lock()
            self._create_writers()
            self._head = None


_NOT_WRITABLE = (apsw.ReadOnlyError, apsw.CantOpenError, apsw.IOError, apsw.FullError)
"""The errors that SQLite raises if it cannot create the side files of a store."""


def _copy_files(*files: Path) -> TemporaryDirectory[str]:
    """Copy files into a private folder, in memory where the disk is full."""
    for place in _COPY_FOLDERS:
        folder = None
        try:
            folder = TemporaryDirectory(prefix="lukasa-", dir=place)
            for file in files:
                shutil.copyfile(file, Path(folder.name) / file.name)
        except OSError as error:
            failure = error
            if folder is not None:
                folder.cleanup()
        else:
            return folder
    raise StoreFull(f"There is no space for a copy to read from: {failure.strerror}.") from failure


def _vacuum(database: apsw.Connection) -> None:
    database.execute("VACUUM")


def open_engine(location: StoreLocation, options: EngineOptions) -> SqliteEngine:
    """Open a store in a file or in memory; every label is indexed, and a file has no replica."""
    if not options.create and location.path is not None and not location.path.exists():
        raise StoreMissing(f"There is no store at {location.path}.")
    return SqliteEngine(
        location.path,
        clock=options.clock,
        timeout=options.timeout,
        read_only=options.read_only,
        near_duplicate_kinds=options.near_duplicate_kinds,
        progress=options.progress,
        before_naming=options.before_naming,
    )
