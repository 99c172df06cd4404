"""One writer at a time, many writes per commit.

Every write is a job. Whoever finds nobody writing takes all waiting jobs into one transaction and commits once for
all of them; the others find their job done when they get their turn. One fsync then serves as many threads as were
waiting, and nobody is told of success before that fsync returned.

Jobs put lines on a shared stage, which is written once for all. A job that fails must leave the stage as it found it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import apsw

from lukasa.engines.sqlite.faults import translate
from lukasa.engines.sqlite.stage import Stage
from lukasa.errors import LukasaError, StoreClosed, StoreDamaged

T = TypeVar("T")
Connect = Callable[[], apsw.Connection]

_LONGEST_GATHERING = 0.002
_SHARE_OF_COMMIT = 0.5


class Transaction:
    """What a job works with: the connection, and the stage it shares with the other jobs of its group."""

    __slots__ = ("careful", "database", "direct", "stage")

    def __init__(self, database: apsw.Connection, *, careful: bool) -> None:
        self.database = database
        self.stage = Stage(database)
        self.careful = careful
        self.direct = False

    def settled(self) -> apsw.Connection:
        """The connection, once everything staged so far is written: for jobs that do more than append."""
        self.stage.write()
        self.direct = True
        return self.database


class _Job(Generic[T]):
    __slots__ = ("error", "leads", "result", "wake", "work")

    def __init__(self, work: Callable[[Transaction], T]) -> None:
        self.work = work
        self.result: T | None = None
        self.error: BaseException | None = None
        self.leads = False
        self.wake = threading.Lock()


class Writer:
    """The write side of one database in one process."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._connection: apsw.Connection | None = None
        self._door = threading.Lock()  # guards the queue and who leads; held for moments only
        self._turn = threading.Lock()  # held by whoever uses the connection
        self._waiting: list[_Job[Any]] = []
        self._led = False
        self._leader: int | None = None
        self._company = 1
        self._commit_took = 0.0
        self._closed = False

    def run(self, work: Callable[[Transaction], T]) -> T:
        """Runs ``work`` in a write transaction and returns once it is durable."""
        if self._leader == threading.get_ident():
            raise LukasaError("A decision tried to write.", hint="Return what to append instead.")
        job = _Job(work)
        with self._door:
            self._waiting.append(job)
            job.leads, self._led = not self._led, True
            if not job.leads:
                job.wake.acquire()
        if not job.leads:
            job.wake.acquire()  # until the job is done, or it is this thread's turn to lead
        if job.leads:
            self._lead(job)
        if job.error is not None:
            raise job.error
        return job.result  # type: ignore[return-value]  # done without error means that work returned a T

    def alone(self, work: Callable[[apsw.Connection], T]) -> T:
        """Runs ``work`` with the connection outside any transaction, while nobody here writes."""
        with self._turn:
            return work(self._open())

    def close(self) -> None:
        with self._turn:
            self._closed = True
            self._drop()

    def _open(self) -> apsw.Connection:
        if self._closed:
            raise StoreClosed
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close(True)
            self._connection = None

    def _lead(self, own: _Job[Any]) -> None:
        """Does all waiting jobs in one transaction, then hands the lead to one of those who came meanwhile."""
        jobs: list[_Job[Any]] = []
        try:
            with self._turn:
                self._gather()
                with self._door:
                    jobs, self._waiting = self._waiting, []
                self._leader = threading.get_ident()
                self._transact(jobs)
        except BaseException as error:  # noqa: BLE001 - handed to the threads whose jobs these are
            failure = translate(error) if isinstance(error, apsw.Error) else error
            if not jobs:
                with self._door:
                    jobs, self._waiting = self._waiting, []
            for job in jobs:
                job.error = job.error or failure
        finally:
            self._leader = None
            with self._door:
                self._company = len(jobs) + len(self._waiting)
                if self._waiting:
                    self._waiting[0].leads = True
                    self._waiting[0].wake.release()
                else:
                    self._led = False
            for job in jobs:
                if job is not own:
                    job.wake.release()

    def _gather(self) -> None:
        """Where several threads were writing a moment ago, waits a fraction of a commit for them to come back."""
        if self._company > len(self._waiting):
            deadline = time.perf_counter() + min(self._commit_took * _SHARE_OF_COMMIT, _LONGEST_GATHERING)
            while len(self._waiting) < self._company and time.perf_counter() < deadline:
                time.sleep(0)

    def _transact(self, jobs: list[_Job[Any]], *, careful: bool = False) -> None:
        database = self._open()
        database.execute("BEGIN IMMEDIATE")
        try:
            transaction = Transaction(database, careful=careful)
            for job in jobs:
                self._attempt(transaction, job)
            transaction.stage.write()
            began = time.perf_counter()
            database.execute("COMMIT")
            self._commit_took = time.perf_counter() - began
        except BaseException as error:
            if database.in_transaction:
                database.execute("ROLLBACK")
            if isinstance(error, apsw.ConstraintError) and not careful:
                self._transact(jobs, careful=True)  # a made-up id was taken: look before each write this time
                return
            if isinstance(error, apsw.IOError):
                self._drop()  # after a failed write or fsync this handle is not to be trusted again
            raise

    def _attempt(self, transaction: Transaction, job: _Job[Any]) -> None:
        """One job of a group. A failure of its own is its own; a failure of the database is everybody's."""
        job.error = None
        transaction.direct = False
        try:
            job.result = job.work(transaction)
        except BaseException as error:
            if transaction.direct or isinstance(error, apsw.Error):
                raise
            job.error = error


def checkpoint(database: apsw.Connection) -> bool:
    """Moves the write-ahead log into the database and empties it; ``False`` when a reader was in the way."""
    try:
        busy, *_ = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").get
    except apsw.BusyError:
        return False
    except apsw.CorruptError as error:
        raise StoreDamaged from error
    return not busy
