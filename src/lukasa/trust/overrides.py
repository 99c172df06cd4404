"""Overrides: people's decisions against agents' outputs, and whether they were reverted.

The functions are plans for ``TrustRecords.change``: they read through the changes and add what is to be written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from lukasa.core.clock import from_iso, to_iso
from lukasa.core.outcome import Refused
from lukasa.core.record import Key, Link, Record, draft_from
from lukasa.core.scope import SYSTEM
from lukasa.errors import InvalidInput
from lukasa.storage.engine import Query, Reader
from lukasa.trust.records import (
    CONTROVERSY,
    OVERRIDE,
    PERSON,
    TrustChanges,
    counted_sums,
    event_labels,
    hash_id,
    trust_draft,
    trust_key,
)
from lukasa.trust.score import TrustSums

AUTO_CHECK_DELAY = timedelta(hours=24)
"""The time after which an override is checked for a revert."""
_MAX_AGENTS = 64


@dataclass(frozen=True, slots=True)
class Controversy:
    """A round or an artifact, and how often it was overridden and reverted."""

    what: str
    name: str
    overrides: int
    reverts: int
    agents: list[str]


def add_override(
    changes: TrustChanges, id: str, agent: str, by: str, event: dict[str, Any], *, artifact: Key | None,
    criteria: Sequence[str], happened_at: datetime,
) -> Refused | None:  # fmt: skip
    """Add an override of an agent's output; ``event`` is the entry of the document's ``override_history``."""
    watched = None if artifact is None else changes.reader.get(artifact)
    if artifact is not None and watched is None:
        return Refused("not_found", f"There is no record {artifact} to watch.")
    body = {
        "agent": agent, "by": by, "event": event, "useful": event["agent_output"] != event["human_decision"],
        "criteria": list(dict.fromkeys(criteria)), "reverted_at": None,
        "artifact": None if watched is None else [watched.scope, watched.kind, watched.id, watched.version],
    }  # fmt: skip
    labels = (*event_labels(OVERRIDE, agent, event["round_id"]), *(f"criterion={name}" for name in body["criteria"]))
    links = () if watched is None else (Link("about", watched.key),)
    draft = trust_draft(OVERRIDE, body, id, labels=labels, links=links, happened_at=happened_at)
    aggregate = changes.get_aggregate(agent)
    changes.set_aggregate(aggregate.with_sums(counted_sums(OVERRIDE, body), happened_at.date()))
    for tally in _controversy_tallies(changes, event["round_id"], artifact):
        tally["overrides"] += 1
        tally["agents"] = sorted({*tally["agents"], agent})[:_MAX_AGENTS]
    _person_tally(changes, by)["overrides"] += 1
    changes.record_trust_change(agent, "override", draft.key)
    changes.add_first(draft)
    return None


def mark_round(changes: TrustChanges, round_id: str, final_output: str, *, agent: str, by: str) -> None:
    """Mark the overrides of a round whose decision differs from the final output, once their day has passed."""
    for record in changes.reader.read(Query(kinds=(OVERRIDE,), scopes=(SYSTEM,), labels=(f"round={round_id}",))):
        differs = record.body["event"].get("human_decision") != final_output
        if differs and _may_be_marked(record, agent) and _is_overdue(record, changes.now):
            _mark_regretted(changes, record, by)


def list_reverted(reader: Reader, overrides: Iterable[Record], now: datetime, *, agent: str) -> list[Key]:
    """List the overrides whose artifact was changed against the decision."""
    return [record.key for record in overrides if _may_be_marked(record, agent) and _find_reverter(reader, record, now)]


def mark_artifacts(changes: TrustChanges, overrides: Iterable[Key], *, agent: str) -> None:
    """Mark those of the overrides whose artifact was changed against the decision."""
    for key in overrides:
        record = changes.reader.get(key)
        if record is not None and _may_be_marked(record, agent):
            reverter = _find_reverter(changes.reader, record, changes.now)
            if reverter is not None:
                _mark_regretted(changes, record, reverter)


def _may_be_marked(record: Record, agent: str) -> bool:
    return not record.body["event"]["regret"] and agent in ("", record.body["agent"])


def revert_override(changes: TrustChanges, id: str, by: str) -> Refused | None:
    """Mark an override as regretted because a person reverted it."""
    record = changes.reader.get(trust_key(OVERRIDE, id))
    if record is None:
        return Refused("not_found", f"There is no override {id!r:.80}.")
    if record.body["event"]["regret"]:
        reverter = record.body["event"]["reverted_by"]
        return Refused("already_reverted", f"The override {id!r:.80} was reverted already, by {reverter!r}.")
    _mark_regretted(changes, record, by)
    return None


def _find_reverter(reader: Reader, record: Record, now: datetime) -> str | None:
    """Return the author who put the artifact back, ``system`` if it differs after the deadline, or None.

    Every version since the override is compared, so that a revert is found however late, and also if the artifact was
    changed once more. The decision is what the artifact held when the override was logged, unless that was the output.
    """
    artifact, event = _artifact_key(record), record.body["event"]
    versions = [] if artifact is None else reader.history(artifact)
    if not versions:
        return None
    watched: int = record.body["artifact"][3]
    decided, undone = {event.get("human_decision")}, {event.get("agent_output")}
    for version in versions:
        if version.version == watched and version.text not in undone:
            decided.add(version.text)
        elif version.version < watched:
            undone.add(version.text)
    undone -= decided
    is_decided = all(version.text in decided for version in versions if version.version == watched)
    for version in versions:
        if version.version > watched and not version.deleted:
            if is_decided and version.text in undone:
                return version.author or "owner"
            is_decided = is_decided or version.text in decided
    return "system" if versions[-1].text not in decided and _is_overdue(record, now) else None


def _mark_regretted(changes: TrustChanges, record: Record, reverter: str) -> None:
    agent = record.body["agent"]
    lost = TrustSums(regrets=1, useful=-int(record.body["useful"]))
    changes.set_aggregate(changes.get_aggregate(agent).with_sums(lost, record.moment.date()))
    for tally in _controversy_tallies(changes, record.label("round") or "", _artifact_key(record)):
        tally["reverts"] += 1
    person = _person_tally(changes, record.body["by"])
    person["reverted"] += 1
    person["reverted_by"] = {**person["reverted_by"], reverter: person["reverted_by"].get(reverter, 0) + 1}
    changes.record_trust_change(agent, "override_regretted", record.key)
    event = record.body["event"] | {"regret": True, "reverted_by": reverter}
    body = dict(record.body) | {"event": event, "reverted_at": to_iso(changes.now)}
    changes.add_first(draft_from(record, body=body, expected=record.version))


def _controversy_tallies(changes: TrustChanges, round_id: str, artifact: Key | None) -> list[dict[str, Any]]:
    """Return the running counts of the round and of the artifact that an override is about."""
    subjects = [("round", round_id)] if round_id else []
    subjects += [("artifact", str(artifact))] if artifact is not None else []
    return [
        changes.get_tally(CONTROVERSY, hash_id(what, name), what=what, name=name, overrides=0, reverts=0, agents=[])
        for what, name in subjects
    ]


def _person_tally(changes: TrustChanges, person: str) -> dict[str, Any]:
    return changes.get_tally(PERSON, person, person=person, overrides=0, reverted=0, reverted_by={})


def _artifact_key(record: Record) -> Key | None:
    artifact = record.body["artifact"]
    return None if artifact is None else Key(*artifact[:3])


def _is_overdue(record: Record, now: datetime) -> bool:
    try:
        return now > from_iso(record.body["event"]["auto_check_deadline"])
    except (InvalidInput, KeyError, TypeError):  # an imported event may lack it
        return now > record.moment + AUTO_CHECK_DELAY
