"""Jobs on PostgreSQL, through ``procrastinate``: any number of workers on any number of machines.

procrastinate keeps the queue, hands each job to one worker, wakes workers and counts attempts. Added here:

- Jobs of dead workers are rescued by whoever works. Rescuers take turns, because one with an old view of things would
  take a job away from the living worker that has just got it.
- A job that is to be tried again while a newer one with its key waits already gives way to it. procrastinate would
  leave it running for ever, because only one job of a key may wait.
- A worker gives signs of life until its last job is done, and starts anew when it could not note how a job ended.
- What failed attempts said is kept, so that people can see it.

A queue is named after its work, so a worker never takes a job that it has no function for.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from datetime import UTC, datetime
from typing import Any

import procrastinate
import psycopg
from procrastinate import exceptions, retry
from procrastinate.jobs import Job as Row
from procrastinate.manager import JobManager
from psycopg import errors
from psycopg_pool import PoolTimeout

from lukasa import canonical
from lukasa.clock import aware
from lukasa.engines.postgres.faults import translated
from lukasa.errors import NotAllowed, StoreBusy, StoreError, StoreFull, StoreUnavailable
from lukasa.jobs.job import DIED, Deferred, Ending, Job, Shift, State, Status, Work, sentence
from lukasa.jobs.keepers.lines import Lines
from lukasa.jobs.keepers.schema import RESCUE_LOCK, set_up
from lukasa.jobs.keepers.sql import SQL
from lukasa.journal import Journal
from lukasa.outcome import Refused
from lukasa.scope import Reach

_STATUSES: dict[State, tuple[str, ...]] = {
    "waiting": ("todo",),
    "running": ("doing",),
    "failed": ("failed", "aborted", "cancelled"),
}
_STATES: dict[str, State] = {status: state for state, statuses in _STATUSES.items() for status in statuses}
_PASSING = (StoreBusy, StoreFull, StoreUnavailable)
_NAP = 1.0
_GLANCE = 0.1
_NOTING_NAPS = (0.1, 0.4, None)
_CONNECTIONS = 4
_CONNECTING = 3

_logger = logging.getLogger(__name__)
logging.getLogger("procrastinate").addHandler(logging.NullHandler())  # it speaks only to those who asked for logs


class PostgresKeeper:
    """Keeps jobs in procrastinate's tables, in a schema of their own beside the store's."""

    def __init__(self, url: str, reach: Reach, *, patience: float = 30.0) -> None:
        self._url = url
        self._scopes = _scopes(reach)
        with translated():
            set_up(url)
        self._lines = Lines(url, patience=patience)
        self._app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector())  # lent a line at each errand

    # Keeping

    def put(self, job: Job) -> Deferred | Refused:
        with _told():
            while True:
                try:
                    return Deferred(str(self._defer(job)))
                except exceptions.AlreadyEnqueued:
                    with self._lines.line() as connection:
                        waiting = connection.execute(SQL["waiting_with_lock"], (job.lock,)).fetchone()
                    if waiting is not None:  # else a worker has just taken it, and this one is wanted after all
                        return Deferred(str(waiting["id"]), repeated=True)

    def _defer(self, job: Job) -> int:
        call = {"arguments": canonical.encode(job.arguments).decode(), "author": job.author, "key": job.key}
        with self._lines.line() as connection:
            if job.lock is not None:
                connection.execute(SQL["forget_failed"], (job.lock,))
            deferrer = self._app.configure_task(
                job.name, queue=job.name, queueing_lock=job.lock, schedule_at=job.due, connection=connection
            )
            return deferrer.defer(scope=job.scope, call=canonical.encode(call).decode())

    def find(self, state: State | None = None) -> list[Job]:
        statuses = [name for name, known in _STATES.items() if state in (None, known)]
        with _told(), self._lines.line() as connection:
            found = connection.execute(SQL["find"], {"states": statuses, "scopes": self._scopes}).fetchall()
        return [_job(row) for row in found]

    def status(self) -> Status:
        counts = dict.fromkeys(_STATUSES, 0)
        with _told(), self._lines.line() as connection:
            for row in connection.execute(SQL["count"], {"scopes": self._scopes}):
                if row["status"] in _STATES:
                    counts[_STATES[row["status"]]] += row["count"]
        return Status(**counts)

    def retry(self, id: str) -> bool:
        return self._change("retry", id)

    def drop(self, id: str) -> bool:
        return self._change("drop", id)

    def _change(self, statement: str, id: str) -> bool:
        if not (id.isascii() and id.isdigit() and len(id) < 19):
            return False
        with _told(), self._lines.line() as connection:
            try:
                with connection.transaction():
                    changed = connection.execute(SQL[statement], {"id": int(id), "scopes": self._scopes}).fetchone()
            except errors.UniqueViolation:  # one with its key waits already, which is what a retry is for
                changed = connection.execute(SQL["drop"], {"id": int(id), "scopes": self._scopes}).fetchone()
        return changed is not None

    def seen_by(self, journal: Journal) -> PostgresKeeper:
        other = copy(self)
        other._scopes = _scopes(journal.reach)
        return other

    def close(self) -> None:
        self._lines.close()

    # Working

    def run(self, shift: Shift, limit: int | None) -> None:
        self._require_everything()
        self._rescue(shift)
        _in_a_loop(lambda: self._work(shift, limit=limit, wait=False))

    def serve(self, shift: Shift) -> None:
        self._require_everything()
        while not shift.stop.is_set():
            try:
                self._knock()
                _in_a_loop(lambda: self._work(shift, limit=None, wait=True))
            except _PASSING as error:
                shift.trouble(error)
            shift.stop.wait(_NAP)

    def _knock(self) -> None:
        """Finds out at once when the server is not there; procrastinate's pool would go on trying for long."""
        with translated(), self._lines.line():
            pass

    def _require_everything(self) -> None:
        """procrastinate knows no scopes, so a worker may be handed any job."""
        if self._scopes is not None:
            raise NotAllowed("Only the owner of the store may work on its jobs.")

    async def _work(self, shift: Shift, *, limit: int | None, wait: bool) -> None:
        """One worker of procrastinate, until it is told to stop, has nothing to do, or cannot note what it did."""
        over = asyncio.Event()
        worker = asyncio.create_task(self._worker(shift, over, limit, wait=wait))
        beside = [asyncio.create_task(_when(shift.stop)), asyncio.create_task(over.wait())]
        if wait:
            beside.append(asyncio.create_task(self._rescuing(shift)))
        await asyncio.wait([worker, *beside], return_when=asyncio.FIRST_COMPLETED)
        worker.cancel()  # which lets it finish what it is doing
        for task in beside:
            task.cancel()
        ends = await asyncio.gather(worker, *beside, return_exceptions=True)
        with _told():
            for failure in (end for end in ends if isinstance(end, Exception)):
                raise failure

    async def _worker(self, shift: Shift, over: asyncio.Event, limit: int | None, *, wait: bool) -> None:
        connector = procrastinate.PsycopgConnector(
            conninfo=self._url, min_size=1, max_size=_CONNECTIONS, timeout=_CONNECTING, configure=_enter_async
        )
        app = procrastinate.App(connector=connector)
        app.job_manager = notary = _Notary(connector, over)
        for work in shift.works.values():
            app.task(name=work.name, queue=work.name, retry=_Pauses(work), pass_context=True)(self._doing(shift, work))
        left = limit

        async def count(call_next: Callable[[], Awaitable[Any]], _: Any, __: Any) -> Any:
            nonlocal left
            if left is not None:
                left -= 1
                if left == 0:
                    over.set()
            try:
                return await call_next()
            finally:
                if shift.stop.is_set():  # at once, so that no further job is fetched
                    over.set()

        async with app.open_async():
            living = asyncio.create_task(notary.give_signs_of_life(shift.lease / 3))
            try:
                await app.run_worker_async(
                    queues=list(shift.works),
                    wait=wait,
                    fetch_job_polling_interval=_NAP,
                    install_signal_handlers=False,
                    listen_notify=wait,
                    delete_jobs="successful",
                    update_heartbeat_interval=shift.lease / 3,
                    stalled_worker_timeout=shift.lease,
                    worker_middleware=[count],
                )
            finally:
                living.cancel()

    def _doing(self, shift: Shift, work: Work) -> Callable[..., None]:
        def attempt(context: procrastinate.JobContext, **_: Any) -> None:
            job = _claimed(context.job)
            try:
                shift.perform(job)
            except Exception as error:
                self._note_failure(job, sentence(error))
                ending: Ending = "failed" if job.attempts >= work.attempts else "retried"
                shift.tell(job, ending, sentence(error))
                raise
            shift.tell(job, "done", "")

        return attempt

    def _note_failure(self, job: Job, error: str) -> None:
        with self._lines.line() as connection:
            connection.execute(SQL["note_failure"], {"id": int(job.id), "error": error})

    # Rescuing

    async def _rescuing(self, shift: Shift) -> None:
        while True:
            try:
                await asyncio.to_thread(self._rescue, shift)
            except _PASSING as error:
                _logger.warning("no rescue of stalled jobs for now: %s", error)
            await asyncio.sleep(shift.lease / 3)

    def _rescue(self, shift: Shift) -> None:
        """Lets the jobs of dead workers wait again, or counts them as failed if that was their last attempt."""
        with _told(), self._lines.line() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", RESCUE_LOCK)
            looking = {"names": list(shift.works), "lease": shift.lease}
            for row in connection.execute(SQL["stalled"], looking).fetchall():
                job, id = _job(row), row["id"]
                connection.execute(SQL["note_failure"], {"id": id, "error": DIED})
                if job.attempts >= shift.works[job.name].attempts:
                    connection.execute(SQL["fail"], (id,))
                    shift.tell(job, "failed", DIED)
                    continue
                try:
                    with connection.transaction():
                        connection.execute(SQL["wait_again"], (id,))
                except errors.UniqueViolation:
                    connection.execute(SQL["supersede"], (id,))


