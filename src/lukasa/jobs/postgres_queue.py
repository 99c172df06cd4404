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
from procrastinate.jobs import Job as ProcrastinateJob
from procrastinate.manager import JobManager
from psycopg import errors
from psycopg_pool import PoolTimeout

from lukasa import canonical_json
from lukasa.clock import to_utc
from lukasa.errors import NotAllowed, StoreBusy, StoreError, StoreFull, StoreUnavailable
from lukasa.jobs.connections import JobConnectionPool
from lukasa.jobs.job import (
    WORKER_DIED,
    AttemptResult,
    DeferredJob,
    Job,
    JobCounts,
    JobState,
    Task,
    WorkerOptions,
    describe_error,
)
from lukasa.jobs.postgres_schema import RESCUE_LOCK, migrate_schema
from lukasa.jobs.sql import SQL
from lukasa.journal import Journal
from lukasa.outcome import Refused
from lukasa.scope import Reach
from lukasa.storage.postgres.errors import error_translation

_STATUSES_BY_STATE: dict[JobState, tuple[str, ...]] = {
    "waiting": ("todo",),
    "running": ("doing",),
    "failed": ("failed", "aborted", "cancelled"),
}
_STATE_BY_STATUS: dict[str, JobState] = {
    status: state for state, statuses in _STATUSES_BY_STATE.items() for status in statuses
}
_TRANSIENT_ERRORS = (StoreBusy, StoreFull, StoreUnavailable)
_POLL_SECONDS = 1.0
_STOP_CHECK_SECONDS = 0.1
_FINISH_RETRY_DELAYS = (0.1, 0.4, None)
_MAX_CONNECTIONS = 4
_CONNECT_TIMEOUT = 3

_logger = logging.getLogger(__name__)
logging.getLogger("procrastinate").addHandler(logging.NullHandler())  # it speaks only to those who asked for logs


