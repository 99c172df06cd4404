"""Deferring jobs and doing them, for one caller."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from lukasa import canonical_json
from lukasa.clock import Clock, IdMaker
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
    Task,
    TaskRegistry,
    WorkerOptions,
)
from lukasa.jobs.log_queue import LogJobQueue
from lukasa.journal import Journal
from lukasa.outcome import Refused
from lukasa.scope import FULL_REACH, SHARED, SYSTEM, Reach

MemoryFactory = Callable[[str, Reach, "Jobs"], Any]
"""The memory that a job is handed: the same store as an author with a reach sees it, with jobs to defer by."""

_MAX_KEY_LENGTH = 1000


class Jobs:
    """Defers jobs, does them, and tells how they stand.

    ``url`` names the PostgreSQL server that keeps the jobs; without it the journal's own store does.
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

    # Deferring

    def defer(
        self, name: str, /, *, key: str | None = None, scope: str | None = None, delay: float = 0.0, **arguments: Any
    ) -> DeferredJob | Refused:
        """Keeps a job for later, ``delay`` seconds from now at the earliest. Once this returns, no crash loses it.

        ``key`` says which work it is: while a job with the same name, scope and key waits, no second one is made.
        ``scope`` is where it stands and all it will reach; without it, that is the caller's own.
        """
        scope = self._home_scope() if scope is None else scope
        if (refused := self._validate_job(name, key, scope, delay, arguments)) is not None:
            return refused
        due = self._clock.now() + timedelta(seconds=delay) if delay else None
        return self._queue().put(Job("", name, arguments, scope, self._journal.author, key, due=due))

    def _home_scope(self) -> str:
        """Where the caller's jobs stand: the owner's in the store's scope, an agent's in its own or the shared one."""
        reach, author = self._journal.reach, self._journal.author
        if reach.unlimited:
            return SYSTEM
        scope = next((name for name in (author, SHARED) if name and reach.reads(name) and reach.writes(name)), None)
        if scope is None:
            raise InvalidInput("This caller has no scope of its own for a job to stand in.", hint="Name one: scope=…")
        return scope

    def _validate_job(
        self, name: str, key: str | None, scope: str, delay: float, arguments: Mapping[str, Any]
    ) -> Refused | None:
        work = self.register.get(name)
        if work is None:
            return Refused("unknown_job", f"No function is registered as the job {name!r:.80}.")
        if not (self._journal.reach.reads(scope) and self._journal.reach.writes(scope)):
            return Refused("scope_closed", f"The scope {scope!r:.80} is outside the caller's reach.")
        if key is not None and (
            key.__class__ is not str or not 0 < len(key) <= _MAX_KEY_LENGTH or canonical_json.find_json_fault(key)
        ):
            return Refused("bad_key", f"The key must be text of 1 to {_MAX_KEY_LENGTH} characters.")
        if not 0 <= delay < 10**9:
            return Refused("bad_delay", "The delay must be a number of seconds, and not negative.")
        return _validate_arguments(work, arguments)

    # Doing

    def run_waiting(
        self, limit: int | None = None, *, tell: OnAttempt | None = None, lease: float = LEASE
    ) -> RunSummary:
        """Does here and now what is due, until nothing is, or as many attempts as ``limit`` says."""
        ran = RunSummary()
        if limit is None or limit > 0:
            self._queue().run(self._worker_options(ran, tell, _raise_error, threading.Event(), lease), limit)
        return ran

    def work(
        self,
        stop: threading.Event,
        *,
        tell: OnAttempt | None = None,
        trouble: OnStoreError | None = None,
        lease: float = LEASE,
    ) -> RunSummary:
        """Does jobs as they come until ``stop`` is set; what is running then is finished first.

        While the store is busy, full or out of reach, ``trouble`` is told and work goes on once it is back.
        """
        ran = RunSummary()
        self._queue().serve(self._worker_options(ran, tell, trouble or _ignore_error, stop, lease))
        return ran

    def _worker_options(
        self,
        summary: RunSummary,
        on_attempt: OnAttempt | None,
        on_store_error: OnStoreError,
        stop: threading.Event,
        lease: float,
    ) -> WorkerOptions:
        if not lease > 0:
            raise InvalidInput("A lease lasts longer than no time at all.")

        def count_attempt(job: Job, ending: AttemptResult, why: str) -> None:
            setattr(summary, ending, getattr(summary, ending) + 1)
            if on_attempt is not None:
                on_attempt(job, ending, why)

        return WorkerOptions(dict(self.register), self._run_job, count_attempt, on_store_error, stop, lease)

    def _run_job(self, job: Job) -> None:
        reach = FULL_REACH if job.scope == SYSTEM else Reach.of((job.scope,))
        self.register[job.name].function(self._memory_for(job.author, reach, self), **job.arguments)

    # Looking

    def status(self) -> JobCounts:
        """How many jobs wait, run and have failed, among those the caller may see."""
        return self._queue().status()

    def find(self, state: JobState | None = None) -> list[Job]:
        """The jobs themselves, oldest first; with ``state``, only those that wait, run or have failed."""
        if state is not None and state not in JOB_STATES:
            raise InvalidInput(f"{state!r:.60} is not a state of a job.", hint=f"Say one of {', '.join(JOB_STATES)}.")
        return self._queue().find(state)

    def retry(self, id: str) -> bool:
        """Lets a failed job wait again, with all its attempts before it."""
        return self._queue().retry(id)

    def drop(self, id: str) -> bool:
        """Gives up a job that waits or has failed."""
        return self._queue().drop(id)

    def serving(self, register: TaskRegistry) -> Jobs:
        """The same jobs with the functions of another register."""
        other = copy(self)
        other.register = register
        return other

    def seen_by(self, journal: Journal) -> Jobs:
        """The same jobs with the reach of another journal on the same store."""
        other, keeper = copy(self), self._queue
        other._journal = journal
        other._queue = _LazyQueue(lambda: keeper().with_journal(journal))
        return other

    def close(self) -> None:
        """Lets go of what keeps the jobs. The store itself stays open."""
        self._queue.close()


