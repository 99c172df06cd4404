"""The books of trust: which records there are, and how they are read and written inside one decision.

All of them stand in the store's own scope. Only whoever reaches everything (the owner: an orchestrator, a person) can
write there, so no agent can judge itself, nor can its copies.

    trust_agent      who an agent is: name, model, primary role
    dissent          one objection with its depth, its vector and what it counts as
    override         one decision of a person against an agent's output
    participation    one round an agent took part in
    trust_change     a change of trust with its reason and its inputs
    trust_standing   an agent's running state      (derived)
    trust_days       its sums day by day           (derived)
    trust_person     whose overrides stood         (derived)
    controversy      how often a round or an artifact was overridden and reverted   (derived)
    advocate         who was drawn as devil's advocate, from whom, by which seed
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any

from lukasa.clock import to_iso
from lukasa.record import DERIVED_FROM, Draft, Key, Link, Record
from lukasa.scope import SYSTEM
from lukasa.storage.engine import Query, Reader
from lukasa.trust.aggregate import TrustAggregate
from lukasa.trust.score import INITIAL_TRUST

AGENT, AGGREGATE, DAILY_SUMS = "trust_agent", "trust_standing", "trust_days"
DISSENT, OVERRIDE, PARTICIPATION, TRUST_CHANGE = "dissent", "override", "participation", "trust_change"
PERSON, CONTROVERSY, ADVOCATE = "trust_person", "controversy", "advocate"
RUBRIC, RUBRIC_PROPOSAL = "rubric", "rubric_proposal"
ORIGIN = "trust"
MIN_CONTESTED_EVENTS = 2
"""So many overrides and reverts make a round or an artifact controversial."""
CONTESTED_LABEL = "contested=yes"


def trust_key(kind: str, id: str) -> Key:
    return Key(SYSTEM, kind, id)


def hash_id(*parts: str) -> str:
    """An id for a combination of names, whatever they hold."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def agent_events_query(agent: str, kind: str, **options: Any) -> Query:
    """The events of one kind about one agent."""
    return Query(kinds=(kind,), scopes=(SYSTEM,), labels=(f"{kind}={agent}",), **options)


def read_aggregate(reader: Reader, agent: str, *, today: date | None = None) -> TrustAggregate | None:
    """Where an agent stands. Whoever only wants a score of ``today`` spares the days if they do not matter to it."""
    record = reader.get(trust_key(AGGREGATE, agent))
    if record is None:
        return None
    spared = today is not None and today.isoformat() <= record.body["day"]
    days = None if spared else reader.get(trust_key(DAILY_SUMS, agent))
    return TrustAggregate.from_bodies(record.body, None if days is None else days.body)


