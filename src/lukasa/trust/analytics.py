"""Analytics over dissents and overrides: metrics, diversity of citations, influence, and forecasts of dissents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any

from lukasa.core.record import Record
from lukasa.trust.aggregate import TrustAggregate
from lukasa.trust.records import event_of
from lukasa.trust.rules import ImpactCounts
from lukasa.trust.score import INITIAL_TRUST, WINDOW_DAYS, TrustSums

HIGH_TRUST = INITIAL_TRUST
_MIN_CITATIONS = 10
_MIN_ENTROPY_BITS = 0.5
"""Below this entropy nearly every citation names the same criterion."""
_MAX_EVIDENCE = 3
_BACKTEST_START = 10
_PRIOR_WEIGHT = 4.0
"""An agent's overall share of impacts weighs as much as this many dissents on the very topic."""


@dataclass(frozen=True, slots=True)
class TrustMetrics:
    """The document's metrics over the window and over all history."""

    agents: int
    window: TrustSums
    total: TrustSums

    def as_json(self) -> dict[str, Any]:
        parts = {f"last_{WINDOW_DAYS}_days": self.window, "all_history": self.total}
        return {"agents": self.agents} | {
            name: {
                "dissents": sums.dissents,
                "dissent_impact": sums.impact_ratio,
                "mean_dissent_depth": sums.mean_depth,
                "overrides": sums.overrides,
                "regret_rate": sums.regret_ratio,
                "escalation_usefulness": sums.usefulness,
            }
            for name, sums in parts.items()
        }


@dataclass(frozen=True, slots=True)
class CitationDiversity:
    """The entropy of an agent's citations in bits: of the latest twenty dissents, and of those before."""

    agent: str
    entropy: float
    before: float | None
    citations: int
    flagged: bool
    why: str = ""


def entropy(counts: Iterable[int]) -> float:
    """Return the entropy of a distribution in bits."""
    positive = [count for count in counts if count > 0]
    total = sum(positive)
    return sum(-count / total * log2(count / total) for count in positive) + 0.0 if total else 0.0


def measure_diversity(aggregate: TrustAggregate, trust: float) -> CitationDiversity:
    """Measure the diversity of citations; flag it for a person when it is low or falling while trust is high."""
    latest = Counter(name for names in aggregate.cited_lately for name in names)
    earlier = Counter(aggregate.cited) - latest
    now = entropy(latest.values())
    before = entropy(earlier.values()) if earlier.total() >= _MIN_CITATIONS else None
    why = ""
    if latest.total() >= _MIN_CITATIONS and trust >= HIGH_TRUST:
        if before is not None and now < before / 2:
            why = f"citations fell from {before:.2f} to {now:.2f} bits while trust is {trust:.2f}"
        elif now < _MIN_ENTROPY_BITS:
            why = f"nearly all citations name {latest.most_common(1)[0][0]!r} while trust is {trust:.2f}"
    return CitationDiversity(aggregate.agent, now, before, latest.total(), bool(why), why)


@dataclass(frozen=True, slots=True)
class InfluenceMatrices:
    """Dissents by dissenter and by the agent whose output they are about; reverts by overrider and by reverter."""

    dissents: Mapping[str, Mapping[str, ImpactCounts]]
    reverts: Mapping[str, Mapping[str, int]]

    def as_json(self) -> dict[str, Any]:
        return {
            "dissents": {
                dissenter: {of: pair._asdict() for of, pair in pairs.items()}
                for dissenter, pairs in self.dissents.items()
            },
            "reverts": {person: dict(by) for person, by in self.reverts.items()},
        }


@dataclass(frozen=True, slots=True)
class JudgedDissents:
    """The texts, impacts and vectors of an agent's judged dissents, oldest first."""

    texts: tuple[str, ...] = ()
    impacts: tuple[bool, ...] = ()
    vectors: Any = None

    @classmethod
    def from_records(cls, records: Sequence[Record], vectors: Any) -> JudgedDissents:
        judged = [index for index, record in enumerate(records) if event_of(record).get("impact") is not None]
        events = [event_of(records[index]) for index in judged]
        return cls(
            tuple(event.get("dissent_text", "") for event in events),
            tuple(bool(event["impact"]) for event in events),
            None if vectors is None else vectors[judged],
        )


