"""Episodes: the trace of one task, recorded live or afterwards, and found again.

An episode says what was wanted, what was done, what went wrong and how it ended. The body of its record is the document's
own JSON without the id; unknown fields are kept. Its text, which recall searches, holds goal, outcome and errors. Labels
index it by day, agent, task, outcome and detail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby, islice
from types import TracebackType
from typing import Any, Self

from lukasa.core.argument_types import check_arguments
from lukasa.core.body_fields import list_field, number_field, object_field, text_field
from lukasa.core.canonical_json import find_json_fault
from lukasa.core.choices import EpisodeOutcome
from lukasa.core.clock import Clock, Time, from_iso, to_iso, to_utc
from lukasa.core.extra_fields import refuse_known_fields
from lukasa.core.outcome import Accepted, Answer, Conflict, Outcome, Refused
from lukasa.core.record import DERIVED_FROM, Draft, Key, Link, Record
from lukasa.core.scope import SHARED
from lukasa.errors import InvalidInput
from lukasa.experience.readable_ids import free_ids
from lukasa.experience.record_view import RecordView, change_by_id, not_found, order_fields, read_by_id
from lukasa.journal import CallerService, Journal
from lukasa.storage.engine import Query, Reader

EPISODE = "episode"
STEP = "step"
RUNNING: EpisodeOutcome = "running"
FULL, SUMMARY, ARCHIVED = "full", "summary", "archived"
_MAX_DAYS = 100_000
RESTORED_LABEL = "keep=restored"
REFERRING_KINDS = frozenset({"pattern", "antipattern", "fact"})
"""Kinds whose links keep an old episode out of the archive."""
FIELDS = (
    "id", "task_id", "timestamp", "duration_seconds", "agent", "context", "action_log", "outcome", "errors_encountered",
    "artifacts_produced", "git_commit",
)  # fmt: skip
_LIST_FIELDS = ("action_log", "errors_encountered", "artifacts_produced")
_SUCCESS_WORDS = frozenset(
    {"success", "succeeded", "successful", "ok", "pass", "passed", "done", "completed", "resolved"}
)
_FAILURE_WORDS = frozenset({"failure", "failed", "fail", "error", "abandoned", "timeout", "cancelled", "aborted"})
_OWN_LABEL_PREFIXES = ("day=", "agent=", "task=", "outcome=", "phase=", "detail=", "errors=")
_MAX_WORD_CHARS = 60
_MAX_INDEXED_DAYS = 62
_PAGE_SIZE = 500


def is_success(outcome: str) -> bool:
    return outcome.strip().lower() in _SUCCESS_WORDS


def is_failure(outcome: str) -> bool:
    return outcome.strip().lower() in _FAILURE_WORDS


@dataclass(frozen=True, slots=True)
class Episode(RecordView):
    """An episode, read from its record."""

    agent = text_field("agent")
    task_id = text_field("task_id")
    outcome = text_field("outcome")
    duration_seconds = number_field("duration_seconds")
    context = object_field("context")
    action_log = list_field("action_log")
    errors = list_field("errors_encountered")

    @property
    def goal(self) -> str:
        return str(self.context.get("goal", ""))

    @property
    def voice(self) -> str:
        """The source that counts as one: the author known to the store, else the agent that the store's owner named."""
        return self.record.author or self.agent

    @property
    def running(self) -> bool:
        return self.outcome == RUNNING

    @property
    def detail(self) -> str:
        """How much of the episode is kept: full, summary or archived."""
        return self.record.label("detail") or FULL

    @property
    def timestamp(self) -> datetime:
        return self.record.moment

    @property
    def day(self) -> str:
        return utc_day(self.record.moment)

    @property
    def actions(self) -> tuple[str, ...]:
        """The sequence of actions, one word each; a failed action ends with ``!``. A summary keeps the sequence."""
        sequence = self.record.body.get("action_sequence")
        return tuple(sequence) if sequence is not None else action_sequence(self.action_log)

    def as_json(self) -> dict[str, Any]:
        """Return the episode as its document writes it, known fields first."""
        return order_fields({"id": self.id, **self.record.body}, FIELDS)


