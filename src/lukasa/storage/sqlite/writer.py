"""One writer at a time, many writes per commit.

Every write is a job. A thread that finds no writer at work becomes the leader: it runs its own job and all waiting jobs
in one transaction and commits once. The other threads wake up when their jobs are done. One fsync serves all of them,
and no job reports success before that fsync returned.

Jobs add entries to a shared pending batch, which is written once. A job that fails must leave the batch unchanged. A single
new record, the most common write, is inserted without a batch if no other job waits.

After each commit the newest acknowledged position, the head of the log, goes into a small file next to the store. A flipped
byte in the write-ahead log ends it there: SQLite drops every later commit when the store is opened after a crash, and what is
left is sound. The head tells. It is overwritten without a sync, and deleted with the write-ahead log. It is never ahead of
the log, because a commit is on the disk before the head is written; it may be behind. A random token in the store and in the
head ties them together, and each copy of a store has a token of its own.
"""

from __future__ import annotations

import os
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import apsw

from lukasa.core.clock import to_iso, to_microseconds
from lukasa.core.outcome import Accepted, Outcome
from lukasa.core.record import Record, ValidatedDraft, checksum, digest_of, entry_suffix, parse_entry
from lukasa.core.scope import Reach
from lukasa.errors import LukasaError, StoreClosed, StoreDamaged, StoreNewer
from lukasa.storage.engine import QUARANTINE
from lukasa.storage.reader import LazyRecords
from lukasa.storage.sqlite.sql import SQL
from lukasa.storage.sqlite.store_file import MIGRATIONS, translate_error
from lukasa.storage.sqlite.unindexed_texts import MAX_CHARACTERS, MAX_POSITIONS, index_texts
from lukasa.text.terms import text_pair_keys, to_index_form

if TYPE_CHECKING:
    from lukasa.storage.sqlite.append import SqlitePendingBatch

T = TypeVar("T")
Connect = Callable[[], apsw.Connection]

_MAX_GATHER_SECONDS = 0.002
_GATHER_SHARE_OF_COMMIT = 0.5
_ROWS_AT_ONCE = 16
_HEAD_CONTENT = struct.Struct("<8s32sQ")
_HEAD_CHECKSUM = struct.Struct("<I")
_HEAD_MAGIC = b"lukahead"


WriteStart = tuple[int, bool | int, int | None]
"""The newest position, whether any author is in quarantine, and the first position whose text is not indexed."""
LogRow = tuple[int, str, str, str, int, str, int, int, bytes, str]
TextRow = tuple[int, str, str, str]
BatchWork = Callable[["SqlitePendingBatch"], T]
FastPath = Callable[[apsw.Cursor], tuple[T, int] | None]
"""A shorter way to do the same work when no other job waits: its result and the newest position, or ``None`` if the full
work must run. It gets a cursor, which runs a statement in half the time that its connection takes."""
OnCommit = Callable[[apsw.Connection, int], None]
"""Called after each commit with the newest position."""
ConnectionWork = Callable[[apsw.Connection], T]


class _WriteJob(Generic[T]):
    __slots__ = ("error", "exclusive_work", "fast_path", "is_leader", "result", "wake_lock", "work")

    def __init__(
        self,
        work: BatchWork[T] | None,
        *,
        fast_path: FastPath[T] | None = None,
        exclusive_work: ConnectionWork[T] | None = None,
    ) -> None:
        self.work = work
        self.fast_path = fast_path
        self.exclusive_work = exclusive_work
        self.result: T | None = None
        self.error: BaseException | None = None
        self.is_leader = False
        self.wake_lock: threading.Lock | None = None  # only a waiting job needs one

    def wake(self) -> None:
        """Wake the thread that waits for this job."""
        assert self.wake_lock is not None
        self.wake_lock.release()

    def get_result(self) -> T:
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]  # done without error means that the work returned a T