class PostgresJobQueue:
    """Keeps jobs in procrastinate's tables, in a schema of their own beside the store's."""

    def __init__(self, url: str, reach: Reach, *, timeout: float = 30.0) -> None:
        self._url = url
        self._scopes = _visible_scopes(reach)
        with error_translation():
            migrate_schema(url)
        self._pool = JobConnectionPool(url, timeout=timeout)
        self._app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector())  # lent a line at each errand

    # Keeping

    def put(self, job: Job) -> DeferredJob | Refused:
        with _translate_errors():
            while True:
                try:
                    return DeferredJob(str(self._defer(job)))
                except exceptions.AlreadyEnqueued:
                    with self._pool.transaction() as connection:
                        waiting = connection.execute(SQL["waiting_with_lock"], (job.lock,)).fetchone()
                    if waiting is not None:  # else a worker has just taken it, and this one is wanted after all
                        return DeferredJob(str(waiting["id"]), repeated=True)

    def _defer(self, job: Job) -> int:
        call = {"arguments": canonical_json.encode(job.arguments).decode(), "author": job.author, "key": job.key}
        with self._pool.transaction() as connection:
            if job.lock is not None:
                connection.execute(SQL["forget_failed"], (job.lock,))
            deferrer = self._app.configure_task(
                job.name, queue=job.name, queueing_lock=job.lock, schedule_at=job.due, connection=connection
            )
            return deferrer.defer(scope=job.scope, call=canonical_json.encode(call).decode())

    def find(self, state: JobState | None = None) -> list[Job]:
        statuses = [name for name, known in _STATE_BY_STATUS.items() if state in (None, known)]
        with _translate_errors(), self._pool.transaction() as connection:
            found = connection.execute(SQL["find"], {"states": statuses, "scopes": self._scopes}).fetchall()
        return [_parse_job_row(row) for row in found]

    def status(self) -> JobCounts:
        counts = dict.fromkeys(_STATUSES_BY_STATE, 0)
        with _translate_errors(), self._pool.transaction() as connection:
            for row in connection.execute(SQL["count"], {"scopes": self._scopes}):
                if row["status"] in _STATE_BY_STATUS:
                    counts[_STATE_BY_STATUS[row["status"]]] += row["count"]
        return JobCounts(**counts)

    def retry(self, id: str) -> bool:
        return self._update_job("retry", id)

    def drop(self, id: str) -> bool:
        return self._update_job("drop", id)

    def _update_job(self, statement: str, id: str) -> bool:
        if not (id.isascii() and id.isdigit() and len(id) < 19):
            return False
        with _translate_errors(), self._pool.transaction() as connection:
            try:
                with connection.transaction():
                    changed = connection.execute(SQL[statement], {"id": int(id), "scopes": self._scopes}).fetchone()
            except errors.UniqueViolation:  # one with its key waits already, which is what a retry is for
                changed = connection.execute(SQL["drop"], {"id": int(id), "scopes": self._scopes}).fetchone()
        return changed is not None

    def with_journal(self, journal: Journal) -> PostgresJobQueue:
        other = copy(self)
        other._scopes = _visible_scopes(journal.reach)
        return other

    def close(self) -> None:
        self._pool.close()

    # Working

    def run(self, options: WorkerOptions, limit: int | None) -> None:
        self._require_owner()
        self._rescue_stalled_jobs(options)
        _run_in_thread(lambda: self._supervise_worker(options, limit=limit, wait=False))

    def serve(self, options: WorkerOptions) -> None:
        self._require_owner()
        while not options.stop.is_set():
            try:
                self._check_connection()
                _run_in_thread(lambda: self._supervise_worker(options, limit=None, wait=True))
            except _TRANSIENT_ERRORS as error:
                options.on_store_error(error)
            options.stop.wait(_POLL_SECONDS)

    def _check_connection(self) -> None:
        """Finds out at once when the server is not there; procrastinate's pool would go on trying for long."""
        with error_translation(), self._pool.transaction():
            pass

    def _require_owner(self) -> None:
        """procrastinate knows no scopes, so a worker may be handed any job."""
        if self._scopes is not None:
            raise NotAllowed("Only the owner of the store may work on its jobs.")

    async def _supervise_worker(self, options: WorkerOptions, *, limit: int | None, wait: bool) -> None:
        """One worker of procrastinate, until it is told to stop, has nothing to do, or cannot note what it did."""
        over = asyncio.Event()
        worker = asyncio.create_task(self._run_worker(options, over, limit, wait=wait))
        beside = [asyncio.create_task(_wait_for_event(options.stop)), asyncio.create_task(over.wait())]
        if wait:
            beside.append(asyncio.create_task(self._rescue_periodically(options)))
        await asyncio.wait([worker, *beside], return_when=asyncio.FIRST_COMPLETED)
        worker.cancel()  # which lets it finish what it is doing
        for task in beside:
            task.cancel()
        ends = await asyncio.gather(worker, *beside, return_exceptions=True)
        with _translate_errors():
            for failure in (end for end in ends if isinstance(end, Exception)):
                raise failure

    async def _run_worker(
        self, options: WorkerOptions, finished: asyncio.Event, limit: int | None, *, wait: bool
    ) -> None:
        connector = procrastinate.PsycopgConnector(
            conninfo=self._url,
            min_size=1,
            max_size=_MAX_CONNECTIONS,
            timeout=_CONNECT_TIMEOUT,
            configure=_configure_connection,
        )
        app = procrastinate.App(connector=connector)
        app.job_manager = notary = _WorkerJobManager(connector, finished)
        for work in options.tasks.values():
            app.task(name=work.name, queue=work.name, retry=_TaskRetryStrategy(work), pass_context=True)(
                self._task_function(options, work)
            )
        left = limit

        async def count_attempt(call_next: Callable[[], Awaitable[Any]], _: Any, __: Any) -> Any:
            nonlocal left
            if left is not None:
                left -= 1
                if left == 0:
                    finished.set()
            try:
                return await call_next()
            finally:
                if options.stop.is_set():  # at once, so that no further job is fetched
                    finished.set()

        async with app.open_async():
            living = asyncio.create_task(notary.send_heartbeats(options.lease / 3))
            try:
                await app.run_worker_async(
                    queues=list(options.tasks),
                    wait=wait,
                    fetch_job_polling_interval=_POLL_SECONDS,
                    install_signal_handlers=False,
                    listen_notify=wait,
                    delete_jobs="successful",
                    update_heartbeat_interval=options.lease / 3,
                    stalled_worker_timeout=options.lease,
                    worker_middleware=[count_attempt],
                )
            finally:
                living.cancel()

    def _task_function(self, options: WorkerOptions, task: Task) -> Callable[..., None]:
        def attempt(context: procrastinate.JobContext, **_: Any) -> None:
            job = _parse_claimed_job(context.job)
            try:
                options.run_job(job)
            except Exception as error:
                self._record_failure(job, describe_error(error))
                ending: AttemptResult = "failed" if job.attempts >= task.attempts else "retried"
                options.on_attempt(job, ending, describe_error(error))
                raise
            options.on_attempt(job, "done", "")

        return attempt

    def _record_failure(self, job: Job, error: str) -> None:
        with self._pool.transaction() as connection:
            connection.execute(SQL["note_failure"], {"id": int(job.id), "error": error})

    # Rescuing

    async def _rescue_periodically(self, options: WorkerOptions) -> None:
        while True:
            try:
                await asyncio.to_thread(self._rescue_stalled_jobs, options)
            except _TRANSIENT_ERRORS as error:
                _logger.warning("no rescue of stalled jobs for now: %s", error)
            await asyncio.sleep(options.lease / 3)

    def _rescue_stalled_jobs(self, options: WorkerOptions) -> None:
        """Lets the jobs of dead workers wait again, or counts them as failed if that was their last attempt."""
        with _translate_errors(), self._pool.transaction() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", RESCUE_LOCK)
            looking = {"names": list(options.tasks), "lease": options.lease}
            for row in connection.execute(SQL["stalled"], looking).fetchall():
                job, id = _parse_job_row(row), row["id"]
                connection.execute(SQL["note_failure"], {"id": id, "error": WORKER_DIED})
                if job.attempts >= options.tasks[job.name].attempts:
                    connection.execute(SQL["fail"], (id,))
                    options.on_attempt(job, "failed", WORKER_DIED)
                    continue
                try:
                    with connection.transaction():
                        connection.execute(SQL["wait_again"], (id,))
                except errors.UniqueViolation:
                    connection.execute(SQL["supersede"], (id,))