class _Pauses(retry.BaseRetryStrategy):
    """A work's own attempts and pauses, told to procrastinate."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def get_retry_decision(self, *, job: Row, **_: object) -> procrastinate.RetryDecision | None:
        attempts = job.attempts + 1
        if attempts >= self._work.attempts:
            return None
        return procrastinate.RetryDecision(retry_at=datetime.now(UTC) + self._work.pause(attempts))


class _Notary(JobManager):
    """Keeps one worker's books.

    How a job ended that cannot be noted ends the worker, so that its jobs can be rescued from it. A worker that was
    silent for so long that it was struck off the list puts itself on it again.
    """

    def __init__(self, connector: procrastinate.PsycopgConnector, over: asyncio.Event) -> None:
        super().__init__(connector)
        self._over = over
        self._number = 0

    async def register_worker(self) -> int:
        self._number = await super().register_worker()
        return self._number

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Row | None:  # noqa: ARG002
        try:
            return await super().fetch_job(queues, self._number)
        except exceptions.ConnectorException as error:
            if not isinstance(error.__cause__, errors.ForeignKeyViolation):
                raise
        await self.register_worker()
        return await super().fetch_job(queues, self._number)

    async def update_heartbeat(self, worker_id: int) -> None:  # noqa: ARG002
        await super().update_heartbeat(self._number)

    async def give_signs_of_life(self, pause: float) -> None:
        """procrastinate's own cease as soon as a worker is told to stop, however long its last job still takes."""
        while True:
            await asyncio.sleep(pause)
            with suppress(exceptions.ConnectorException):  # there is a next time
                await self.update_heartbeat(self._number)

    async def unregister_worker(self, worker_id: int) -> None:  # noqa: ARG002
        await super().unregister_worker(self._number)

    async def finish_job(self, job: Row, *arguments: Any, **options: Any) -> None:
        for nap in _NOTING_NAPS:
            try:
                await super().finish_job(job, *arguments, **options)
            except exceptions.ConnectorException as error:
                if nap is not None and not isinstance(error.__cause__, errors.RaiseException):
                    await asyncio.sleep(nap)
                    continue
                self._give_up(job, error)
            return

    async def retry_job(self, job: Row, *arguments: Any, **options: Any) -> None:
        try:
            await super().retry_job(job, *arguments, **options)
        except exceptions.UniqueViolation:
            await self.connector.execute_query_async(query=SQL["supersede_job"], id=job.id)
        except exceptions.ConnectorException as error:
            self._give_up(job, error)

    def _give_up(self, job: Row, error: exceptions.ConnectorException) -> None:
        cause = error.__cause__
        _logger.warning("how the job %s %s ended could not be noted: %s", job.task_name, job.id, cause)
        if not isinstance(cause, errors.RaiseException):  # which says that the job is in other hands by now
            self._over.set()