class SqliteWriter:
    """The write side of one database in one process."""

    def __init__(
        self, connect: Connect, make_batch: Callable[..., SqlitePendingBatch], on_commit: OnCommit = lambda *_: None
    ) -> None:
        self._connect = connect
        self._on_commit = on_commit
        self._make_batch = make_batch
        self._connection: apsw.Connection | None = None
        self._cursor: apsw.Cursor | None = None
        self._lock = threading.Lock()  # guards the queue and the leader flag; held only for moments
        self._queue: list[_WriteJob[Any]] = []
        self._has_leader = False
        self._leader_thread = 0
        self._group_size = 1
        self._commit_seconds = 0.0
        self._closed = False
        self._schema = MIGRATIONS.latest

    @property
    def is_writing_thread(self) -> bool:
        """Whether the calling thread is running a write."""
        return self._leader_thread == threading.get_ident()

    def _begin(self, database: apsw.Connection | apsw.Cursor) -> None:
        """Begin a write. Refuse it if the schema was changed since this process opened the file, as a newer Lukasa does."""
        database.execute("BEGIN IMMEDIATE")
        if (version := database.execute("PRAGMA user_version").get) != self._schema:
            database.execute("ROLLBACK")
            raise StoreNewer(
                f"The store was changed to schema {version} while it was open; this process writes schema {self._schema}.",
                hint="Restart the process with the Lukasa that changed the store.",
            )

    def run(self, work: BatchWork[T], fast_path: FastPath[T] | None = None) -> T:
        """Run ``work`` in a write transaction and return once it is durable."""
        if fast_path is not None and self._take_lead():
            if (done := self._run_alone(fast_path)) is not None:
                return done[0]
            fast_path = None
        return self._submit(_WriteJob(work, fast_path=fast_path))

    def run_exclusively(self, work: ConnectionWork[T]) -> T:
        """Run ``work`` on the connection outside any transaction, while no other job runs."""
        return self._submit(_WriteJob(None, exclusive_work=work))

    def use_connection(self, database: apsw.Connection) -> None:
        """Write over a connection that is already open."""
        self._connection, self._cursor = database, None

    def close(self) -> None:
        """Close the connection once the running jobs are done."""

        def close_connection(_: apsw.Connection) -> None:
            self._closed = True
            self._close_connection()

        if self._connection is not None:
            self.run_exclusively(close_connection)
        self._closed = True

    def _take_lead(self) -> bool:
        """Become the leader if no other thread writes or wrote a moment ago."""
        with self._lock:
            if self._has_leader or self._group_size > 1:
                return False
            self._has_leader = True
        self._leader_thread = threading.get_ident()
        return True

    def _run_alone(self, fast_path: FastPath[T]) -> tuple[T, int] | None:
        """Run a fast path without the other jobs of a group; return None when the full work must run."""
        try:
            return self._try_fast_path(fast_path)
        except BaseException as error:
            failure = self._explain_failure(error)
            if failure is error:
                raise
            raise failure from error
        finally:
            successor = self._pass_lead(1)
            if successor is not None:
                successor.wake()

    def _submit(self, job: _WriteJob[T]) -> T:
        thread = threading.get_ident()
        if self._leader_thread == thread:
            raise LukasaError("A conditional append tried to write.", hint="Return the drafts to append instead.")
        with self._lock:
            if self._has_leader:
                job.wake_lock = threading.Lock()
                job.wake_lock.acquire()
                self._queue.append(job)
            else:
                self._has_leader = job.is_leader = True
        if job.wake_lock is not None:
            job.wake_lock.acquire()  # until the job is done, or this thread is the next leader
        if job.is_leader:
            self._leader_thread = thread
            self._run_group(job)
        return job.get_result()

    def _run_group(self, own_job: _WriteJob[Any]) -> None:
        """Run the own job and all waiting jobs in one transaction, then hand the lead to the next waiting job."""
        if self._group_size > 1:
            self._wait_for_writers()
        jobs = [own_job]
        if self._queue and own_job.exclusive_work is None:
            with self._lock:
                jobs += [job for job in self._queue if job.exclusive_work is None]
                self._queue = [job for job in self._queue if job.exclusive_work is not None]
        try:
            if own_job.exclusive_work is not None:
                own_job.result = own_job.exclusive_work(self._get_connection())
            elif (
                own_job.fast_path is not None
                and len(jobs) == 1
                and (done := self._try_fast_path(own_job.fast_path)) is not None
            ):
                own_job.result = done[0]
            else:
                self._run_transaction(jobs)
        except BaseException as error:  # noqa: BLE001 - handed to the threads whose jobs these are
            failure = self._explain_failure(error)
            for job in jobs:
                job.error = job.error or failure
        finally:
            if (successor := self._pass_lead(len(jobs))) is not None:
                jobs.append(successor)
            for job in jobs[1:]:
                job.wake()

    def _explain_failure(self, error: BaseException) -> BaseException:
        """Return the error that callers get. A connection that failed to write or sync is abandoned."""
        if isinstance(error, apsw.IOError | apsw.ReadOnlyError):
            self._abandon_connection()
        if not isinstance(error, apsw.Error):
            return error
        failure = translate_error(error)
        failure.__cause__ = error
        return failure

    def _pass_lead(self, group_size: int) -> _WriteJob[Any] | None:
        """Return the waiting job that leads the next group, if there is one; its thread is still to be woken."""
        self._leader_thread = 0
        with self._lock:
            self._group_size = group_size + len(self._queue)
            successor = self._queue.pop(0) if self._queue else None
            self._has_leader = successor is not None
        if successor is not None:
            successor.is_leader = True
        return successor

    def _wait_for_writers(self) -> None:
        """Wait a fraction of a commit for the threads that were writing a moment ago."""
        deadline = time.perf_counter() + min(self._commit_seconds * _GATHER_SHARE_OF_COMMIT, _MAX_GATHER_SECONDS)
        while len(self._queue) + 1 < self._group_size and time.perf_counter() < deadline:
            time.sleep(0)

    def _run_transaction(self, jobs: list[_WriteJob[Any]], *, check_fresh_ids: bool = False) -> None:
        database = self._get_connection()
        self._begin(database)
        try:
            pending = self._make_batch(database, check_fresh_ids=check_fresh_ids)
            for job in jobs:
                self._run_job(pending, job)
            pending.flush()
            if len(jobs) == 1:
                database.execute("COMMIT")
            else:
                began = time.perf_counter()
                database.execute("COMMIT")
                self._commit_seconds = time.perf_counter() - began
            self._on_commit(database, pending.next_seq - 1)
        except BaseException as error:
            _roll_back(database)
            if isinstance(error, apsw.ConstraintError) and not check_fresh_ids:
                self._run_transaction(
                    jobs, check_fresh_ids=True
                )  # a generated id was taken: look up every id this time
                return
            raise

    def _try_fast_path(self, fast_path: FastPath[T]) -> tuple[T, int] | None:
        """Run a fast path in a transaction; return None when the full work must run."""
        database = self._get_connection()
        cursor = self._cursor
        if cursor is None:
            cursor = self._cursor = database.cursor()
        self._begin(cursor)
        try:
            done = fast_path(cursor)
            cursor.execute("COMMIT" if done is not None else "ROLLBACK")
        except BaseException as error:
            _roll_back(database)
            if isinstance(error, apsw.ConstraintError):
                return None
            raise
        if done is not None:
            self._on_commit(database, done[1])
        return done

    def _run_job(self, pending: SqlitePendingBatch, job: _WriteJob[Any]) -> None:
        """Run one job of a group. A job's own error fails that job; a database error fails the group."""
        pending.has_direct_writes = False
        try:
            assert job.work is not None
            job.result = job.work(pending)
        except BaseException as error:
            if pending.has_direct_writes or isinstance(error, apsw.Error):
                raise
            job.error = error

    def _get_connection(self) -> apsw.Connection:
        if self._connection is None:
            if self._closed:
                raise StoreClosed
            self._connection = self._connect()
        return self._connection

    def _abandon_connection(self) -> None:
        """Close a connection after a failed write or fsync, without the checkpoint that closing normally runs."""
        if self._connection is not None:
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self._close_connection()

    def _close_connection(self) -> None:
        connection, self._connection, self._cursor = self._connection, None, None
        if connection is not None:
            connection.close(True)


