"""Service behind ``memory.jobs``: defer jobs, run them, list them, for one caller."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from lukasa.core import canonical_json
from lukasa.core.argument_types import check_arguments
from lukasa.core.clock import Clock, IdMaker
from lukasa.core.outcome import Accepted, Outcome, Refused
from lukasa.core.record import Key
from lukasa.core.scope import FULL_REACH, SHARED, SYSTEM, Reach
from lukasa.errors import InvalidInput, MissingExtra
from lukasa.jobs.job import (
    JOB_STATES,
    LEASE,
    MAX_ARGUMENTS_SIZE,
    REGISTRY,
    AttemptResult,
    DeferredJob,
    Job,
    JobCounts,
    JobQueue,
    JobState,
    OnAttempt,
    OnStoreError,
    RunSummary,
    TaskRegistry,
    WorkerOptions,
)
from lukasa.jobs.log_queue import LogJobQueue
from lukasa.journal import CallerService, Journal

MemoryFactory = Callable[[str, Reach, "Jobs"], Any]
"""Makes the memory that a job gets: the same store with the job's author and reach, and these jobs."""

JOB_RESULT = "job_result"
_MAX_KEY_LENGTH = 1000


@check_arguments
class Jobs(CallerService):
    """Deferred jobs as one caller sees them.

    ``url`` names the PostgreSQL server that stores the jobs; without it the journal's own store does.
    """

    def __init__(
        self,
        journal: Journal,
        memory_for: MemoryFactory,
        clock: Clock,
        new_id: IdMaker,
        *,
        url: str = "",
        timeout: float = 30.0,
        register: TaskRegistry = REGISTRY,
    ) -> None:
        self._journal = journal
        self._memory_for = memory_for
        self._clock = clock
        in_log = partial(LogJobQueue, journal, clock, new_id)
        self._queue = _LazyQueue(partial(_open_postgres_queue, url, in_log, journal.reach, timeout) if url else in_log)
        self.register = register

    def defer(
        self, name: str, /, *, key: str | None = None, scope: str | None = None, delay: float = 0.0, **arguments: Any
    ) -> DeferredJob | Refused:
        """Store a job that runs after ``delay`` seconds at the earliest. Once this returns, no crash loses it.

        While a job with the same name, scope and ``key`` waits, no second one is stored. The job belongs to ``scope``
        and reaches nothing else; by default that is the caller's own scope.

        Args:
            name: The name of the function, as it was registered.
            key: While a job with the same name, scope and key waits, no second one is stored.
            scope: The scope that the job may use; default: the caller's own.
            delay: How many seconds to wait at least.
            **arguments: The arguments of the function, as JSON.

        Example:
            memory.jobs.defer("tidy", delay=60)
        """
        scope = self._home_scope() if scope is None else scope
        if (refused := self._validate_job(name, key, scope, delay, arguments)) is not None:
            return refused
        due = self._clock.now() + timedelta(seconds=delay) if delay else None
        return self._queue().put(Job("", name, arguments, scope, self._journal.author, key, due=due))

    def _home_scope(self) -> str:
        """Return the scope of the caller's jobs: the owner's is ``_lukasa``, an agent's its own, its project's or the shared one."""
        if self._journal.reach.unlimited:
            return SYSTEM
        scope = self._journal.home_scope
        if scope is None or scope not in (self._journal.author, self._journal.reach.project, SHARED):
            raise InvalidInput("This caller has no home scope for a job.", hint="Name one: scope=…")
        return scope

    def _validate_job(
        self, name: str, key: str | None, scope: str, delay: float, arguments: Mapping[str, Any]
    ) -> Refused | None:
        task = self.register.get(name)
        if task is None:
            return Refused("unknown_job", f"No function is registered as the job {name!r:.80}.")
        if not (self._journal.reach.reads(scope) and self._journal.reach.writes(scope)):
            return Refused("scope_closed", f"The scope {scope!r:.80} is outside the caller's reach.")
        if key is not None and (
            key.__class__ is not str or not 0 < len(key) <= _MAX_KEY_LENGTH or canonical_json.find_json_fault(key)
        ):
            return Refused("bad_key", f"The key must be text of 1 to {_MAX_KEY_LENGTH} characters.")
        if not 0 <= delay < 10**9:
            return Refused("bad_delay", "The delay must be a number of seconds, and not negative.")
        try:
            inspect.signature(task.function).bind(None, **arguments)
        except TypeError as error:
            return Refused("bad_arguments", f"The job {name!r} cannot be called like that: {error}.")
        if (fault := canonical_json.find_json_fault(dict(arguments), max_characters=MAX_ARGUMENTS_SIZE)) is not None:
            return Refused("bad_arguments", f"The arguments of the job {name!r} cannot be stored: {fault}")
        if len(canonical_json.encode(arguments)) > MAX_ARGUMENTS_SIZE:
            reason = f"The arguments of the job {name!r} are too large; name records instead of sending them."
            return Refused("bad_arguments", reason)
        return None

    def run_waiting(
        self, limit: int | None = None, *, tell: OnAttempt | None = None, lease: float = LEASE
    ) -> RunSummary:
        """Run the due jobs now, until none is left or ``limit`` attempts were made.

        Args:
            limit: How many attempts to make at most.
            tell: Called after each attempt.
            lease: After how many seconds without a sign of life another worker may take the job.

        Example:
            memory.jobs.defer("tidy")
            memory.jobs.run_waiting(limit=10)
        """

        def raise_error(error: Exception) -> None:
            raise error

        summary, options = self._worker_options(tell, raise_error, threading.Event(), lease)
        if limit is None or limit > 0:
            self._queue().run(options, limit)
        return summary

    def work(
        self,
        stop: threading.Event,
        *,
        tell: OnAttempt | None = None,
        trouble: OnStoreError | None = None,
        lease: float = LEASE,
    ) -> RunSummary:
        """Run jobs as they become due until ``stop`` is set; finish the running job first.

        While the store is busy, full or out of reach, ``trouble`` is called and work goes on once the store is back.

        Args:
            stop: The event that ends the work.
            tell: Called after each attempt.
            trouble: Called when the store is busy, full or out of reach.
            lease: After how many seconds without a sign of life another worker may take the job.
        """
        summary, options = self._worker_options(tell, trouble or (lambda _: None), stop, lease)
        self._queue().serve(options)
        return summary

    def _worker_options(
        self, on_attempt: OnAttempt | None, on_store_error: OnStoreError, stop: threading.Event, lease: float
    ) -> tuple[RunSummary, WorkerOptions]:
        """Return a worker's options, and the summary that counts its attempts."""
        if not lease > 0:
            raise InvalidInput("A lease lasts longer than no time at all.")
        summary = RunSummary()

        def run_job(job: Job) -> None:
            reach = FULL_REACH if job.scope == SYSTEM else Reach.of((job.scope,))
            memory = self._memory_for(job.author, reach, self)
            result = self.register[job.name].function(memory, **job.arguments)
            if isinstance(result, dict) and canonical_json.find_json_fault(result) is None:
                body = {"name": job.name, "result": result}
                memory.valid_journal.write(JOB_RESULT, body=body, id=job.id, scope=job.scope, origin="job")

        def count_attempt(job: Job, result: AttemptResult, error: str) -> None:
            setattr(summary, result, getattr(summary, result) + 1)
            if on_attempt is not None:
                on_attempt(job, result, error)

        return summary, WorkerOptions(dict(self.register), run_job, count_attempt, on_store_error, stop, lease)

    def status(self) -> JobCounts:
        """Count the jobs that the caller may see, by state.

        Example:
            memory.jobs.status()
        """
        return self._queue().status()

    def list(self, state: JobState | None = None) -> Sequence[Job]:
        """Return the jobs that the caller may see, oldest first; with ``state`` only those in that state.

        Args:
            state: Only jobs that are ``waiting``, ``running`` or ``failed``.

        Example:
            memory.jobs.list("failed")
        """
        if state is not None and state not in JOB_STATES:
            raise InvalidInput(f"{state!r:.60} is not a state of a job.", hint=f"Say one of {', '.join(JOB_STATES)}.")
        return self._queue().find(state)

    def result(self, id: str) -> dict[str, Any] | None:
        """Return the JSON object that a job returned when it was last done, or ``None``.

        Args:
            id: The id of the job.

        Example:
            job = memory.jobs.defer("tidy").unwrap()
            memory.jobs.run_waiting()
            memory.jobs.result(job.id)
        """
        scopes = [row.scope for row in self._journal.tally() if row.kind == JOB_RESULT]
        found = (self._journal.get(Key(scope, JOB_RESULT, id)) for scope in scopes)
        return next((record.body["result"] for record in found if record is not None), None)

    def retry(self, id: str) -> Outcome:
        """Let a failed job wait again with all its attempts.

        Args:
            id: The id of the job.

        Example:
            job = memory.jobs.defer("tidy").unwrap()
            memory.jobs.retry(job.id)
        """
        return Accepted(()) if self._queue().retry(id) else Refused("not_found", f"No job {id[:60]!r} has failed.")

    def drop(self, id: str) -> Outcome:
        """Remove a waiting or failed job.

        Args:
            id: The id of the job.

        Example:
            job = memory.jobs.defer("tidy").unwrap()
            memory.jobs.drop(job.id)
        """
        if self._queue().drop(id):
            return Accepted(())
        return Refused("not_found", f"No job {id[:60]!r} is waiting or has failed.")

    def serving(self, register: TaskRegistry) -> Jobs:
        """Return the same jobs with the functions of another registry.

        Args:
            register: The functions that jobs run, by name.
        """
        other = copy(self)
        other.register = register
        return other

    def seen_by(self, journal: Journal) -> Jobs:
        """Return the same jobs with the reach of another journal on the same store.

        Args:
            journal: A journal on the same store.
        """
        other, queue = copy(self), self._queue
        other._journal = journal
        other._queue = _LazyQueue(lambda: queue().with_journal(journal))
        return other

    def close(self) -> None:
        """Close the job queue. The store itself stays open.

        Example:
            memory.jobs.close()
        """
        self._queue.close()


