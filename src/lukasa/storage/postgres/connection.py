"""One server: consistent snapshots, and writes that are retried after a lost race or a lost connection."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import psycopg
from psycopg import Cursor

from lukasa.errors import LukasaError, StoreBusy, StoreUnavailable
from lukasa.storage.postgres.errors import (
    RETRYABLE_ERRORS,
    error_translation,
    is_connection_lost,
    translate_connection_error,
    translate_error,
)
from lukasa.storage.postgres.pool import Database, PostgresPool, QueryTimeouts
from lukasa.storage.postgres.sql import SQL

T = TypeVar("T")
Values = Sequence[Any] | Mapping[str, Any]
"""What a statement binds, by place or by name."""

_MAX_CONNECT_SECONDS = 10
_MIN_BACKOFF, _MAX_BACKOFF = 0.001, 0.25
_SETTLE_TIMEOUT = 2.0
_LOCK_MARGIN = 1.5  # so that a lock times out before the connection is cut, and the error says so
_BEGIN_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class PostgresClient:
    """One PostgreSQL server, reached through a pool."""

    def __init__(self, url: str, *, timeout: float, size: int, read_only: bool = False) -> None:
        self.url = url
        self._read_only = read_only
        self.timeout = timeout
        self._size = size
        self.closed = False
        self._pool, self.query_timeouts = self._new_pool()
        self.positions = PositionReader()

    def _new_pool(self) -> tuple[PostgresPool, QueryTimeouts]:
        return PostgresPool(self.connect, size=self._size, timeout=self.timeout), QueryTimeouts(self.timeout)

    def reset_after_fork(self) -> None:
        """Drop the connections that a forked child inherited and must not use."""
        _parent_pools.append(self._pool)
        self._pool, self.query_timeouts = self._new_pool()

    def connect(self) -> Database:
        """Open a new connection."""
        failure: LukasaError
        try:
            database: Database = psycopg.connect(
                self.url,
                autocommit=True,
                application_name="lukasa",
                connect_timeout=max(2, min(_MAX_CONNECT_SECONDS, int(self.timeout))),
            )
        except psycopg.Error as error:
            failure = translate_connection_error(error, self.url)
        else:
            try:
                with error_translation():
                    lock_timeout = max(1, int(max(self.timeout - _LOCK_MARGIN, self.timeout / 2) * 1000))
                    database.execute(SQL["configure_connection"], (str(lock_timeout), self._read_only))
            except BaseException:
                database.close()
                raise
            return database
        raise failure  # outside the handler, because the driver's error may quote the URL with its password

    def acquire(self) -> Database:
        """Take a connection from the pool; wait for a server that is away, as it is while a standby takes over."""
        deadline, backoff = time.monotonic() + self.timeout, _MIN_BACKOFF
        while True:
            try:
                return self._pool.acquire()
            except StoreUnavailable:
                if time.monotonic() + backoff > deadline:
                    raise
            time.sleep(backoff)
            backoff = min(2 * backoff, _MAX_BACKOFF)

    def release(self, database: Database, *, is_lost: bool = False) -> None:
        """Put a connection back. When one was lost, the idle ones are closed too: they are probably dead."""
        self._pool.release(database)
        if is_lost:
            self._pool.close_idle()

    @contextmanager
    def borrow_connection(self) -> Iterator[Database]:
        """Lend a connection from the pool; a broken one is not put back."""
        database = self._pool.acquire()
        try:
            yield database
        finally:
            self._pool.release(database)

    def close(self) -> None:
        self.closed = True
        self._pool.close()

    def write(self, work: Callable[[Database], T], *, limit_time: bool = False) -> T:
        """Run ``work``, which commits, and retry lost races and lost connections until the timeout.

        After a lost connection it is unknown whether the commit happened. The work is run again and must find out.
        With ``limit_time`` the connection is cut when the server does not answer in time.
        """
        deadline = time.monotonic() + self.timeout
        backoff = _MIN_BACKOFF
        while True:
            try:
                return self._run_once(work, limit_time=limit_time)
            except (psycopg.Error, StoreUnavailable) as error:
                lost = not isinstance(error, psycopg.Error) or is_connection_lost(error)
                if lost:
                    self._pool.close_idle()
                if not (lost or isinstance(error, RETRYABLE_ERRORS)) or time.monotonic() + backoff > deadline:
                    if isinstance(error, psycopg.errors.LockNotAvailable):
                        raise StoreBusy(hint=self._name_role_in_the_way()) from error
                    if isinstance(error, psycopg.Error):
                        raise translate_error(error) from error
                    raise
            time.sleep(random.uniform(backoff / 2, backoff))  # noqa: S311 - a sleep needs no secrecy
            backoff = min(2 * backoff, _MAX_BACKOFF)

    def _name_role_in_the_way(self) -> str | None:
        """Name a role that wrote and does not commit, and say how to end its transaction; ``None`` if there is none."""
        with suppress(psycopg.Error, LukasaError), self.borrow_connection() as database:
            (*_, holders) = fetch_single_row(database.execute(SQL["settled_position"], ([],)))
            found = database.execute(SQL["roles_at_work"], (holders,)).fetchone()
            if found is not None:
                return f"The role {found[1]} does not commit what it wrote. End it: SELECT pg_terminate_backend({found[0]});"
        return None

    def _run_once(self, work: Callable[[Database], T], *, limit_time: bool) -> T:
        database = self._pool.acquire()
        try:
            if limit_time:
                self.query_timeouts.start_timer(database)
            return work(database)
        except BaseException:
            roll_back(database)
            raise
        finally:
            if limit_time:
                self.query_timeouts.stop_timer(database)
            self._pool.release(database)

    @contextmanager
    def snapshot(self) -> Iterator[TransactionSnapshot]:
        """Open a consistent snapshot."""
        snapshot = self._begin_snapshot()
        with self._using(snapshot):
            yield snapshot

    def acquire_current(self, is_current: Callable[[Database], bool]) -> Database | None:
        """Take a connection for which ``is_current`` holds; return None if it does not."""
        database = self._pool.acquire()
        try:
            if is_current(database):
                return database
        except BaseException:
            self._pool.release(database)
            raise
        self._pool.release(database)
        return None

    @contextmanager
    def replica_snapshot(self, database: Database, settled_position: int) -> Iterator[TransactionSnapshot]:
        """Open a snapshot on a connection that was taken before. A replica cannot know the settled position itself."""
        snapshot = TransactionSnapshot(database, self.query_timeouts, self.positions)
        with self._using(snapshot):
            snapshot.begin(settled_position)
            yield snapshot

    @contextmanager
    def _using(self, snapshot: TransactionSnapshot) -> Iterator[TransactionSnapshot]:
        try:
            with error_translation():
                yield snapshot
        finally:
            roll_back(snapshot.database)
            self._pool.release(snapshot.database)

    def _begin_snapshot(self) -> TransactionSnapshot:
        """Begin a snapshot on a live connection: after a server restart, pooled connections are dead."""
        deadline = time.monotonic() + self.timeout
        while True:
            database = self.acquire()
            try:
                snapshot = TransactionSnapshot(database, self.query_timeouts, self.positions)
                snapshot.begin()
            except BaseException as error:
                is_lost = isinstance(error, psycopg.Error) and is_connection_lost(error)
                self.release(database, is_lost=is_lost)
                if not isinstance(error, psycopg.Error):
                    raise
                if not is_lost or time.monotonic() > deadline:
                    raise translate_error(error) from error
            else:
                return snapshot

    @contextmanager
    def statement_snapshot(self, replica: ReplicaConnection | None = None) -> Iterator[StatementSnapshot]:
        """Open a snapshot for one query, which needs no transaction: one statement sees one moment.

        With a connection of a replica, the query runs there, and here if that connection is lost.
        """
        snapshot = StatementSnapshot(self, replica)
        try:
            with error_translation():
                yield snapshot
        finally:
            snapshot.close()


@dataclass(frozen=True, slots=True)
class ReplicaConnection:
    """A connection to a replica that has everything up to a settled position."""

    client: PostgresClient
    database: Database
    settled_position: int


class PositionReader:
    """Reads the settled position of the log, and remembers the roles' connections that never finish their writes."""

    def __init__(self) -> None:
        self._ignored: frozenset[int] = frozenset()
        self._holders: frozenset[int] = frozenset()
        self.newest = 0
        """The newest position that was seen; the log may be longer."""

    def read(self, run: Callable[[str, Sequence[Any]], Cursor[tuple[Any, ...]]]) -> tuple[int, int]:
        """Return the settled position and the newest one."""
        settled, newest, holders = fetch_single_row(run(SQL["settled_position"], (list(self._ignored),)))
        self._holders = frozenset(holders)
        if self._ignored:
            self._ignored &= self._holders
        self.newest = max(self.newest, int(newest))
        return int(settled), int(newest)

    def wait(self, run: Callable[[str, Sequence[Any]], Cursor[tuple[Any, ...]]], wanted: int) -> int:
        """Wait a moment for running writers and return the settled position. A role is waited for once."""
        deadline, backoff = time.monotonic() + _SETTLE_TIMEOUT, _MIN_BACKOFF
        settled, _ = self.read(run)
        waited_for = self._holders
        while settled < wanted and time.monotonic() < deadline:
            time.sleep(backoff)
            backoff = min(2 * backoff, 0.05)
            settled, _ = self.read(run)
            waited_for &= self._holders
        if settled < wanted and waited_for:
            self._ignored |= waited_for
            settled, _ = self.read(run)
        return settled


