"""Jobs on PostgreSQL, through procrastinate: any number of workers on any number of machines.

procrastinate stores the queue, hands each job to one worker, wakes workers, counts attempts and heartbeats. Added here,
because nothing may be done twice or lost (docs/decisions/0008-jobs.md):

- Workers rescue the jobs of dead workers. Rescuers take turns, because one with an outdated list would take a job from
  the living worker that has just got it.
- A job to be retried while a newer one with its key waits is deleted. procrastinate would leave it running for
  ever, because only one job of a key may wait.
- A worker sends heartbeats until its last job is done, and restarts when it could not record how a job ended.
- The error of the newest failed attempt is stored, so that it can be shown.

A queue is named after its task, so a worker never gets a job that it has no function for.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from copy import copy
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import procrastinate
import psycopg
from procrastinate import exceptions, retry
from procrastinate.jobs import Job as ProcrastinateJob
from procrastinate.manager import JobManager
from procrastinate.worker import Worker
from psycopg import Cursor, errors
from psycopg.rows import DictRow, dict_row

from lukasa.core import canonical_json
from lukasa.core.clock import to_utc
from lukasa.core.outcome import Refused
from lukasa.core.scope import Reach
from lukasa.errors import NotAllowed, StoreError, StoreUnavailable
from lukasa.jobs.job import (
    TRANSIENT_ERRORS,
    WORKER_DIED,
    DeferredJob,
    Job,
    JobCounts,
    JobState,
    Task,
    WorkerOptions,
    describe_error,
)
from lukasa.jobs.postgres_schema import RESCUE_LOCK, connect, migrate_schema
from lukasa.jobs.sql import SQL
from lukasa.journal import Journal
from lukasa.storage.postgres.errors import error_translation
from lukasa.storage.postgres.pool import PostgresPool

_STATE_BY_STATUS: dict[str, JobState] = {
    "todo": "waiting",
    "doing": "running",
    "failed": "failed",
    "aborted": "failed",
    "cancelled": "failed",
}
_POLL_SECONDS = 1.0
_STOP_CHECK_SECONDS = 0.1
_RETRY_SECONDS = 0.1
_RECORD_RETRY_DELAYS = (0.1, 0.4)
_MAX_CONNECTIONS = 8
_CONNECT_TIMEOUT = 3

_logger = logging.getLogger(__name__)
logging.getLogger("procrastinate").addHandler(logging.NullHandler())  # silent unless the program configures logging


class PostgresJobQueue:
    """Job queue in procrastinate's tables, in their own schema of the store's database."""

    def __init__(self, url: str, reach: Reach, *, timeout: float = 30.0) -> None:
        self._url = url
        self._scopes = _visible_scopes(reach)
        with error_translation():
            migrate_schema(url)
        self._timeout = timeout
        self._pool = PostgresPool(lambda: connect(url, timeout=timeout), size=_MAX_CONNECTIONS, timeout=timeout)
        self._app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector())  # each call brings a connection

    @contextmanager
    def _transaction(self) -> Iterator[Cursor[DictRow]]:
        """Yield a cursor on a live connection; commit when the block ends."""
        with _translate_errors():
            database = self._pool.acquire()
            try:
                database.execute("")
            except psycopg.OperationalError:  # an idle connection that the server has closed
                self._pool.release(database)
                self._pool.close_idle()
                database = self._pool.acquire()
            try:
                with database.transaction(), database.cursor(row_factory=dict_row) as cursor:
                    yield cursor
            finally:
                self._pool.release(database)

    def put(self, job: Job) -> DeferredJob | Refused:
        # The request finds the job again if the answer to its commit was lost.
        arguments = canonical_json.encode_text(job.arguments)
        call = {"arguments": arguments, "author": job.author, "key": job.key, "request": uuid4().hex}
        text, is_repeated, deadline = canonical_json.encode_text(call), False, time.monotonic() + self._timeout
        while True:
            try:
                with self._transaction() as cursor:
                    if is_repeated and (stored := cursor.execute(SQL["find_request"], (job.name, text)).fetchone()):
                        return DeferredJob(str(stored["id"]))
                    if job.lock is not None:
                        cursor.execute(SQL["forget_failed"], (job.lock,))
                    id = self._app.configure_task(
                        job.name,
                        queue=job.name,
                        queueing_lock=job.lock,
                        schedule_at=job.due,
                        connection=cursor.connection,
                    ).defer(scope=job.scope, call=text)
                return DeferredJob(str(id))
            except StoreUnavailable:
                if time.monotonic() > deadline:
                    raise
                is_repeated = True
                time.sleep(_RETRY_SECONDS)
            except exceptions.AlreadyEnqueued:
                with self._transaction() as cursor:
                    waiting = cursor.execute(SQL["waiting_with_lock"], (job.lock,)).fetchone()
                if waiting is not None:  # else a worker has just taken it, and this one is wanted after all
                    return DeferredJob(str(waiting["id"]), repeated=True)

    def find(self, state: JobState | None = None) -> list[Job]:
        statuses = [status for status, known in _STATE_BY_STATUS.items() if state in (None, known)]
        with self._transaction() as cursor:
            rows = cursor.execute(SQL["find"], {"states": statuses, "scopes": self._scopes}).fetchall()
        return [_parse_job_row(row) for row in rows]

    def status(self) -> JobCounts:
        counts: Counter[str] = Counter()
        with self._transaction() as cursor:
            for row in cursor.execute(SQL["count"], {"scopes": self._scopes}):
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
        values = {"id": int(id), "scopes": self._scopes}
        with self._transaction() as cursor:
            try:
                with cursor.connection.transaction():
                    changed = cursor.execute(SQL[statement], values).fetchone()
            except errors.UniqueViolation:  # a newer job with its key waits already, which serves as the retry
                changed = cursor.execute(SQL["drop"], values).fetchone()
        return changed is not None

    def with_journal(self, journal: Journal) -> PostgresJobQueue:
        other = copy(self)
        other._scopes = _visible_scopes(journal.reach)
        return other

    def close(self) -> None:
        self._pool.close()

    def run(self, options: WorkerOptions, limit: int | None) -> None:
        self._require_owner()
        self._rescue_stalled_jobs(options)
        _run_in_thread(self._run_worker(options, limit=limit, wait=False))

    def serve(self, options: WorkerOptions) -> None:
        self._require_owner()
        while not options.stop.is_set():
            try:
                with self._transaction():  # fails at once without a server; procrastinate's pool would try for long
                    pass
                _run_in_thread(self._run_worker(options, limit=None, wait=True))
            except TRANSIENT_ERRORS as error:
                options.on_store_error(error)
            options.stop.wait(_POLL_SECONDS)

    def _require_owner(self) -> None:
        """Refuse any caller but the owner: procrastinate knows no scopes, so a worker may get any job."""
        if self._scopes is not None:
            raise NotAllowed("Only the owner of the store may work on its jobs.")

    async def _run_worker(self, options: WorkerOptions, *, limit: int | None, wait: bool) -> None:
        """Run one worker of procrastinate until it is stopped, has nothing to do, or cannot record a result."""

        async def configure(connection: psycopg.AsyncConnection[Any]) -> None:
            await connection.execute(SQL["enter"])
            await connection.commit()

        async def count_attempt(call_next: Callable[[], Awaitable[Any]], _: Any, worker: Any) -> Any:
            nonlocal limit
            if limit is not None:
                limit -= 1
                if limit == 0:
                    worker.stop()
            try:
                return await call_next()
            finally:
                if options.stop.is_set():  # before the worker can fetch another job
                    worker.stop()

        async def watch_stop_event() -> None:
            while not options.stop.is_set():
                await asyncio.sleep(_STOP_CHECK_SECONDS)

        async def rescue_periodically() -> None:
            while True:
                try:
                    await asyncio.to_thread(self._rescue_stalled_jobs, options)
                except TRANSIENT_ERRORS as error:
                    _logger.warning("no rescue of stalled jobs for now: %s", error)
                await asyncio.sleep(options.lease / 3)

        async def run_side_task(coroutine: Coroutine[Any, Any, None]) -> None:
            try:
                await coroutine
            finally:
                worker.stop()

        connector = procrastinate.PsycopgConnector(
            conninfo=self._url, min_size=1, max_size=4, timeout=_CONNECT_TIMEOUT, configure=configure
        )
        app = procrastinate.App(connector=connector)
        for task in options.tasks.values():
            register = app.task(name=task.name, queue=task.name, retry=_TaskRetryStrategy(task), pass_context=True)
            register(self._task_function(options, task))
        worker: Any = Worker(  # its methods have no annotations
            app,
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
        app.job_manager = manager = _WorkerJobManager(connector, worker)
        with _translate_errors():
            async with app.open_async():
                coroutines = [watch_stop_event(), manager.send_heartbeats(options.lease / 3)]
                if wait:
                    coroutines.append(rescue_periodically())
                side_tasks = [asyncio.create_task(run_side_task(coroutine)) for coroutine in coroutines]
                try:
                    await worker.run()
                finally:
                    for side_task in side_tasks:
                        side_task.cancel()
                    ends = await asyncio.gather(*side_tasks, return_exceptions=True)
                if errors_met := [end for end in ends if isinstance(end, Exception)]:
                    raise errors_met[0]

    def _task_function(self, options: WorkerOptions, task: Task) -> Callable[..., None]:
        """Return the function that procrastinate calls for each attempt at a task."""

        def attempt(context: procrastinate.JobContext, **_: Any) -> None:
            row = {"status": "doing", "scheduled_at": None, "error": "", "args": context.job.task_kwargs}
            job = _parse_job_row(row | {name: getattr(context.job, name) for name in ("id", "task_name", "attempts")})
            try:
                options.run_job(job)
            except Exception as error:
                message = describe_error(error)
                with self._transaction() as cursor:
                    cursor.execute(SQL["note_failure"], {"id": context.job.id, "error": message})
                options.on_attempt(job, "failed" if job.attempts >= task.attempts else "retried", message)
                raise
            options.on_attempt(job, "done", "")

        return attempt

    def _rescue_stalled_jobs(self, options: WorkerOptions) -> None:
        """Let the jobs of dead workers wait again, or fail those that have no attempt left."""
        with self._transaction() as cursor:
            cursor.execute(SQL["lock_rescue"], RESCUE_LOCK)
            rows = cursor.execute(SQL["stalled"], {"names": list(options.tasks), "lease": options.lease}).fetchall()
            for row in rows:
                job, id = _parse_job_row(row), {"id": row["id"]}
                cursor.execute(SQL["note_failure"], {**id, "error": WORKER_DIED})
                if job.attempts >= options.tasks[job.name].attempts:
                    cursor.execute(SQL["fail"], id)
                    options.on_attempt(job, "failed", WORKER_DIED)
                    continue
                try:
                    with cursor.connection.transaction():
                        cursor.execute(SQL["wait_again"], id)
                except errors.UniqueViolation:
                    cursor.execute(SQL["supersede"], id)


class _TaskRetryStrategy(retry.BaseRetryStrategy):
    """A task's number of attempts and pauses, in procrastinate's terms."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def get_retry_decision(self, *, job: ProcrastinateJob, **_: object) -> procrastinate.RetryDecision | None:
        attempts = job.attempts + 1
        if attempts >= self._task.attempts:
            return None
        return procrastinate.RetryDecision(retry_at=datetime.now(UTC) + self._task.retry_delay(attempts))


