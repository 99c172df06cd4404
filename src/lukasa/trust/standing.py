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
from lukasa.trust.counting import LATELY, Pair, Past, Verdict, fresh_citations, is_shallow
from lukasa.trust.score import INITIAL, WINDOW_DAYS, Score, Sums, score

MANY_CITATIONS = 20
MANY_COUNTERPARTS = 200
MANY_CRITERIA = 200
NEWCOMER_ROUNDS = 5
LEAST_TRUST = 0.2
_NOTHING, _NOBODY = Sums(), Pair()


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an agent stands. ``on`` counts its dissents by whose output they were about."""

    agent: str
    day: date
    today: Sums = _NOTHING
    window: Sums = _NOTHING
    total: Sums = _NOTHING
    days: Mapping[date, Sums] = field(default_factory=dict)
    rounds: int = 0
    rounds_before: int = 0
    """How many of the rounds came with an imported file, which does not name them."""
    trust: float = INITIAL
    initial: float = INITIAL
    probation_until: datetime | None = None
    probation_reason: str = ""
    lately: str = ""
    cited: Mapping[str, int] = field(default_factory=dict)
    cited_lately: tuple[tuple[str, ...], ...] = ()
    credited: int = 0
    light: int = 0
    aside: Mapping[str, int] = field(default_factory=dict)
    on: Mapping[str, Pair] = field(default_factory=dict)
    received: Pair = _NOBODY

    @property
    def past(self) -> Past:
        return Past(self.cited_lately, self.credited, self.light, self.lately)

    @property
    def dissents(self) -> Pair:
        """All dissents on the output of named others."""
        return Pair(sum(pair.dissents for pair in self.on.values()), sum(pair.impacts for pair in self.on.values()))

    @property
    def earlier(self) -> Pair:
        """The counted dissents before the latest."""
        return Pair(self.total.dissents - len(self.lately), self.total.impacts - self.lately.count("1"))

    # Time

    def at(self, day: date) -> Standing:
        """The standing on a later day: what has left the window is no longer in its sums."""
        if day <= self.day:
            return self
        days = dict(self.days)
        if self.today != Sums():
            days[self.day] = days.get(self.day, Sums()).plus(self.today)
        days = {each: sums for each, sums in days.items() if each >= first_day(day)}
        return replace(self, day=day, today=Sums(), days=days, window=Sums.all(days.values()))

    def adding(self, sums: Sums, day: date) -> Standing:
        """With something more that counts on a day. What is older than the window counts in the total alone."""
        total = self.total.plus(sums)
        if day >= self.day:
            return replace(self, today=self.today.plus(sums), window=self.window.plus(sums), total=total)
        if day < first_day(self.day):
            return replace(self, total=total)
        days = {**self.days, day: self.days.get(day, Sums()).plus(sums)}
        return replace(self, days=days, window=self.window.plus(sums), total=total)

    def score(self, now: datetime) -> Score:
        """The trust of now."""
        seen = self.at(now.date())
        return score(self.agent, seen.window, seen.total, now, self.initial)

    # Events

    def with_dissent(
        self, counted: Verdict, text: str, citations: Sequence[str], day: date, impact: bool, of: str
    ) -> Standing:
        """After a judged dissent."""
        on = _counted(self.on, of, impact) if of and of != self.agent else self.on
        cited, cited_lately = dict(self.cited), (*self.cited_lately, tuple(dict.fromkeys(citations)))[-MANY_CITATIONS:]
        for name in cited_lately[-1]:
            if name in cited or len(cited) < MANY_CRITERIA:
                cited[name] = cited.get(name, 0) + 1
        after = replace(self, on=on, cited=cited, cited_lately=cited_lately)
        if counted.why:
            after = replace(after, aside={**self.aside, counted.why: self.aside.get(counted.why, 0) + 1})
        if not counted.counts:
            return after
        light = counted.impact and is_shallow(text, fresh_citations(citations, self.cited_lately))
        return replace(
            after.adding(Sums.of_dissent(impact=counted.impact, depth=counted.depth), day),
            lately=(self.lately + str(int(counted.impact)))[-LATELY:],
            credited=self.credited + int(counted.impact and not light),
            light=self.light + int(light),
        )

    # Eligibility

    def objections(self, now: datetime) -> tuple[str, ...]:
        """Why the agent may not take a critical role; nothing when it may."""
        trust = self.score(now).trust
        return (
            *((f"trust {trust:.2f} is not above {LEAST_TRUST}",) if trust <= LEAST_TRUST else ()),
            *((f"new: {self.rounds} of {NEWCOMER_ROUNDS} rounds",) if self.rounds < NEWCOMER_ROUNDS else ()),
            *(
                (f"on probation until {to_iso(self.probation_until)}: {self.probation_reason or 'no reason given'}",)
                if self.probation_until is not None and now < self.probation_until
                else ()
            ),
        )

    # Spelling

    def body(self) -> dict[str, Any]:
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

    def days_body(self) -> dict[str, Any]:
        return {
            "agent": self.agent,
            "days": {day.isoformat(): list(sums) for day, sums in sorted(self.days.items())},
        }

    @classmethod
    def read(cls, body: Mapping[str, Any], days: Mapping[str, Any] | None = None) -> Standing:
        """The standing that bodies spell."""
        until = body["probation_until"]
        return cls(
            agent=body["agent"],
            day=date.fromisoformat(body["day"]),
            today=Sums(*body["today"]),
            window=Sums(*body["window"]),
            total=Sums(*body["total"]),
            days={date.fromisoformat(day): Sums(*sums) for day, sums in (days or {}).get("days", {}).items()},
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
            on={name: Pair(*pair) for name, pair in body["on"].items()},
            received=Pair(*body["received"]),
        )


def first_day(day: date) -> date:
    """The first day of the window that ends on a day."""
    return day - timedelta(days=WINDOW_DAYS)


def _counted(pairs: Mapping[str, Pair], name: str, impact: bool) -> dict[str, Pair]:
    if name not in pairs and len(pairs) >= MANY_COUNTERPARTS:
        return dict(pairs)
    return {**pairs, name: pairs.get(name, Pair()).plus(impact=impact)}
