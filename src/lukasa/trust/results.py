"""What the room of trust answers with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lukasa.trust.score import WINDOW_DAYS, TrustSums


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Whether an agent may take a critical role: ``why`` holds every reason against it."""

    agent: str
    trust: float
    rounds: int
    why: tuple[str, ...] = ()

    @property
    def viable(self) -> bool:
        return not self.why


@dataclass(frozen=True, slots=True)
class AdvocateCandidate:
    """One of those a devil's advocate was drawn from."""

    agent: str
    trust: float
    rounds: int
    why_not: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AdvocateAssignment:
    """Who was drawn, by which seed, and from whom; ``fallback`` says that nobody was viable."""

    chosen: str
    seed: int | str
    fallback: bool
    candidates: tuple[AdvocateCandidate, ...]
    round_id: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "chosen": self.chosen,
            "seed": self.seed,
            "fallback": self.fallback,
            "round_id": self.round_id,
            "candidates": [
                {
                    "agent": each.agent,
                    "trust_score": each.trust,
                    "rounds_participated": each.rounds,
                    "viable": not each.why_not,
                    "why_not": list(each.why_not),
                }
                for each in self.candidates
            ],
        }


@dataclass(frozen=True, slots=True)
class WeightedFeedback:
    """A mean by trust, and the weights; no value when nobody is trusted at all."""

    value: float | None
    weights: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Controversy:
    """A round or an artifact, and how often it was overridden and reverted."""

    what: str
    name: str
    overrides: int
    reverts: int
    agents: list[str]


@dataclass(frozen=True, slots=True)
class TrustMetrics:
    """What the document feeds to its metrics, over the window and over all history."""

    agents: int
    window: TrustSums
    total: TrustSums

    def as_json(self) -> dict[str, Any]:
        return {
            "agents": self.agents,
            f"last_{WINDOW_DAYS}_days": _sums_as_json(self.window),
            "all_history": _sums_as_json(self.total),
        }


def _sums_as_json(sums: TrustSums) -> dict[str, Any]:
    return {
        "dissents": sums.dissents,
        "dissent_impact": sums.impact_ratio,
        "mean_dissent_depth": sums.mean_depth,
        "overrides": sums.overrides,
        "regret_rate": sums.regret_ratio,
        "escalation_usefulness": sums.usefulness,
    }
