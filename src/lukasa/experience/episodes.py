"""Recording episodes, live or afterwards, and finding them again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from lukasa.clock import Clock, from_iso, to_iso, to_utc
from lukasa.experience.episode import (
    ARCHIVED,
    EPISODE,
    FULL,
    RUNNING,
    STEP,
    SUMMARY,
    Episode,
    episode_draft,
    parse_episode,
    summarise_body,
    utc_day,
)
from lukasa.journal import Journal
from lukasa.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.readable_ids import find_by_id, free_ids
from lukasa.record import DERIVED_FROM, Draft, Key, Link, Record
from lukasa.scope import SHARED
from lukasa.storage.engine import Query, Reader

_MAX_INDEXED_DAYS = 62
_PAGE_SIZE = 500
RESTORED_LABEL = "keep=restored"
REFERRING_KINDS = frozenset({"pattern", "antipattern", "fact"})
"""Kinds whose links keep an old episode from the archive."""


@dataclass(frozen=True, slots=True)
class EpisodePruneResult:
    """What pruning did, or would do: ids by what became of them."""

    summarised: tuple[str, ...]
    archived: tuple[str, ...]
    kept: tuple[str, ...]
    """Old enough for the archive, but knowledge refers to them."""


class Episodes:
    """What happened, task by task."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    # Recording

    def record(
        self,
        goal: str,
        *,
        outcome: str = "success",
        task_id: str = "",
        agent: str = "",
        timestamp: datetime | str | None = None,
        duration_seconds: float = 0,
        context: Mapping[str, Any] | None = None,
        action_log: Sequence[Mapping[str, Any]] = (),
        errors: Sequence[Mapping[str, Any]] = (),
        artifacts: Sequence[str] = (),
        git_commit: str = "",
        scope: str = SHARED,
        key: str | None = None,
        **more: Any,
    ) -> Outcome:
        """Keeps a finished episode under the next id of its day. ``more`` are fields of your own, kept as they are."""
        told: dict[str, Any] = more | {
            "timestamp": to_iso(to_utc(timestamp)) if isinstance(timestamp, datetime) else timestamp,
            "duration_seconds": duration_seconds,
            "agent": agent or self._journal.author,
            "context": {**(context or {}), "goal": goal},
            "action_log": [dict(step) for step in action_log],
            "outcome": outcome,
            "errors_encountered": [dict(error) for error in errors],
            "artifacts_produced": list(artifacts),
        }
        told |= {name: value for name, value in (("task_id", task_id), ("git_commit", git_commit)) if value}
        return self.add([told], scope=scope, key=key)

    def add(
        self, told: Iterable[Mapping[str, Any]], *, scope: str = SHARED, origin: str = "manual", key: str | None = None
    ) -> Outcome:
        """Keeps episodes spelled as their document does, all or none.

        One that has an id keeps it and replaces what stood there; one that has none gets the next of its day. What is
        there already, word for word, is not written again.
        """
        now = self._clock.now()
        bodies: list[tuple[str, dict[str, Any]]] = []
        for at, one in enumerate(told):
            body = parse_episode(one, now)
            id = one.get("id", "")
            if not isinstance(id, str):
                body = Refused("bad_id", "The id must be text.")
            if isinstance(body, Refused):
                return Refused(body.code, body.reason, {**body.details, "at": at})
            bodies.append((id, body))

        def build_drafts(reader: Reader) -> Sequence[Draft]:
            makers: dict[str, Iterator[str]] = {}
            made: list[Draft] = []
            taken = {id for id, _ in bodies}
            for id, body in bodies:
                if id:
                    known = reader.get(Key(scope, EPISODE, id))
                    if known is not None and known.body == body:
                        continue
                    made.append(episode_draft(body, id=id, scope=scope, origin=origin))
                    continue
                day = utc_day(from_iso(body["timestamp"]))
                if day not in makers:
                    makers[day] = free_ids(reader, EPISODE, f"ep-{day}-", scope, labels=(f"day={day}",))
                fresh = next(id for id in makers[day] if id not in taken)
                made.append(episode_draft(body, id=fresh, scope=scope, origin=origin, expected=0))
            return made

        return self._journal.append_if(build_drafts, key=key)

    # Live

    def start(
        self,
        goal: str,
        *,
        task_id: str = "",
        agent: str = "",
        context: Mapping[str, Any] | None = None,
        scope: str = SHARED,
        key: str | None = None,
    ) -> RunningEpisode | Refused:
        """Opens an episode that is going on. Steps are durable one by one; a crash leaves it to be resumed or closed."""
        outcome = self.record(
            goal, outcome=RUNNING, task_id=task_id, agent=agent, context=context, scope=scope, key=key
        )
        if not isinstance(outcome, Accepted):
            return outcome if isinstance(outcome, Refused) else Refused("conflict", outcome.reason)
        record = outcome.records[0]
        return RunningEpisode(self, record.id, record.scope)

    def resume(self, id: str, *, scope: str | None = None) -> RunningEpisode | Refused:
        """Takes up an episode that was not finished, whoever began it."""
        episode = self.get(id, scope=scope)
        if episode is None:
            return _not_found(id)
        return RunningEpisode(self, id, episode.record.scope) if episode.running else _already_finished(id)

    def step(
        self, id: str, action: str, *, target: str = "", result: str = "", error: str = "", scope: str | None = None,
        **more: Any,
    ) -> Outcome:  # fmt: skip
        """Notes one step of an episode that is going on."""
        told = {"action": action, "target": target, "result": result, "error": error}
        return self._append_step(id, scope, {name: value for name, value in told.items() if value} | more)

    def error(
        self, id: str, type: str, message: str = "", *, resolution: str = "", scope: str | None = None
    ) -> Outcome:
        """Notes an error that an episode met, and how it was resolved."""
        told = {"type": type, "message": message, "resolution": resolution}
        return self._append_step(id, scope, {"encountered": {name: value for name, value in told.items() if value}})

    def _append_step(self, id: str, scope: str | None, step: dict[str, Any]) -> Outcome:
        def build_drafts(reader: Reader) -> Sequence[Draft] | Refused:
            episode = self._find_running(reader, id, scope)
            if isinstance(episode, Refused):
                return episode
            seconds = max(0, int((self._clock.now() - episode.timestamp).total_seconds()))
            return [
                Draft(
                    STEP, body={"t": seconds, **step}, scope=episode.record.scope, labels=(f"episode={id}",),
                    links=(Link(DERIVED_FROM, episode.record.key),),
                )
            ]  # fmt: skip

        return self._journal.append_if(build_drafts)

    def finish(
        self,
        id: str,
        outcome: str = "success",
        *,
        errors: Sequence[Mapping[str, Any]] = (),
        artifacts: Sequence[str] = (),
        git_commit: str = "",
        duration_seconds: float | None = None,
        scope: str | None = None,
    ) -> Outcome:
        """Closes an episode: its steps become its action log. One that is closed stays as it is."""

        def build_drafts(reader: Reader) -> Sequence[Draft] | Refused:
            episode = self._find_running(reader, id, scope)
            if isinstance(episode, Refused):
                return episode
            record = episode.record
            steps = reader.read(Query(kinds=(STEP,), scopes=(record.scope,), labels=(f"episode={id}",)))
            met = [step.body["encountered"] for step in steps if "encountered" in step.body]
            passed = (self._clock.now() - episode.timestamp).total_seconds()
            told: dict[str, Any] = {
                **record.body,
                "duration_seconds": max(0, round(passed)) if duration_seconds is None else duration_seconds,
                "action_log": [dict(step.body) for step in steps if "encountered" not in step.body],
                "outcome": outcome,
                "errors_encountered": [*met, *(dict(error) for error in errors)],
                "artifacts_produced": list(artifacts),
            }
            body = parse_episode(told | ({"git_commit": git_commit} if git_commit else {}), self._clock.now())
            if isinstance(body, Refused):
                return body
            if outcome == RUNNING:
                return Refused("bad_episode", "An episode cannot end as running; say success, failure or abandoned.")
            return [episode_draft(body, id=id, scope=record.scope, expected=record.version)]

        return self._journal.append_if(build_drafts)

    def _find_running(self, reader: Reader, id: str, scope: str | None) -> Episode | Refused:
        record = find_by_id(reader, (EPISODE,), id, scope=scope, own_scope=self._journal.author)
        if record is None:
            return _not_found(id)
        episode = Episode(record)
        return episode if episode.running else _already_finished(id)

    # Finding

    def get(self, id: str, *, scope: str | None = None) -> Episode | None:
        with self._journal.snapshot() as reader:
            record = find_by_id(reader, (EPISODE,), id, scope=scope, own_scope=self._journal.author)
        return None if record is None else Episode(record)

    def since(self, moment: datetime, until: datetime | None = None, *, archived: bool = False) -> list[Episode]:
        """Episodes that happened at or after a moment, the earliest first."""
        moment, until = to_utc(moment), None if until is None else to_utc(until)
        days = (until.date() - moment.date()).days + 1 if until is not None else _MAX_INDEXED_DAYS + 1
        if days <= _MAX_INDEXED_DAYS:  # the index by day reads what is asked for and nothing else
            names = [(moment.date() + timedelta(days=at)).isoformat() for at in range(days)]
            queries = [Query(kinds=(EPISODE,), labels=(f"day={name}",), since=moment, until=until) for name in names]
        else:
            queries = [Query(kinds=(EPISODE,), since=moment, until=until)]
        return self._read_episodes(queries, archived)

    def on(self, day: str, *, archived: bool = False) -> list[Episode]:
        """The episodes of one day, such as ``2026-01-06``."""
        return self._read_episodes([Query(kinds=(EPISODE,), labels=(f"day={day}",))], archived)

    def by_agent(self, agent: str, *, archived: bool = False) -> list[Episode]:
        return self._read_episodes([Query(kinds=(EPISODE,), labels=(f"agent={agent}",))], archived)

    def by_outcome(self, outcome: str, *, archived: bool = False) -> list[Episode]:
        return self._read_episodes([Query(kinds=(EPISODE,), labels=(f"outcome={outcome}",))], archived)

    def by_task(self, task_id: str, *, archived: bool = False) -> list[Episode]:
        return self._read_episodes([Query(kinds=(EPISODE,), labels=(f"task={task_id}",))], archived)

    def unfinished(self) -> list[Episode]:
        """Episodes that were begun and not finished: they go on somewhere, or their agent died."""
        return self._read_episodes([Query(kinds=(EPISODE,), labels=(f"outcome={RUNNING}",))], archived=True)

    def newest(self, limit: int = 20, *, archived: bool = False) -> list[Episode]:
        """The episodes written last, newest first."""
        found: list[Episode] = []
        for record in self._journal.read(Query(kinds=(EPISODE,), newest_first=True)):
            if len(found) >= limit:
                break
            if archived or (episode := Episode(record)).detail != ARCHIVED:
                found.append(Episode(record) if archived else episode)
        return found

    def _read_episodes(self, queries: Sequence[Query], archived: bool) -> list[Episode]:
        found = [Episode(record) for query in queries for record in self._journal.read(query)]
        chosen = found if archived else [episode for episode in found if episode.detail != ARCHIVED]
        return sorted(chosen, key=lambda episode: (episode.timestamp, episode.record.seq))

    # Pruning

    def prune(
        self, *, summarise_after: float = 7, archive_after: float = 30, dry_run: bool = False
    ) -> EpisodePruneResult:
        """Summarises episodes older than a week; archives those older than a month that knowledge does not refer to.

        Nothing is lost: an archived episode keeps its whole body and only leaves recall; the steps of a summarised one
        stand in its history. ``restore`` brings either back.
        """
        now = self._clock.now()
        old, older = now - timedelta(days=summarise_after), now - timedelta(days=archive_after)
        summarised: list[str] = []
        archived: list[str] = []
        kept: list[str] = []
        drafts: list[Draft] = []
        for detail in (FULL, SUMMARY):
            for record in self._journal.read(Query(kinds=(EPISODE,), labels=(f"detail={detail}",), until=old)):
                episode = Episode(record)
                if episode.running or RESTORED_LABEL in record.labels or episode.timestamp >= old:
                    continue
                if episode.timestamp < older and not self._is_referenced(record):
                    archived.append(record.id)
                    drafts.append(_draft_with_detail(record, dict(record.body), ARCHIVED))
                    continue
                if episode.timestamp < older:
                    kept.append(record.id)
                if detail == FULL:
                    summarised.append(record.id)
                    drafts.append(_draft_with_detail(record, summarise_body(record.body), SUMMARY))
        if not dry_run:
            for at in range(0, len(drafts), _PAGE_SIZE):
                page = drafts[at : at + _PAGE_SIZE]
                if isinstance(self._journal.append(page), Conflict):  # somebody writes to one of them; the others go
                    for draft in page:
                        self._journal.append(draft)
        return EpisodePruneResult(tuple(summarised), tuple(archived), tuple(kept))

    def _is_referenced(self, record: Record) -> bool:
        found = self._journal.neighbours(record.key, DERIVED_FROM)
        return any(one.direction == "in" and one.key.kind in REFERRING_KINDS for one in found)

    def restore(self, id: str, *, scope: str | None = None) -> Outcome:
        """Brings a summarised or archived episode back in full; pruning leaves it alone from then on."""

        def build_drafts(reader: Reader) -> Sequence[Draft] | Refused:
            record = find_by_id(reader, (EPISODE,), id, scope=scope, own_scope=self._journal.author)
            if record is None:
                return _not_found(id)
            whole = next((old for old in reversed(reader.history(record.key)) if not _is_summarised(old)), None)
            if whole is None:
                return Refused("compacted", f"The steps of {id!r:.80} were dropped when the store was compacted.")
            restored = _draft_with_detail(record, dict(whole.body), FULL)
            return [
                restored._replace(
                    labels=(*(label for label in restored.labels if label != RESTORED_LABEL), RESTORED_LABEL)
                )
            ]

        return self._journal.append_if(build_drafts)