def action_sequence(action_log: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the actions of a log in order; a failed action ends with ``!``."""
    return tuple(
        str(step["action"])[:_MAX_WORD_CHARS]
        + ("!" if step.get("error") or is_failure(str(step.get("result", ""))) else "")
        for step in action_log
        if step.get("action")
    )


def utc_day(moment: datetime) -> str:
    return moment.astimezone(UTC).date().isoformat()


def parse_episode(document: Mapping[str, Any], now: datetime) -> dict[str, Any] | Refused:
    """Return the record body of an episode document, or refuse a document that is not an episode.

    A missing timestamp becomes ``now``; seconds since 1970 are accepted. A null stays where the field may be empty.
    """
    if (fault := find_json_fault(dict(document))) is not None:
        return Refused("bad_json", f"The episode cannot be stored: {fault}")
    defaulted = ("context", "timestamp", "duration_seconds", "outcome", *_LIST_FIELDS)
    body = {
        name: value for name, value in document.items() if name != "id" and (value is not None or name not in defaulted)
    }
    context = body.get("context")
    if not isinstance(context, Mapping) or not isinstance(context.get("goal"), str) or not context["goal"].strip():
        return Refused("bad_episode", "An episode needs a goal: what was to be done, in a sentence.")
    for name in _LIST_FIELDS:
        entries = body.setdefault(name, [])
        if not isinstance(entries, list):
            return Refused("bad_episode", f"{name} must be a list, not {type(entries).__name__}.")
        if name != "artifacts_produced" and not all(isinstance(entry, Mapping) for entry in entries):
            return Refused("bad_episode", f"Every entry of {name} must be an object.")
    for name in ("task_id", "agent", "outcome", "git_commit"):
        if not isinstance(body.get(name, ""), str | None):
            return Refused("bad_episode", f"{name} must be text, not {type(body[name]).__name__}.")
    if not 0 < len(body.setdefault("outcome", "success").strip()) <= _MAX_WORD_CHARS:
        return Refused("bad_episode", "The outcome is a short word, such as success or failure.")
    duration = body.setdefault("duration_seconds", 0)
    if isinstance(duration, bool) or not isinstance(duration, int | float) or duration < 0:
        return Refused("bad_episode", "duration_seconds must be a number that is not negative.")
    timestamp = body.get("timestamp")
    try:
        if isinstance(timestamp, int | float) and not isinstance(timestamp, bool):
            moment = datetime.fromtimestamp(timestamp, UTC)
        else:
            moment = now if timestamp is None else from_iso(str(timestamp)[:60])
        body["timestamp"] = to_iso(moment)
    except (InvalidInput, OverflowError, ValueError, OSError) as error:
        return Refused("bad_episode", f"The timestamp is not a time: {error}")
    return body


def episode_draft(
    body: dict[str, Any], *, id: str, scope: str, detail: str = FULL, labels: Iterable[str] = (), **fields: Any
) -> Draft:
    """Build the draft of an episode. Its text, which recall searches, is goal, outcome and errors; archived, it has none."""
    moment = from_iso(body["timestamp"])
    phase = body["context"].get("phase")
    values = {
        "day": utc_day(moment), "outcome": body["outcome"], "detail": detail, "agent": body.get("agent"),
        "task": body.get("task_id"), "phase": phase if isinstance(phase, str) else "",
        "errors": "yes" if body["errors_encountered"] else "",
    }  # fmt: skip
    own = [f"{name}={value}" for name, value in values.items() if value]
    others = [label for label in labels if not label.startswith(_OWN_LABEL_PREFIXES)]
    context = body["context"]
    parts = [context["goal"].strip(), f"Outcome: {body['outcome']}."]
    for name in ("done", "open", "branch"):
        if isinstance(context.get(name), str) and context[name]:
            parts.append(f"{name.capitalize()}: {context[name]}")
    for error in body["errors_encountered"]:
        problem = ": ".join(str(error[name]) for name in ("type", "message") if error.get(name))
        fix = f" Resolution: {error['resolution']}." if error.get("resolution") else ""
        parts.append(f"{problem}.{fix}" if problem else fix.strip())
    text = "" if detail == ARCHIVED else "\n".join(part for part in parts if part)
    return Draft(EPISODE, text, body, id=id, scope=scope, labels=(*own, *others), happened_at=moment, **fields)


def summarise_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body without its steps, but with their number and their sequence in one word each."""
    steps = body.get("action_log") or []
    sequence = action_sequence(steps)
    runs = [(name, len(list(same))) for name, same in groupby(sequence)]
    actions = ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in runs)
    short = {name: value for name, value in body.items() if name != "action_log"}
    return short | {
        "action_log": [],
        "action_sequence": list(sequence),
        "summary": f"{len(steps)} steps in {body.get('duration_seconds', 0)} s: {actions or 'none noted'}",
    }


