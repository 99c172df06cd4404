"""Jobs as records of the log: for a store in a file or in memory, without a second queue beside it.

A job is one record of kind ``job``; deferred, claimed, failed and done are versions of it, and a job that is done is a
tombstone. Whoever claims it compares versions, so one of any number of processes wins. The winner writes down a token
of its own and until when it holds the job, and gives signs of life by writing that down anew. Only the holder of the
token can note how the job ended.

A job with a key has an id made of its key. Deferred again while it runs, it remembers that in ``again`` and waits once
more when it is done: what came in after it had started may be news to it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from lukasa.clock import Clock, IdMaker, from_iso, to_iso
from lukasa.engine import Query, Reader
from lukasa.errors import InvalidInput, StoreBusy, StoreError, StoreFull, StoreUnavailable
from lukasa.jobs.job import DIED, STATES, Deferred, Ending, Job, Shift, State, Status, Work, sentence
from lukasa.journal import Journal
from lukasa.outcome import Accepted, Refused
from lukasa.record import Draft, Key, Record, redraft

JOB = "job"
OPEN, FAILED = "job=open", "job=failed"
_OPEN_JOBS = Query(kinds=(JOB,), labels=(OPEN,))
_AT_ONCE = 100
_NAP = 0.5
_ALWAYS = datetime.min.replace(tzinfo=UTC)
_PASSING = (StoreBusy, StoreFull, StoreUnavailable)

_logger = logging.getLogger(__name__)

Body = dict[str, Any]


class LogKeeper:
    """Keeps jobs in the journal's own store."""

    def __init__(self, journal: Journal, clock: Clock, new_id: IdMaker) -> None:
        self._journal = journal
        self._clock = clock
        self._new_id = new_id

    # Keeping

    def put(self, job: Job) -> Deferred | Refused:
        new = _waiting(job.name, job.arguments, job.key, job.due)
        if job.lock is None:
            outcome = self._journal.append(_draft(job.scope, "", new))
            return Deferred(outcome.record.id) if isinstance(outcome, Accepted) else _refusal(outcome)
        place = Key(job.scope, JOB, job.lock)
        repeated = False

        def unless_waiting(reader: Reader) -> list[Draft]:
            nonlocal repeated
            standing = reader.get(place)
            if standing is None or not _is_job(standing) or standing.body["state"] == "failed":
                repeated = False
                return [_draft(place.scope, place.id, new)]
            repeated = standing.body["state"] == "waiting" or "again" in standing.body
            return [] if repeated else [_next(standing, {**standing.body, "again": new})]

        outcome = self._journal.decide(unless_waiting)
        return Deferred(place.id, repeated) if isinstance(outcome, Accepted) else _refusal(outcome)

    def find(self, state: State | None = None) -> list[Job]:
        labels = {"failed": (FAILED,), "waiting": (OPEN,), "running": (OPEN,), None: ()}[state]
        found = self._journal.read(Query(kinds=(JOB,), labels=labels))
        return [_job(record) for record in found if _is_job(record) and state in (None, record.body["state"])]

    def status(self) -> Status:
        counts = {"waiting": 0, "running": 0, "failed": 0}
        for job in self.find():
            counts[job.state] += 1
        return Status(**counts)

    def retry(self, id: str) -> bool:
        def anew(record: Record) -> Draft | None:
            body = record.body
            if body["state"] != "failed":
                return None
            return _next(record, _waiting(body["name"], body["arguments"], body.get("key"), None))

        return self._change(id, anew)

    def drop(self, id: str) -> bool:
        return self._change(id, lambda record: None if record.body["state"] == "running" else _gone(record, "dropped"))

    def forget(self, job: Job) -> None:
        """Takes a job out of the log, whatever its state: another keeper has it now."""
        self._journal.delete(Key(job.scope, JOB, job.id), origin="job")

    def _change(self, id: str, change: Callable[[Record], Draft | None]) -> bool:
        """Changes the one job with this id, whichever scope it stands in."""
        scopes = [row.scope for row in self._journal.tally() if row.kind == JOB]

        def changed(reader: Reader) -> list[Draft] | Refused:
            records = (reader.get(Key(scope, JOB, id)) for scope in scopes)
            jobs = [record for record in records if record is not None and _is_job(record)]
            drafts = [draft for record in jobs if (draft := change(record)) is not None]
            return drafts or Refused("not_found", f"There is no such job {id}.")

        return bool(self._journal.decide(changed))

    # Working

    def run(self, shift: Shift, limit: int | None) -> None:
        left = limit
        tried: set[tuple[Key, int]] = set()
        while not shift.stop.is_set() and (records := self._due(shift, tried)):
            for record in records:
                if shift.stop.is_set() or left == 0:
                    return
                tried.add((record.key, record.version))
                if self._take(record, shift) and left is not None:
                    left -= 1

    def serve(self, shift: Shift) -> None:
        rest = _Rest(self._journal, self._clock)
        while not shift.stop.is_set():
            try:
                if not rest.undisturbed():
                    rest.begin(self._open(shift))
                    self.run(shift, None)
            except _PASSING as error:
                rest.end()
                shift.trouble(error)
            shift.stop.wait(_NAP)

    def seen_by(self, journal: Journal) -> LogKeeper:
        return LogKeeper(journal, self._clock, self._new_id)

    def close(self) -> None:
        """There is nothing of its own to let go of."""

    def _open(self, shift: Shift) -> Iterator[Record]:
        """Jobs that are not done, and that this caller knows how to do."""
        writes = self._journal.reach.writes
        for record in self._journal.read(_OPEN_JOBS):
            if _is_job(record) and record.body["name"] in shift.works and writes(record.scope):
                yield record

    def _due(self, shift: Shift, tried: Collection[tuple[Key, int]]) -> list[Record]:
        """Jobs that could be claimed now. Looked up without a lock; the claim itself decides."""
        now = self._clock.now()
        due = (record for record in self._open(shift) if _open_from(record) <= now)
        return list(islice((record for record in due if (record.key, record.version) not in tried), _AT_ONCE))

    def _take(self, record: Record, shift: Shift) -> bool:
        """Claims a job and makes one attempt at it; ``False`` when somebody else was first."""
        body, work = record.body, shift.works[record.body["name"]]
        if body["state"] == "running" and body["attempts"] >= work.attempts:
            draft = _after_failure(record, work, self._clock.now(), DIED)._replace(expected=record.version)
            if self._journal.append(draft):
                shift.tell(_job(record), _ending(draft), DIED)
            return False
        run = self._new_id()
        held = {"state": "running", "attempts": body["attempts"] + 1, "run": run, "until": self._until(shift)}
        claimed = self._journal.append(_next(record, {**body, **held})._replace(expected=record.version))
        if not isinstance(claimed, Accepted):
            return False
        job = _job(claimed.record)
        with self._signs_of_life(record.key, run, shift):
            error = _attempt(shift, job)
        ending = self._note(record.key, run, work, error)
        shift.tell(job, ending, error)
        return True

    def _until(self, shift: Shift) -> str:
        return to_iso(self._clock.now() + timedelta(seconds=shift.lease))

    def _note(self, place: Key, run: str, work: Work, error: str) -> Ending:
        """Writes down how an attempt ended, unless the job is in other hands by now."""
        ending: Ending = "lost"

        def end(record: Record) -> Draft:
            nonlocal ending
            draft = _after_failure(record, work, self._clock.now(), error) if error else _after_success(record)
            ending = _ending(draft) if error else "done"
            return draft

        return ending if self._as_holder(place, run, end) else "lost"

    def _as_holder(self, place: Key, run: str, change: Callable[[Record], Draft]) -> bool:
        def changed(reader: Reader) -> list[Draft] | Refused:
            record = reader.get(place)
            if record is None or record.body.get("run") != run:
                return Refused("lost", f"{place} is in other hands.")
            return [change(record)]

        return bool(self._journal.decide(changed))

    @contextmanager
    def _signs_of_life(self, place: Key, run: str, shift: Shift) -> Iterator[None]:
        """Holds on to a job for as long as it runs."""
        ended = threading.Event()

        def hold_on(record: Record) -> Draft:
            return _next(record, {**record.body, "until": self._until(shift)})

        def live() -> None:
            while not ended.wait(shift.lease / 3):
                try:
                    if not self._as_holder(place, run, hold_on):
                        return
                except StoreError as error:
                    _logger.warning("no sign of life for %s: %s", place, error)

        thread = threading.Thread(target=live, name=f"holding {place}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


class _Rest:
    """Knows whether anything can have come up since there was nothing to do, at the price of a look at the counts."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._seen: object = None
        self._until: datetime | None = None

    def begin(self, jobs: Iterator[Record]) -> None:
        """From here on, any change of any job is news, and so is the moment when one of these can be claimed."""
        self._seen = self._look()
        self._until = min((_open_from(record) for record in jobs), default=None)

    def end(self) -> None:
        self._seen = None

    def undisturbed(self) -> bool:
        return (
            self._seen is not None
            and (self._until is None or self._clock.now() < self._until)
            and self._look() == self._seen
        )

    def _look(self) -> object:
        return [row for row in self._journal.tally() if row.kind == JOB]


def _attempt(shift: Shift, job: Job) -> str:
    """Makes an attempt; returns why it failed, or nothing."""
    try:
        shift.perform(job)
    except Exception as error:
        _logger.info("the job %s %s failed", job.name, job.id, exc_info=True)
        return sentence(error)
    return ""


def _waiting(name: str, arguments: Mapping[str, Any], key: str | None, due: datetime | None) -> Body:
    body: Body = {"name": name, "arguments": dict(arguments), "state": "waiting", "attempts": 0}
    if key is not None:
        body["key"] = key
    if due is not None:
        body["due"] = to_iso(due)
    return body


def _draft(scope: str, id: str, body: Body) -> Draft:
    label = FAILED if body["state"] == "failed" else OPEN
    return Draft(JOB, body=body, id=id, scope=scope, origin="job", labels=(label,))


def _next(record: Record, body: Body) -> Draft:
    return _draft(record.scope, record.id, body)._replace(author=record.author)


def _gone(record: Record, state: str) -> Draft:
    """A tombstone. Whoever ended the job is its author, so that undoing the deferrer's work does not bring it back."""
    return redraft(record, body={"state": state}, labels=(), author="", deleted=True)


def _after_success(record: Record) -> Draft:
    again = record.body.get("again")
    return _gone(record, "done") if again is None else _next(record, again)


def _after_failure(record: Record, work: Work, now: datetime, error: str) -> Draft:
    body = {word: value for word, value in record.body.items() if word not in ("again", "run", "until", "due")}
    spent = body["attempts"] >= work.attempts
    again = record.body.get("again")
    if again is not None:  # somebody has asked for it anew: what they asked for replaces what failed
        body |= again | {"attempts": 0 if spent else body["attempts"]}
    body |= {"error": error, "state": "failed" if spent and again is None else "waiting"}
    if not spent:
        body["due"] = to_iso(now + work.pause(body["attempts"]))
    return _next(record, body)


def _ending(draft: Draft) -> Ending:
    return "failed" if FAILED in draft.labels else "retried"


def _open_from(record: Record) -> datetime:
    """From when on a job can be claimed: when it is due, or when its holder counts as dead."""
    moment = record.body.get("until" if record.body["state"] == "running" else "due")
    return _ALWAYS if moment is None else from_iso(moment)


def _is_job(record: Record) -> bool:
    """Whether a record of this kind is one of ours; anybody may write records, and none of them may stop a worker."""
    return _sound(record.body)


def _sound(body: Mapping[str, Any]) -> bool:
    try:
        return (
            isinstance(body["name"], str)
            and isinstance(body["arguments"], dict)
            and body["state"] in STATES
            and isinstance(body["attempts"], int)
            and all(isinstance(body.get(word, ""), str) for word in ("key", "error", "run"))
            and all(from_iso(body[word]) is not None for word in ("due", "until") if word in body)
            and ("again" not in body or _sound(body["again"]))
        )
    except (KeyError, TypeError, InvalidInput):
        return False


def _job(record: Record) -> Job:
    body = record.body
    due = body.get("due") if body["state"] == "waiting" else None
    return Job(
        record.id, body["name"], body["arguments"], record.scope, record.author, body.get("key"), body["state"],
        body["attempts"], None if due is None else from_iso(due), body.get("error", ""),
    )  # fmt: skip


def _refusal(outcome: object) -> Refused:
    assert isinstance(outcome, Refused), outcome  # no version was expected, so there is nothing to conflict with
    return outcome