class TransactionSnapshot:
    """A read transaction with the settled position: no new entry can appear at or below it."""

    def __init__(self, database: Database, query_timeouts: QueryTimeouts, positions: PositionReader) -> None:
        self.database = database
        self._positions = positions
        self.settled_position = 0
        self._query_timeouts = query_timeouts
        self._newest_position = 0
        self._is_unused = True

    def begin(self, settled_position: int | None = None) -> None:
        with self._query_timeouts.limit_time(self.database):
            if settled_position is None:
                # Before the snapshot starts: later writers get higher positions.
                self.settled_position, self._newest_position = self._positions.read(self.database.execute)
            else:
                self.settled_position = self._newest_position = settled_position
            self.database.execute(_BEGIN_SNAPSHOT)
        self._is_unused = True

    def run(self, statement: str, values: Values = ()) -> Cursor[tuple[Any, ...]]:
        self._is_unused = False
        with self._query_timeouts.limit_time(self.database):
            return self.database.execute(statement, values, binary=True)

    @property
    def newest_position(self) -> int:
        return self._positions.newest

    def note_position(self, position: int) -> None:
        self._positions.newest = max(self._positions.newest, position)

    def keep_moment(self) -> None:
        """Do nothing: the transaction sees one moment."""

    def find_settled_position(self, *, wait: bool = True) -> int | None:
        """Return the settled position. Wait a moment for running writers, so that it covers every finished write."""
        if wait and self.settled_position < self._newest_position and self._is_unused:
            self.database.execute("ROLLBACK")
            self.settled_position = self._positions.wait(self.database.execute, self._newest_position)
            self.database.execute(_BEGIN_SNAPSHOT)
        return self.settled_position


