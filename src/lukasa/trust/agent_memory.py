"""The document's ``AgentMemory``: one agent's history under the document's names, read and imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lukasa.clock import IdMaker, from_iso, to_iso
from lukasa.errors import FormatError, InvalidInput
from lukasa.outcome import Outcome, Refused
from lukasa.trust.aggregate import TrustAggregate
from lukasa.trust.records import (
    AGENT,
    DISSENT,
    OVERRIDE,
    TRUST_CHANGE,
    TrustChanges,
    TrustRecords,
    agent_draft,
    counted_sums,
    event_labels,
    trust_change_draft,
    trust_draft,
    trust_key,
)
from lukasa.trust.score import INITIAL_TRUST, MAX_DEPTH

if TYPE_CHECKING:
    from lukasa.trust.trust import Trust

MAX_RAW_EVENTS = 100
"""The number of latest events that are shown whole; older ones are in the statistics, and stay in the log."""
_MAX_EVENTS = 10_000
_DEFAULTS: dict[str, Any] = {
    "agent_name": "", "model": "", "primary_role": "", "dissent_history": [], "override_history": [],
    "trust_score": INITIAL_TRUST, "trust_score_history": [], "long_term_stats": {}, "rounds_participated": 0,
    "probation_until": None,
}  # fmt: skip


class AgentMemory:
    """One agent. Every attribute is read from the store on access, so it is always current."""

    def __init__(self, agent_name: str, trust: Trust, records: TrustRecords) -> None:
        self._trust = trust
        self._records = records
        self.agent_name = agent_name

    def __repr__(self) -> str:
        return f"AgentMemory({self.agent_name!r})"

    @property
    def model(self) -> str:
        return str(self._agent_body().get("model", ""))

    @property
    def primary_role(self) -> str:
        return str(self._agent_body().get("primary_role", ""))

    @property
    def trust_score(self) -> float:
        """The trust that was last recorded."""
        return self._records.aggregate(self.agent_name).trust

    @property
    def trust_score_history(self) -> list[dict[str, Any]]:
        return self._latest_events(TRUST_CHANGE)

    @property
    def dissent_history(self) -> list[dict[str, Any]]:
        return self._latest_events(DISSENT)

    @property
    def override_history(self) -> list[dict[str, Any]]:
        return self._latest_events(OVERRIDE)

    @property
    def long_term_stats(self) -> dict[str, Any]:
        """Statistics over the window; those of the imported file as long as no event has been added."""
        aggregate = self._records.aggregate(self.agent_name)
        imported = self._agent_body().get("imported")
        if imported is not None and imported["total"] == list(aggregate.total):
            return dict(imported["long_term_stats"])
        current = aggregate.advance_to(self._records.clock.now().date())
        return {
            "avg_dissent_depth_last_90d": current.window.mean_depth,
            "dissent_impact_ratio_last_90d": current.window.impact_ratio,
            "total_overrides": current.total.overrides,
            "regret_rate_last_90d": current.window.regret_ratio,
        }

    @property
    def rounds_participated(self) -> int:
        return self._records.aggregate(self.agent_name).rounds

    @property
    def probation_until(self) -> str | None:
        until = self._records.aggregate(self.agent_name).probation_until
        if until is None:
            return None
        imported = (self._agent_body().get("imported") or {}).get("probation_until")
        return str(imported) if imported is not None and from_iso(imported) == until else to_iso(until)

    def as_json(self) -> dict[str, Any]:
        """Return the agent's memory as the document lays out its file."""
        return {
            **{name: getattr(self, name) for name in _DEFAULTS},
            **(self._agent_body().get("imported") or {}).get("more", {}),
        }

    def _agent_body(self) -> dict[str, Any]:
        record = self._records.journal.get(trust_key(AGENT, self.agent_name))
        return {} if record is None else dict(record.body)

    def _latest_events(self, kind: str) -> list[dict[str, Any]]:
        """Return the latest events as the document has them, oldest first."""
        found = self._records.events(self.agent_name, kind, newest_first=True, limit=MAX_RAW_EVENTS)[::-1]
        if kind != TRUST_CHANGE:  # judging or reverting an event writes a new version of it
            found.sort(key=lambda record: (record.created_at, record.id))
        return [dict(record.body["event"]) for record in found]

    def log_dissent(self, text: str, rubric_citations: Sequence[str] = (), **fields: Any) -> Outcome:
        """Log a dissent of this agent; see ``Trust.log_dissent``."""
        return self._trust.log_dissent(self.agent_name, text, rubric_citations=rubric_citations, **fields)

    def log_override(self, round_id: str, agent_output: str, human_decision: str, **fields: Any) -> Outcome:
        """Log an override of this agent's output; see ``Trust.log_override``."""
        return self._trust.log_override(self.agent_name, agent_output, human_decision, round_id=round_id, **fields)

    def check_reverts(self, round_id: str, final_output: str, *, by: str = "system") -> Outcome:
        """Mark this agent's overrides of a round that were reverted; see ``Trust.check_reverts``."""
        return self._trust.check_reverts(round_id, final_output, agent=self.agent_name, by=by)

    def participate(self, round_id: str) -> Outcome:
        """Count a round."""
        return self._trust.participate(self.agent_name, round_id)