@dataclass(frozen=True, slots=True)
class DissentEvidence:
    """A past dissent behind a prospect; ``nearness`` is its cosine to the topic."""

    text: str
    impact: bool
    nearness: float


@dataclass(frozen=True, slots=True)
class DissentProspect:
    """The probability that an agent's dissent on the topic changes the output, with the evidence for it.

    ``on_topic`` is the number of past dissents, weighted by how near they are to the topic.
    """

    agent: str
    expected: float
    dissents: int
    on_topic: float
    evidence: tuple[DissentEvidence, ...] = ()


@dataclass(frozen=True, slots=True)
class DissentForecast:
    """Prospects, best first, and a backtest of the method.

    ``hit_rate`` is the share of past dissents that the method predicts from earlier ones alone; ``base_rate`` is the
    share that always predicting the commoner outcome gets right.
    """

    topic: str
    prospects: tuple[DissentProspect, ...]
    tested: int
    hit_rate: float | None
    base_rate: float | None
    brier: float | None = None

    def as_json(self) -> dict[str, Any]:
        prospects = [
            {
                "agent": prospect.agent, "expected_impact": prospect.expected, "dissents": prospect.dissents,
                "on_topic": prospect.on_topic,
                "evidence": [
                    {"dissent_text": past.text, "impact": past.impact, "nearness": past.nearness}
                    for past in prospect.evidence
                ],
            }
            for prospect in self.prospects
        ]  # fmt: skip
        past = {name: getattr(self, name) for name in ("tested", "hit_rate", "base_rate", "brier")}
        return {"topic": self.topic, "prospects": prospects, "past": past}


def forecast_dissents(topic: str, vector: Any, dissents_by_agent: Mapping[str, JudgedDissents]) -> DissentForecast:
    """Rank agents by the expected impact of a dissent on a topic, and test the method on their past dissents."""
    prospects: list[DissentProspect] = []
    tests: list[tuple[float, bool]] = []
    for agent, past in dissents_by_agent.items():
        if not past.impacts:
            prospects.append(DissentProspect(agent, 0.5, 0, 0.0))
            continue
        cosines = (past.vectors @ vector).clip(0.0, 1.0)
        nearest = sorted(range(len(past.impacts)), key=lambda i: -float(cosines[i]))[:_MAX_EVIDENCE]
        evidence = tuple(DissentEvidence(past.texts[i], past.impacts[i], float(cosines[i])) for i in nearest)
        expected = _expected_impact(cosines, past.impacts)
        on_topic = float((cosines**2).sum())
        prospects.append(DissentProspect(agent, expected, len(past.impacts), on_topic, evidence))
        for index in range(_BACKTEST_START, len(past.impacts)):
            to_earlier = (past.vectors[:index] @ past.vectors[index]).clip(0.0, 1.0)
            tests.append((_expected_impact(to_earlier, past.impacts[:index]), past.impacts[index]))
    ranked = tuple(sorted(prospects, key=lambda prospect: (-prospect.expected, prospect.agent)))
    if not tests:
        return DissentForecast(topic, ranked, 0, None, None)
    impacts = sum(impact for _, impact in tests)
    hits = sum((expected >= 0.5) is impact for expected, impact in tests)
    brier = sum((expected - impact) ** 2 for expected, impact in tests) / len(tests)
    base_rate = max(impacts, len(tests) - impacts) / len(tests)
    return DissentForecast(topic, ranked, len(tests), hits / len(tests), base_rate, brier)


def _expected_impact(cosines: Any, impacts: Sequence[bool]) -> float:
    """Return the share of impacts weighted by squared cosine to the topic, drawn towards the agent's overall share."""
    overall = (sum(impacts) + 1) / (len(impacts) + 2)
    weights = cosines**2
    on_topic = sum(weights[index] for index, impact in enumerate(impacts) if impact)
    return float((on_topic + _PRIOR_WEIGHT * overall) / (weights.sum() + _PRIOR_WEIGHT))