class StatementSnapshot:
    """A snapshot for one query. A dead connection, as all are after a server restart, is replaced."""

    def __init__(self, server: PostgresClient, replica: ReplicaConnection | None = None) -> None:
        self._server = server
        self._settled = replica.settled_position if replica else None
        self._connection = (replica.client, replica.database) if replica else (server, server.acquire())
        self._is_open = True
        self._keeps_moment = False

    @property
    def newest_position(self) -> int:
        return self._server.positions.newest

    def note_position(self, position: int) -> None:
        self._server.positions.newest = max(self._server.positions.newest, position)

    def keep_moment(self) -> None:
        """Begin a transaction for a query that takes several statements."""
        if not self._keeps_moment:
            self.run(_BEGIN_SNAPSHOT)
            self._keeps_moment = True

    def run(self, statement: str, values: Values = ()) -> Cursor[tuple[Any, ...]]:
        deadline = time.monotonic() + self._server.timeout
        while True:
            if not self._is_open:
                self._connection, self._is_open = (self._server, self._server.acquire()), True
            client, database = self._connection
            try:
                with client.query_timeouts.limit_time(database):
                    return database.execute(statement, values, binary=True)
            except psycopg.Error as error:
                if self._keeps_moment or not is_connection_lost(error) or time.monotonic() > deadline:
                    raise
            self._settled = None
            self.close(is_lost=True)

    def close(self, *, is_lost: bool = False) -> None:
        """Give the connection back."""
        client, database = self._connection
        if self._is_open:
            self._is_open = False
            roll_back(database)
            client.release(database, is_lost=is_lost)

    def find_settled_position(self, *, wait: bool = True) -> int | None:
        """Return the settled position, read before the query runs."""
        if self._settled is not None:
            return self._settled
        positions = self._server.positions
        settled, newest = positions.read(self.run)
        return positions.wait(self.run, newest) if wait and settled < newest else settled


