"""The records of trust, and how they are read and written together.

All of them are in the store's own scope. Only a caller with full reach (the owner: an orchestrator, a person) can write
there, so that no agent can judge itself, and no copy of it can.

    trust_agent      an agent's name, model and primary role
    dissent          an objection with its depth, its vector and what it counts as
    override         a person's decision against an agent's output
    participation    a round that an agent took part in
    trust_change     a change of trust with its reason and its inputs
    trust_standing   an agent's running aggregate                                   (derived)
    trust_days       its sums day by day                                            (derived)
    trust_person     how many of a person's overrides were reverted                 (derived)
    controversy      how often a round or an artifact was overridden and reverted   (derived)
    advocate         a draw of the devil's advocate: candidates, seed, result
    rubric           criteria and their weights
    rubric_proposal  a proposed change of a criterion's weight
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from itertools import islice
from typing import Any

from lukasa.core.clock import Clock, IdMaker, to_iso
from lukasa.core.outcome import Outcome, Refused
from lukasa.core.record import DERIVED_FROM, Draft, Key, Link, Record
from lukasa.core.scope import SYSTEM
from lukasa.errors import NotAllowed, StoreDamaged
from lukasa.journal import Journal
from lukasa.storage.engine import Query, Reader
from lukasa.trust.aggregate import TrustAggregate
from lukasa.trust.score import INITIAL_TRUST, CountedDissent, TrustScore, TrustSums

AGENT, AGGREGATE, DAILY_SUMS = "trust_agent", "trust_standing", "trust_days"
DISSENT, OVERRIDE, PARTICIPATION, TRUST_CHANGE = "dissent", "override", "participation", "trust_change"
PERSON, CONTROVERSY, ADVOCATE = "trust_person", "controversy", "advocate"
RUBRIC, RUBRIC_PROPOSAL = "rubric", "rubric_proposal"
ORIGIN = "trust"
MIN_CONTESTED_EVENTS = 2
"""The number of overrides and reverts together that make a round or an artifact controversial."""
CONTESTED_LABEL = "contested=yes"
MAX_AUTHORS = 100
_MAX_NAME_CHARS = 200
_RECORDED_INPUTS = (
    "impact_ratio", "mean_depth", "regret_ratio", "dissents", "dissents_from", "overrides", "overrides_from", "raw",
    "adjusted_score",
)  # fmt: skip
"""Fields of a score that a change of trust records."""


def check_name(field: str, name: object) -> Refused | None:
    """Refuse a name that is not text, is too long, or is blank where a name is required."""
    if not isinstance(name, str):
        return Refused(f"bad_{field}", f"The {field} must be text, not {type(name).__name__}.")
    if field in ("agent", "criterion") and not name.strip():
        return Refused(f"bad_{field}", f"The {field} has no name.")
    if len(name) > _MAX_NAME_CHARS:
        return Refused(
            f"bad_{field}", f"The {field} has {len(name):,} characters; at most {_MAX_NAME_CHARS} are allowed."
        )
    return None


def trust_key(kind: str, id: str) -> Key:
    return Key(SYSTEM, kind, id)


def hash_id(*parts: str) -> str:
    """Return an id for a combination of names with any characters."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def event_labels(kind: str, agent: str, round_id: str) -> tuple[str, ...]:
    """Return the labels of an event. The agent's label names the kind, so that each kind is found by itself."""
    return (f"{kind}={agent}", *((f"round={round_id}",) if round_id else ()))


def agent_events_query(agent: str, kind: str, **options: Any) -> Query:
    """Build the query for the events of one kind about one agent."""
    return Query(kinds=(kind,), scopes=(SYSTEM,), labels=(f"{kind}={agent}",), **options)


def counted_sums(kind: str, body: Mapping[str, Any]) -> TrustSums:
    """Return what a dissent or an override adds to the sums.

    The event of a dissent holds the document's inputs, ``counted`` what the rules decided when it was judged.
    """
    event = body.get("event", {})
    if kind == OVERRIDE:
        return TrustSums.from_override(useful=body["useful"], regret=bool(event["regret"]))
    if event.get("impact") is None:
        return TrustSums()
    counted = None if body.get("counted") is None else CountedDissent(**body["counted"])
    return TrustSums.from_dissent(impact=bool(event["impact"]), depth=event_depth(event), counted=counted)


def event_of(record: Record) -> Mapping[str, Any]:
    """Return the event of a dissent or an override; empty if the record has none."""
    event: Mapping[str, Any] = record.body.get("event", {})
    return event


def event_depth(event: Mapping[str, Any]) -> float:
    """Return the depth of a dissent in the document's form; an imported one may lack it."""
    return round(float(event.get("depth_score") or 0.0), 6)


def trust_draft(kind: str, body: Mapping[str, Any], id: str = "", **fields: Any) -> Draft:
    """Build a draft in the store's own scope."""
    return Draft(kind, body=body, id=id, scope=SYSTEM, origin=ORIGIN, **fields)


