"""Job queue in the log: for a store in a file or in memory, without a second database.

A job is one record of kind ``job``; deferred, claimed, failed and done are versions of it, and a job that is done is a
tombstone. A claim expects the version it read, so one of any number of processes wins. The winner writes a run id and
the end of its lease, and extends the lease while the job runs. Only the holder of the run id can record the result.

The id of a job with a key is made of its key. If it is deferred again while it runs, the new call is stored in ``again``
and waits when the run is done, because it may be about something newer than the run has seen.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from lukasa.core.clock import Clock, IdMaker, from_iso, to_iso
from lukasa.core.outcome import Accepted, Refused
from lukasa.core.record import Draft, Key, Record, draft_from
from lukasa.errors import StoreError
from lukasa.jobs.job import (
    TRANSIENT_ERRORS,
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
from lukasa.journal import Journal
from lukasa.storage.engine import Query, Reader

JOB = "job"
OPEN_LABEL, FAILED_LABEL = "job=open", "job=failed"
_OPEN_JOBS = Query(kinds=(JOB,), labels=(OPEN_LABEL,))
_BATCH_SIZE = 100
_POLL_SECONDS = 0.5
_EARLIEST = datetime.min.replace(tzinfo=UTC)

_logger = logging.getLogger(__name__)

JobBody = dict[str, Any]


class LogJobQueue:
    """Job queue in the journal's own store."""

    def __init__(self, journal: Journal, clock: Clock, new_id: IdMaker) -> None:
        self._journal = journal
        self._clock = clock
        self._new_id = new_id

    def put(self, job: Job) -> DeferredJob | Refused:
        new = _waiting_body(job.name, job.arguments, job.key, job.due)
        if job.lock is None:
            outcome = self._journal.append(_draft(job.scope, "", new))
            return DeferredJob(outcome.record.id) if isinstance(outcome, Accepted) else _require_refused(outcome)
        key = Key(job.scope, JOB, job.lock)
        repeated = False

        def put_unless_waiting(reader: Reader) -> list[Draft]:
            nonlocal repeated
            record = reader.get(key)
            if record is None or record.body["state"] == "failed":
                repeated = False
                return [_draft(key.scope, key.id, new)]
            repeated = record.body["state"] == "waiting" or "again" in record.body
            return [] if repeated else [_next_version(record, {**record.body, "again": new})]

        outcome = self._journal.append_if(put_unless_waiting)
        return DeferredJob(key.id, repeated) if isinstance(outcome, Accepted) else _require_refused(outcome)

    def find(self, state: JobState | None = None) -> list[Job]:
        labels = {"failed": (FAILED_LABEL,), "waiting": (OPEN_LABEL,), "running": (OPEN_LABEL,), None: ()}[state]
        records = self._journal.read(Query(kinds=(JOB,), labels=labels))
        return [_parse_job(record) for record in records if state in (None, record.body["state"])]

    def status(self) -> JobCounts:
        counts: Counter[str] = Counter(job.state for job in self.find())
        return JobCounts(**counts)

    def retry(self, id: str) -> bool:
        def reset(record: Record) -> Draft:
            job = _parse_job(record)
            return _next_version(record, _waiting_body(job.name, job.arguments, job.key, None))

        return self._update_job(id, ("failed",), reset)

    def drop(self, id: str) -> bool:
        return self._update_job(id, ("waiting", "failed"), lambda record: _tombstone(record, "dropped"))

    def remove(self, job: Job) -> None:
        """Delete a job from the log, whatever its state, because another queue stores it now."""
        self._journal.delete(Key(job.scope, JOB, job.id), origin="job")

    def _update_job(self, id: str, states: Collection[str], change: Callable[[Record], Draft]) -> bool:
        """Change the job with this id if it is in one of the states, whichever scope it belongs to."""
        scopes = [row.scope for row in self._journal.tally() if row.kind == JOB]

        def update(reader: Reader) -> list[Draft] | Refused:
            records = (reader.get(Key(scope, JOB, id)) for scope in scopes)
            jobs = [record for record in records if record is not None]
            drafts = [change(record) for record in jobs if record.body["state"] in states]
            return drafts or Refused("not_found", f"There is no such job {id}.")

        return bool(self._journal.append_if(update))

    def run(self, options: WorkerOptions, limit: int | None) -> None:
        left = limit
        tried: set[tuple[Key, int]] = set()
        while not options.stop.is_set() and (records := self._due_jobs(options, tried)):
            for record in records:
                if options.stop.is_set() or left == 0:
                    return
                tried.add((record.key, record.version))
                if self._claim_and_run(record, options) and left is not None:
                    left -= 1

    def serve(self, options: WorkerOptions) -> None:
        seen: object = None
        next_due: datetime | None = None
        while not options.stop.is_set():
            try:  # while the counts of job records stay the same, a job can only become due by time
                tallies = [row for row in self._journal.tally() if row.kind == JOB]
                if tallies != seen or (next_due is not None and self._clock.now() >= next_due):
                    seen = tallies
                    next_due = min((_claimable_at(record) for record in self._open_jobs(options)), default=None)
                    self.run(options, None)
            except TRANSIENT_ERRORS as error:
                seen = None
                options.on_store_error(error)
            options.stop.wait(_POLL_SECONDS)

    def with_journal(self, journal: Journal) -> LogJobQueue:
        return LogJobQueue(journal, self._clock, self._new_id)

    def close(self) -> None:
        """Do nothing: the queue holds no connection."""

    def _open_jobs(self, options: WorkerOptions) -> Iterator[Record]:
        """Yield the jobs that are not done, and that this caller may write and has a function for: an agent's own alone."""
        reach, author = self._journal.reach, self._journal.author
        for record in self._journal.read(_OPEN_JOBS):
            is_usable = reach.writes(record.scope) and (reach.unlimited or record.author == author)
            if is_usable and record.body["name"] in options.tasks:
                yield record

    def _due_jobs(self, options: WorkerOptions, attempted: Collection[tuple[Key, int]]) -> list[Record]:
        """Return jobs that could be claimed now. They are read without a lock; the claim itself decides."""
        now = self._clock.now()
        due = (record for record in self._open_jobs(options) if _claimable_at(record) <= now)
        return list(islice((record for record in due if (record.key, record.version) not in attempted), _BATCH_SIZE))

    def _claim_and_run(self, record: Record, options: WorkerOptions) -> bool:
        """Claim a job and make one attempt at it; return False when another worker was first."""
        body, task = record.body, options.tasks[record.body["name"]]
        if body["state"] == "running" and body["attempts"] >= task.attempts:
            draft = _draft_after_failure(record, task, self._clock.now(), WORKER_DIED)._replace(expected=record.version)
            if self._journal.append(draft):
                options.on_attempt(_parse_job(record), _failure_result(draft), WORKER_DIED)
            return False
        run_id = self._new_id()
        claim = {
            "state": "running", "attempts": body["attempts"] + 1, "run": run_id, "until": self._lease_end(options),
        }  # fmt: skip
        claimed = self._journal.append(_next_version(record, {**body, **claim})._replace(expected=record.version))
        if not isinstance(claimed, Accepted):
            return False
        job, error = _parse_job(claimed.record), ""
        with self._renew_lease_while_running(record.key, run_id, options):
            try:
                options.run_job(job)
            except Exception as failure:  # noqa: BLE001 - an attempt may fail in any way
                _logger.info("the job %s %s failed: %s", job.name, job.id, type(failure).__name__)
                error = describe_error(failure)  # stored with the job; its message may quote a memory
        options.on_attempt(job, self._record_result(record.key, run_id, task, error), error)
        return True

    def _lease_end(self, options: WorkerOptions) -> str:
        return to_iso(self._clock.now() + timedelta(seconds=options.lease))

    def _record_result(self, key: Key, run_id: str, task: Task, error: str) -> AttemptResult:
        """Record the result of an attempt, unless another worker has taken the job over."""
        result: AttemptResult = "lost"

        def finish(record: Record) -> Draft:
            nonlocal result
            if error:
                draft = _draft_after_failure(record, task, self._clock.now(), error)
                result = _failure_result(draft)
                return draft
            again, result = record.body.get("again"), "done"
            return _tombstone(record, "done") if again is None else _next_version(record, again)

        return result if self._update_if_holder(key, run_id, finish) else "lost"

    def _update_if_holder(self, key: Key, run_id: str, change: Callable[[Record], Draft]) -> bool:
        def update(reader: Reader) -> list[Draft] | Refused:
            record = reader.get(key)
            if record is None or record.body.get("run") != run_id:
                return Refused("lost", f"Another worker has taken {key} over.")
            return [change(record)]

        return bool(self._journal.append_if(update))

    @contextmanager
    def _renew_lease_while_running(self, key: Key, run_id: str, options: WorkerOptions) -> Iterator[None]:
        ended = threading.Event()

        def extend_lease(record: Record) -> Draft:
            return _next_version(record, {**record.body, "until": self._lease_end(options)})

        def renew_until_ended() -> None:
            while not ended.wait(options.lease / 3):
                try:
                    if not self._update_if_holder(key, run_id, extend_lease):
                        return
                except StoreError as error:
                    _logger.warning("the lease of %s was not renewed: %s", key, error)

        thread = threading.Thread(target=renew_until_ended, name=f"lease of {key}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _waiting_body(name: str, arguments: Mapping[str, Any], key: str | None, due: datetime | None) -> JobBody:
    body: JobBody = {"name": name, "arguments": dict(arguments), "state": "waiting", "attempts": 0}
    if key is not None:
        body["key"] = key
    if due is not None:
        body["due"] = to_iso(due)
    return body


def _draft(scope: str, id: str, body: JobBody) -> Draft:
    label = FAILED_LABEL if body["state"] == "failed" else OPEN_LABEL
    return Draft(JOB, body=body, id=id, scope=scope, origin="job", labels=(label,))


def _next_version(record: Record, body: JobBody) -> Draft:
    return _draft(record.scope, record.id, body)._replace(author=record.author)


def _tombstone(record: Record, state: str) -> Draft:
    """Draft a tombstone. Its author is the worker, so that undoing the deferring agent's work does not revive the job."""
    return draft_from(record, body={"state": state}, labels=(), author="", deleted=True)


def _draft_after_failure(record: Record, task: Task, now: datetime, error: str) -> Draft:
    body = {name: value for name, value in record.body.items() if name not in ("again", "run", "until", "due")}
    is_exhausted = body["attempts"] >= task.attempts
    again = record.body.get("again")
    if again is not None:  # the call that was deferred meanwhile replaces the one that failed
        body |= again | {"attempts": 0 if is_exhausted else body["attempts"]}
    body |= {"error": error, "state": "failed" if is_exhausted and again is None else "waiting"}
    if not is_exhausted:
        body["due"] = to_iso(now + task.retry_delay(body["attempts"]))
    return _next_version(record, body)


def _failure_result(draft: Draft) -> AttemptResult:
    return "failed" if FAILED_LABEL in draft.labels else "retried"


def _claimable_at(record: Record) -> datetime:
    """Return when a job can be claimed: when it is due, or when the lease of its worker ends."""
    moment = record.body.get("until" if record.body["state"] == "running" else "due")
    return _EARLIEST if moment is None else from_iso(moment)


def _parse_job(record: Record) -> Job:
    body = record.body
    due = body.get("due") if body["state"] == "waiting" else None
    return Job(
        record.id, body["name"], body["arguments"], record.scope, record.author, body.get("key"), body["state"],
        body["attempts"], None if due is None else from_iso(due), body.get("error", ""),
    )  # fmt: skip


def _require_refused(outcome: object) -> Refused:
    assert isinstance(outcome, Refused), outcome  # no version was expected, so there is nothing to conflict with
    return outcome