def _roll_back(database: apsw.Connection) -> None:
    if database.in_transaction:
        with suppress(apsw.Error):  # the first error matters more
            database.execute("ROLLBACK")


def checkpoint(database: apsw.Connection) -> bool:
    """Move the write-ahead log into the database and empty it; return False if a reader prevented it."""
    try:
        busy, *_ = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").get
    except apsw.BusyError:
        return False
    except apsw.CorruptError as error:
        raise StoreDamaged from error
    return not busy


def find_single_insert(reach: Reach, batch: Sequence[ValidatedDraft]) -> ValidatedDraft | None:
    """Return the draft of a batch that may be one new record, for ``insert_single``; else None. Most batches are."""
    if len(batch) != 1:
        return None
    (sealed,) = batch
    is_insert = not (sealed.draft.deleted or sealed.draft.expected or sealed.kind == QUARANTINE)
    return sealed if is_insert and (reach.writable is None or sealed.scope in reach.writable) else None


def insert_single(
    cursor: apsw.Cursor,
    now: datetime,
    sealed: ValidatedDraft,
    near_duplicate_kinds: frozenset[str],
    start: WriteStart | None = None,
) -> tuple[Outcome, int] | None:
    """Insert one record that ``find_single_insert`` chose; return the outcome and the position.

    None if there are quarantines or the key has a version already, which need a full append. A short text is indexed later,
    with others.
    """
    draft, scope, kind, id, author, content, has_new_id = sealed
    tip, has_quarantines, unindexed_from = start or cursor.execute(SQL["start_of_write"]).get
    if has_quarantines or (not has_new_id and cursor.execute(SQL["has_key"], (scope, kind, id)).get):
        return None
    at, recorded_at = to_microseconds(now), to_iso(now)
    entry = content[:-1] + entry_suffix(1, recorded_at, recorded_at)
    digest = digest_of(entry)
    moment = at if draft.happened_at is None else to_microseconds(draft.happened_at)
    row = (tip + 1, scope, kind, id, 1, author, at, moment, digest, entry.decode())
    cursor.execute(SQL["insert_entry"], row)
    if unindexed_from is not None:
        if tip + 1 - unindexed_from >= MAX_POSITIONS or len(draft.text) > MAX_CHARACTERS:
            index_texts(cursor.connection)
    elif len(draft.text) > MAX_CHARACTERS:
        cursor.execute(SQL["index_text"], (tip + 1, to_index_form(draft.text)))
    elif draft.text:
        cursor.execute(SQL["note_unindexed"], (tip + 1,))
    for label in draft.labels:
        cursor.execute(SQL["insert_label"], (label, scope, tip + 1))
    if kind in near_duplicate_kinds and draft.text:
        insert_pair_keys(cursor.connection, [(tip + 1, scope, kind, draft.text)])
    if draft.links:
        cursor.execute(SQL["derive_links"], (tip + 1, tip + 1))
    cursor.execute(SQL["add_to_tally"], (scope, kind, 1, 1, checksum(digest)))
    return Accepted(LazyRecords([row], parse_log_row)), tip + 1


