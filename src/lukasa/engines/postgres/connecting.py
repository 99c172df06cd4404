"""Talking to one server: looks that stay the same, and writes that are tried again when a race or a connection is lost."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar

import psycopg
from psycopg import Cursor

from lukasa.engines.postgres.faults import RETRIED, is_lost, translate, translated, unreachable
from lukasa.engines.postgres.pooling import Database, Pool, Watchman
from lukasa.engines.postgres.sql import SQL
from lukasa.errors import LukasaError, StoreUnavailable

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
        self.closed = False
        self._pool, self.watchman = self._new_pool()

    def _new_pool(self) -> tuple[Pool, Watchman]:
        return Pool(self.connect, size=self._size, patience=self.patience), Watchman(self.patience)

    def leave_parent(self) -> None:
        """A fork inherits connections it must not use: it starts with none of its own."""
        _inherited.append(self._pool)
        self._pool, self.watchman = self._new_pool()

    def connect(self) -> Database:
        """A new connection."""
        failure: LukasaError
        try:
            database: Database = psycopg.connect(
                self.url,
                autocommit=True,
                application_name="lukasa",
                connect_timeout=max(2, min(_CONNECTING, int(self.patience))),
            )
        except psycopg.Error as error:
            failure = unreachable(error, self.url)
        else:
            try:
                with translated():
                    self._set_up(database)
            except BaseException:
                database.close()
                raise
            return database
        raise failure  # outside of the handler: the driver's own words may quote the URL, password and all

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
        """A connection from the pool, and back into it unless it broke."""
        database = self._pool.take()
        try:
            yield database
        finally:
            self._pool.give(database)

    def close(self) -> None:
        self.closed = True
        self._pool.close()

    def write(self, work: Callable[[Database], T], *, brief: bool = False) -> T:
        """Runs ``work``, which commits, until it neither loses a race nor its connection, or patience ends.

        After a cut nobody knows whether the commit happened. The work is run again all the same, and must find out.
        ``brief`` work is cut off when the server does not answer.
        """
        deadline = time.monotonic() + self.patience
        nap = _SHORTEST_NAP
        while True:
            try:
                return self._attempt(work, brief=brief)
            except (psycopg.Error, StoreUnavailable) as error:
                lost = not isinstance(error, psycopg.Error) or is_lost(error)
                if lost:
                    self._pool.forget()
                if not (lost or isinstance(error, RETRIED)) or time.monotonic() + nap > deadline:
                    if isinstance(error, psycopg.Error):
                        raise translate(error) from error
                    raise
            time.sleep(random.uniform(nap / 2, nap))  # noqa: S311 - naps need no secrecy
            nap = min(2 * nap, _LONGEST_NAP)

    def _attempt(self, work: Callable[[Database], T], *, brief: bool) -> T:
        database = self._pool.take()
        try:
            if brief:
                self.watchman.watch(database)
            return work(database)
        except BaseException:
            roll_back(database)
            raise
        finally:
            if brief:
                self.watchman.leave(database)
            self._pool.give(database)

    @contextmanager
    def looking(self, settled: int | None = None) -> Iterator[Look]:
        """One consistent look. A replica cannot know what is settled and is told."""
        look = self._begun(settled)
        try:
            with translated():
                yield look
        finally:
            roll_back(look.database)
            self._pool.give(look.database)

    def _begun(self, settled: int | None) -> Look:
        """A look on a connection that is alive: after a restart, those that are kept are not."""
        for last in (False, True):
            database = self._pool.take()
            try:
                look = Look(database, self.watchman)
                look.begin(settled)
            except BaseException as error:
                self._pool.give(database)
                if not isinstance(error, psycopg.Error):
                    raise
                if last or not is_lost(error):
                    raise translate(error) from error
                self._pool.forget()
            else:
                return look
        raise StoreUnavailable

    @contextmanager
    def glancing(self) -> Iterator[Glance]:
        """A look for one question, which needs no transaction: what a statement sees is one moment already."""
        glance = Glance(self._pool, self.watchman)
        try:
            with translated():
                yield glance
        finally:
            self._pool.give(glance.database)


class Look:
    """A transaction that sees one moment, and knows up to which position nothing can come before any more."""

    def __init__(self, database: Database, watchman: Watchman) -> None:
        self.database = database
        self.settled = 0
        self._watchman = watchman
        self._newest = 0
        self._fresh = True

    def begin(self, settled: int | None = None) -> None:
        with self._watchman.over(self.database):
            if settled is None:
                self._measure()
            else:
                self.settled = self._newest = settled
            self.database.execute(_BEGIN_LOOK)
        self._fresh = True

    def _measure(self) -> None:
        """Must come before the moment that is seen: who is not writing yet will draw a later position."""
        self.settled, self._newest = first(self.database.execute(SQL["settled"]))

    def run(self, statement: str, values: Sequence[Any] = ()) -> Cursor[tuple[Any, ...]]:
        self._fresh = False
        with self._watchman.over(self.database):
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

    def __init__(self, pool: Pool, watchman: Watchman) -> None:
        self._pool = pool
        self._watchman = watchman
        self.database = pool.take()

    def run(self, statement: str, values: Sequence[Any] = ()) -> Cursor[tuple[Any, ...]]:
        try:
            return self._ask(statement, values)
        except psycopg.Error as error:
            if not is_lost(error):
                raise
        self._pool.give(self.database)
        self._pool.forget()
        self.database = self._pool.take()
        return self._ask(statement, values)

    def _ask(self, statement: str, values: Sequence[Any]) -> Cursor[tuple[Any, ...]]:
        self._watchman.watch(self.database)
        try:
            return self.database.execute(statement, values, binary=True)
        finally:
            self._watchman.leave(self.database)

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


class Transaction(Generic[T]):
    """Work in one transaction that takes effect once, however often it has to be tried.

    The server remembers what became of a transaction by its number. When the answer to a commit got lost, it is asked
    before anything is done again. A server that crashed may give a number to somebody else that it never wrote down,
    so ``proof`` looks whether what was done is there.
    """

    def __init__(
        self,
        work: Callable[[Database], T],
        *,
        keeps: Callable[[T], bool],
        proof: Callable[[Database, T], bool],
        patience: float,
    ) -> None:
        self._work = work
        self._keeps = keeps
        self._proof = proof
        self._patience = patience
        self._done: tuple[str, T] | None = None

    def __call__(self, database: Database) -> T:
        if self._done is not None:
            number, result = self._done
            if self._is_committed(database, number) and self._proof(database, result):
                return result
            self._done = None
        database.execute("BEGIN")
        result = self._work(database)
        if not self._keeps(result):
            database.execute("ROLLBACK")
            return result
        (number,) = first(database.execute("SELECT pg_current_xact_id_if_assigned()::text"))
        if number is not None:
            self._done = (number, result)
        database.execute("COMMIT")
        return result

    def _is_committed(self, database: Database, number: str) -> bool:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                (status,) = first(database.execute("SELECT pg_xact_status(%s::xid8)", (number,)))
            except psycopg.DataError:
                return False  # a number from before a crash that was never given out again
            if status != "in progress" or time.monotonic() > deadline:
                return bool(status == "committed")
            time.sleep(0.01)


def always(*_: object) -> bool:
    """Keeps whatever was done, and takes the server's word for it."""
    return True


def roll_back(database: Database) -> None:
    if not database.closed and database.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        with suppress(psycopg.Error):  # what led here tells more, and a broken connection is dropped
            database.execute("ROLLBACK")


def first(cursor: Cursor[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The only row of an answer that always has one."""
    row = cursor.fetchone()
    if row is None:
        raise LukasaError("The server gave no answer where it always does.")
    return row


_inherited: list[Pool] = []
"""Connections of a parent process, kept so that they are never closed here: closing would speak in the parent's name."""
