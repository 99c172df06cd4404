"""The document's ``AgentMemory``: everything kept of one agent, under the document's own names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lukasa.clock import Clock, from_iso, to_iso
from lukasa.journal import Journal
from lukasa.outcome import Outcome
from lukasa.trust.records import AGENT, DISSENT, OVERRIDE, TRUST_CHANGE, agent_events_query, trust_key
from lukasa.trust.score import TrustSums

if TYPE_CHECKING:
    from lukasa.record import Record
    from lukasa.trust.trust import Trust

MAX_RAW_EVENTS = 100
"""So many of the latest events are shown as they are; older ones are in the statistics, and stay in the log."""


class AgentMemory:
    """One agent. Every attribute is read when it is asked for, so it is always the state of now."""

    def __init__(self, agent_name: str, trust: Trust, journal: Journal, clock: Clock) -> None:
        self._trust = trust
        self._journal = journal
        self._clock = clock
        self.agent_name = agent_name

    def __repr__(self) -> str:
        return f"AgentMemory({self.agent_name!r})"

    # What is known

    @property
    def model(self) -> str:
        return str(self._agent_body().get("model", ""))

    @property
    def primary_role(self) -> str:
        return str(self._agent_body().get("primary_role", ""))

    @property
    def trust_score(self) -> float:
        """The trust that was last written down."""
        return self._trust.standing(self.agent_name).trust

    @property
    def trust_score_history(self) -> list[dict[str, Any]]:
        return [dict(record.body["event"]) for record in self._latest_events(TRUST_CHANGE)]

    @property
    def dissent_history(self) -> list[dict[str, Any]]:
        return [dict(record.body["event"]) for record in self._latest_events(DISSENT)]

    @property
    def override_history(self) -> list[dict[str, Any]]:
        return [dict(record.body["event"]) for record in self._latest_events(OVERRIDE)]

    @property
    def long_term_stats(self) -> dict[str, Any]:
        """Rolling statistics over the window; what was imported, while nothing has been added to it."""
        standing = self._trust.standing(self.agent_name)
        imported = self._agent_body().get("imported")
        if imported is not None and imported["total"] == list(standing.total):
            return dict(imported["long_term_stats"])
        seen = standing.advance_to(self._clock.now().date())
        return long_term_statistics(seen.window, seen.total)

    @property
    def rounds_participated(self) -> int:
        return self._trust.standing(self.agent_name).rounds

    @property
    def probation_until(self) -> str | None:
        until = self._trust.standing(self.agent_name).probation_until
        imported = (self._agent_body().get("imported") or {}).get("probation_until")
        if until is None or (imported is not None and from_iso(imported) == until):
            return None if until is None else str(imported)
        return to_iso(until)

    def as_json(self) -> dict[str, Any]:
        """The agent's memory as the document lays out its file."""
        return {
            "agent_name": self.agent_name,
            "model": self.model,
            "primary_role": self.primary_role,
            "dissent_history": self.dissent_history,
            "override_history": self.override_history,
            "trust_score": self.trust_score,
            "trust_score_history": self.trust_score_history,
            "long_term_stats": self.long_term_stats,
            "rounds_participated": self.rounds_participated,
            "probation_until": self.probation_until,
            **(self._agent_body().get("imported") or {}).get("more", {}),
        }

    def _agent_body(self) -> dict[str, Any]:
        record = self._journal.get(trust_key(AGENT, self.agent_name))
        return {} if record is None else dict(record.body)

    def _latest_events(self, kind: str) -> list[Record]:
        """The latest, oldest first."""
        query = agent_events_query(self.agent_name, kind, newest_first=True, limit=MAX_RAW_EVENTS)
        found = list(self._journal.read(query))
        if kind == TRUST_CHANGE:
            return found[::-1]
        return sorted(found, key=lambda record: (record.created_at, record.id))  # a judged one is a new version

    # What happens

    def log_dissent(self, text: str, rubric_citations: Sequence[str] = (), **told: Any) -> Outcome:
        """Keeps a dissent of this agent; see ``Trust.log_dissent``."""
        return self._trust.log_dissent(self.agent_name, text, rubric_citations=rubric_citations, **told)

    def log_override(self, round_id: str, agent_output: str, human_decision: str, **told: Any) -> Outcome:
        """Keeps an override of this agent's output; see ``Trust.log_override``."""
        return self._trust.log_override(self.agent_name, agent_output, human_decision, round_id=round_id, **told)

    def check_reverts(self, round_id: str, final_output: str, *, by: str = "system") -> Outcome:
        """Marks this agent's overrides of a round that did not stand; see ``Trust.check_reverts``."""
        return self._trust.check_reverts(round_id, final_output, agent=self.agent_name, by=by)

    def participate(self, round_id: str) -> Outcome:
        """Counts a round."""
        return self._trust.participate(self.agent_name, round_id)


def long_term_statistics(window: TrustSums, total: TrustSums) -> dict[str, Any]:
    """The document's long-term statistics."""
    return {
        "avg_dissent_depth_last_90d": window.mean_depth,
        "dissent_impact_ratio_last_90d": window.impact_ratio,
        "total_overrides": total.overrides,
        "regret_rate_last_90d": window.regret_ratio,
    }