class _TaskRetryStrategy(retry.BaseRetryStrategy):
    """A work's own attempts and pauses, told to procrastinate."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def get_retry_decision(self, *, job: ProcrastinateJob, **_: object) -> procrastinate.RetryDecision | None:
        attempts = job.attempts + 1
        if attempts >= self._task.attempts:
            return None
        return procrastinate.RetryDecision(retry_at=datetime.now(UTC) + self._task.retry_delay(attempts))


class _WorkerJobManager(JobManager):
    """Keeps one worker's books.

    How a job ended that cannot be noted ends the worker, so that its jobs can be rescued from it. A worker that was
    silent for so long that it was struck off the list puts itself on it again.
    """

    def __init__(self, connector: procrastinate.PsycopgConnector, finished: asyncio.Event) -> None:
        super().__init__(connector)
        self._finished = finished
        self._worker_id = 0

    async def register_worker(self) -> int:
        self._worker_id = await super().register_worker()
        return self._worker_id

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> ProcrastinateJob | None:  # noqa: ARG002
        try:
            return await super().fetch_job(queues, self._worker_id)
        except exceptions.ConnectorException as error:
            if not isinstance(error.__cause__, errors.ForeignKeyViolation):
                raise
        await self.register_worker()
        return await super().fetch_job(queues, self._worker_id)

    async def update_heartbeat(self, worker_id: int) -> None:  # noqa: ARG002
        await super().update_heartbeat(self._worker_id)

    async def send_heartbeats(self, interval: float) -> None:
        """procrastinate's own cease as soon as a worker is told to stop, however long its last job still takes."""
        while True:
            await asyncio.sleep(interval)
            with suppress(exceptions.ConnectorException):  # there is a next time
                await self.update_heartbeat(self._worker_id)

    async def unregister_worker(self, worker_id: int) -> None:  # noqa: ARG002
        await super().unregister_worker(self._worker_id)

    async def finish_job(self, job: ProcrastinateJob, *arguments: Any, **options: Any) -> None:
        for nap in _FINISH_RETRY_DELAYS:
            try:
                await super().finish_job(job, *arguments, **options)
            except exceptions.ConnectorException as error:
                if nap is not None and not isinstance(error.__cause__, errors.RaiseException):
                    await asyncio.sleep(nap)
                    continue
                self._stop_after_error(job, error)
            return

    async def retry_job(self, job: ProcrastinateJob, *arguments: Any, **options: Any) -> None:
        try:
            await super().retry_job(job, *arguments, **options)
        except exceptions.UniqueViolation:
            await self.connector.execute_query_async(query=SQL["supersede_job"], id=job.id)
        except exceptions.ConnectorException as error:
            self._stop_after_error(job, error)

    def _stop_after_error(self, job: ProcrastinateJob, error: exceptions.ConnectorException) -> None:
        cause = error.__cause__
        _logger.warning("how the job %s %s ended could not be noted: %s", job.task_name, job.id, cause)
        if not isinstance(cause, errors.RaiseException):  # which says that the job is in other hands by now
            self._finished.set()