class _WorkerJobManager(JobManager):
    """procrastinate's job manager for one worker, with two additions.

    A result that cannot be recorded stops the worker, so that its job can be rescued. A worker that was silent for so
    long that another one removed it registers again.
    """

    def __init__(self, connector: procrastinate.PsycopgConnector, worker: Any) -> None:
        super().__init__(connector)
        self._worker = worker

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> ProcrastinateJob | None:
        try:
            return await super().fetch_job(queues, worker_id)
        except exceptions.ConnectorException as error:
            if not isinstance(error.__cause__, errors.ForeignKeyViolation):
                raise
        self._worker.worker_id = worker_id = await self.register_worker()
        return await super().fetch_job(queues, worker_id)

    async def send_heartbeats(self, interval: float) -> None:
        """Send heartbeats until cancelled; procrastinate's own end before the last job of a stopped worker does."""
        while True:
            await asyncio.sleep(interval)
            if self._worker.worker_id is not None:
                with suppress(exceptions.ConnectorException):  # the next one may get through
                    await self.update_heartbeat(self._worker.worker_id)

    async def finish_job(self, job: ProcrastinateJob, *arguments: Any, **options: Any) -> None:
        await self._record_result(job, lambda: super(_WorkerJobManager, self).finish_job(job, *arguments, **options))

    async def retry_job(self, job: ProcrastinateJob, *arguments: Any, **options: Any) -> None:
        try:
            await self._record_result(job, lambda: super(_WorkerJobManager, self).retry_job(job, *arguments, **options))
        except exceptions.UniqueViolation:
            await self.connector.execute_query_async(query=SQL["supersede"], id=job.id)

    async def _record_result(self, job: ProcrastinateJob, record: Callable[[], Awaitable[None]]) -> None:
        for delay in (*_RECORD_RETRY_DELAYS, None):
            try:
                return await record()
            except exceptions.UniqueViolation:
                raise
            except exceptions.ConnectorException as error:
                cause = error.__cause__
                is_taken = isinstance(cause, errors.RaiseException)  # another worker has rescued the job
                if delay is None or is_taken:
                    _logger.warning("the result of job %s %s was not recorded: %s", job.task_name, job.id, cause)
                    if not is_taken:
                        self._worker.stop()
                    return None
            await asyncio.sleep(delay)
        return None


