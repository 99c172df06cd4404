"""Taking in agents that come with a past: the document's JSON becomes events, sums and history.

Events come in as they are told: their depth is the one that was given, and they count by their own time. What is told of
older events (``long_term_stats``) is given back until something new happens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any

from lukasa.clock import from_iso
from lukasa.errors import FormatError, InvalidInput
from lukasa.outcome import Outcome, Refused
from lukasa.record import Draft
from lukasa.scope import SYSTEM
from lukasa.storage.engine import Reader
from lukasa.trust.aggregate import TrustAggregate
from lukasa.trust.base import TrustBase, event_labels
from lukasa.trust.records import (
    AGENT,
    DISSENT,
    ORIGIN,
    OVERRIDE,
    TrustChanges,
    agent_draft,
    trust_change_draft,
    trust_key,
)
from lukasa.trust.score import INITIAL_TRUST, MAX_DEPTH, TrustSums

_MAX_EVENTS = 10_000
_AGENT_FIELDS = frozenset(
    {
        "agent_name", "model", "primary_role", "dissent_history", "override_history", "trust_score",
        "trust_score_history", "long_term_stats", "rounds_participated", "probation_until",
    }
)  # fmt: skip


class TrustImporter(TrustBase):
    """Takes agents in."""

    def adopt(self, told: Mapping[str, Any]) -> Outcome:
        """Takes in an agent with the past that the document's JSON tells; refused when the agent is known already."""
        self._require_owner()
        told = validate_agent_memory(dict(told), "The agent's memory")
        agent: str = told["agent_name"]
        texts = [event["dissent_text"] for event in told["dissent_history"]]
        vectors = self._dissent_vectors.encode_texts(texts)
        unknown = {name: value for name, value in told.items() if name not in _AGENT_FIELDS}

        def build_drafts(reader: Reader) -> Sequence[Draft] | Refused:
            if reader.get(trust_key(AGENT, agent)) is not None:
                return Refused("known_agent", f"The agent {agent!r} is known already; its file was not taken.")
            books = TrustChanges(reader, self._clock.now())
            standing = TrustAggregate(agent, books.now.date())
            for event, vector in zip(told["dissent_history"], vectors, strict=True):
                draft, sums = _import_dissent(agent, event, vector, self._new_id(), books.now)
                books.add_draft(draft)
                standing = standing.with_sums(sums, _event_day(draft))
            for event in told["override_history"]:
                draft, sums = _import_override(agent, event, self._new_id(), books.now)
                books.add_draft(draft)
                standing = standing.with_sums(sums, _event_day(draft))
            for change in told["trust_score_history"]:
                books.add_draft(trust_change_draft(agent, change, happened_at=_parse_time(change.get("timestamp"))))
            until = told["probation_until"]
            standing = replace(
                standing,
                trust=float(told["trust_score"]),
                rounds=told["rounds_participated"],
                rounds_before=told["rounds_participated"],
                probation_until=None if until is None else from_iso(until),
            )
            imported = {
                "total": list(standing.total),
                "long_term_stats": told["long_term_stats"],
                "probation_until": until,
                "more": unknown,
            }
            names = {name: told[name] for name in ("model", "primary_role")}
            books.add_imported(standing)
            return [agent_draft(agent, **names, imported=imported), *books.collect_drafts()]

        return self._journal.append_if(build_drafts)


