"""Job values, the registry of job functions, and the contract of a job queue.

    defer ─► waiting ──claimed──► running ──done──► gone
                ▲                    │
                └── after a pause ───┤ it failed, or its worker died
                                     ▼
                                   failed      no attempt is left: shown to people, retried only on request

A job belongs to one scope and reaches that scope alone; a job of the store's owner belongs to the scope ``_lukasa`` and
reaches everything. So a deferred job can do nothing that its author may not do.
"""

from __future__ import annotations

import hashlib
import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol, TypeVar

from lukasa.core import canonical_json
from lukasa.core.names import LOWER, is_plain_name
from lukasa.core.outcome import Answer, Refused
from lukasa.errors import InvalidInput, StoreBusy, StoreFull, StoreUnavailable
from lukasa.journal import Journal

JobState = Literal["waiting", "running", "failed"]
JOB_STATES: tuple[JobState, ...] = ("waiting", "running", "failed")

LEASE = 60.0
"""Seconds without a heartbeat after which a worker counts as dead. A living worker sends three in that time."""

MAX_RETRY_DELAY = timedelta(hours=1)
MAX_ERROR_LENGTH = 500
MAX_ARGUMENTS_SIZE = 100_000
RESERVED_PARAMETERS = frozenset({"key", "scope", "delay"})
"""Keyword arguments of ``defer`` itself, which no job function can have."""

TRANSIENT_ERRORS = (StoreBusy, StoreFull, StoreUnavailable)
"""Errors after which a worker tries again."""

WORKER_DIED = "Its worker died or gave no sign of life."

_MAX_TASK_NAME = 40  # names of PostgreSQL channels leave 40 characters for ours

TaskFunction = Callable[..., object]
F = TypeVar("F", bound=TaskFunction)


@dataclass(frozen=True, slots=True)
class Task:
    """A function that can be deferred by name, its number of attempts, and the pause before the second one.

    Each further pause is twice as long, up to an hour.
    """

    name: str
    function: TaskFunction
    attempts: int = 5
    backoff: float = 10.0

    def retry_delay(self, attempts: int) -> timedelta:
        """Return the pause after this number of failed attempts."""
        doubled = self.backoff * 2.0 ** min(attempts - 1, 60)
        return timedelta(seconds=min(doubled, MAX_RETRY_DELAY.total_seconds()))


class TaskRegistry(dict[str, Task]):
    """Functions that can be deferred, by name."""

    def job(self, name: str, *, attempts: int = 5, backoff: float = 10.0) -> Callable[[F], F]:
        """Register the decorated function. The name is stored with each job: keep it when the function moves."""

        def register(function: F) -> F:
            self.add(Task(name, function, attempts, backoff))
            return function

        return register

    def add(self, task: Task) -> None:
        """Register a task. Two functions under one name are refused; the same function twice is fine."""
        if not is_plain_name(task.name, "_.-", _MAX_TASK_NAME, letters=LOWER) or task.name[0].isdecimal():
            raise InvalidInput(
                f"{task.name[:60]!r} cannot be the name of a job.",
                hint="Use up to 40 small letters, digits, dots, hyphens and underscores, with a letter first.",
            )
        if task.attempts < 1 or not 0 <= task.backoff < float("inf"):
            raise InvalidInput(f"The job {task.name!r} needs at least one attempt and a pause that is not negative.")
        if taken := RESERVED_PARAMETERS & set(inspect.signature(task.function).parameters):
            raise InvalidInput(
                f"The job {task.name!r} has a parameter called {min(taken)!r}, which defer itself takes."
            )
        if self.setdefault(task.name, task).function is not task.function:
            raise InvalidInput(f"Two functions are registered as the job {task.name!r}.")
        self[task.name] = task

    def forget(self, name: str) -> None:
        """Remove a task, if it is registered."""
        self.pop(name, None)


REGISTRY = TaskRegistry()
"""Default registry of every memory."""

job = REGISTRY.job


@dataclass(frozen=True, slots=True)
class Job:
    """A deferred job in its current state. ``error`` is the error of the newest failed attempt."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    scope: str
    author: str
    key: str | None = None
    state: JobState = "waiting"
    attempts: int = 0
    due: datetime | None = None
    error: str = ""

    @property
    def lock(self) -> str | None:
        """Hash of scope, name and key, which at most one waiting job may have; None without a key."""
        if self.key is None:
            return None
        return hashlib.sha256(canonical_json.encode([self.scope, self.name, self.key])).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class DeferredJob(Answer):
    """A stored job. ``repeated`` means that a job with this key was waiting already, so no second one was stored."""

    id: str
    repeated: bool = False

    def __bool__(self) -> Literal[True]:
        return True


@dataclass(frozen=True, slots=True)
class JobCounts:
    """Number of jobs per state. Jobs that are done are not counted."""

    waiting: int = 0
    running: int = 0
    failed: int = 0


@dataclass(slots=True)
class RunSummary:
    """Number of attempts of a worker, by result."""

    done: int = 0
    retried: int = 0
    failed: int = 0
    lost: int = 0

    @property
    def attempts(self) -> int:
        return self.done + self.retried + self.failed + self.lost


AttemptResult = Literal["done", "retried", "failed", "lost"]
"""Result of an attempt. ``lost``: another worker had taken the job over in the meantime."""

RunJob = Callable[[Job], None]
"""Runs a job; an exception means that the attempt failed."""

OnAttempt = Callable[[Job, AttemptResult, str], None]
"""Called after each attempt with its result and, if it failed, its error."""

OnStoreError = Callable[[Exception], None]
"""Called when the store fails for the moment; the worker tries again."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Tasks, executor, callbacks, stop event and lease of a worker."""

    tasks: Mapping[str, Task]
    run_job: RunJob
    on_attempt: OnAttempt
    on_store_error: OnStoreError
    stop: threading.Event = field(default_factory=threading.Event)
    lease: float = LEASE


class JobQueue(Protocol):
    """Stores jobs until they are done, and hands each to one worker at a time."""

    def put(self, job: Job) -> DeferredJob | Refused:
        """Store a new job durably. At most one job per key waits."""

    def find(self, state: JobState | None = None) -> list[Job]:
        """Return the jobs that the caller may see, oldest first."""

    def status(self) -> JobCounts:
        """Count the jobs that the caller may see, by state."""

    def retry(self, id: str) -> bool:
        """Let a failed job wait again with all its attempts; return False when there is no such failed job."""

    def drop(self, id: str) -> bool:
        """Remove a waiting or failed job; return False when there is none."""

    def run(self, options: WorkerOptions, limit: int | None) -> None:
        """Run due jobs until none is left, or until the limit of attempts is reached."""

    def serve(self, options: WorkerOptions) -> None:
        """Run jobs until the stop event is set; finish the running job first."""

    def with_journal(self, journal: Journal) -> JobQueue:
        """Return the same queue with another caller's reach."""

    def close(self) -> None:
        """Release all connections. Closing twice is fine."""


def describe_error(error: BaseException) -> str:
    """Return the error's type and message as one short line that every store can hold."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    line = " ".join(text.replace("\0", " ").split()).encode("utf-8", "backslashreplace").decode()
    return line if len(line) <= MAX_ERROR_LENGTH else line[: MAX_ERROR_LENGTH - 1] + "…"
