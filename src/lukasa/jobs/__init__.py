"""Background jobs: work that is deferred now, run later by any worker, and never silently lost.

A job is a call of a named plain function ``(memory, **arguments)``. The function is registered once (``job``), deferred
by name, and the job is stored until it is done. ``jobs`` is the service behind ``memory.jobs``. In a file or in memory
the jobs are records of the log (``log_queue``); on PostgreSQL they are rows of procrastinate (``postgres_queue``).

A job runs at least once: a worker that dies between running a job and recording its end leaves it to be run again. So
every job must be idempotent. Two workers never run the same job at the same time, as long as its worker sends heartbeats.
"""

from lukasa.core.body_shape import TIME, BodyShape, OneOf
from lukasa.jobs.job import (
    JOB_STATES,
    REGISTRY,
    DeferredJob,
    Job,
    JobCounts,
    JobQueue,
    RunSummary,
    Task,
    TaskRegistry,
    job,
)
from lukasa.jobs.jobs import JOB_RESULT, Jobs
from lukasa.jobs.log_queue import JOB
from lukasa.journal.gate import KindSpec

__all__ = [
    "KINDS",
    "REGISTRY",
    "DeferredJob",
    "Job",
    "JobCounts",
    "JobQueue",
    "Jobs",
    "RunSummary",
    "Task",
    "TaskRegistry",
    "job",
]

_CALL = {
    **dict.fromkeys(("name", "key", "error", "run"), str), "arguments": dict, "state": OneOf(JOB_STATES), "attempts": int,
    "due": TIME, "until": TIME,
}  # fmt: skip
_REQUIRED = "name arguments state attempts"
KINDS = {
    JOB: KindSpec(body=BodyShape({**_CALL, "again": BodyShape(_CALL, _REQUIRED)}, _REQUIRED), written_by="store"),
    JOB_RESULT: KindSpec(body=BodyShape({"name": str, "result": dict}, "name result"), written_by="store"),
}
"""The kinds of record for the jobs of a single file, and for what a job returned."""
