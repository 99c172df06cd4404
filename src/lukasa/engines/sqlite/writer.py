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
from contextlib import suppress
from typing import Any, Generic, TypeVar

import apsw

from lukasa.engines.sqlite.faults import translate
from lukasa.engines.sqlite.stage import Stage
from lukasa.errors import LukasaError, StoreClosed, StoreDamaged

T = TypeVar("T")
Connect = Callable[[], apsw.Connection]

_LONGEST_GATHERING = 0.002
_SHARE_OF_COMMIT = 0.5


Work = Callable[[Stage], T]
Brief = Callable[[apsw.Connection], T | None]
"""A short way to do the same work when nobody else waits; ``None`` means that it has to be the long way."""
Errand = Callable[[apsw.Connection], T]


class _Job(Generic[T]):
    __slots__ = ("brief", "errand", "error", "leads", "result", "wake", "work")

    def __init__(self, work: Work[T] | None, *, brief: Brief[T] | None = None, errand: Errand[T] | None = None) -> None:
        self.work = work
        self.brief = brief
        self.errand = errand
        self.result: T | None = None
        self.error: BaseException | None = None
        self.leads = False
        self.wake: threading.Lock | None = None  # only those who wait need one

    def outcome(self) -> T:
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]  # done without error means that the work returned a T


class Writer:
    """The write side of one database in one process."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._connection: apsw.Connection | None = None
        self._door = threading.Lock()  # guards the queue and whether anybody leads; held for moments only
        self._waiting: list[_Job[Any]] = []
        self._led = False
        self._leader = 0
        self._company = 1
        self._commit_took = 0.0
        self._closed = False

    @property
    def deciding(self) -> bool:
        """Whether the calling thread is in the middle of a write of its own."""
        return self._leader == threading.get_ident()

    def run(self, work: Work[T], brief: Brief[T] | None = None) -> T:
        """Runs ``work`` in a write transaction and returns once it is durable."""
        return self._do(_Job(work, brief=brief))

    def alone(self, errand: Errand[T]) -> T:
        """Runs ``errand`` with the connection outside any transaction, while nobody here writes."""
        return self._do(_Job(None, errand=errand))

    def adopt(self, database: apsw.Connection) -> None:
        """Takes over a connection that was opened to look the store over."""
        self._connection = database

    def close(self) -> None:
        def shut(_: apsw.Connection) -> None:
            self._closed = True
            self._drop()

        if self._connection is not None:
            self.alone(shut)
        self._closed = True

    def _do(self, job: _Job[T]) -> T:
        me = threading.get_ident()
        if self._leader == me:
            raise LukasaError("A decision tried to write.", hint="Return what to append instead.")
        with self._door:
            if self._led:
                job.wake = threading.Lock()
                job.wake.acquire()
                self._waiting.append(job)
            else:
                self._led = job.leads = True
        if job.wake is not None:
            job.wake.acquire()  # until the job is done, or until it is this thread's turn to lead
        if job.leads:
            self._leader = me
            self._lead(job)
        return job.outcome()

    def _lead(self, own: _Job[Any]) -> None:
        """Does its own job and all that are waiting in one transaction, then hands the lead to the next in line."""
        if self._company > 1:
            self._gather()
        jobs = [own]
        if self._waiting and own.errand is None:
            with self._door:
                jobs += [job for job in self._waiting if job.errand is None]
                self._waiting = [job for job in self._waiting if job.errand is not None]
        try:
            if own.errand is not None:
                own.result = own.errand(self._open())
            elif own.brief is None or len(jobs) > 1 or not self._briefly(own, own.brief):
                self._transact(jobs)
        except BaseException as error:  # noqa: BLE001 - handed to the threads whose jobs these are
            if isinstance(error, apsw.IOError | apsw.ReadOnlyError):
                self._give_up()
            failure = _told(error)
            for job in jobs:
                job.error = job.error or failure
        finally:
            self._leader = 0
            with self._door:
                self._company = len(jobs) + len(self._waiting)
                successor = self._waiting.pop(0) if self._waiting else None
                self._led = successor is not None
            if successor is not None:
                successor.leads = True
                jobs.append(successor)
            for job in jobs[1:]:
                assert job.wake is not None
                job.wake.release()

    def _gather(self) -> None:
        """Where several threads were writing a moment ago, waits a fraction of a commit for them to come back."""
        deadline = time.perf_counter() + min(self._commit_took * _SHARE_OF_COMMIT, _LONGEST_GATHERING)
        while len(self._waiting) + 1 < self._company and time.perf_counter() < deadline:
            time.sleep(0)

    def _transact(self, jobs: list[_Job[Any]], *, careful: bool = False) -> None:
        database = self._open()
        database.execute("BEGIN IMMEDIATE")
        try:
            stage = Stage(database, careful=careful)
            for job in jobs:
                self._attempt(stage, job)
            stage.write()
            if len(jobs) == 1:
                database.execute("COMMIT")
            else:
                began = time.perf_counter()
                database.execute("COMMIT")
                self._commit_took = time.perf_counter() - began
        except BaseException as error:
            _roll_back(database)
            if isinstance(error, apsw.ConstraintError) and not careful:
                self._transact(jobs, careful=True)  # a made-up id was taken: look before each write this time
                return
            raise

    def _briefly(self, job: _Job[T], brief: Brief[T]) -> bool:
        """The short way of a lone job; ``False`` when it has to be the long one."""
        database = self._open()
        database.execute("BEGIN IMMEDIATE")
        try:
            job.result = brief(database)
            database.execute("COMMIT" if job.result is not None else "ROLLBACK")
        except BaseException as error:
            _roll_back(database)
            if isinstance(error, apsw.ConstraintError):
                return False
            raise
        return job.result is not None

    def _attempt(self, stage: Stage, job: _Job[Any]) -> None:
        """One job of a group. A failure of its own is its own; a failure of the database is everybody's."""
        stage.touched = False
        try:
            assert job.work is not None
            job.result = job.work(stage)
        except BaseException as error:
            if stage.touched or isinstance(error, apsw.Error):
                raise
            job.error = error

    def _open(self) -> apsw.Connection:
        if self._connection is None:
            if self._closed:
                raise StoreClosed
            self._connection = self._connect()
        return self._connection

    def _give_up(self) -> None:
        """After a failed write or fsync a handle is not to be trusted again, not even to tidy up as it closes."""
        if self._connection is not None:
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close(True)


def _roll_back(database: apsw.Connection) -> None:
    if database.in_transaction:
        with suppress(apsw.Error):  # the error that led here tells more
            database.execute("ROLLBACK")


def _told(error: BaseException) -> BaseException:
    """What the threads whose jobs these were are told."""
    if not isinstance(error, apsw.Error):
        return error
    failure = translate(error)
    failure.__cause__ = error
    return failure


def checkpoint(database: apsw.Connection) -> bool:
    """Moves the write-ahead log into the database and empties it; ``False`` when a reader was in the way."""
    try:
        busy, *_ = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").get
    except apsw.BusyError:
        return False
    except apsw.CorruptError as error:
        raise StoreDamaged from error
    return not busy