def _is_summarised(record: Record) -> bool:
    return record.deleted or "summary" in record.body


def _draft_with_detail(record: Record, body: dict[str, Any], detail: str) -> Draft:
    return episode_draft(
        body, id=record.id, scope=record.scope, origin="pruning", detail=detail, expected=record.version,
        links=record.links, labels=record.labels, author=record.author,
    )  # fmt: skip


def _not_found(id: str) -> Refused:
    return Refused("not_found", f"There is no episode {id!r:.80}.")


def _already_finished(id: str) -> Refused:
    return Refused("finished", f"The episode {id!r:.80} is finished; start a new one.")


@dataclass(slots=True)
class RunningEpisode:
    """An episode that is going on. In a ``with`` block it ends as a success, or as a failure with what was raised."""

    _episodes: Episodes
    id: str
    scope: str

    def step(self, action: str, **told: Any) -> Outcome:
        return self._episodes.step(self.id, action, scope=self.scope, **told)

    def error(self, type: str, message: str = "", *, resolution: str = "") -> Outcome:
        return self._episodes.error(self.id, type, message, resolution=resolution, scope=self.scope)

    def finish(self, outcome: str = "success", **told: Any) -> Outcome:
        return self._episodes.finish(self.id, outcome, scope=self.scope, **told)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, raised: BaseException | None, _: TracebackType | None) -> None:
        if kind is None:
            self.finish()
        else:
            self.finish("failure", errors=[{"type": kind.__name__, "message": str(raised)[:1000]}])
