"""An agent's running aggregate: sums that are kept up to date, so that a score never reads the past.

Two records per agent hold it; both are derived from the events and can be rebuilt from them. The standing (totals, the
window's sums, what the rules look at) is rewritten with every event. The days (sums of each earlier day of the window)
are rewritten once a day and when a late event comes in. A score costs two reads and an event a few writes, however long
the history is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

from lukasa.core.clock import from_iso, to_iso
from lukasa.trust.rules import RECENT_DISSENTS, DissentHistory, DissentVerdict, ImpactCounts
from lukasa.trust.score import INITIAL_TRUST, WINDOW_DAYS, TrustScore, TrustSums, compute_score

MAX_RECENT_CITATIONS = 20
MAX_COUNTERPARTS = 200
MAX_CRITERIA = 200
NEWCOMER_ROUNDS = 5
CRITICAL_ROLE_TRUST = 0.2
_NO_SUMS, _NO_COUNTS = TrustSums(), ImpactCounts()
_PLAIN_FIELDS = (
    "agent", "rounds", "rounds_before", "trust", "probation_reason", "lately", "credited", "light",
)  # fmt: skip
"""Fields that a record holds as they are."""
_SUM_FIELDS = ("today", "window", "total")


class ImportedTrust(NamedTuple):
    """What an imported file says beyond the events that it lists."""

    at: datetime
    """When the file was imported."""
    sums: Mapping[date, TrustSums]
    """Sums of events that the file counts but does not list, by day."""
    total: TrustSums = _NO_SUMS
    """The sums of all events right after the import."""
    score: float | None = None
    """The file's score, if the events do not give it. It holds until an event changes the sums."""

    def to_body(self) -> dict[str, Any]:
        sums = {str(day): list(found) for day, found in sorted(self.sums.items())}
        return {"at": to_iso(self.at), "sums": sums, "total": list(self.total), "score": self.score}

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> ImportedTrust:
        sums = {date.fromisoformat(day): TrustSums(*found) for day, found in body["sums"].items()}
        return cls(from_iso(body["at"]), sums, TrustSums(*body["total"]), body["score"])