def _visible_scopes(reach: Reach) -> list[str] | None:
    """Return the scopes whose jobs a caller may see; ``None`` means every scope."""
    return None if reach.readable is None else sorted(reach.readable)


def _parse_job_row(row: Mapping[str, Any]) -> Job:
    """Parse a row. An attempt counts from its start here; procrastinate counts it at its end."""
    call, attempts = canonical_json.parse(row["args"]["call"]), row["attempts"] + (row["status"] == "doing")
    due = row["scheduled_at"] if row["status"] == "todo" else None
    return Job(
        str(row["id"]), row["task_name"], canonical_json.parse(call["arguments"]), row["args"]["scope"], call["author"],
        call["key"], _STATE_BY_STATUS[row["status"]], attempts, None if due is None else to_utc(due), row["error"],
    )  # fmt: skip


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise errors of psycopg and procrastinate as errors of Lukasa."""
    with error_translation():
        try:
            yield
        except exceptions.ConnectorException as error:
            if not isinstance(error.__cause__, Exception):
                raise StoreError(str(error)) from error
            raise error.__cause__ from error


def _run_in_thread(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in a new thread, because the caller's thread may already run an event loop."""
    future: Future[None] = Future()

    def run() -> None:
        try:
            future.set_result(asyncio.run(coroutine))
        except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
            future.set_exception(error)

    threading.Thread(target=run, name="jobs", daemon=True).start()
    future.result()
