"""What the history of dissents tells beyond a score: diversity of citations, influence, who will object well next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log2
from typing import Any

from lukasa.record import Record
from lukasa.trust.aggregate import TrustAggregate
from lukasa.trust.rules import ImpactCounts
from lukasa.trust.score import INITIAL_TRUST

HIGH_TRUST = INITIAL_TRUST
_MIN_CITATIONS = 10
_MIN_ENTROPY_BITS = 0.5
"""Below so many bits nearly every citation names the same criterion."""
_MAX_EVIDENCE = 3
_BACKTEST_START = 10
_PRIOR_WEIGHT = 4.0
"""An agent's own record counts like so many dissents on the very topic."""


@dataclass(frozen=True, slots=True)
class CitationDiversity:
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


def measure_diversity(aggregate: TrustAggregate, trust: float) -> CitationDiversity:
    """How various the citations are; flagged for a person to look at when that is low or falling while trust is high."""
    lately = Counter(name for names in aggregate.cited_lately for name in names)
    earlier = Counter(aggregate.cited) - lately
    now = entropy(lately.values())
    enough = lately.total() >= _MIN_CITATIONS
    before = entropy(earlier.values()) if earlier.total() >= _MIN_CITATIONS else None
    why = ""
    if enough and trust >= HIGH_TRUST:
        if before is not None and now < before / 2:
            why = f"citations fell from {before:.2f} to {now:.2f} bits while trust is {trust:.2f}"
        elif now < _MIN_ENTROPY_BITS:
            why = f"nearly all citations name {lately.most_common(1)[0][0]!r} while trust is {trust:.2f}"
    return CitationDiversity(aggregate.agent, now, before, lately.total(), bool(why), why)


@dataclass(frozen=True, slots=True)
class InfluenceMatrices:
    """Two matrices: dissents by whose they are and whose output they are about; reverts by whose override and who did it."""

    dissents: Mapping[str, Mapping[str, ImpactCounts]]
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
class JudgedDissents:
    """An agent's judged dissents, oldest first: what was said, its vector, whether it had an impact."""

    texts: tuple[str, ...] = ()
    impacts: tuple[bool, ...] = ()
    vectors: Any = None

    @classmethod
    def from_records(cls, records: Sequence[Record], vectors: Any) -> JudgedDissents:
        judged = [at for at, record in enumerate(records) if record.body["event"].get("impact") is not None]
        events = [records[at].body["event"] for at in judged]
        return cls(
            tuple(event["dissent_text"] for event in events),
            tuple(bool(event["impact"]) for event in events),
            None if vectors is None else vectors[judged],
        )


@dataclass(frozen=True, slots=True)
class DissentEvidence:
    """A past dissent that a prediction rests on."""

    text: str
    impact: bool
    nearness: float


@dataclass(frozen=True, slots=True)
class DissentProspect:
    """How likely an agent's dissent on the topic is to change the output, and what speaks for it."""

    agent: str
    expected: float
    dissents: int
    on_topic: float
    evidence: tuple[DissentEvidence, ...] = ()


@dataclass(frozen=True, slots=True)
class DissentForecast:
    """Candidates, best first. ``hit_rate`` is how often the same rule was right about past dissents, each judged from
    earlier ones alone; ``base_rate`` is how often always saying the commoner outcome would have been."""

    topic: str
    prospects: tuple[DissentProspect, ...]
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


def forecast_dissents(topic: str, vector: Any, dissents_by_agent: Mapping[str, JudgedDissents]) -> DissentForecast:
    """Who is likely to dissent effectively on a topic."""
    prospects = sorted(
        (_build_prospect(agent, vector, voice) for agent, voice in dissents_by_agent.items()),
        key=lambda each: (-each.expected, each.agent),
    )
    tests = [test for voice in dissents_by_agent.values() for test in _run_backtest(voice)]
    if not tests:
        return DissentForecast(topic, tuple(prospects), 0, None, None)
    impacts = sum(impact for _, impact in tests)
    hits = sum((expected >= 0.5) is impact for expected, impact in tests)
    brier = sum((expected - impact) ** 2 for expected, impact in tests) / len(tests)
    base = max(impacts, len(tests) - impacts) / len(tests)
    return DissentForecast(topic, tuple(prospects), len(tests), hits / len(tests), base, brier)


def _build_prospect(agent: str, vector: Any, dissents: JudgedDissents) -> DissentProspect:
    if not dissents.impacts:
        return DissentProspect(agent, 0.5, 0, 0.0)
    near = (dissents.vectors @ vector).clip(0.0, 1.0)
    best = sorted(range(len(dissents.impacts)), key=lambda at: -float(near[at]))[:_MAX_EVIDENCE]
    evidence = tuple(DissentEvidence(dissents.texts[at], dissents.impacts[at], float(near[at])) for at in best)
    return DissentProspect(
        agent, _expected_impact(near, dissents.impacts), len(dissents.impacts), float((near**2).sum()), evidence
    )


def _expected_impact(cosines: Any, impacts: Sequence[bool]) -> float:
    """The share of impacts among past dissents, the nearer to the topic the weightier, drawn towards the agent's own share."""
    own = (sum(impacts) + 1) / (len(impacts) + 2)
    weights = cosines**2
    return float(
        (sum(weights[at] for at, impact in enumerate(impacts) if impact) + _PRIOR_WEIGHT * own)
        / (weights.sum() + _PRIOR_WEIGHT)
    )


def _run_backtest(dissents: JudgedDissents) -> list[tuple[float, bool]]:
    """What the rule would have said of each later dissent, knowing only the earlier ones."""
    return [
        (
            _expected_impact((dissents.vectors[:at] @ dissents.vectors[at]).clip(0.0, 1.0), dissents.impacts[:at]),
            dissents.impacts[at],
        )
        for at in range(_BACKTEST_START, len(dissents.impacts))
    ]