@dataclass(frozen=True, slots=True)
class TrustAggregate:
    """The running state of one agent."""

    agent: str
    day: date
    """The UTC day that ``today`` and ``window`` refer to."""
    today: TrustSums = _NO_SUMS
    """Sums of the events of ``day``."""
    window: TrustSums = _NO_SUMS
    """Sums of the events of ``day`` and of the 90 days before it."""
    total: TrustSums = _NO_SUMS
    """Sums of all events."""
    days: Mapping[date, TrustSums] = field(default_factory=dict)
    """Sums of each earlier day of the window that has events."""
    rounds: int = 0
    """The number of rounds the agent took part in."""
    rounds_before: int = 0
    """How many of the rounds come from an imported file, which does not name them."""
    trust: float = INITIAL_TRUST
    """The document's score that was last recorded as a change."""
    imported: ImportedTrust | None = None
    """What an imported file says beyond its events; None for an agent that was not imported."""
    probation_until: datetime | None = None
    probation_reason: str = ""
    lately: str = ""
    """The outcomes of the latest ten counted dissents, oldest first: ``1`` for a credited impact, ``0`` for none."""
    cited: Mapping[str, int] = field(default_factory=dict)
    """How often each criterion has been cited, for at most 200 criteria."""
    cited_lately: tuple[tuple[str, ...], ...] = ()
    """The criteria cited by each of the latest 20 judged dissents, oldest first."""
    credited: int = 0
    """Credited impacts of dissents that were not shallow."""
    light: int = 0
    """Credited impacts of shallow dissents."""
    aside: Mapping[str, int] = field(default_factory=dict)
    """How often each rule excluded a dissent or made it count for less, by the name of the rule."""
    on: Mapping[str, ImpactCounts] = field(default_factory=dict)
    """The agent's dissents by the agent whose output they were about, for at most 200 agents."""
    received: ImpactCounts = _NO_COUNTS
    """The dissents of other agents on this agent's output."""

    @property
    def past(self) -> DissentHistory:
        """The part of the aggregate that the rules look at."""
        return DissentHistory(self.cited_lately, self.credited, self.light, self.lately)

    @property
    def dissents(self) -> ImpactCounts:
        """All dissents on the output of named other agents."""
        pairs = self.on.values()
        return ImpactCounts(sum(pair.dissents for pair in pairs), sum(pair.impacts for pair in pairs))

    @property
    def earlier(self) -> ImpactCounts:
        """The counted dissents before those in ``lately``."""
        total = self.total
        return ImpactCounts(total.counted - len(self.lately), total.counted_impacts - self.lately.count("1"))

    def advance_to(self, day: date) -> TrustAggregate:
        """Return the aggregate on a later day, without the days that have left the window."""
        if day <= self.day:
            return self
        days = dict(self.days)
        if self.today != TrustSums():
            days[self.day] = days.get(self.day, TrustSums()).plus(self.today)
        days = {earlier: sums for earlier, sums in days.items() if earlier >= window_start(day)}
        return replace(self, day=day, today=TrustSums(), days=days, window=TrustSums.sum_all(days.values()))

    def with_sums(self, sums: TrustSums, day: date) -> TrustAggregate:
        """Add sums to a day. A day before the window counts in the total alone."""
        total = self.total.plus(sums)
        if day >= self.day:
            return replace(self, today=self.today.plus(sums), window=self.window.plus(sums), total=total)
        if day < window_start(self.day):
            return replace(self, total=total)
        days = {**self.days, day: self.days.get(day, TrustSums()).plus(sums)}
        return replace(self, days=days, window=self.window.plus(sums), total=total)

    def score(self, now: datetime) -> TrustScore:
        current, imported = self.advance_to(now.date()), self.imported
        given = imported.score if imported is not None and imported.total == self.total else None
        return compute_score(self.agent, current.window, current.total, now, given)

    def with_dissent(
        self, verdict: DissentVerdict, citations: Sequence[str], day: date, *, impact: bool, depth: float, of: str
    ) -> TrustAggregate:
        """Add a judged dissent on the output of ``of``: as it is, and what the rules made of it."""
        on, cited, names = dict(self.on), dict(self.cited), tuple(dict.fromkeys(citations))
        if of and of != self.agent and (of in on or len(on) < MAX_COUNTERPARTS):
            on[of] = on.get(of, ImpactCounts()).plus(impact=impact)
        for name in names:
            if name in cited or len(cited) < MAX_CRITERIA:
                cited[name] = cited.get(name, 0) + 1
        after = replace(self, on=on, cited=cited, cited_lately=(*self.cited_lately, names)[-MAX_RECENT_CITATIONS:])
        if verdict.why:
            after = replace(after, aside={**self.aside, verdict.why: self.aside.get(verdict.why, 0) + 1})
        counted = verdict.counted
        after = after.with_sums(TrustSums.from_dissent(impact=impact, depth=depth, counted=counted), day)
        if counted is None:
            return after
        return replace(
            after,
            lately=(self.lately + str(int(counted.impact)))[-RECENT_DISSENTS:],
            credited=self.credited + int(counted.impact and not verdict.is_shallow),
            light=self.light + int(counted.impact and verdict.is_shallow),
        )

    def ineligibility_reasons(self, now: datetime) -> tuple[str, ...]:
        """List the reasons why the agent may not take a critical role; empty when it may."""
        trust, until = self.score(now).trust, self.probation_until
        reasons = []
        if trust <= CRITICAL_ROLE_TRUST:
            reasons.append(f"trust {trust:.2f} is not above {CRITICAL_ROLE_TRUST}")
        if self.rounds < NEWCOMER_ROUNDS:
            reasons.append(f"new: {self.rounds} of {NEWCOMER_ROUNDS} rounds")
        if until is not None and now < until:
            reasons.append(f"on probation until {to_iso(until)}: {self.probation_reason or 'no reason given'}")
        return tuple(reasons)

    def to_body(self) -> dict[str, Any]:
        """Return the body of the standing's record; the days are in another record."""
        return {name: getattr(self, name) for name in _PLAIN_FIELDS} | {
            **{name: list(getattr(self, name)) for name in (*_SUM_FIELDS, "received")},
            "day": self.day.isoformat(),
            "probation_until": None if self.probation_until is None else to_iso(self.probation_until),
            "cited": dict(self.cited),
            "cited_lately": [list(names) for names in self.cited_lately],
            "aside": dict(self.aside),
            "on": {name: list(pair) for name, pair in self.on.items()},
            "imported": None if self.imported is None else self.imported.to_body(),
        }

    def to_days_body(self) -> dict[str, Any]:
        return {"agent": self.agent, "days": {str(day): list(sums) for day, sums in sorted(self.days.items())}}

    @classmethod
    def from_bodies(cls, body: Mapping[str, Any], days: Mapping[str, Any] | None = None) -> TrustAggregate:
        """Read the aggregate back from the bodies of its two records."""
        until, imported = body["probation_until"], body.get("imported")
        plain: dict[str, Any] = {name: body[name] for name in _PLAIN_FIELDS}
        return cls(
            **plain | {name: TrustSums(*body[name]) for name in _SUM_FIELDS},
            day=date.fromisoformat(body["day"]),
            days={date.fromisoformat(day): TrustSums(*sums) for day, sums in (days or {}).get("days", {}).items()},
            probation_until=None if until is None else from_iso(until),
            cited=dict(body["cited"]),
            cited_lately=tuple(tuple(names) for names in body["cited_lately"]),
            aside=dict(body["aside"]),
            on={name: ImpactCounts(*pair) for name, pair in body["on"].items()},
            received=ImpactCounts(*body["received"]),
            imported=None if imported is None else ImportedTrust.from_body(imported),
        )


def window_start(day: date) -> date:
    """Return the first day of the window that ends on a day."""
    return day - timedelta(days=WINDOW_DAYS)
