"""The document's arithmetic as pure functions: the depth of a dissent, the trust that sums give, and its uncertainty.

    depth = min(words / 50, 1) + min(0.2 × citations, 0.5) + novelty, at most 2
    trust = 0.4 × impact ratio + 0.3 × mean depth + 0.3 × (1 − regret ratio), between 0 and 1

Two scores follow from the same formula: the document's, from every judged dissent as it is, and the adjusted one, from
what the rules in ``rules.py`` let count. This module knows no rule. Sums are integers (depths in millionths), so that
adding and subtracting in any order gives the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import exp, fsum, lgamma, log, sqrt
from typing import Any, Literal, NamedTuple

from lukasa.core.clock import to_iso

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


class CountedDissent(NamedTuple):
    """What a dissent adds to the adjusted score."""

    impact: bool
    depth: float


class TrustSums(NamedTuple):
    """Sums over dissents and overrides. Depths are in millionths, ``squares`` in millionths of squared depths.

    ``counted``, ``counted_impacts`` and ``counted_depth`` are the sums of the adjusted score.
    """

    dissents: int = 0
    impacts: int = 0
    depth: int = 0
    squares: int = 0
    overrides: int = 0
    regrets: int = 0
    useful: int = 0
    counted: int = 0
    counted_impacts: int = 0
    counted_depth: int = 0

    def plus(self, other: TrustSums) -> TrustSums:
        return TrustSums(*(own + its for own, its in zip(self, other, strict=True)))

    def minus(self, other: TrustSums) -> TrustSums:
        return TrustSums(*(own - its for own, its in zip(self, other, strict=True)))

    @classmethod
    def sum_all(cls, parts: Iterable[TrustSums]) -> TrustSums:
        total = cls()
        for part in parts:
            total = total.plus(part)
        return total

    @classmethod
    def from_dissent(cls, *, impact: bool, depth: float, counted: CountedDissent | None) -> TrustSums:
        sums = cls(1, int(impact), round(depth * MILLION), round(depth * 1000) ** 2)
        if counted is None:
            return sums
        return sums._replace(
            counted=1, counted_impacts=int(counted.impact), counted_depth=round(counted.depth * MILLION)
        )

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
    def adjusted(self) -> TrustSums:
        """The same sums with the dissents that the rules let count."""
        return self._replace(dissents=self.counted, impacts=self.counted_impacts, depth=self.counted_depth)

    @property
    def regret_ratio(self) -> float:
        return self.regrets / self.overrides if self.overrides else 0.0

    @property
    def usefulness(self) -> float:
        """The share of overrides that changed the output and were not reverted."""
        return self.useful / self.overrides if self.overrides else 0.0


@dataclass(frozen=True, slots=True)
class TrustScore:
    """An agent's two scores, the parts of the formula, and the number of events behind them.

    ``trust`` is the document's score and ``raw`` the formula before clamping; ``low`` and ``high`` bound it with about
    95 % confidence. ``adjusted_score`` is the same formula over what the rules let count.
    """

    agent: str
    trust: float
    adjusted_score: float
    raw: float
    impact_ratio: float
    mean_depth: float
    regret_ratio: float
    dissents: int
    overrides: int
    dissents_from: ScoreBasis
    overrides_from: ScoreBasis
    adjusted_impact_ratio: float
    adjusted_mean_depth: float
    counted: int
    """The number of dissents that the rules let count."""
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
            "agent": self.agent, "trust_score": self.trust, "adjusted_score": self.adjusted_score, "raw": self.raw,
            "parts": parts, **{name: getattr(self, name) for name in names},
            "adjusted": {
                "impact_ratio": self.adjusted_impact_ratio, "mean_depth": self.adjusted_mean_depth,
                "dissents": self.counted,
            },
            "interval": [self.low, self.high], "at": to_iso(self.at),
        }  # fmt: skip


def compute_score(
    agent: str, window: TrustSums, total: TrustSums, at: datetime, given: float | None = None
) -> TrustScore:
    """Compute both scores from the sums of the window and of all history; the initial trust when both are empty.

    ``given`` is the score of an imported file that still holds; then the rules make the same difference to it.
    """
    dissents, dissents_from = choose_basis(window, total, "dissents")
    overrides, overrides_from = choose_basis(window, total, "overrides")
    counted, counted_from = choose_basis(window.adjusted, total.adjusted, "dissents")
    raw, adjusted, spread = INITIAL_TRUST, INITIAL_TRUST, 1.0
    if not dissents_from == overrides_from == "nothing":
        raw = _weigh(dissents, overrides)
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
    if not counted_from == overrides_from == "nothing":
        adjusted = _weigh(counted, overrides)
    centre = raw
    if given is not None:
        centre, adjusted = given, given + adjusted - raw
    return TrustScore(
        agent, round(_clamp(centre), 12), round(_clamp(adjusted), 12), raw, dissents.impact_ratio, dissents.mean_depth,
        overrides.regret_ratio, dissents.dissents, overrides.overrides, dissents_from, overrides_from,
        counted.impact_ratio, counted.mean_depth, counted.dissents, _clamp(centre - spread), _clamp(centre + spread), at,
    )  # fmt: skip


def _weigh(dissents: TrustSums, overrides: TrustSums) -> float:
    """Return the document's formula, before clamping."""
    return (
        IMPACT_WEIGHT * dissents.impact_ratio
        + DEPTH_WEIGHT * dissents.mean_depth
        + REGRET_WEIGHT * (1 - overrides.regret_ratio)
    )


def choose_basis(
    window: TrustSums, total: TrustSums, events: Literal["dissents", "overrides"]
) -> tuple[TrustSums, ScoreBasis]:
    """Return the sums of the window if it holds enough events, else those of all history."""
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
