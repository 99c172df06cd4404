"""Background work: jobs that are deferred now, done later, by whoever gets to them first, and never silently lost.

A job is a named plain function of ``(memory, **arguments)``. It is registered once, deferred by name, and kept until it
is done: ``job`` says what that means, ``room`` is what a memory hands out as ``memory.jobs``, ``keepers`` keep the
promise. In a file or in memory the jobs are records of the log; on PostgreSQL they are rows of ``procrastinate``.

A job is done at least once: whoever dies between doing it and noting it leaves it to be done again. So every job must
be idempotent. Two workers never hold the same job at the same time, as long as its holder gives signs of life.
"""

from lukasa.jobs.job import REGISTRY, DeferredJob, Job, JobCounts, JobQueue, RunSummary, Task, TaskRegistry, job
from lukasa.jobs.jobs import Jobs

__all__ = [
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
