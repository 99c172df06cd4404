"""How good predictions were: scores of probabilities against what happened. Pure functions of plain numbers.

Every score is a mean over settled predictions, each a pair of a probability ``p`` and an outcome ``o`` (1 happened, 0
did not). Where there are none, a score is ``None``.

    Brier score          (p − o)²; 0 is perfect, 0.25 is a coin, 1 is certain and wrong
    log score            ln of the probability given to what happened; 0 is perfect. p is kept EPSILON away from 0 and 1,
                         so certain and wrong costs about −36 and not infinity
    calibration error    ECE: the gap between mean p and mean o in each of ten equal bins, weighted by the bin's share
    calibration score    1 − ECE; 1 is perfect
    decomposition        Brier = reliability − resolution + uncertainty + spread within bins − covariance within bins;
                         exact, because the last two terms are there (Stephenson et al., 2008)
    accuracy             the share of predictions on the right side of one half; one half itself counts as half right
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from math import fsum, log, sqrt
from typing import Any

EPSILON = 2.0**-52
BINS = 10
HIGH, MEDIUM = 0.8, 0.6
"""From which confidence on a prediction counts as high and as medium."""

BUCKETS = ("high", "medium", "low")
_Z = 1.959963984540054  # 95 % of a normal distribution


@dataclass(frozen=True, slots=True)
class Settled:
    """A prediction whose outcome is known. ``confidence`` is how sure it was; without one, p's distance from 0.5 tells."""

    probability: float
    outcome: float
    confidence: float | None = None
    category: str = ""

    @property
    def bucket(self) -> str:
        sure = max(self.probability, 1 - self.probability) if self.confidence is None else self.confidence
        return "high" if sure >= HIGH else "medium" if sure >= MEDIUM else "low"


@dataclass(frozen=True, slots=True)
class Bin:
    """The predictions between two probabilities: what they said on average, and how often it happened."""

    lower: float
    upper: float
    count: int
    mean_probability: float
    observed: float
    interval: tuple[float, float]
    """Where the true frequency lies with 95 % (Wilson)."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """The predictions of one confidence."""

    count: int
    accuracy: float | None


@dataclass(frozen=True, slots=True)
class Decomposition:
    """What a Brier score is made of."""

    reliability: float
    resolution: float
    uncertainty: float
    within_spread: float
    within_covariance: float

    @property
    def brier(self) -> float:
        return fsum((self.reliability, -self.resolution, self.uncertainty, self.within_spread, -self.within_covariance))


@dataclass(frozen=True, slots=True)
class Scores:
    """Every score of a set of settled predictions."""

    count: int
    brier_score: float | None
    log_score: float | None
    calibration_score: float | None
    calibration_error: float | None
    accuracy: float | None
    base_rate: float | None
    skill: float | None
    """How much better than always saying the base rate: 1 − Brier / uncertainty. ``None`` if all outcomes are alike."""
    decomposition: Decomposition | None
    by_confidence_bucket: dict[str, Bucket]
    reliability: tuple[Bin, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def score(settled: Sequence[Settled]) -> Scores:
    """Every score at once."""
    buckets = {name: bucket(item for item in settled if item.bucket == name) for name in BUCKETS}
    if not settled:
        return Scores(0, None, None, None, None, None, None, None, None, buckets, ())
    table = reliability(settled)
    error = calibration_error(table)
    parts = decompose(settled)
    quality = brier(settled)
    skill = 1 - quality / parts.uncertainty if parts.uncertainty > 0 else None
    return Scores(
        len(settled),
        quality,
        log_score(settled),
        1 - error,
        error,
        accuracy(settled),
        _mean(item.outcome for item in settled),
        skill,
        parts,
        buckets,
        table,
    )


def brier(settled: Sequence[Settled]) -> float:
    return _mean((item.probability - item.outcome) ** 2 for item in settled)


def log_score(settled: Sequence[Settled]) -> float:
    return _mean(_log_likelihood(item.probability, item.outcome) for item in settled)


def accuracy(settled: Sequence[Settled]) -> float:
    return _mean(_right(item) for item in settled)


def bucket(settled: Iterable[Settled]) -> Bucket:
    held = list(settled)
    return Bucket(len(held), accuracy(held) if held else None)


def reliability(settled: Sequence[Settled]) -> tuple[Bin, ...]:
    """The bins that hold any predictions, from low to high."""
    bins = []
    for at, held in enumerate(_binned(settled)):
        if held:
            observed = _mean(item.outcome for item in held)
            said = _mean(item.probability for item in held)
            bins.append(Bin(at / BINS, (at + 1) / BINS, len(held), said, observed, wilson(observed, len(held))))
    return tuple(bins)


def calibration_error(table: Sequence[Bin]) -> float:
    total = sum(row.count for row in table)
    return fsum(row.count * abs(row.mean_probability - row.observed) for row in table) / total


def decompose(settled: Sequence[Settled]) -> Decomposition:
    """The Brier score taken apart."""
    total, rate = len(settled), _mean(item.outcome for item in settled)
    reliable, resolved, spread, together = [], [], [], []
    for held in _binned(settled):
        if held:
            said, observed = _mean(item.probability for item in held), _mean(item.outcome for item in held)
            reliable.append(len(held) * (said - observed) ** 2)
            resolved.append(len(held) * (observed - rate) ** 2)
            spread += [(item.probability - said) ** 2 for item in held]
            together += [2 * (item.probability - said) * (item.outcome - observed) for item in held]
    return Decomposition(
        fsum(reliable) / total, fsum(resolved) / total, rate * (1 - rate), fsum(spread) / total, fsum(together) / total
    )


def wilson(share: float, count: int) -> tuple[float, float]:
    """Where a true frequency lies with 95 % when a share of so many was seen."""
    square = _Z * _Z
    middle = (share + square / (2 * count)) / (1 + square / count)
    reach = _Z / (1 + square / count) * sqrt(share * (1 - share) / count + square / (4 * count * count))
    return max(0.0, middle - reach), min(1.0, middle + reach)


def by(settled: Sequence[Settled], name: Callable[[Settled], str]) -> dict[str, list[Settled]]:
    """Settled predictions in groups."""
    groups: dict[str, list[Settled]] = {}
    for item in settled:
        groups.setdefault(name(item), []).append(item)
    return groups


def _binned(settled: Sequence[Settled]) -> list[list[Settled]]:
    bins: list[list[Settled]] = [[] for _ in range(BINS)]
    for item in settled:
        bins[min(int(item.probability * BINS), BINS - 1)].append(item)
    return bins


def _right(item: Settled) -> float:
    if item.probability == 0.5:
        return 0.5
    return float((item.probability > 0.5) == (item.outcome > 0.5))


def _log_likelihood(p: float, outcome: float) -> float:
    p = min(max(p, EPSILON), 1 - EPSILON)
    return outcome * log(p) + (1 - outcome) * log(1 - p)


def _mean(values: Iterable[float]) -> float:
    held = list(values)
    return fsum(held) / len(held)
