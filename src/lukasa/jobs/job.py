"""What a job is, and what a keeper of jobs promises.

    defer ─► waiting ──claimed──► running ──done──► gone
                ▲                    │
                └── after a pause ───┤ it failed, or its worker died
                                     ▼
                                   failed      all attempts are spent: shown to people, never tried again by itself

A job stands in one scope and reaches that scope alone; a job of the store's owner stands in the store's own scope and
reaches everything. So deferring can never do what the one who deferred could not.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol, TypeVar

from lukasa import canonical_json
from lukasa.errors import InvalidInput
from lukasa.journal import Journal
from lukasa.outcome import Refused

JobState = Literal["waiting", "running", "failed"]
JOB_STATES: tuple[JobState, ...] = ("waiting", "running", "failed")

LEASE = 60.0
"""Seconds without a sign of life after which a worker counts as dead. A living one gives three in that time."""

MAX_RETRY_DELAY = timedelta(hours=1)
MAX_ERROR_LENGTH = 500
MAX_ARGUMENTS_SIZE = 100_000
RESERVED_PARAMETERS = frozenset({"key", "scope", "delay"})
"""What ``defer`` itself is told by name, so no argument of a job can be called that."""

_TASK_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,39}")  # PostgreSQL's names of channels leave 40 characters for ours

TaskFunction = Callable[..., object]
F = TypeVar("F", bound=TaskFunction)


@dataclass(frozen=True, slots=True)
class Task:
    """A function that can be deferred by name: how often it is tried, and the pause before the second attempt.

    Each further pause is twice as long, up to an hour.
    """

    name: str
    function: TaskFunction
    attempts: int = 5
    backoff: float = 10.0

    def retry_delay(self, attempts: int) -> timedelta:
        """How long to wait after so many failed attempts."""
        doubled = self.backoff * 2.0 ** min(attempts - 1, 60)
        return min(timedelta(seconds=min(doubled, MAX_RETRY_DELAY.total_seconds())), MAX_RETRY_DELAY)

    def find_argument_fault(self, arguments: Mapping[str, Any]) -> str | None:
        """Why the function cannot be called with these arguments; ``None`` when it can."""
        try:
            inspect.signature(self.function).bind(None, **arguments)
        except TypeError as error:
            return str(error)
        return None


class TaskRegistry(Mapping[str, Task]):
    """The functions that can be deferred, by name."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}

    def job(self, name: str, *, attempts: int = 5, backoff: float = 10.0) -> Callable[[F], F]:
        """Registers the function below it under a name. The name is what is stored: keep it when the function moves."""

        def register(function: F) -> F:
            self.add(Task(name, function, attempts, backoff))
            return function

        return register

    def add(self, task: Task) -> None:
        """Registers a work. A name stands for one function; saying the same twice is fine."""
        if not _TASK_NAME.fullmatch(task.name):
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
        known = self._tasks.get(task.name)
        if known is not None and known.function is not task.function:
            raise InvalidInput(f"Two functions are registered as the job {task.name!r}.")
        self._tasks[task.name] = task

    def forget(self, name: str) -> None:
        """Takes a work off the register; nothing happens when it is not on it."""
        self._tasks.pop(name, None)

    def __getitem__(self, name: str) -> Task:
        return self._tasks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)


REGISTRY = TaskRegistry()
"""The one place where jobs are registered, unless somebody keeps a register of their own."""

job = REGISTRY.job


@dataclass(frozen=True, slots=True)
class Job:
    """A piece of deferred work as it stands now. ``error`` is what the newest failed attempt ended with."""

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
        """What at most one waiting job may have."""
        return None if self.key is None else compute_lock(self.scope, self.name, self.key)


@dataclass(frozen=True, slots=True)
class DeferredJob:
    """The job is kept. ``repeated`` says that one with this key was waiting already, so no second one was made."""

    id: str
    repeated: bool = False

    def __bool__(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class JobCounts:
    """How many jobs stand where. What is done is gone."""

    waiting: int = 0
    running: int = 0
    failed: int = 0


@dataclass(slots=True)
class RunSummary:
    """What a round of work came to."""

    done: int = 0
    retried: int = 0
    failed: int = 0
    lost: int = 0

    @property
    def attempts(self) -> int:
        return self.done + self.retried + self.failed + self.lost


AttemptResult = Literal["done", "retried", "failed", "lost"]
"""How an attempt ended. ``lost``: somebody else had taken the job over in the meantime."""

RunJob = Callable[[Job], None]
"""Does a job; whatever it raises is why it failed."""

OnAttempt = Callable[[Job, AttemptResult, str], None]
"""Called after each attempt with how it ended and, if it failed, why."""

OnStoreError = Callable[[Exception], None]
"""Called when the store could not be worked with for now; it will be tried again."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What a keeper needs to know to work: which works, who does them, whom to tell, when to stop."""

    tasks: Mapping[str, Task]
    run_job: RunJob
    on_attempt: OnAttempt
    on_store_error: OnStoreError
    stop: threading.Event = field(default_factory=threading.Event)
    lease: float = LEASE


class JobQueue(Protocol):
    """Keeps jobs until they are done, and hands each to one worker at a time."""

    def put(self, job: Job) -> DeferredJob | Refused:
        """Keeps a new job, durably. Of one key, at most one job waits."""

    def find(self, state: JobState | None = None) -> list[Job]:
        """The jobs that the caller may see, oldest first."""

    def status(self) -> JobCounts:
        """How many of them stand where."""

    def retry(self, id: str) -> bool:
        """Lets a failed job wait again with all its attempts; ``False`` when there is no such failed job."""

    def drop(self, id: str) -> bool:
        """Gives up a waiting or failed job; ``False`` when there is none."""

    def run(self, options: WorkerOptions, limit: int | None) -> None:
        """Makes attempts until nothing is due, or as many as the limit says."""

    def serve(self, options: WorkerOptions) -> None:
        """Works until told to stop; what is running then is finished first."""

    def with_journal(self, journal: Journal) -> JobQueue:
        """The same jobs with another caller's reach."""

    def close(self) -> None:
        """Lets go of everything. Closing twice is fine."""


def compute_lock(scope: str, name: str, key: str) -> str:
    """One short word for a scope, a name and a key."""
    return hashlib.sha256(canonical_json.encode([scope, name, key])).hexdigest()[:32]


def describe_error(error: BaseException) -> str:
    """What an error says, in one short line that every store can hold."""
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    line = " ".join(said.replace("\0", " ").split())
    plain = line.encode("utf-8", "backslashreplace").decode()
    return plain if len(plain) <= MAX_ERROR_LENGTH else plain[: MAX_ERROR_LENGTH - 1] + "…"


WORKER_DIED = "Its worker died or gave no sign of life."
