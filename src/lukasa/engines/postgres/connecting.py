"""Connections to one server: a pool, looks that stay the same, and writes that are tried again when a race was lost."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import Connection, Cursor
from psycopg_pool import ConnectionPool

from lukasa.engines.postgres.faults import RETRIED, is_lost, translate, translated, unreachable
from lukasa.engines.postgres.sql import SQL
from lukasa.errors import LukasaError, StoreClosed, StoreUnavailable

Database = Connection[tuple[Any, ...]]
T = TypeVar("T")

_CONNECTING = 10
_SHORTEST_NAP, _LONGEST_NAP = 0.001, 0.25
_SETTLING = 2.0
_BEGIN_LOOK = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class Server:
    """One PostgreSQL server, reached through a pool."""

    def __init__(self, url: str, *, patience: float, size: int) -> None:
        self.url = url
        self.patience = patience
        self._size = size
        self._pool: ConnectionPool[Database] | None = None
        self._guard = threading.Lock()
        self._closed = False

    def connect(self) -> Database:
        """A connection of one's own, outside the pool."""
        try:
            database: Database = psycopg.connect(self.url, **self._manners())
        except psycopg.Error as error:
            raise unreachable(error) from error
        try:
            with translated():
                self._set_up(database)
        except BaseException:
            database.close()
            raise
        return database

    def _manners(self) -> dict[str, Any]:
        return {
            "autocommit": True,
            "application_name": "lukasa",
            "connect_timeout": max(1, min(_CONNECTING, int(self.patience))),
        }

    def _set_up(self, database: Database) -> None:
        database.execute(
            """SELECT set_config('search_path', 'lukasa, public', false), set_config('lock_timeout', %s, false),
                set_config('jit', 'off', false), set_config('timezone', 'UTC', false),
                set_config('synchronous_commit',
                    CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' WHEN 'local' THEN 'on'
                        ELSE current_setting('synchronous_commit') END, false)""",
            (str(max(1, int(self.patience * 1000))),),
        )

    @contextmanager
    def borrowed(self) -> Iterator[Database]:
        """A connection from the pool; one that broke is not given back."""
        pool = self._open()
        with translated():
            database = pool.getconn(timeout=self.patience)
        try:
            yield database
        finally:
            pool.putconn(database)

    def _open(self) -> ConnectionPool[Database]:
        if self._closed:
            raise StoreClosed
        with self._guard:
            if self._pool is None:
                self._pool = ConnectionPool(
                    self.url,
                    kwargs=self._manners(),
                    min_size=0,
                    max_size=self._size,
                    max_idle=300,
                    configure=self._set_up,
                    open=True,
                    name="lukasa",
                )
            return self._pool

    def leave_parent(self) -> None:
        """A fork inherits sockets it must not use: it starts with none of its own."""
        self._pool = None
        self._guard = threading.Lock()

    def close(self) -> None:
        self._closed = True
        with self._guard:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def write(self, work: Callable[[Database], T]) -> T:
        """Runs ``work``, which commits, until it neither loses a race nor its connection, or patience ends.

        After a cut nobody knows whether the commit happened. The work is run again all the same, and must find out.
        """
        deadline = time.monotonic() + self.patience
        nap = _SHORTEST_NAP
        while True:
            try:
                with self.borrowed() as database:
                    try:
                        return work(database)
                    except BaseException:
                        _roll_back(database)
                        raise
            except (psycopg.Error, StoreUnavailable) as error:
                again = isinstance(error, RETRIED) or (not isinstance(error, psycopg.Error)) or is_lost(error)
                if not again or time.monotonic() + nap > deadline:
                    raise (translate(error) if isinstance(error, psycopg.Error) else error) from error
                time.sleep(random.uniform(nap / 2, nap))  # noqa: S311 - naps need no secrecy
                nap = min(2 * nap, _LONGEST_NAP)

    @property
    def closed(self) -> bool:
        return self._closed

    @contextmanager
    def looking(self, settled: int | None = None) -> Iterator[Look]:
        """One consistent look. A replica cannot know what is settled and is told."""
        lost = 0
        while True:
            with self.borrowed() as database:
                try:
                    look = Look(database)
                    look.begin(settled)
                except psycopg.Error as error:
                    if not is_lost(error) or lost > self._size:
                        raise translate(error) from error
                    lost += 1  # the server was restarted, and the pool still holds connections from before
                    continue
                try:
                    with translated():
                        yield look
                finally:
                    _roll_back(database)
                return

    @contextmanager
    def glancing(self) -> Iterator[Glance]:
        """A look for one question, which needs no transaction: what a statement sees is one moment already."""
        pool = self._open()
        with translated():
            glance = Glance(pool, self.patience)
            try:
                yield glance
            finally:
                pool.putconn(glance.database)


