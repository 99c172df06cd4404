"""The document's arithmetic as pure functions: the depth of a dissent, the trust that sums give, and its uncertainty.

    depth = min(words / 50, 1) + min(0.2 × citations, 0.5) + novelty, at most 2
    trust = 0.4 × impact ratio + 0.3 × mean depth + 0.3 × (1 − regret ratio), between 0 and 1

This module knows no rule: it scores whatever sums it is given. ``rules.py`` decides what is summed. Sums are integers
(depths in millionths), so that adding and subtracting in any order gives the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import exp, fsum, lgamma, log, sqrt
from typing import Any, Literal, NamedTuple

from lukasa.clock import to_iso

INITIAL_TRUST = 0.6
"""The trust of an agent without any events."""
WINDOW_DAYS = 90
"""The length of the window that ratios look at, in whole UTC days before today."""
MIN_WINDOW_EVENTS = 5
"""A ratio whose window holds fewer events is computed from all history."""
IMPACT_WEIGHT, DEPTH_WEIGHT, REGRET_WEIGHT = 0.4, 0.3, 0.3
MAX_DEPTH = 2.0
MILLION = 1_000_000
_Z_95 = 1.96

ScoreBasis = Literal["window", "history", "nothing"]


def length_score(text: str) -> float:
    """Return the part of the depth that comes from length: 1 from fifty words on."""
    return min(len(text.split()) / 50, 1.0)


def citation_bonus(citations: Sequence[str]) -> float:
    """Return the part of the depth that comes from citations: 0.2 for each, at most 0.5."""
    return min(len(citations) * 0.2, 0.5)


def compute_depth(text: str, citations: Sequence[str], novelty: float) -> float:
    """Compute the depth of a dissent, between 0 and 2."""
    return min(length_score(text) + citation_bonus(citations) + novelty, MAX_DEPTH)


class TrustSums(NamedTuple):
    """Sums over dissents and overrides. ``depth`` is in millionths, ``squares`` in millionths of squared depths."""

    dissents: int = 0
    impacts: int = 0
    depth: int = 0
    squares: int = 0
    overrides: int = 0
    regrets: int = 0
    useful: int = 0

    def plus(self, other: TrustSums) -> TrustSums:
        return TrustSums(*(own + its for own, its in zip(self, other, strict=True)))

    @classmethod
    def sum_all(cls, parts: Iterable[TrustSums]) -> TrustSums:
        total = cls()
        for part in parts:
            total = total.plus(part)
        return total

    @classmethod
    def from_dissent(cls, *, impact: bool, depth: float) -> TrustSums:
        return cls(1, int(impact), round(depth * MILLION), round(depth * 1000) ** 2)

    @classmethod
    def from_override(cls, *, useful: bool, regret: bool = False) -> TrustSums:
        return cls(overrides=1, regrets=int(regret), useful=int(useful and not regret))

    @property
    def impact_ratio(self) -> float:
        return self.impacts / self.dissents if self.dissents else 0.0

    @property
    def mean_depth(self) -> float:
        return self.depth / MILLION / self.dissents if self.dissents else 0.0

    @property
    def regret_ratio(self) -> float:
        return self.regrets / self.overrides if self.overrides else 0.0

    @property
    def usefulness(self) -> float:
        """The share of overrides that changed the output and were not reverted."""
        return self.useful / self.overrides if self.overrides else 0.0


@dataclass(frozen=True, slots=True)
class TrustScore:
    """An agent's trust, the three parts of the formula, and the number of events behind them.

    ``low`` and ``high`` bound the trust with about 95 % confidence. ``raw`` is the formula before clamping.
    """

    agent: str
    trust: float
    raw: float
    impact_ratio: float
    mean_depth: float
    regret_ratio: float
    dissents: int
    overrides: int
    dissents_from: ScoreBasis
    overrides_from: ScoreBasis
    low: float
    high: float
    at: datetime

    @property
    def events(self) -> int:
        """The number of dissents and overrides that the score is computed from."""
        return self.dissents + self.overrides

    def as_json(self) -> dict[str, Any]:
        terms = {
            "impact_ratio": (IMPACT_WEIGHT, self.impact_ratio), "mean_depth": (DEPTH_WEIGHT, self.mean_depth),
            "steadiness": (REGRET_WEIGHT, 1 - self.regret_ratio),
        }  # fmt: skip
        parts = {
            name: {"value": value, "weight": weight, "share": weight * value} for name, (weight, value) in terms.items()
        }
        names = ("regret_ratio", "dissents", "dissents_from", "overrides", "overrides_from", "events")
        return {
            "agent": self.agent, "trust_score": self.trust, "raw": self.raw, "parts": parts,
            **{name: getattr(self, name) for name in names}, "interval": [self.low, self.high], "at": to_iso(self.at),
        }  # fmt: skip


def compute_score(
    agent: str, window: TrustSums, total: TrustSums, at: datetime, initial: float = INITIAL_TRUST
) -> TrustScore:
    """Compute the trust from the sums of the window and of all history; ``initial`` when both are empty."""
    dissents, dissents_from = _choose_basis(window, total, "dissents")
    overrides, overrides_from = _choose_basis(window, total, "overrides")
    if dissents_from == overrides_from == "nothing":
        return TrustScore(agent, initial, initial, 0.0, 0.0, 0.0, 0, 0, dissents_from, overrides_from, 0.0, 1.0, at)
    raw = (
        IMPACT_WEIGHT * dissents.impact_ratio
        + DEPTH_WEIGHT * dissents.mean_depth
        + REGRET_WEIGHT * (1 - overrides.regret_ratio)
    )
    if dissents.dissents < 2:  # as wide as depths can be
        depth_variance = 1.0
    else:
        variance = max(dissents.squares / MILLION / dissents.dissents - dissents.mean_depth**2, 0.0)
        depth_variance = (variance + 0.25 / dissents.dissents) / dissents.dissents
    spread = _Z_95 * sqrt(
        IMPACT_WEIGHT**2 * _ratio_variance(dissents.impacts, dissents.dissents)
        + DEPTH_WEIGHT**2 * depth_variance
        + REGRET_WEIGHT**2 * _ratio_variance(overrides.regrets, overrides.overrides)
    )
    return TrustScore(
        agent, round(_clamp(raw), 12), raw, dissents.impact_ratio, dissents.mean_depth, overrides.regret_ratio,
        dissents.dissents, overrides.overrides, dissents_from, overrides_from, _clamp(raw - spread),
        _clamp(raw + spread), at,
    )  # fmt: skip


def _choose_basis(
    window: TrustSums, total: TrustSums, events: Literal["dissents", "overrides"]
) -> tuple[TrustSums, ScoreBasis]:
    if getattr(window, events) >= MIN_WINDOW_EVENTS:
        return window, "window"
    return (total, "history") if getattr(total, events) else (TrustSums(), "nothing")


def _clamp(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _ratio_variance(hits: int, tries: int) -> float:
    """Return the variance of a ratio, with two hits and two misses added so that few tries never look certain."""
    ratio = (hits + 2) / (tries + 4)
    return ratio * (1 - ratio) / (tries + 4)


def binomial_cdf(hits: int, tries: int, ratio: float) -> float:
    """Return the probability of at most ``hits`` hits when each try hits with probability ``ratio``."""
    if not 0 < ratio < 1:
        return 1.0 if ratio <= 0 or hits >= tries else 0.0
    log_permutations = lgamma(tries + 1)
    return fsum(
        exp(log_permutations - lgamma(k + 1) - lgamma(tries - k + 1) + k * log(ratio) + (tries - k) * log(1 - ratio))
        for k in range(hits + 1)
    )


def weighted_mean(values: Mapping[str, float], trust: Mapping[str, float]) -> float | None:
    """Return the mean of the agents' values, weighted by trust; None when every trust is 0."""
    total = sum(trust[name] for name in values)
    return sum(value * trust[name] for name, value in values.items()) / total if total else None
