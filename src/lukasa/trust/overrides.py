"""Overrides: what people decided against agents, and whether it stood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from lukasa.clock import from_iso, to_iso, to_utc
from lukasa.errors import InvalidInput
from lukasa.outcome import Outcome, Refused
from lukasa.record import Draft, Key, Link, Record, draft_from
from lukasa.scope import SYSTEM
from lukasa.storage.engine import Query, Reader
from lukasa.trust.base import TrustBase, event_labels
from lukasa.trust.records import (
    CONTESTED_LABEL,
    CONTROVERSY,
    ORIGIN,
    OVERRIDE,
    PERSON,
    TrustChanges,
    hash_id,
    trust_key,
)
from lukasa.trust.results import Controversy
from lukasa.trust.score import TrustSums

AUTO_CHECK_DELAY = timedelta(hours=24)
"""So long after an override it is checked whether it stood."""
_CHECKED_DAYS = 7
_MAX_AGENTS = 64


class TrustOverrides(TrustBase):
    """Takes overrides in and notices when they are taken back."""

    def log_override(
        self,
        agent: str,
        agent_output: str,
        human_decision: str,
        *,
        round_id: str = "",
        by: str = "human",
        context: Mapping[str, Any] | None = None,
        artifact: Key | None = None,
        criteria: Sequence[str] = (),
        timestamp: datetime | None = None,
        key: str | None = None,
    ) -> Outcome:
        """Keeps a person's decision against an agent's output. Within a day it is checked whether it stood.

        ``artifact`` is the record that holds the decision: whoever puts it back to what it was reverts the override.
        ``criteria`` are those of the rubric that the decision was about.
        """
        if (refused := self._check_owner_and_names(agent=agent, round=round_id, by=by)) is not None:
            return refused
        if by == agent or not by:
            return Refused("self_judged", "An override is another's decision: say whose with by=…")
        when = to_utc(timestamp) if timestamp is not None else self._clock.now()
        event = {
            "round_id": round_id,
            "timestamp": to_iso(when),
            "context": dict(context or {}),
            "agent_output": agent_output,
            "human_decision": human_decision,
            "regret": False,
            "auto_check_deadline": to_iso(when + AUTO_CHECK_DELAY),
            "reverted_by": None,
        }
        id = self._new_id()

        def build_drafts(reader: Reader) -> Sequence[Draft] | Refused:
            books = TrustChanges(reader, self._clock.now())
            held = None if artifact is None else reader.get(artifact)
            if artifact is not None and held is None:
                return Refused("not_found", f"There is no record {artifact} to watch.")
            useful = agent_output != human_decision
            body = {
                "agent": agent,
                "by": by,
                "event": event,
                "useful": useful,
                "criteria": list(dict.fromkeys(criteria)),
                "artifact": None if held is None else [held.scope, held.kind, held.id, held.version],
                "reverted_at": None,
            }
            labels = (
                *event_labels(OVERRIDE, agent, round_id),
                f"due={(when + AUTO_CHECK_DELAY).date().isoformat()}",
                *(f"criterion={name}" for name in dict.fromkeys(criteria)),
            )
            links = () if held is None else (Link("about", held.key),)
            draft = Draft(
                OVERRIDE, body=body, id=id, scope=SYSTEM, origin=ORIGIN, labels=labels, links=links, happened_at=when
            )
            books.set_aggregate(
                books.get_aggregate(agent).with_sums(TrustSums.from_override(useful=useful), when.date())
            )
            for tally in _controversy_tallies(books, round_id, artifact):
                tally["overrides"] += 1
                tally["agents"] = sorted({*tally["agents"], agent})[:_MAX_AGENTS]
            books.get_tally(PERSON, by, person=by, overrides=0, reverted=0, reverted_by={})["overrides"] += 1
            books.record_trust_change(agent, "override", draft.key)
            return [draft, *books.collect_drafts()]

        return self._journal.append_if(build_drafts, key=key)

    def check_reverts(
        self, round_id: str | None = None, final_output: str | None = None, *, agent: str = "", by: str = "system"
    ) -> Outcome:
        """Marks overrides that did not stand as regretted; accepted with those it marked.

        With a round and its final output: as the document has it, whatever differs from it once its day has passed.
        Without: the artifacts of last week's overrides are compared. One that was put back to what it was before is
        marked at once, and who did it; one that is otherwise different, once its day has passed.
        """
        self._require_owner()
        if (round_id is None) is not (final_output is None):
            raise InvalidInput("A round is checked against its final output: give both or neither.")

        def build_drafts(reader: Reader) -> Sequence[Draft] | Refused:
            books = TrustChanges(reader, self._clock.now())
            marked: list[Draft] = []
            for record in self._open_overrides(reader, round_id, agent):
                if final_output is None:
                    reverter = _find_reverter(reader, record, books.now)
                else:
                    decided = record.body["event"].get("human_decision")
                    reverter = by if decided != final_output and _is_overdue(record, books.now) else None
                if reverter is not None:
                    marked.append(_mark_regretted(books, record, reverter))
            return [*marked, *books.collect_drafts()] if marked else []

        return self._journal.append_if(build_drafts)

    def _open_overrides(self, reader: Reader, round_id: str | None, agent: str) -> list[Record]:
        if round_id is not None:
            labels = [f"round={round_id}"]
        else:
            today = self._clock.now().date()
            labels = [f"due={(today - timedelta(days=back)).isoformat()}" for back in range(-1, _CHECKED_DAYS)]
        found = [
            record for label in labels
            for record in reader.read(Query(kinds=(OVERRIDE,), scopes=(SYSTEM,), labels=(label,)))
        ]  # fmt: skip
        return [
            record for record in found
            if not record.body["event"]["regret"] and agent in ("", record.body["agent"])
        ]  # fmt: skip

    def revert(self, id: str, *, by: str) -> Outcome:
        """Marks an override as regretted at once, because a person took it back."""
        if (refused := self._check_owner_and_names(by=by)) is not None:
            return refused
        if not by.strip():
            return Refused("no_person", "Somebody took it back: say who with by=…")

        def build_drafts(reader: Reader) -> Sequence[Draft] | Refused:
            record = reader.get(trust_key(OVERRIDE, id))
            if record is None:
                return Refused("not_found", f"There is no override {id!r:.80}.")
            if record.body["event"]["regret"]:
                who = record.body["event"]["reverted_by"]
                return Refused("already_reverted", f"The override {id!r:.80} was reverted already, by {who!r}.")
            books = TrustChanges(reader, self._clock.now())
            draft = _mark_regretted(books, record, by)
            return [draft, *books.collect_drafts()]

        return self._journal.append_if(build_drafts)

    def controversy(self, *, limit: int = 100) -> list[Controversy]:
        """Rounds and artifacts with repeated overrides and reverts, the most disputed first."""
        self._require_owner()
        query = Query(kinds=(CONTROVERSY,), scopes=(SYSTEM,), labels=(CONTESTED_LABEL,))
        found = [Controversy(**record.body) for record in self._journal.read(query)]
        return sorted(found, key=lambda each: (-each.reverts, -each.overrides, each.name))[:limit]


def _controversy_tallies(changes: TrustChanges, round_id: str, artifact: Key | None) -> list[dict[str, Any]]:
    """The running counts of the round and of the artifact that an override is about."""
    places = [("round", round_id)] if round_id else []
    places += [("artifact", str(artifact))] if artifact is not None else []
    return [
        changes.get_tally(CONTROVERSY, hash_id(what, name), what=what, name=name, overrides=0, reverts=0, agents=[])
        for what, name in places
    ]


def _artifact_key(record: Record) -> Key | None:
    place = record.body["artifact"]
    return None if place is None else Key(*place[:3])


def _is_overdue(record: Record, now: datetime) -> bool:
    try:
        return now > from_iso(record.body["event"]["auto_check_deadline"])
    except (InvalidInput, KeyError, TypeError):  # a file need not have told it
        return now > record.moment + AUTO_CHECK_DELAY


def _find_reverter(reader: Reader, record: Record, now: datetime) -> str | None:
    """Who took an override back, seen by the versions of its artifact; nobody while it stands."""
    artifact, event = _artifact_key(record), record.body["event"]
    if artifact is None:
        return None
    versions = reader.history(artifact)
    if not versions or versions[-1].text == event["human_decision"]:
        return None
    newest = versions[-1]
    before = {version.text for version in versions if version.version < record.body["artifact"][3]}
    if not newest.deleted and newest.text in before | {event["agent_output"]}:
        return newest.author or "owner"
    return "system" if _is_overdue(record, now) else None


def _mark_regretted(changes: TrustChanges, record: Record, by: str) -> Draft:
    """The next version of an override that did not stand; the agent's books follow."""
    agent, event = record.body["agent"], record.body["event"] | {"regret": True, "reverted_by": by}
    body = dict(record.body) | {"event": event, "reverted_at": to_iso(changes.now)}
    lost = TrustSums(regrets=1, useful=-int(record.body["useful"]))
    changes.set_aggregate(changes.get_aggregate(agent).with_sums(lost, record.moment.date()))
    for tally in _controversy_tallies(changes, record.label("round") or "", _artifact_key(record)):
        tally["reverts"] += 1
    person = changes.get_tally(
        PERSON, record.body["by"], person=record.body["by"], overrides=0, reverted=0, reverted_by={}
    )
    person["reverted"] += 1
    person["reverted_by"] = {**person["reverted_by"], by: person["reverted_by"].get(by, 0) + 1}
    changes.record_trust_change(agent, "override_regretted", record.key)
    return draft_from(record, body=body, expected=record.version)