class WriterSnapshot:
    """The snapshot of a conditional append: inside a write that locks everything it can read."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def run(self, statement: str, values: Values = ()) -> Cursor[tuple[Any, ...]]:
        return self.database.execute(statement, values, binary=True)

    @property
    def newest_position(self) -> int:
        return 0

    def note_position(self, position: int) -> None:
        """Do nothing: the position may be rolled back."""

    def keep_moment(self) -> None:
        """Do nothing: nobody else writes."""

    def find_settled_position(self, *, wait: bool = True) -> int | None:  # noqa: ARG002 - no other writer is active
        return None


class RetryableTransaction(Generic[T]):
    """Work in one transaction that takes effect once, however often it is retried.

    The server knows the outcome of a transaction by its number. When the answer to a commit is lost, the server is
    asked before the work runs again. A server that crashed may give a number it never stored to another transaction,
    so ``is_applied`` checks whether the result is there.
    """

    def __init__(
        self,
        work: Callable[[Database], T],
        *,
        should_commit: Callable[[T], bool],
        is_applied: Callable[[Database, T], bool],
        timeout: float,
    ) -> None:
        self._work = work
        self._should_commit = should_commit
        self._is_applied = is_applied
        self._timeout = timeout
        self._last_attempt: tuple[str, T] | None = None

    def __call__(self, database: Database) -> T:
        if self._last_attempt is not None:
            number, result = self._last_attempt
            if self._is_committed(database, number) and self._is_applied(database, result):
                return result
            self._last_attempt = None
        database.execute("BEGIN")
        result = self._work(database)
        if not self._should_commit(result):
            database.execute("ROLLBACK")
            return result
        (number,) = fetch_single_row(database.execute(SQL["transaction_number"]))
        if number is not None:
            self._last_attempt = (number, result)
        database.execute("COMMIT")
        return result

    def _is_committed(self, database: Database, number: str) -> bool:
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                (status,) = fetch_single_row(database.execute(SQL["transaction_status"], (number,)))
            except psycopg.DataError:
                return False  # a number from before a crash that was not assigned again
            if status != "in progress" or time.monotonic() > deadline:
                return bool(status == "committed")
            time.sleep(0.01)


def always_true(*_: object) -> bool:
    """Commit any result, and trust the server about its commit."""
    return True


def roll_back(database: Database) -> None:
    if not database.closed and database.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        with suppress(psycopg.Error):  # the first error matters more, and a broken connection is dropped
            database.execute("ROLLBACK")


def fetch_single_row(cursor: Cursor[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the row of a statement that always has one."""
    row = cursor.fetchone()
    if row is None:
        raise LukasaError("The server returned no row where it always does.")
    return row


_parent_pools: list[PostgresPool] = []
"""Pools of a parent process. They are never closed here: closing would end the parent's connections."""