@dataclass(frozen=True, slots=True)
class EpisodePruneResult:
    """Ids of the episodes that pruning changed, or would change, by what happened to them."""

    summarised: tuple[str, ...]
    archived: tuple[str, ...]
    kept: tuple[str, ...]
    """Old enough for the archive, but referred to by knowledge."""


@check_arguments
class Episodes(CallerService):
    """The episode service of one caller."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    def record(
        self, goal: str, *, outcome: EpisodeOutcome = "success", task_id: str = "", agent: str = "",
        timestamp: Time | None = None, duration_seconds: float = 0,
        context: Mapping[str, Any] | None = None, action_log: Sequence[Mapping[str, Any]] = (),
        errors: Sequence[Mapping[str, Any]] = (), artifacts: Sequence[str] = (), git_commit: str = "",
        scope: str = SHARED, key: str | None = None, extra: Mapping[str, Any] | None = None,
    ) -> Outcome:  # fmt: skip
        """Record a finished episode under the next id of its day.

        Args:
            goal: What the task is to achieve.
            outcome: How it ended.
            task_id: The id of the task.
            agent: The name of the agent.
            timestamp: When it happened, if that is not now.
            duration_seconds: How long it took.
            context: Further fields of the context, as JSON.
            action_log: The steps, oldest first: ``{"action": …, "target": …, "result": …}``.
            errors: The errors met: ``{"type": …, "message": …, "resolution": …}``.
            artifacts: Files or other things that came out of it.
            git_commit: The commit that came out of it.
            scope: The scope to write to.
            key: A word of the caller's for this call; a repeated call returns the first outcome and writes nothing.
            extra: Further fields of your own, kept as they are given.

        Example:
            memory.episodes.record("Fix the login page", outcome="failure", errors=[{"type": "TimeoutError"}])
        """
        if (refused := refuse_known_fields(extra, (*FIELDS, "goal", "errors", "artifacts"))) is not None:
            return refused
        document: dict[str, Any] = dict(extra or {}) | {
            "timestamp": to_iso(to_utc(timestamp)) if isinstance(timestamp, datetime) else timestamp,
            "duration_seconds": duration_seconds, "agent": agent or self._journal.author,
            "context": {**(context or {}), "goal": goal}, "action_log": [dict(step) for step in action_log],
            "outcome": outcome, "errors_encountered": [dict(error) for error in errors],
            "artifacts_produced": list(artifacts),
        }  # fmt: skip
        document |= {name: value for name, value in (("task_id", task_id), ("git_commit", git_commit)) if value}
        return self.add([document], scope=scope, key=key)

    def add(
        self,
        episodes: Iterable[Mapping[str, Any]],
        *,
        scope: str = SHARED,
        origin: str = "manual",
        key: str | None = None,
    ) -> Outcome:
        """Add episode documents, all or none.

        A document with an id becomes the next version of that episode; one without an id gets the next id of its day. A
        document that equals the stored episode is not written again, and one without a timestamp keeps the stored one.

        Args:
            episodes: The documents, each with a ``context`` that has a ``goal``.
            scope: The scope to write to.
            origin: Where the record comes from, in one word.
            key: A word of the caller's for this call; a repeated call returns the first outcome and writes nothing.

        Example:
            memory.episodes.add([{"context": {"goal": "Fix the login page"}, "outcome": "success"}])
        """
        now = self._clock.now()
        bodies: list[tuple[str, dict[str, Any]]] = []
        without_time: set[str] = set()
        for index, document in enumerate(episodes):
            body = parse_episode(document, now)
            id = document.get("id", "")
            if not isinstance(id, str):
                body = Refused("bad_id", "The id must be text.")
            elif (
                not isinstance(body, Refused)
                and (refused := self._journal.check_author(body.get("agent", ""))) is not None
            ):
                body = refused
            if isinstance(body, Refused):
                return Refused(body.code, body.reason, {**body.details, "at": index})
            bodies.append((id, body))
            if document.get("timestamp") is None:
                without_time.add(id)

        def build_drafts(reader: Reader) -> Sequence[Draft]:
            ids_by_day: dict[str, Iterator[str]] = {}
            drafts: list[Draft] = []
            taken = {id for id, _ in bodies}
            for id, body in bodies:
                if id:
                    known = reader.get(Key(scope, EPISODE, id))
                    if known is not None and id in without_time:
                        body["timestamp"] = known.body["timestamp"]
                    if known is None or known.body != body:
                        drafts.append(episode_draft(body, id=id, scope=scope, origin=origin))
                    continue
                day = utc_day(from_iso(body["timestamp"]))
                if day not in ids_by_day:
                    ids_by_day[day] = free_ids(reader, EPISODE, f"ep-{day}-", scope, labels=(f"day={day}",))
                new_id = next(id for id in ids_by_day[day] if id not in taken)
                drafts.append(episode_draft(body, id=new_id, scope=scope, origin=origin, expected=0))
            return drafts

        return self._journal.append_if(build_drafts, key=key)

    def start(
        self, goal: str, *, task_id: str = "", agent: str = "", context: Mapping[str, Any] | None = None,
        scope: str = SHARED, key: str | None = None,
    ) -> RunningEpisode | Refused:  # fmt: skip
        """Start a running episode. Each step is durable; after a crash the episode can be resumed or finished.

        Args:
            goal: What the task is to achieve.
            task_id: The id of the task.
            agent: The name of the agent.
            context: Further fields of the context, as JSON.
            scope: The scope to write to.
            key: A word of the caller's for this call; a repeated call returns the first outcome and writes nothing.

        Example:
            with memory.episodes.start("Fix the login page").unwrap() as episode:
                episode.step("write_file", target="login.py")
        """
        outcome = self.record(
            goal, outcome=RUNNING, task_id=task_id, agent=agent, context=context, scope=scope, key=key
        )
        if not isinstance(outcome, Accepted):
            return outcome if isinstance(outcome, Refused) else Refused("conflict", outcome.reason)
        if not outcome.records:
            return Refused("conflict", "The key was used by a call that stored no episode; use another key.")
        return RunningEpisode(self, outcome.record.id, outcome.record.scope)

    def resume(self, id: str, *, scope: str | None = None) -> RunningEpisode | Refused:
        """Continue an unfinished episode; any agent may.

        Args:
            id: The id of the episode.
            scope: The scope; default: wherever the caller finds it.

        Example:
            episode = memory.episodes.start("Fix the login page").unwrap()
            memory.episodes.resume(episode.id).unwrap().step("write_file")
        """
        episode = self.get(id, scope=scope)
        if episode is None:
            return not_found(EPISODE, id)
        return RunningEpisode(self, id, episode.record.scope) if episode.running else _refuse_finished(id)

    def step(
        self, id: str, action: str, *, target: str = "", result: str = "", error: str = "", scope: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Outcome:  # fmt: skip
        """Append one step to a running episode.

        Args:
            id: The id of the episode.
            action: What was done, such as ``write_file``.
            target: What the step was done to.
            result: What came of the step.
            error: What went wrong, if something did.
            scope: The scope; default: wherever the caller finds it.
            extra: Further fields of your own, kept as they are given.

        Example:
            episode = memory.episodes.start("Fix the login page").unwrap()
            memory.episodes.step(episode.id, "write_file", target="login.py")
        """
        fields = {"action": action, "target": target, "result": result, "error": error}
        if (refused := refuse_known_fields(extra, fields)) is not None:
            return refused
        given = {name: value for name, value in fields.items() if value}
        return self._append_step(id, scope, given | dict(extra or {}))

    def error(
        self, id: str, type: str, message: str = "", *, resolution: str = "", scope: str | None = None
    ) -> Outcome:
        """Append an error and its resolution to a running episode.

        Args:
            id: The id of the episode.
            type: The sort of error, such as ``TimeoutError``.
            message: The message of the error.
            resolution: How the error was solved.
            scope: The scope; default: wherever the caller finds it.

        Example:
            episode = memory.episodes.start("Fix the login page").unwrap()
            memory.episodes.error(episode.id, "TimeoutError", "The page took 30 s", resolution="Add an index")
        """
        fields = {"type": type, "message": message, "resolution": resolution}
        return self._append_step(id, scope, {"encountered": {name: value for name, value in fields.items() if value}})

    def _append_step(self, id: str, scope: str | None, step: dict[str, Any]) -> Outcome:
        def build_step(_: Reader, episode: Episode) -> Sequence[Draft]:
            body = {"t": max(0, int((self._clock.now() - episode.timestamp).total_seconds())), **step}
            links = (Link(DERIVED_FROM, episode.record.key),)
            return [Draft(STEP, body=body, scope=episode.record.scope, labels=(f"episode={id}",), links=links)]

        return self._change_running(id, scope, build_step)

    def finish(
        self, id: str, outcome: EpisodeOutcome = "success", *, errors: Sequence[Mapping[str, Any]] = (),
        artifacts: Sequence[str] = (), git_commit: str = "", duration_seconds: float | None = None,
        scope: str | None = None,
    ) -> Outcome:  # fmt: skip
        """Finish a running episode: its steps become its action log. Refuse an episode that is already finished.

        Args:
            id: The id of the episode.
            outcome: How it ended.
            errors: The errors met: ``{"type": …, "message": …, "resolution": …}``.
            artifacts: Files or other things that came out of it.
            git_commit: The commit that came out of it.
            duration_seconds: How long it took.
            scope: The scope; default: wherever the caller finds it.

        Example:
            episode = memory.episodes.start("Fix the login page").unwrap()
            memory.episodes.finish(episode.id, "success", artifacts=["login.py"])
        """

        def build_end(reader: Reader, episode: Episode) -> Sequence[Draft] | Refused:
            record = episode.record
            steps = reader.read(Query(kinds=(STEP,), scopes=(record.scope,), labels=(f"episode={id}",)))
            encountered = [step.body["encountered"] for step in steps if "encountered" in step.body]
            elapsed = (self._clock.now() - episode.timestamp).total_seconds()
            document: dict[str, Any] = {
                **record.body,
                "duration_seconds": max(0, round(elapsed)) if duration_seconds is None else duration_seconds,
                "action_log": [dict(step.body) for step in steps if "encountered" not in step.body],
                "outcome": outcome,
                "errors_encountered": [*encountered, *(dict(error) for error in errors)],
                "artifacts_produced": list(artifacts),
            }
            body = parse_episode(document | ({"git_commit": git_commit} if git_commit else {}), self._clock.now())
            if isinstance(body, Refused):
                return body
            if outcome == RUNNING:
                return Refused("bad_episode", "An episode cannot end as running; say success, failure or abandoned.")
            draft = episode_draft(body, id=id, scope=record.scope, expected=record.version, author=record.author)
            return [self._journal.revise(draft)]

        return self._change_running(id, scope, build_end)

    def _change_running(
        self, id: str, scope: str | None, change: Callable[[Reader, Episode], Sequence[Draft] | Refused]
    ) -> Outcome:
        def change_if_running(reader: Reader, record: Record) -> Sequence[Draft] | Refused:
            episode = Episode(record)
            return change(reader, episode) if episode.running else _refuse_finished(id)

        return change_by_id(self._journal, EPISODE, id, change_if_running, scope=scope)

    def get(self, id: str, *, scope: str | None = None) -> Episode | None:
        """Return an episode, or None.

        Args:
            id: The id of the episode.
            scope: The scope; default: wherever the caller finds it.

        Example:
            kept = memory.episodes.record("Fix the login page").unwrap()
            memory.episodes.get(kept.id)
        """
        record = read_by_id(self._journal, EPISODE, id, scope)
        return None if record is None else Episode(record)

    def list(
        self, *, task_id: str | None = None, agent: str | None = None, outcome: str | None = None,
        day: str | None = None, since: Time | None = None, until: Time | None = None,
        unfinished: bool = False, archived: bool = False, limit: int | None = None,
    ) -> Sequence[Episode]:  # fmt: skip
        """List the episodes that match all filters, oldest first. With a limit, those that were written last.

        Args:
            task_id: Only episodes of this task.
            agent: Only episodes of this agent.
            outcome: Only episodes with this outcome, such as ``failure``.
            day: Only episodes of this day, such as ``2026-01-06``.
            since: Only what happened at this time or later.
            until: Only what happened at this time or earlier.
            unfinished: Only episodes that were not finished: still running, or left by an agent that died.
            archived: Return archived episodes too.
            limit: How many to return at most.

        Example:
            memory.episodes.record("Fix the login page", outcome="failure", agent="eng-001")
            memory.episodes.list(agent="eng-001", outcome="failure", limit=5)
        """
        filters = (("task", task_id), ("agent", agent), ("outcome", outcome), ("day", day))
        labels = tuple(f"{name}={value}" for name, value in filters if value is not None)
        labels += (f"outcome={RUNNING}",) if unfinished else ()
        first, last = (None if time is None else to_utc(time) for time in (since, until))
        query = Query(kinds=(EPISODE,), since=first, until=last, newest_first=True)
        label_sets = [labels]
        if not labels and first is not None and last is not None:
            days = (last.date() - first.date()).days + 1
            if days <= _MAX_INDEXED_DAYS:  # the index of each day reads its episodes and no others
                label_sets = [(f"day={first.date() + timedelta(days=offset)}",) for offset in range(days)]
        found = (Episode(record) for each in label_sets for record in self._journal.read(replace(query, labels=each)))
        chosen: Iterable[Episode] = (episode for episode in found if archived or episode.detail != ARCHIVED)
        if len(label_sets) > 1:  # read by day: not yet in the order of the log
            chosen = sorted(chosen, key=lambda episode: -episode.record.seq)
        newest = chosen if limit is None else islice(chosen, max(limit, 0))
        return sorted(newest, key=lambda episode: (episode.timestamp, episode.record.seq))

    def prune(
        self, *, summarise_after: float = 7, archive_after: float = 30, dry_run: bool = False
    ) -> EpisodePruneResult:
        """Summarise episodes older than a week; archive those older than a month that no knowledge refers to.

        Nothing is lost: an archived episode keeps its whole body and only leaves recall; the steps of a summarised one
        stay in its history. ``restore`` brings either back. An agent prunes the episodes that it recorded.

        Args:
            summarise_after: After how many days an episode is summarised.
            archive_after: After how many days an episode leaves recall.
            dry_run: Change nothing; return what would be done.

        Example:
            memory.episodes.prune(dry_run=True)
        """
        now = self._clock.now()
        if not all(0 <= days <= _MAX_DAYS for days in (summarise_after, archive_after)):
            raise InvalidInput(f"Episodes are pruned when they are 0 to {_MAX_DAYS:,} days old.")
        summarise_before, archive_before = now - timedelta(days=summarise_after), now - timedelta(days=archive_after)
        summarised, archived, kept = list[str](), list[str](), list[str]()
        drafts: list[Draft] = []
        for detail in (FULL, SUMMARY):
            old = Query(kinds=(EPISODE,), labels=(f"detail={detail}",), until=summarise_before)
            for record in self._journal.read(old):
                episode = Episode(record)
                if not (self._journal.reach.unlimited or record.author == self._journal.author):
                    continue
                if episode.running or RESTORED_LABEL in record.labels or episode.timestamp >= summarise_before:
                    continue
                if episode.timestamp < archive_before:
                    neighbours = self._journal.neighbours(record.key, DERIVED_FROM)
                    if not any(other.direction == "in" and other.key.kind in REFERRING_KINDS for other in neighbours):
                        archived.append(record.id)
                        drafts.append(_draft_with_detail(record, dict(record.body), ARCHIVED))
                        continue
                    kept.append(record.id)
                if detail == FULL:
                    summarised.append(record.id)
                    drafts.append(_draft_with_detail(record, summarise_body(record.body), SUMMARY))
        if not dry_run:
            for start in range(0, len(drafts), _PAGE_SIZE):
                page = drafts[start : start + _PAGE_SIZE]
                if isinstance(self._journal.append(page), Conflict):  # another writer changed one; append the others
                    for draft in page:
                        self._journal.append(draft)
        return EpisodePruneResult(tuple(summarised), tuple(archived), tuple(kept))

    def restore(self, id: str, *, scope: str | None = None) -> Outcome:
        """Restore a summarised or archived episode in full; pruning skips it from then on.

        Args:
            id: The id of the episode.
            scope: The scope; default: wherever the caller finds it.

        Example:
            kept = memory.episodes.record("Fix the login page", timestamp="2020-01-06T12:00:00Z").unwrap()
            memory.episodes.prune()
            memory.episodes.restore(kept.id)
        """

        def build_restored(reader: Reader, record: Record) -> Sequence[Draft] | Refused:
            versions = reversed(reader.history(record.key))
            full = next((old for old in versions if not old.deleted and "summary" not in old.body), None)
            if full is None:
                return Refused("compacted", f"The steps of {id!r:.80} were dropped when the store was compacted.")
            restored = _draft_with_detail(record, dict(full.body), FULL)
            labels = (label for label in restored.labels if label != RESTORED_LABEL)
            return [self._journal.revise(restored._replace(labels=(*labels, RESTORED_LABEL)))]

        return change_by_id(self._journal, EPISODE, id, build_restored, scope=scope)


def _draft_with_detail(record: Record, body: dict[str, Any], detail: str) -> Draft:
    return episode_draft(
        body, id=record.id, scope=record.scope, origin="pruning", detail=detail, expected=record.version,
        links=record.links, labels=record.labels, author=record.author,
    )  # fmt: skip


def _refuse_finished(id: str) -> Refused:
    return Refused("finished", f"The episode {id!r:.80} is finished; start a new one.")


@check_arguments
@dataclass(slots=True)
class RunningEpisode(Answer):
    """A running episode. A ``with`` block finishes it: as a success, or as a failure with the error that was raised."""

    _episodes: Episodes
    id: str
    scope: str

    def step(
        self,
        action: str,
        *,
        target: str = "",
        result: str = "",
        error: str = "",
        extra: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """Append one step. It is durable when the call returns.

        Args:
            action: What was done, such as ``write_file``.
            target: What the step was done to.
            result: What came of the step.
            error: What went wrong, if something did.
            extra: Further fields of your own, kept as they are given.

        Example:
            with memory.episodes.start("Fix the login page").unwrap() as episode:
                episode.step("write_file", target="login.py")
        """
        return self._episodes.step(
            self.id, action, target=target, result=result, error=error, scope=self.scope, extra=extra
        )

    def error(self, type: str, message: str = "", *, resolution: str = "") -> Outcome:
        """Append an error and its resolution.

        Args:
            type: The sort of error, such as ``TimeoutError``.
            message: The message of the error.
            resolution: How the error was solved.

        Example:
            with memory.episodes.start("Fix the login page").unwrap() as episode:
                episode.error("TimeoutError", "The page took 30 s", resolution="Add an index")
        """
        return self._episodes.error(self.id, type, message, resolution=resolution, scope=self.scope)

    def finish(self, outcome: EpisodeOutcome = "success", **fields: Any) -> Outcome:
        """Finish the episode: its steps become its action log.

        Args:
            outcome: How it ended.
            **fields: Further arguments of ``episodes.finish``.

        Example:
            episode = memory.episodes.start("Fix the login page").unwrap()
            episode.finish("abandoned")
        """
        return self._episodes.finish(self.id, outcome, scope=self.scope, **fields)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, raised: BaseException | None, _: TracebackType | None) -> None:
        if kind is None:
            self.finish()
        else:
            self.finish("failure", errors=[{"type": kind.__name__, "message": str(raised)[:1000]}])