def validate_agent_memory(document: Any, source: str) -> dict[str, Any]:
    """Check the JSON of an agent's memory and fill in what may be left out; ``FormatError`` where it is malformed."""
    if not isinstance(document, dict):
        raise FormatError(f"{source} does not hold an agent's memory.")
    memory: dict[str, Any] = deepcopy(_DEFAULTS) | document
    number = (int, float)
    for name, default in _DEFAULTS.items():
        expected = number if name == "trust_score" else type(default)
        if name != "probation_until" and (not isinstance(memory[name], expected) or isinstance(memory[name], bool)):
            raise FormatError(f"{source}: {name!r} is not what the format says.")
    if not memory["agent_name"]:
        raise FormatError(f"{source}: 'agent_name' is missing.")
    if not 0 <= memory["trust_score"] <= 1 or not 0 <= memory["rounds_participated"] < 10**9:
        raise FormatError(f"{source}: 'trust_score' or 'rounds_participated' is out of bounds.")
    for name in ("dissent_history", "override_history", "trust_score_history"):
        if len(memory[name]) > _MAX_EVENTS or not all(isinstance(event, dict) for event in memory[name]):
            raise FormatError(f"{source}: {name!r} must be a list of at most {_MAX_EVENTS:,} events.")
    for event in memory["dissent_history"]:
        depth = event.get("depth_score", 0)
        if not isinstance(event.get("dissent_text"), str) or not isinstance(event.get("rubric_citations", []), list):
            raise FormatError(f"{source}: a dissent has no text, or citations that are not a list.")
        if not isinstance(depth, number) or not 0 <= depth <= MAX_DEPTH:
            raise FormatError(f"{source}: a depth_score is not a number between 0 and {MAX_DEPTH:g}.")
    for event in memory["override_history"]:
        if not isinstance(event.get("human_decision", ""), str) or not isinstance(event.get("agent_output", ""), str):
            raise FormatError(f"{source}: an override's output and decision must be texts.")
    until = memory["probation_until"]
    if until is not None and (not isinstance(until, str) or _parse_time(until) is None):
        raise FormatError(f"{source}: 'probation_until' is not a time.")
    return memory


def import_agent(
    changes: TrustChanges, memory: Mapping[str, Any], vectors: Sequence[Mapping[str, str]], new_id: IdMaker
) -> Refused | None:
    """Add an agent with its past from a valid document; refuse it when the agent is known already.

    Events keep the depth that the document gives and count on their own day. ``vectors`` are those of the dissents.
    """
    agent, until = memory["agent_name"], memory["probation_until"]
    if changes.reader.get(trust_key(AGENT, agent)) is not None:
        return Refused("known_agent", f"The agent {agent!r} is known already; its file was not taken.")
    events: list[tuple[str, Mapping[str, Any], dict[str, Any]]] = []
    for event, vector in zip(memory["dissent_history"], vectors, strict=True):
        impact, depth = event.get("impact"), round(float(event.get("depth_score", 0.0)), 6)
        counted = None if impact is None else {"impact": bool(impact), "depth": depth}
        body: dict[str, Any] = {
            "agent": agent, "event": dict(event), "of": "", "novelty": 0.0, "vector": dict(vector),
            "judged_by": "import", "counted": counted, "why": "" if counted else "unjudged",
        }  # fmt: skip
        events.append((DISSENT, event, body))
    for event in memory["override_history"]:
        useful = event.get("agent_output") != event.get("human_decision")
        body = {
            "agent": agent, "by": "human", "event": {"regret": False, "reverted_by": None} | dict(event),
            "useful": useful, "criteria": [], "artifact": None, "reverted_at": None,
        }  # fmt: skip
        events.append((OVERRIDE, event, body))
    aggregate = TrustAggregate(agent, changes.now.date())
    for kind, event, body in events:
        round_id, when = event.get("round_id"), _parse_time(event.get("timestamp")) or changes.now
        labels = event_labels(kind, agent, round_id if isinstance(round_id, str) else "")
        changes.add_draft(trust_draft(kind, body, new_id(), labels=labels, happened_at=when))
        aggregate = aggregate.with_sums(counted_sums(kind, body), when.date())
    for change in memory["trust_score_history"]:
        changes.add_draft(trust_change_draft(agent, change, happened_at=_parse_time(change.get("timestamp"))))
    rounds, probation = memory["rounds_participated"], None if until is None else from_iso(until)
    trust = float(memory["trust_score"])
    aggregate = replace(aggregate, trust=trust, rounds=rounds, rounds_before=rounds, probation_until=probation)
    imported = {
        "total": list(aggregate.total),
        "long_term_stats": memory["long_term_stats"],
        "probation_until": until,
        "more": {name: value for name, value in memory.items() if name not in _DEFAULTS},
    }
    changes.add_imported(aggregate)
    changes.add_first(agent_draft(agent, model=memory["model"], primary_role=memory["primary_role"], imported=imported))
    return None


def _parse_time(text: Any) -> datetime | None:
    try:
        return from_iso(text) if isinstance(text, str) else None
    except InvalidInput:
        return None