class Look:
    """A transaction that sees one moment, and knows up to which position nothing can come before any more."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.settled = 0
        self._newest = 0
        self._fresh = True

    def begin(self, settled: int | None = None) -> None:
        if settled is None:
            self._measure()
        else:
            self.settled = self._newest = settled
        self.database.execute(_BEGIN_LOOK)
        self._fresh = True

    def _measure(self) -> None:
        """Must come before the moment that is seen: who is not writing yet will draw a later position."""
        row = self.database.execute(SQL["settled"]).fetchone()
        assert row is not None
        self.settled, self._newest = row

    def run(self, statement: str, values: Sequence[Any] = ()) -> Cursor[tuple[Any, ...]]:
        self._fresh = False
        return self.database.execute(statement, values, binary=True)

    def horizon(self) -> int | None:
        """The newest settled position. Waits a moment for writers on their way, so that it covers every finished write."""
        if self.settled < self._newest and self._fresh:
            wanted, deadline, nap = self._newest, time.monotonic() + _SETTLING, _SHORTEST_NAP
            self.database.execute("ROLLBACK")
            while self.settled < wanted and time.monotonic() < deadline:
                time.sleep(nap)
                nap = min(2 * nap, 0.05)
                self._measure()
            self.database.execute(_BEGIN_LOOK)
        return self.settled


class Glance:
    """A look for one question. A connection that turns out to be dead, as all are after a restart, is replaced."""

    def __init__(self, pool: ConnectionPool[Database], patience: float) -> None:
        self._pool = pool
        self._patience = patience
        self.database = pool.getconn(timeout=patience)

    def run(self, statement: str, values: Sequence[Any] = ()) -> Cursor[tuple[Any, ...]]:
        for _ in range(self._pool.max_size):
            try:
                return self.database.execute(statement, values, binary=True)
            except psycopg.Error as error:
                if not is_lost(error):
                    raise
            self._pool.putconn(self.database)
            self.database = self._pool.getconn(timeout=self._patience)
        return self.database.execute(statement, values, binary=True)

    def horizon(self) -> int | None:
        """The newest settled position, measured before the question is asked."""
        settled, newest = first(self.run(SQL["settled"]))
        deadline, nap = time.monotonic() + _SETTLING, _SHORTEST_NAP
        while settled < newest and time.monotonic() < deadline:
            time.sleep(nap)
            nap = min(2 * nap, 0.05)
            settled, _ = first(self.run(SQL["settled"]))
        return int(settled)


class Inside:
    """The look that a decision has: from inside a write that keeps everybody else out of what it can see."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def run(self, statement: str, values: Sequence[Any] = ()) -> Cursor[tuple[Any, ...]]:
        return self.database.execute(statement, values, binary=True)

    def horizon(self) -> int | None:
        return None


def _roll_back(database: Database) -> None:
    if not database.closed and database.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        with suppress(psycopg.Error):  # what led here tells more, and a broken connection is dropped
            database.execute("ROLLBACK")


def first(cursor: Cursor[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The only row of an answer that always has one."""
    row = cursor.fetchone()
    if row is None:
        raise LukasaError("The server gave no answer where it always does.")
    return row
