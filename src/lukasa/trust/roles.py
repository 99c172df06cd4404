"""Roles: who may take a critical role, and the draw of the devil's advocate."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lukasa.core.outcome import Answer


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Whether an agent may take a critical role; ``why`` lists the reasons against it."""

    agent: str
    trust: float
    rounds: int
    why: tuple[str, ...] = ()

    @property
    def viable(self) -> bool:
        return not self.why


@dataclass(frozen=True, slots=True)
class AdvocateCandidate:
    """A candidate of a draw."""

    agent: str
    trust: float
    rounds: int
    why_not: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AdvocateAssignment(Answer):
    """The result of a draw, with its seed and its candidates; ``fallback`` says that no candidate was viable."""

    chosen: str
    seed: int | str
    fallback: bool
    candidates: tuple[AdvocateCandidate, ...]
    round_id: str = ""

    def as_json(self) -> dict[str, Any]:
        candidates = [
            {
                "agent": candidate.agent, "trust_score": candidate.trust, "rounds_participated": candidate.rounds,
                "viable": not candidate.why_not, "why_not": list(candidate.why_not),
            }
            for candidate in self.candidates
        ]  # fmt: skip
        drawn = {"chosen": self.chosen, "seed": self.seed, "fallback": self.fallback, "round_id": self.round_id}
        return drawn | {"candidates": candidates}


@dataclass(frozen=True, slots=True)
class WeightedFeedback:
    """A mean weighted by trust, and the weights; ``value`` is None when every trust is 0."""

    value: float | None
    weights: Mapping[str, float]


def draw_advocate(candidates: Sequence[Eligibility], seed: int | str, round_id: str) -> AdvocateAssignment:
    """Draw one of the viable candidates, or of all when none is viable, with trust as the weight.

    The same seed and candidates give the same result.
    """
    viable = [candidate for candidate in candidates if candidate.viable]
    pool = viable or candidates
    weights = [candidate.trust for candidate in pool]
    if not any(weights):
        weights = [1.0] * len(pool)
    chosen = random.Random(seed).choices(pool, weights=weights, k=1)[0]  # noqa: S311 - a fair draw, no secret
    drawn_from = (AdvocateCandidate(agent.agent, agent.trust, agent.rounds, agent.why) for agent in candidates)
    return AdvocateAssignment(chosen.agent, seed, not viable, tuple(drawn_from), round_id)