class _LazyQueue:
    """A keeper that is made when it is first needed: most callers never defer anything."""

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
    try:
        from lukasa.jobs.postgres_queue import PostgresJobQueue
    except ModuleNotFoundError as error:
        raise MissingExtra("Jobs on PostgreSQL need more packages.", hint="pip install lukasa[postgres]") from error
    keeper = PostgresJobQueue(url, reach, timeout=timeout)
    if reach.unlimited:
        _move_jobs(create_log_queue(), keeper)
    return keeper


def _move_jobs(source: LogJobQueue, target: JobQueue) -> None:
    """Takes over jobs that came in with the log of another store, where they were records."""
    for job in source.find():
        target.put(replace(job, id="", key=job.key or f"once {job.id}"))
        source.remove(job)


def _validate_arguments(task: Task, arguments: Mapping[str, Any]) -> Refused | None:
    if (misfit := task.find_argument_fault(arguments)) is not None:
        return Refused("bad_arguments", f"The job {task.name!r} cannot be called like that: {misfit}.")
    if (fault := canonical_json.find_json_fault(dict(arguments), max_characters=MAX_ARGUMENTS_SIZE)) is not None:
        return Refused("bad_arguments", f"The arguments of the job {task.name!r} cannot be stored: {fault}")
    if len(canonical_json.encode(arguments)) > MAX_ARGUMENTS_SIZE:
        return Refused(
            "bad_arguments",
            f"The arguments of the job {task.name!r} are too large; name records instead of sending them.",
        )
    return None


def _raise_error(error: Exception) -> None:
    raise error


def _ignore_error(_: Exception) -> None:
    """Nobody wanted to know."""