def _scopes(reach: Reach) -> list[str] | None:
    """The scopes whose jobs a caller may see; ``None`` for all of them."""
    return None if reach.readable is None else sorted(reach.readable)


def _job(row: Mapping[str, Any]) -> Job:
    """A row as what it stands for. An attempt counts from its start, not from its end as procrastinate has it."""
    call, attempts = canonical.parse(row["args"]["call"]), row["attempts"] + (row["status"] == "doing")
    due = row["scheduled_at"] if row["status"] == "todo" else None
    return Job(
        str(row["id"]), row["task_name"], canonical.parse(call["arguments"]), row["args"]["scope"], call["author"],
        call["key"], _STATES[row["status"]], attempts, None if due is None else aware(due), row["error"],
    )  # fmt: skip


def _claimed(row: Row) -> Job:
    """The same for a job that procrastinate has just handed over."""
    told = {"id": row.id, "task_name": row.task_name, "args": row.task_kwargs, "attempts": row.attempts}
    return _job(told | {"status": "doing", "scheduled_at": None, "error": ""})


async def _enter_async(connection: psycopg.AsyncConnection[Any]) -> None:
    await connection.execute(SQL["enter"])
    await connection.commit()


@contextmanager
def _told() -> Iterator[None]:
    """procrastinate's errors in our words."""
    try:
        with translated():
            try:
                yield
            except exceptions.ConnectorException as error:
                if not isinstance(error.__cause__, Exception):
                    raise StoreError(str(error)) from error
                raise error.__cause__ from error
    except StoreBusy as error:
        if not isinstance(error.__cause__, PoolTimeout):
            raise
        raise StoreUnavailable("The server could not be reached.") from error  # a worker has its pool to itself


async def _when(flag: threading.Event) -> None:
    """Returns once another thread has set the flag."""
    while not flag.is_set():
        await asyncio.sleep(_GLANCE)


def _in_a_loop(make: Callable[[], Awaitable[None]]) -> None:
    """Runs a coroutine to its end in a thread of its own: the caller's thread may have a loop already."""
    failures: list[BaseException] = []

    async def awaited() -> None:
        await make()

    def run() -> None:
        try:
            asyncio.run(awaited())
        except BaseException as error:  # noqa: BLE001 - raised again below, in the thread that called
            failures.append(error)

    thread = threading.Thread(target=run, name="jobs", daemon=True)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