def _visible_scopes(reach: Reach) -> list[str] | None:
    """The scopes whose jobs a caller may see; ``None`` for all of them."""
    return None if reach.readable is None else sorted(reach.readable)


def _parse_job_row(row: Mapping[str, Any]) -> Job:
    """A row as what it stands for. An attempt counts from its start, not from its end as procrastinate has it."""
    call, attempts = canonical_json.parse(row["args"]["call"]), row["attempts"] + (row["status"] == "doing")
    due = row["scheduled_at"] if row["status"] == "todo" else None
    return Job(
        str(row["id"]), row["task_name"], canonical_json.parse(call["arguments"]), row["args"]["scope"], call["author"],
        call["key"], _STATE_BY_STATUS[row["status"]], attempts, None if due is None else to_utc(due), row["error"],
    )  # fmt: skip


def _parse_claimed_job(row: ProcrastinateJob) -> Job:
    """The same for a job that procrastinate has just handed over."""
    told = {"id": row.id, "task_name": row.task_name, "args": row.task_kwargs, "attempts": row.attempts}
    return _parse_job_row(told | {"status": "doing", "scheduled_at": None, "error": ""})


async def _configure_connection(connection: psycopg.AsyncConnection[Any]) -> None:
    await connection.execute(SQL["enter"])
    await connection.commit()


@contextmanager
def _translate_errors() -> Iterator[None]:
    """procrastinate's errors in our words."""
    try:
        with error_translation():
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


async def _wait_for_event(event: threading.Event) -> None:
    """Returns once another thread has set the flag."""
    while not event.is_set():
        await asyncio.sleep(_STOP_CHECK_SECONDS)


def _run_in_thread(create: Callable[[], Awaitable[None]]) -> None:
    """Runs a coroutine to its end in a thread of its own: the caller's thread may have a loop already."""
    failures: list[BaseException] = []

    async def main() -> None:
        await create()

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001 - raised again below, in the thread that called
            failures.append(error)

    thread = threading.Thread(target=run, name="jobs", daemon=True)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