def insert_pair_keys(database: apsw.Connection, texts: Iterable[TextRow]) -> None:
    """Insert the near-duplicate keys of texts, in index order so that each page of the index is written once."""
    rows = sorted((pair_key, seq) for seq, scope, kind, text in texts for pair_key in text_pair_keys(text, scope, kind))
    insert_rows(database, "insert_duplicate_key", rows)


def insert_rows(database: apsw.Connection, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert short rows with a named statement for one row, sixteen at a time as far as they go, which takes less time.

    Not for a table with an integer key: SQLite may have to undo such a statement alone, so before each of several rows the
    text index would write all that it has gathered.
    """
    statement, whole = SQL[name], len(rows) // _ROWS_AT_ONCE
    if whole:
        one_row, values = statement[statement.rindex("(") :], chain.from_iterable(rows)
        size = len(rows[0]) * _ROWS_AT_ONCE
        several_rows = statement + f", {one_row}" * (_ROWS_AT_ONCE - 1)
        database.executemany(several_rows, (tuple(islice(values, size)) for _ in range(whole)))
    database.executemany(statement, rows[whole * _ROWS_AT_ONCE :])


def parse_log_row(row: LogRow) -> Record:
    return parse_entry(row[9], row[0], row[8])


class AcknowledgedHead(NamedTuple):
    """The token of a store, and the newest position that a writer of it acknowledged."""

    token: str
    seq: int


def head_path(store: Path) -> Path:
    return store.with_name(store.name + "-head")


def read_head(store: Path) -> AcknowledgedHead | None:
    """Return the head of a store; None if there is none or it is damaged."""
    try:
        data = head_path(store).read_bytes()
        magic, token, seq = _HEAD_CONTENT.unpack_from(data)
        (checksum,) = _HEAD_CHECKSUM.unpack_from(data, _HEAD_CONTENT.size)
    except (OSError, struct.error):
        return None
    if magic != _HEAD_MAGIC or checksum != zlib.crc32(data[: _HEAD_CONTENT.size]):
        return None
    return AcknowledgedHead(token.decode("ascii", "replace"), seq)


class HeadWriter:
    """Notes acknowledged positions. A head that cannot be written is no reason to fail a write that is durable.

    On a full disk it may be impossible to create the file; each later position tries again.
    """

    def __init__(self, store: Path, token: str) -> None:
        self._path = head_path(store)
        self._token = token.encode("ascii", "replace")
        self._descriptor = -1

    def note(self, seq: int) -> None:
        """Note that everything up to a position is durable."""
        content = _HEAD_CONTENT.pack(_HEAD_MAGIC, self._token, seq)
        try:
            if self._descriptor < 0:
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                self._descriptor = os.open(self._path, flags, 0o600)
            os.pwrite(self._descriptor, content + _HEAD_CHECKSUM.pack(zlib.crc32(content)), 0)
        except OSError:  # a with statement takes longer than the write
            pass

    def close(self) -> None:
        """Close the file, and delete it if the write-ahead log is gone: then the store is whole without it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        with suppress(OSError):  # on a disk that turned read-only it stays, and is never ahead of the log
            if not self._path.with_name(self._path.name.removesuffix("-head") + "-wal").exists():
                self._path.unlink(missing_ok=True)