class _LazyQueue:
    """A queue that is opened on first use: most callers never defer anything."""

    def __init__(self, create: Callable[[], JobQueue]) -> None:
        self._create = create
        self._queue: JobQueue | None = None
        self._owner_pid = os.getpid()
        self._lock = threading.Lock()

    def __call__(self) -> JobQueue:
        with self._lock:
            if self._queue is None or self._owner_pid != os.getpid():  # a fork must not use its parent's connections
                self._queue, self._owner_pid = self._create(), os.getpid()
            return self._queue

    def close(self) -> None:
        if self._queue is not None and self._owner_pid == os.getpid():
            self._queue.close()


def _open_postgres_queue(
    url: str, create_log_queue: Callable[[], LogJobQueue], reach: Reach, timeout: float
) -> JobQueue:
    """Open the queue on PostgreSQL, and move jobs into it that were imported with the log of another store."""
    try:
        from lukasa.jobs.postgres_queue import PostgresJobQueue
    except ModuleNotFoundError as error:
        raise MissingExtra("Jobs on PostgreSQL need more packages.", hint="pip install lukasa[postgres]") from error
    queue = PostgresJobQueue(url, reach, timeout=timeout)
    if reach.unlimited:
        log_queue = create_log_queue()
        for job in log_queue.find():
            queue.put(replace(job, id="", key=job.key or f"once {job.id}"))
            log_queue.remove(job)
    return queue
