"""An agent's running state: what is added up so that a score never needs to read the past.

Two records per agent, both derived from the events and rebuilt from them: the standing (totals, the window's sums, what
the rules look at), rewritten with every event; and the days (sums of each earlier day of the window), rewritten once a
day and when something late comes in. So a score costs two reads and an event a few writes, however long the history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any

from lukasa.clock import from_iso, to_iso
from lukasa.trust.rules import (
    RECENT_DISSENTS,
    DissentHistory,
    DissentVerdict,
    ImpactCounts,
    fresh_citations,
    is_shallow,
)
from lukasa.trust.score import INITIAL_TRUST, WINDOW_DAYS, TrustScore, TrustSums, compute_score

MAX_RECENT_CITATIONS = 20
MAX_COUNTERPARTS = 200
MAX_CRITERIA = 200
NEWCOMER_ROUNDS = 5
CRITICAL_ROLE_TRUST = 0.2
_NO_SUMS, _NO_COUNTS = TrustSums(), ImpactCounts()


@dataclass(frozen=True, slots=True)
class TrustAggregate:
    """Where an agent stands. ``on`` counts its dissents by whose output they were about."""

    agent: str
    day: date
    today: TrustSums = _NO_SUMS
    window: TrustSums = _NO_SUMS
    total: TrustSums = _NO_SUMS
    days: Mapping[date, TrustSums] = field(default_factory=dict)
    rounds: int = 0
    rounds_before: int = 0
    """How many of the rounds came with an imported file, which does not name them."""
    trust: float = INITIAL_TRUST
    initial: float = INITIAL_TRUST
    probation_until: datetime | None = None
    probation_reason: str = ""
    lately: str = ""
    cited: Mapping[str, int] = field(default_factory=dict)
    cited_lately: tuple[tuple[str, ...], ...] = ()
    credited: int = 0
    light: int = 0
    aside: Mapping[str, int] = field(default_factory=dict)
    on: Mapping[str, ImpactCounts] = field(default_factory=dict)
    received: ImpactCounts = _NO_COUNTS

    @property
    def past(self) -> DissentHistory:
        return DissentHistory(self.cited_lately, self.credited, self.light, self.lately)

    @property
    def dissents(self) -> ImpactCounts:
        """All dissents on the output of named others."""
        return ImpactCounts(
            sum(pair.dissents for pair in self.on.values()), sum(pair.impacts for pair in self.on.values())
        )

    @property
    def earlier(self) -> ImpactCounts:
        """The counted dissents before the latest."""
        return ImpactCounts(self.total.dissents - len(self.lately), self.total.impacts - self.lately.count("1"))

    # Time

    def advance_to(self, day: date) -> TrustAggregate:
        """The standing on a later day: what has left the window is no longer in its sums."""
        if day <= self.day:
            return self
        days = dict(self.days)
        if self.today != TrustSums():
            days[self.day] = days.get(self.day, TrustSums()).plus(self.today)
        days = {each: sums for each, sums in days.items() if each >= window_start(day)}
        return replace(self, day=day, today=TrustSums(), days=days, window=TrustSums.sum_all(days.values()))

    def with_sums(self, sums: TrustSums, day: date) -> TrustAggregate:
        """With something more that counts on a day. What is older than the window counts in the total alone."""
        total = self.total.plus(sums)
        if day >= self.day:
            return replace(self, today=self.today.plus(sums), window=self.window.plus(sums), total=total)
        if day < window_start(self.day):
            return replace(self, total=total)
        days = {**self.days, day: self.days.get(day, TrustSums()).plus(sums)}
        return replace(self, days=days, window=self.window.plus(sums), total=total)

    def score(self, now: datetime) -> TrustScore:
        """The trust of now."""
        seen = self.advance_to(now.date())
        return compute_score(self.agent, seen.window, seen.total, now, self.initial)

    # Events

    def with_dissent(
        self, verdict: DissentVerdict, text: str, citations: Sequence[str], day: date, impact: bool, of: str
    ) -> TrustAggregate:
        """After a judged dissent."""
        on = _count_dissent(self.on, of, impact) if of and of != self.agent else self.on
        cited, cited_lately = (
            dict(self.cited),
            (*self.cited_lately, tuple(dict.fromkeys(citations)))[-MAX_RECENT_CITATIONS:],
        )
        for name in cited_lately[-1]:
            if name in cited or len(cited) < MAX_CRITERIA:
                cited[name] = cited.get(name, 0) + 1
        after = replace(self, on=on, cited=cited, cited_lately=cited_lately)
        if verdict.why:
            after = replace(after, aside={**self.aside, verdict.why: self.aside.get(verdict.why, 0) + 1})
        if not verdict.counts:
            return after
        light = verdict.impact and is_shallow(text, fresh_citations(citations, self.cited_lately))
        return replace(
            after.with_sums(TrustSums.from_dissent(impact=verdict.impact, depth=verdict.depth), day),
            lately=(self.lately + str(int(verdict.impact)))[-RECENT_DISSENTS:],
            credited=self.credited + int(verdict.impact and not light),
            light=self.light + int(light),
        )

    # Eligibility

    def ineligibility_reasons(self, now: datetime) -> tuple[str, ...]:
        """Why the agent may not take a critical role; nothing when it may."""
        trust = self.score(now).trust
        return (
            *((f"trust {trust:.2f} is not above {CRITICAL_ROLE_TRUST}",) if trust <= CRITICAL_ROLE_TRUST else ()),
            *((f"new: {self.rounds} of {NEWCOMER_ROUNDS} rounds",) if self.rounds < NEWCOMER_ROUNDS else ()),
            *(
                (f"on probation until {to_iso(self.probation_until)}: {self.probation_reason or 'no reason given'}",)
                if self.probation_until is not None and now < self.probation_until
                else ()
            ),
        )

    # Spelling

    def to_body(self) -> dict[str, Any]:
        """The standing as a record's body; the days stand in a record of their own."""
        return {
            "agent": self.agent,
            "day": self.day.isoformat(),
            "today": list(self.today),
            "window": list(self.window),
            "total": list(self.total),
            "rounds": self.rounds,
            "rounds_before": self.rounds_before,
            "trust": self.trust,
            "initial": self.initial,
            "probation_until": None if self.probation_until is None else to_iso(self.probation_until),
            "probation_reason": self.probation_reason,
            "lately": self.lately,
            "cited": dict(self.cited),
            "cited_lately": [list(names) for names in self.cited_lately],
            "credited": self.credited,
            "light": self.light,
            "aside": dict(self.aside),
            "on": {name: list(pair) for name, pair in self.on.items()},
            "received": list(self.received),
        }

    def to_days_body(self) -> dict[str, Any]:
        return {
            "agent": self.agent,
            "days": {day.isoformat(): list(sums) for day, sums in sorted(self.days.items())},
        }

    @classmethod
    def from_bodies(cls, body: Mapping[str, Any], days: Mapping[str, Any] | None = None) -> TrustAggregate:
        """The standing that bodies spell."""
        until = body["probation_until"]
        return cls(
            agent=body["agent"],
            day=date.fromisoformat(body["day"]),
            today=TrustSums(*body["today"]),
            window=TrustSums(*body["window"]),
            total=TrustSums(*body["total"]),
            days={date.fromisoformat(day): TrustSums(*sums) for day, sums in (days or {}).get("days", {}).items()},
            rounds=body["rounds"],
            rounds_before=body["rounds_before"],
            trust=body["trust"],
            initial=body["initial"],
            probation_until=None if until is None else from_iso(until),
            probation_reason=body["probation_reason"],
            lately=body["lately"],
            cited=dict(body["cited"]),
            cited_lately=tuple(tuple(names) for names in body["cited_lately"]),
            credited=body["credited"],
            light=body["light"],
            aside=dict(body["aside"]),
            on={name: ImpactCounts(*pair) for name, pair in body["on"].items()},
            received=ImpactCounts(*body["received"]),
        )


def window_start(day: date) -> date:
    """The first day of the window that ends on a day."""
    return day - timedelta(days=WINDOW_DAYS)


def _count_dissent(counts: Mapping[str, ImpactCounts], name: str, impact: bool) -> dict[str, ImpactCounts]:
    if name not in counts and len(counts) >= MAX_COUNTERPARTS:
        return dict(counts)
    return {**counts, name: counts.get(name, ImpactCounts()).plus(impact=impact)}
