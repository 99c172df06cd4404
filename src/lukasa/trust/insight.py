"""What the history of dissents tells beyond a score: diversity of citations, influence, who will object well next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log2
from typing import Any

from lukasa.record import Record
from lukasa.trust.counting import Pair
from lukasa.trust.score import INITIAL
from lukasa.trust.standing import Standing

HIGH_TRUST = INITIAL
_FEWEST_CITATIONS = 10
_ONE_SIDED = 0.5
"""Below so many bits nearly every citation names the same criterion."""
_SHOWN = 3
_LEARNED_FROM = 10
_PRIOR = 4.0
"""An agent's own record counts like so many dissents on the very topic."""


@dataclass(frozen=True, slots=True)
class Diversity:
    """The entropy of an agent's citations in bits: of the last twenty dissents, and of those before."""

    agent: str
    entropy: float
    before: float | None
    citations: int
    flagged: bool
    why: str = ""


def entropy(counts: Iterable[int]) -> float:
    """How many bits it takes to say which criterion was cited."""
    many = [count for count in counts if count > 0]
    whole = sum(many)
    return sum(-count / whole * log2(count / whole) for count in many) + 0.0 if whole else 0.0


def diversity(standing: Standing, trust: float) -> Diversity:
    """How various the citations are; flagged for a person to look at when that is low or falling while trust is high."""
    lately = Counter(name for names in standing.cited_lately for name in names)
    earlier = Counter(standing.cited) - lately
    now = entropy(lately.values())
    enough = lately.total() >= _FEWEST_CITATIONS
    before = entropy(earlier.values()) if earlier.total() >= _FEWEST_CITATIONS else None
    why = ""
    if enough and trust >= HIGH_TRUST:
        if before is not None and now < before / 2:
            why = f"citations fell from {before:.2f} to {now:.2f} bits while trust is {trust:.2f}"
        elif now < _ONE_SIDED:
            why = f"nearly all citations name {lately.most_common(1)[0][0]!r} while trust is {trust:.2f}"
    return Diversity(standing.agent, now, before, lately.total(), bool(why), why)


@dataclass(frozen=True, slots=True)
class Influence:
    """Two matrices: dissents by whose they are and whose output they are about; reverts by whose override and who did it."""

    dissents: Mapping[str, Mapping[str, Pair]]
    reverts: Mapping[str, Mapping[str, int]]

    def as_json(self) -> dict[str, Any]:
        return {
            "dissents": {
                dissenter: {of: {"dissents": pair.dissents, "impacts": pair.impacts} for of, pair in pairs.items()}
                for dissenter, pairs in self.dissents.items()
            },
            "reverts": {person: dict(by) for person, by in self.reverts.items()},
        }


@dataclass(frozen=True, slots=True)
class Voice:
    """An agent's judged dissents, oldest first: what was said, its vector, whether it had an impact."""

    texts: tuple[str, ...] = ()
    impacts: tuple[bool, ...] = ()
    vectors: Any = None

    @classmethod
    def of(cls, records: Sequence[Record], vectors: Any) -> Voice:
        judged = [at for at, record in enumerate(records) if record.body["event"].get("impact") is not None]
        events = [records[at].body["event"] for at in judged]
        return cls(
            tuple(event["dissent_text"] for event in events),
            tuple(bool(event["impact"]) for event in events),
            None if vectors is None else vectors[judged],
        )


@dataclass(frozen=True, slots=True)
class Evidence:
    """A past dissent that a prediction rests on."""

    text: str
    impact: bool
    nearness: float


@dataclass(frozen=True, slots=True)
class Prospect:
    """How likely an agent's dissent on the topic is to change the output, and what speaks for it."""

    agent: str
    expected: float
    dissents: int
    on_topic: float
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Forecast:
    """Candidates, best first. ``hit_rate`` is how often the same rule was right about past dissents, each judged from
    earlier ones alone; ``base_rate`` is how often always saying the commoner outcome would have been."""

    topic: str
    prospects: tuple[Prospect, ...]
    tested: int
    hit_rate: float | None
    base_rate: float | None
    brier: float | None = field(default=None)

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "prospects": [
                {
                    "agent": each.agent,
                    "expected_impact": each.expected,
                    "dissents": each.dissents,
                    "on_topic": each.on_topic,
                    "evidence": [
                        {"dissent_text": one.text, "impact": one.impact, "nearness": one.nearness}
                        for one in each.evidence
                    ],
                }
                for each in self.prospects
            ],
            "past": {
                "tested": self.tested,
                "hit_rate": self.hit_rate,
                "base_rate": self.base_rate,
                "brier": self.brier,
            },
        }


def forecast(topic: str, vector: Any, voices: Mapping[str, Voice]) -> Forecast:
    """Who is likely to dissent effectively on a topic."""
    prospects = sorted(
        (_prospect(agent, vector, voice) for agent, voice in voices.items()),
        key=lambda each: (-each.expected, each.agent),
    )
    tests = [test for voice in voices.values() for test in _backtest(voice)]
    if not tests:
        return Forecast(topic, tuple(prospects), 0, None, None)
    impacts = sum(impact for _, impact in tests)
    hits = sum((expected >= 0.5) is impact for expected, impact in tests)
    brier = sum((expected - impact) ** 2 for expected, impact in tests) / len(tests)
    base = max(impacts, len(tests) - impacts) / len(tests)
    return Forecast(topic, tuple(prospects), len(tests), hits / len(tests), base, brier)


def _prospect(agent: str, vector: Any, voice: Voice) -> Prospect:
    if not voice.impacts:
        return Prospect(agent, 0.5, 0, 0.0)
    near = (voice.vectors @ vector).clip(0.0, 1.0)
    best = sorted(range(len(voice.impacts)), key=lambda at: -float(near[at]))[:_SHOWN]
    evidence = tuple(Evidence(voice.texts[at], voice.impacts[at], float(near[at])) for at in best)
    return Prospect(agent, _expected(near, voice.impacts), len(voice.impacts), float((near**2).sum()), evidence)


def _expected(near: Any, impacts: Sequence[bool]) -> float:
    """The share of impacts among past dissents, the nearer to the topic the weightier, drawn towards the agent's own share."""
    own = (sum(impacts) + 1) / (len(impacts) + 2)
    weights = near**2
    return float(
        (sum(weights[at] for at, impact in enumerate(impacts) if impact) + _PRIOR * own) / (weights.sum() + _PRIOR)
    )


def _backtest(voice: Voice) -> list[tuple[float, bool]]:
    """What the rule would have said of each later dissent, knowing only the earlier ones."""
    return [
        (_expected((voice.vectors[:at] @ voice.vectors[at]).clip(0.0, 1.0), voice.impacts[:at]), voice.impacts[at])
        for at in range(_LEARNED_FROM, len(voice.impacts))
    ]
