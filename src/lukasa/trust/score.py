"""The document's arithmetic, exact and pure: how deep a dissent is, what trust follows from sums, how sure it is.

    depth = min(words / 50, 1) + min(0.2 × citations, 0.5) + novelty, at most 2
    trust = 0.4 × impact ratio + 0.3 × mean depth + 0.3 × (1 − regret ratio), between 0 and 1

Sums are whole numbers (depths in millionths), so adding and taking away in any order gives the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import exp, fsum, lgamma, log, sqrt
from typing import Any, Literal, NamedTuple

from lukasa.clock import to_iso

INITIAL_TRUST = 0.6
"""The trust of whoever nothing is known of."""
WINDOW_DAYS = 90
"""Ratios look back so many whole UTC days, today not counted among them."""
MIN_WINDOW_EVENTS = 5
"""A ratio whose window holds fewer events than this looks at all history."""
IMPACT_WEIGHT, DEPTH_WEIGHT, REGRET_WEIGHT = 0.4, 0.3, 0.3
MAX_DEPTH = 2.0
MILLION = 1_000_000
_Z_95 = 1.96

ScoreBasis = Literal["window", "history", "nothing"]


def length_score(text: str) -> float:
    """The part of a dissent's depth that its length makes: 1 from fifty words on."""
    return min(len(text.split()) / 50, 1.0)


def citation_bonus(citations: Sequence[str]) -> float:
    """The part that its citations make: 0.2 each, at most 0.5."""
    return min(len(citations) * 0.2, 0.5)


def compute_depth(text: str, citations: Sequence[str], novelty: float) -> float:
    """How deep a dissent is, between 0 and 2."""
    return min(length_score(text) + citation_bonus(citations) + novelty, MAX_DEPTH)


class TrustSums(NamedTuple):
    """What counts towards trust, added up. ``depth`` is in millionths, ``squares`` in millionths of squared depths."""

    dissents: int = 0
    impacts: int = 0
    depth: int = 0
    squares: int = 0
    overrides: int = 0
    regrets: int = 0
    useful: int = 0

    def plus(self, other: TrustSums) -> TrustSums:
        return TrustSums(*(own + its for own, its in zip(self, other, strict=True)))

    def minus(self, other: TrustSums) -> TrustSums:
        return TrustSums(*(own - its for own, its in zip(self, other, strict=True)))

    @classmethod
    def sum_all(cls, parts: Iterable[TrustSums]) -> TrustSums:
        whole = cls()
        for each in parts:
            whole = whole.plus(each)
        return whole

    @classmethod
    def from_dissent(cls, *, impact: bool, depth: float) -> TrustSums:
        return cls(1, int(impact), round(depth * MILLION), round(depth * 1000) ** 2)

    @classmethod
    def from_override(cls, *, useful: bool) -> TrustSums:
        return cls(overrides=1, useful=int(useful))

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
        """Which share of the escalations to a person changed the output and stood."""
        return self.useful / self.overrides if self.overrides else 0.0


@dataclass(frozen=True, slots=True)
class TrustScore:
    """An agent's trust, the three parts it is made of, and how much stands behind it.

    ``low`` and ``high`` enclose it with about 95 % confidence. ``raw`` is the formula before it is clamped.
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
        """How many events it is computed from."""
        return self.dissents + self.overrides

    def as_json(self) -> dict[str, Any]:
        return {
            "agent": self.agent,
            "trust_score": self.trust,
            "raw": self.raw,
            "parts": {
                "impact_ratio": {
                    "value": self.impact_ratio,
                    "weight": IMPACT_WEIGHT,
                    "share": IMPACT_WEIGHT * self.impact_ratio,
                },
                "mean_depth": {
                    "value": self.mean_depth,
                    "weight": DEPTH_WEIGHT,
                    "share": DEPTH_WEIGHT * self.mean_depth,
                },
                "steadiness": {
                    "value": 1 - self.regret_ratio,
                    "weight": REGRET_WEIGHT,
                    "share": REGRET_WEIGHT * (1 - self.regret_ratio),
                },
            },
            "regret_ratio": self.regret_ratio,
            "dissents": self.dissents,
            "dissents_from": self.dissents_from,
            "overrides": self.overrides,
            "overrides_from": self.overrides_from,
            "events": self.events,
            "interval": [self.low, self.high],
            "at": to_iso(self.at),
        }


def compute_score(
    agent: str, window: TrustSums, total: TrustSums, at: datetime, initial: float = INITIAL_TRUST
) -> TrustScore:
    """The trust that follows from the sums of the window and of all history."""
    told, told_from = _choose_basis(window, total, "dissents")
    decided, decided_from = _choose_basis(window, total, "overrides")
    if told_from == decided_from == "nothing":
        return TrustScore(agent, initial, initial, 0.0, 0.0, 0.0, 0, 0, told_from, decided_from, 0.0, 1.0, at)
    raw = (
        IMPACT_WEIGHT * told.impact_ratio + DEPTH_WEIGHT * told.mean_depth + REGRET_WEIGHT * (1 - decided.regret_ratio)
    )
    spread = _Z_95 * sqrt(
        IMPACT_WEIGHT**2 * _ratio_variance(told.impacts, told.dissents)
        + DEPTH_WEIGHT**2 * _depth_variance(told)
        + REGRET_WEIGHT**2 * _ratio_variance(decided.regrets, decided.overrides)
    )
    return TrustScore(
        agent, round(_clamp(raw), 12), raw, told.impact_ratio, told.mean_depth, decided.regret_ratio, told.dissents,
        decided.overrides, told_from, decided_from, _clamp(raw - spread), _clamp(raw + spread), at,
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
    """The variance of a ratio, with two hits and two misses added so that few tries never look certain."""
    ratio = (hits + 2) / (tries + 4)
    return ratio * (1 - ratio) / (tries + 4)


def _depth_variance(sums: TrustSums) -> float:
    """The variance of the mean depth; of one dissent or none it is as wide as depths can be."""
    if sums.dissents < 2:
        return 1.0 / max(sums.dissents, 1)
    variance = max(sums.squares / MILLION / sums.dissents - sums.mean_depth**2, 0.0)
    return (variance + 0.25 / sums.dissents) / sums.dissents


def binomial_cdf(hits: int, tries: int, ratio: float) -> float:
    """How likely so few hits, or fewer, are when each try hits with this ratio."""
    if not 0 < ratio < 1:
        return 1.0 if ratio <= 0 or hits >= tries else 0.0
    certain = lgamma(tries + 1)
    return fsum(
        exp(certain - lgamma(many + 1) - lgamma(tries - many + 1) + many * log(ratio) + (tries - many) * log(1 - ratio))
        for many in range(hits + 1)
    )


def weighted_mean(values: Mapping[str, float], trust: Mapping[str, float]) -> float | None:
    """The mean of what agents say, each weighed by trust; none when nobody is trusted at all."""
    whole = sum(trust[name] for name in values)
    return sum(value * trust[name] for name, value in values.items()) / whole if whole else None