def agent_draft(agent: str, **body: Any) -> Draft:
    return trust_draft(AGENT, {"agent_name": agent, "model": "", "primary_role": ""} | body, agent)


def trust_change_draft(
    agent: str,
    change: Mapping[str, Any],
    previous: float | None = None,
    inputs: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Draft:
    """Build the draft of a change of trust; ``change`` is the entry of the document's ``trust_score_history``."""
    body = {"agent": agent, "event": dict(change), "was": previous, "inputs": dict(inputs or {})}
    return trust_draft(TRUST_CHANGE, body, labels=(f"{TRUST_CHANGE}={agent}",), **fields)


def read_aggregate(reader: Reader, agent: str, *, today: date | None = None) -> TrustAggregate | None:
    """Read an agent's aggregate, or None. With ``today`` the sums of days are read only if today's score needs them.

    An aggregate that an earlier version of the program wrote lacks the sums of one score: they are recomputed, and so are
    the sums of a damaged one. What a damaged one said beyond the events (probation, an imported file) is lost.
    """
    skips_damaged, reader.skips_damaged = reader.skips_damaged, False
    try:
        record = reader.get(trust_key(AGGREGATE, agent))
        if record is None:
            return None
        if len(record.body["total"]) == len(TrustSums._fields):
            skip_days = today is not None and today.isoformat() <= record.body["day"]
            days = None if skip_days else reader.get(trust_key(DAILY_SUMS, agent))
            return TrustAggregate.from_bodies(record.body, None if days is None else days.body)
        stored = TrustAggregate.from_bodies(record.body)
    except StoreDamaged:
        events = [event for kind in (DISSENT, OVERRIDE) for event in reader.read(agent_events_query(agent, kind))]
        stored = TrustAggregate(agent, today or max((event.moment.date() for event in events), default=date.min))
    finally:
        reader.skips_damaged = skips_damaged
    return recompute_aggregate(reader, stored)


def recompute_aggregate(reader: Reader, aggregate: TrustAggregate, as_of: datetime | None = None) -> TrustAggregate:
    """Return an aggregate with the sums and rounds that the agent's events give, all or those known at a time."""
    agent, none = aggregate.agent, TrustSums()
    rounds = len(reader.read(agent_events_query(agent, PARTICIPATION, as_of=as_of)))
    rounds += aggregate.rounds_before
    aggregate = replace(aggregate, today=none, window=none, total=none, days={}, rounds=rounds)
    for kind in (DISSENT, OVERRIDE):
        for record in reader.read(agent_events_query(agent, kind, as_of=as_of)):
            aggregate = aggregate.with_sums(counted_sums(kind, record.body), record.moment.date())
    imported = aggregate.imported
    if imported is not None and as_of is not None and as_of < imported.at:
        return replace(aggregate, imported=None)
    for day, sums in imported.sums.items() if imported is not None else ():
        aggregate = aggregate.with_sums(sums, day)
    return aggregate


@dataclass(slots=True)
class TrustChanges:
    """The drafts of one conditional append: events in the order they are added, then each running record once."""

    reader: Reader
    now: datetime
    _aggregates: dict[str, TrustAggregate] = field(default_factory=dict)
    _stored_aggregates: dict[str, TrustAggregate | None] = field(default_factory=dict)
    _tallies: dict[Key, dict[str, Any]] = field(default_factory=dict)
    _first_drafts: list[Draft] = field(default_factory=list)
    _drafts: list[Draft] = field(default_factory=list)

    def get_aggregate(self, agent: str) -> TrustAggregate:
        """Return an agent's aggregate of today with the changes so far. A new agent is registered."""
        if agent not in self._aggregates:
            stored = read_aggregate(self.reader, agent)
            self._stored_aggregates[agent] = stored
            self._aggregates[agent] = (stored or TrustAggregate(agent, self.now.date())).advance_to(self.now.date())
            if stored is None:
                if self.reader.get(trust_key(AGENT, agent)) is None:
                    self.add_draft(agent_draft(agent))
                initial = {"timestamp": to_iso(self.now), "score": INITIAL_TRUST, "reason": "initial"}
                self.add_draft(trust_change_draft(agent, initial))
        return self._aggregates[agent]

    def set_aggregate(self, aggregate: TrustAggregate) -> None:
        self._aggregates[aggregate.agent] = aggregate

    def add_imported(self, aggregate: TrustAggregate) -> None:
        """Set the aggregate of an imported agent, whose history already has its first trust."""
        self._stored_aggregates[aggregate.agent] = None
        self.set_aggregate(aggregate)

    def add_first(self, draft: Draft) -> None:
        """Add a draft ahead of the others, so that the outcome's records start with it."""
        self._first_drafts.append(draft)

    def add_draft(self, draft: Draft) -> None:
        self._drafts.append(draft)

    def record_trust_change(self, agent: str, reason: str, event: Key | None) -> None:
        """Record the agent's new trust with its inputs, if it differs from the last one recorded."""
        aggregate = self.get_aggregate(agent)
        score = aggregate.score(self.now)
        if score.trust == aggregate.trust:
            return
        inputs = {name: getattr(score, name) for name in _RECORDED_INPUTS}
        change = {"timestamp": to_iso(self.now), "score": score.trust, "reason": reason}
        links = () if event is None else (Link(DERIVED_FROM, event),)
        self.add_draft(trust_change_draft(agent, change, aggregate.trust, inputs, links=links))
        self.set_aggregate(replace(aggregate, trust=score.trust))

    def get_tally(self, kind: str, id: str, **defaults: Any) -> dict[str, Any]:
        """Return the body of a running count, to be changed in place."""
        key = trust_key(kind, id)
        if key not in self._tallies:
            stored = self.reader.get(key)
            self._tallies[key] = dict(stored.body) if stored is not None else dict(defaults)
        return self._tallies[key]

    def collect_drafts(self) -> list[Draft]:
        """Return everything to append, running records last."""
        running: list[Draft] = []
        for agent, aggregate in self._aggregates.items():
            stored = self._stored_aggregates[agent]
            running.append(trust_draft(AGGREGATE, aggregate.to_body(), agent))
            if aggregate.days != (stored.days if stored is not None else {}):
                running.append(trust_draft(DAILY_SUMS, aggregate.to_days_body(), agent))
        for key, body in self._tallies.items():
            events = body.get("overrides", 0) + body.get("reverts", 0)
            labels = (CONTESTED_LABEL,) if key.kind == CONTROVERSY and events >= MIN_CONTESTED_EVENTS else ()
            running.append(trust_draft(key.kind, body, key.id, labels=labels))
        return [*self._first_drafts, *self._drafts, *running]


class TrustRecords:
    """The trust records behind one caller's journal: what the parts of ``Trust`` share."""

    def __init__(self, journal: Journal, clock: Clock, new_id: IdMaker) -> None:
        self.journal = journal
        self.clock = clock
        self.new_id = new_id

    def require_owner(self) -> TrustRecords:
        """Return these records; raise ``NotAllowed`` unless the caller has full reach."""
        if not self.journal.reach.unlimited:
            raise NotAllowed(
                "Only the owner of the store may read and write trust and rubrics.",
                hint="An agent may file its own dissents (file_dissent) and read its own score.",
            )
        return self

    def check_names(self, **names: str) -> Refused | None:
        """Refuse the first bad name."""
        found = (check_name(field, name) for field, name in names.items())
        return next((refused for refused in found if refused is not None), None)

    def aggregate(self, agent: str, *, today: date | None = None) -> TrustAggregate:
        """Read an agent's aggregate; an empty one when the agent is unknown."""
        with self.journal.snapshot() as snapshot:
            return read_aggregate(snapshot, agent, today=today) or TrustAggregate(agent, self.clock.now().date())

    def events(self, agent: str, kind: str, **options: Any) -> list[Record]:
        return list(self.journal.read(agent_events_query(agent, kind, **options)))

    def change(self, plan: Callable[[TrustChanges], Refused | None], *, key: str | None = None) -> Outcome:
        """Run a plan inside a conditional append: write the changes that it collects, or refuse as it refuses.

        The plan may run more than once, each time with an empty set of changes.
        """

        def build_drafts(reader: Reader) -> list[Draft] | Refused:
            changes = TrustChanges(reader, self.clock.now())
            refused = plan(changes)
            return changes.collect_drafts() if refused is None else refused

        return self.journal.append_if(build_drafts, key=key)


class TrustLookup:
    """The adjusted score of authors, for recall. It reads with full reach and returns nothing else of the trust records."""

    initial = INITIAL_TRUST
    """The trust of an author without any events."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    def __call__(self, authors: Iterable[str]) -> dict[str, float]:
        """Return the adjusted score of those authors that have an aggregate; looks up at most a hundred."""
        names = list(islice((author for author in authors if author), MAX_AUTHORS))
        if not names:
            return {}
        now = self._clock.now()
        with self._journal.snapshot() as snapshot:
            if not any(row.kind == AGGREGATE for row in snapshot.tally()):
                return {}
            found = {name: read_aggregate(snapshot, name, today=now.date()) for name in names}
        return {name: aggregate.score(now).adjusted_score for name, aggregate in found.items() if aggregate is not None}

    def score(self, agent: str) -> TrustScore:
        """Return the current scores of an agent."""
        now = self._clock.now()
        with self._journal.snapshot() as snapshot:
            return (read_aggregate(snapshot, agent, today=now.date()) or TrustAggregate(agent, now.date())).score(now)