def validate_agent_memory(document: Any, source: str) -> dict[str, Any]:
    """The agent's memory with what may be left out filled in; ``FormatError`` for what is not what the document says."""
    blank: dict[str, Any] = {
        "agent_name": "", "model": "", "primary_role": "", "dissent_history": [], "override_history": [],
        "trust_score": INITIAL_TRUST, "trust_score_history": [], "long_term_stats": {}, "rounds_participated": 0,
        "probation_until": None,
    }  # fmt: skip
    if not isinstance(document, dict):
        raise FormatError(f"{source} does not hold an agent's memory.")
    whole = blank | document
    number = (int, float)
    wanted: dict[str, Any] = {
        "agent_name": str, "model": str, "primary_role": str, "dissent_history": list, "override_history": list,
        "trust_score": number, "trust_score_history": list, "long_term_stats": dict, "rounds_participated": int,
    }  # fmt: skip
    for name, kind in wanted.items():
        if not isinstance(whole[name], kind) or isinstance(whole[name], bool):
            raise FormatError(f"{source}: {name!r} is not what the format says.")
    if not whole["agent_name"]:
        raise FormatError(f"{source}: 'agent_name' is missing.")
    if not 0 <= whole["trust_score"] <= 1 or not 0 <= whole["rounds_participated"] < 10**9:
        raise FormatError(f"{source}: 'trust_score' or 'rounds_participated' is out of bounds.")
    for name in ("dissent_history", "override_history", "trust_score_history"):
        if len(whole[name]) > _MAX_EVENTS or not all(isinstance(event, dict) for event in whole[name]):
            raise FormatError(f"{source}: {name!r} must be a list of at most {_MAX_EVENTS:,} events.")
    for event in whole["dissent_history"]:
        depth = event.get("depth_score", 0)
        if not isinstance(event.get("dissent_text"), str) or not isinstance(event.get("rubric_citations", []), list):
            raise FormatError(f"{source}: a dissent has no text, or citations that are not a list.")
        if not isinstance(depth, number) or not 0 <= depth <= MAX_DEPTH:
            raise FormatError(f"{source}: a depth_score is not a number between 0 and {MAX_DEPTH:g}.")
    for event in whole["override_history"]:
        if not isinstance(event.get("human_decision", ""), str) or not isinstance(event.get("agent_output", ""), str):
            raise FormatError(f"{source}: an override's output and decision must be texts.")
    until = whole["probation_until"]
    if until is not None and (not isinstance(until, str) or _parse_time(until) is None):
        raise FormatError(f"{source}: 'probation_until' is not a time.")
    return whole


def _import_dissent(
    agent: str, event: Mapping[str, Any], vector: Mapping[str, str], id: str, now: datetime
) -> tuple[Draft, TrustSums]:
    impact, depth = event.get("impact"), float(event.get("depth_score", 0.0))
    counted = None if impact is None else {"impact": bool(impact), "depth": round(depth, 6)}
    body = {
        "agent": agent, "event": dict(event), "of": "", "novelty": 0.0, "vector": dict(vector), "judged_by": "import",
        "counted": counted, "why": "" if counted else "unjudged",
    }  # fmt: skip
    draft = _event_draft(DISSENT, agent, event, body, id, now)
    return draft, TrustSums() if counted is None else TrustSums.from_dissent(
        impact=bool(impact), depth=counted["depth"]
    )


def _import_override(agent: str, event: Mapping[str, Any], id: str, now: datetime) -> tuple[Draft, TrustSums]:
    useful, regret = event.get("agent_output") != event.get("human_decision"), bool(event.get("regret"))
    full = {"regret": False, "reverted_by": None} | dict(event)
    body: dict[str, Any] = {
        "agent": agent, "by": "human", "event": full, "useful": useful, "criteria": [], "artifact": None,
        "reverted_at": None,
    }  # fmt: skip
    return _event_draft(OVERRIDE, agent, event, body, id, now), TrustSums(
        overrides=1, regrets=int(regret), useful=int(useful and not regret)
    )


def _event_draft(
    kind: str, agent: str, event: Mapping[str, Any], body: Mapping[str, Any], id: str, now: datetime
) -> Draft:
    round_id = event.get("round_id")
    labels = event_labels(kind, agent, round_id if isinstance(round_id, str) else "")
    return Draft(
        kind, body=dict(body), id=id, scope=SYSTEM, origin=ORIGIN, labels=labels,
        happened_at=_parse_time(event.get("timestamp")) or now,
    )  # fmt: skip


def _event_day(draft: Draft) -> date:
    assert draft.happened_at is not None
    return draft.happened_at.date()


def _parse_time(text: Any) -> datetime | None:
    """When something happened, as far as the file says."""
    try:
        return from_iso(text) if isinstance(text, str) else None
    except InvalidInput:
        return None
