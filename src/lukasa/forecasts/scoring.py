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
BIN_COUNT = 10
HIGH_CONFIDENCE, MEDIUM_CONFIDENCE = 0.8, 0.6
"""From which confidence on a prediction counts as high and as medium."""

CONFIDENCE_BUCKETS = ("high", "medium", "low")
_Z_95 = 1.959963984540054  # 95 % of a normal distribution


@dataclass(frozen=True, slots=True)
class ResolvedPrediction:
    """A prediction whose outcome is known. ``confidence`` is how sure it was; without one, p's distance from 0.5 tells."""

    probability: float
    outcome: float
    confidence: float | None = None
    category: str = ""

    @property
    def confidence_bucket(self) -> str:
        sure = max(self.probability, 1 - self.probability) if self.confidence is None else self.confidence
        return "high" if sure >= HIGH_CONFIDENCE else "medium" if sure >= MEDIUM_CONFIDENCE else "low"


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """The predictions between two probabilities: what they said on average, and how often it happened."""

    lower: float
    upper: float
    count: int
    mean_probability: float
    observed: float
    interval: tuple[float, float]
    """Where the true frequency lies with 95 % (Wilson)."""


@dataclass(frozen=True, slots=True)
class ConfidenceBucket:
    """The predictions of one confidence."""

    count: int
    accuracy: float | None


@dataclass(frozen=True, slots=True)
class BrierDecomposition:
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
class ForecastScores:
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
    decomposition: BrierDecomposition | None
    by_confidence_bucket: dict[str, ConfidenceBucket]
    reliability: tuple[ReliabilityBin, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def compute_scores(predictions: Sequence[ResolvedPrediction]) -> ForecastScores:
    """Every score at once."""
    buckets = {
        name: score_bucket(item for item in predictions if item.confidence_bucket == name)
        for name in CONFIDENCE_BUCKETS
    }
    if not predictions:
        return ForecastScores(0, None, None, None, None, None, None, None, None, buckets, ())
    table = reliability_bins(predictions)
    error = calibration_error(table)
    parts = decompose_brier(predictions)
    quality = brier_score(predictions)
    skill = 1 - quality / parts.uncertainty if parts.uncertainty > 0 else None
    return ForecastScores(
        len(predictions),
        quality,
        log_score(predictions),
        1 - error,
        error,
        accuracy(predictions),
        _mean(item.outcome for item in predictions),
        skill,
        parts,
        buckets,
        table,
    )


def brier_score(predictions: Sequence[ResolvedPrediction]) -> float:
    return _mean((item.probability - item.outcome) ** 2 for item in predictions)


def log_score(predictions: Sequence[ResolvedPrediction]) -> float:
    return _mean(_log_likelihood(item.probability, item.outcome) for item in predictions)


def accuracy(predictions: Sequence[ResolvedPrediction]) -> float:
    return _mean(_correctness(item) for item in predictions)


def score_bucket(predictions: Iterable[ResolvedPrediction]) -> ConfidenceBucket:
    held = list(predictions)
    return ConfidenceBucket(len(held), accuracy(held) if held else None)


def reliability_bins(predictions: Sequence[ResolvedPrediction]) -> tuple[ReliabilityBin, ...]:
    """The bins that hold any predictions, from low to high."""
    bins = []
    for at, held in enumerate(_group_into_bins(predictions)):
        if held:
            observed = _mean(item.outcome for item in held)
            said = _mean(item.probability for item in held)
            bins.append(
                ReliabilityBin(
                    at / BIN_COUNT,
                    (at + 1) / BIN_COUNT,
                    len(held),
                    said,
                    observed,
                    wilson_interval(observed, len(held)),
                )
            )
    return tuple(bins)


def calibration_error(table: Sequence[ReliabilityBin]) -> float:
    total = sum(row.count for row in table)
    return fsum(row.count * abs(row.mean_probability - row.observed) for row in table) / total


def decompose_brier(predictions: Sequence[ResolvedPrediction]) -> BrierDecomposition:
    """The Brier score taken apart."""
    total, rate = len(predictions), _mean(item.outcome for item in predictions)
    reliable, resolved, spread, together = [], [], [], []
    for held in _group_into_bins(predictions):
        if held:
            said, observed = _mean(item.probability for item in held), _mean(item.outcome for item in held)
            reliable.append(len(held) * (said - observed) ** 2)
            resolved.append(len(held) * (observed - rate) ** 2)
            spread += [(item.probability - said) ** 2 for item in held]
            together += [2 * (item.probability - said) * (item.outcome - observed) for item in held]
    return BrierDecomposition(
        fsum(reliable) / total, fsum(resolved) / total, rate * (1 - rate), fsum(spread) / total, fsum(together) / total
    )


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """Where a true frequency lies with 95 % when a share of so many was seen."""
    square = _Z_95 * _Z_95
    middle = (share + square / (2 * count)) / (1 + square / count)
    reach = _Z_95 / (1 + square / count) * sqrt(share * (1 - share) / count + square / (4 * count * count))
    return max(0.0, middle - reach), min(1.0, middle + reach)


def group_predictions(
    predictions: Sequence[ResolvedPrediction], key: Callable[[ResolvedPrediction], str]
) -> dict[str, list[ResolvedPrediction]]:
    """Settled predictions in groups."""
    groups: dict[str, list[ResolvedPrediction]] = {}
    for item in predictions:
        groups.setdefault(key(item), []).append(item)
    return groups


def _group_into_bins(predictions: Sequence[ResolvedPrediction]) -> list[list[ResolvedPrediction]]:
    bins: list[list[ResolvedPrediction]] = [[] for _ in range(BIN_COUNT)]
    for item in predictions:
        bins[min(int(item.probability * BIN_COUNT), BIN_COUNT - 1)].append(item)
    return bins


def _correctness(item: ResolvedPrediction) -> float:
    if item.probability == 0.5:
        return 0.5
    return float((item.probability > 0.5) == (item.outcome > 0.5))


def _log_likelihood(p: float, outcome: float) -> float:
    p = min(max(p, EPSILON), 1 - EPSILON)
    return outcome * log(p) + (1 - outcome) * log(1 - p)


def _mean(values: Iterable[float]) -> float:
    held = list(values)
    return fsum(held) / len(held)