@dataclass(slots=True)
class TrustChanges:
    """Collects what one decision writes: events as they come, and at the end each running record once."""

    reader: Reader
    now: datetime
    _aggregates: dict[str, TrustAggregate] = field(default_factory=dict)
    _stored_aggregates: dict[str, TrustAggregate | None] = field(default_factory=dict)
    _tallies: dict[Key, dict[str, Any]] = field(default_factory=dict)
    _drafts: list[Draft] = field(default_factory=list)

    def get_aggregate(self, agent: str) -> TrustAggregate:
        """Where an agent stands today, with what this decision has added so far."""
        if agent not in self._aggregates:
            found = read_aggregate(self.reader, agent)
            self._stored_aggregates[agent] = found
            self._aggregates[agent] = (found or TrustAggregate(agent, self.now.date())).advance_to(self.now.date())
            if found is None:
                self._drafts += self._new_agent_drafts(agent)
        return self._aggregates[agent]

    def add_imported(self, aggregate: TrustAggregate) -> None:
        """Takes over the standing of somebody who comes with a past."""
        self._stored_aggregates[aggregate.agent] = None
        self.set_aggregate(aggregate)

    def set_aggregate(self, aggregate: TrustAggregate) -> None:
        self._aggregates[aggregate.agent] = aggregate

    def add_draft(self, draft: Draft) -> None:
        self._drafts.append(draft)

    def _new_agent_drafts(self, agent: str) -> list[Draft]:
        known = self.reader.get(trust_key(AGENT, agent))
        registered = [] if known is not None else [agent_draft(agent)]
        return [*registered, self._trust_change_draft(agent, None, INITIAL_TRUST, "initial", None, {})]

    def record_trust_change(self, agent: str, reason: str, event: Key | None) -> None:
        """Writes down how the trust of an agent has changed, if it has."""
        standing = self.get_aggregate(agent)
        found = standing.score(self.now)
        if found.trust == standing.trust:
            return
        inputs = {
            "impact_ratio": found.impact_ratio,
            "mean_depth": found.mean_depth,
            "regret_ratio": found.regret_ratio,
            "dissents": found.dissents,
            "dissents_from": found.dissents_from,
            "overrides": found.overrides,
            "overrides_from": found.overrides_from,
            "raw": found.raw,
        }
        self._drafts.append(self._trust_change_draft(agent, standing.trust, found.trust, reason, event, inputs))
        self.set_aggregate(replace(standing, trust=found.trust))

    def _trust_change_draft(
        self,
        agent: str,
        previous: float | None,
        score: float,
        reason: str,
        event: Key | None,
        inputs: Mapping[str, Any],
    ) -> Draft:
        told = {"timestamp": to_iso(self.now), "score": score, "reason": reason}
        return trust_change_draft(agent, told, previous=previous, inputs=inputs, event=event)

    def get_tally(self, kind: str, id: str, **defaults: Any) -> dict[str, Any]:
        """A running count to be changed in place; written at the end."""
        key = trust_key(kind, id)
        if key not in self._tallies:
            found = self.reader.get(key)
            self._tallies[key] = dict(found.body) if found is not None else dict(defaults)
        return self._tallies[key]

    def collect_drafts(self) -> list[Draft]:
        """Everything to append, running records last."""
        running: list[Draft] = []
        for agent, standing in self._aggregates.items():
            before = self._stored_aggregates[agent]
            running.append(Draft(AGGREGATE, body=standing.to_body(), id=agent, scope=SYSTEM, origin=ORIGIN))
            if standing.days != (before.days if before is not None else {}):
                running.append(Draft(DAILY_SUMS, body=standing.to_days_body(), id=agent, scope=SYSTEM, origin=ORIGIN))
        for key, body in self._tallies.items():
            many = body.get("overrides", 0) + body.get("reverts", 0)
            labels = (CONTESTED_LABEL,) if key.kind == CONTROVERSY and many >= MIN_CONTESTED_EVENTS else ()
            running.append(Draft(key.kind, body=body, id=key.id, scope=SYSTEM, origin=ORIGIN, labels=labels))
        return [*self._drafts, *running]


def agent_draft(agent: str, **body: Any) -> Draft:
    told = {"agent_name": agent, "model": "", "primary_role": ""} | body
    return Draft(AGENT, body=told, id=agent, scope=SYSTEM, origin=ORIGIN)


def trust_change_draft(
    agent: str,
    change: Mapping[str, Any],
    *,
    previous: float | None = None,
    inputs: Mapping[str, Any] | None = None,
    event: Key | None = None,
    happened_at: datetime | None = None,
) -> Draft:
    """A change of trust; ``told`` is how the document spells it."""
    body = {"agent": agent, "event": dict(change), "was": previous, "inputs": dict(inputs or {})}
    links = () if event is None else (Link(DERIVED_FROM, event),)
    return Draft(
        TRUST_CHANGE,
        body=body,
        scope=SYSTEM,
        origin=ORIGIN,
        links=links,
        labels=(f"{TRUST_CHANGE}={agent}",),
        happened_at=happened_at,
    )


def person_trust(record: Record | None) -> float:
    """How far a person's overrides are believed: the share that stood, starting from the initial trust."""
    body = {} if record is None else record.body
    made, reverted = body.get("overrides", 0), body.get("reverted", 0)
    return float((made - reverted + 3) / (made + 5))
