"""Scores of probabilities against outcomes, as pure functions.

Each score is a mean over resolved predictions: pairs of a probability ``p`` and an outcome ``o`` (1 happened, 0 did
not). Without any predictions a score is ``None``.

    Brier score          (p − o)²; 0 is perfect, 0.25 is a coin, 1 is certain and wrong
    log score            ln of the probability given to what happened; 0 is perfect. p is kept EPSILON away from 0 and 1,
                         so certain and wrong costs about −36 and not infinity
    calibration error    ECE: the gap between mean p and mean o in each of ten equal bins, weighted by the bin's share
    calibration score    1 − ECE; 1 is perfect
    decomposition        Brier = reliability − resolution + uncertainty + spread within bins − covariance within bins;
                         exact, because it includes the last two terms (Stephenson et al., 2008)
    accuracy             the share of predictions on the right side of one half; one half itself counts as half right
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import fsum, log, sqrt
from typing import Any

EPSILON = 2.0**-52
BIN_COUNT = 10
HIGH_CONFIDENCE, MEDIUM_CONFIDENCE = 0.8, 0.6
"""The lowest confidence that counts as high, and the lowest that counts as medium."""

CONFIDENCE_BUCKETS = ("high", "medium", "low")
_Z_95 = 1.959963984540054  # the 97.5 % quantile of the normal distribution: 95 % lie between −z and z


@dataclass(frozen=True, slots=True)
class ResolvedPrediction:
    """A prediction whose outcome is known. Without a ``confidence``, the distance of p from 0.5 serves as one."""

    probability: float
    outcome: float
    confidence: float | None = None
    category: str = ""

    @property
    def confidence_bucket(self) -> str:
        """``high``, ``medium`` or ``low``."""
        confidence = max(self.probability, 1 - self.probability) if self.confidence is None else self.confidence
        return "high" if confidence >= HIGH_CONFIDENCE else "medium" if confidence >= MEDIUM_CONFIDENCE else "low"


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """The predictions between two probabilities: their mean, and how often they came true."""

    lower: float
    upper: float
    count: int
    mean_probability: float
    observed: float
    interval: tuple[float, float]
    """The 95 % confidence interval of the true frequency (Wilson)."""


@dataclass(frozen=True, slots=True)
class ConfidenceBucket:
    """Count and accuracy of the predictions in one confidence bucket."""

    count: int
    accuracy: float | None


@dataclass(frozen=True, slots=True)
class BrierDecomposition:
    """The terms of a Brier score."""

    reliability: float
    resolution: float
    uncertainty: float
    within_spread: float
    within_covariance: float

    @property
    def brier(self) -> float:
        """The Brier score that the terms add up to."""
        return fsum((self.reliability, -self.resolution, self.uncertainty, self.within_spread, -self.within_covariance))


@dataclass(frozen=True, slots=True)
class ForecastScores:
    """All scores of a set of resolved predictions."""

    count: int
    brier_score: float | None
    log_score: float | None
    calibration_score: float | None
    calibration_error: float | None
    accuracy: float | None
    base_rate: float | None
    skill: float | None
    """The gain over always predicting the base rate: 1 − Brier / uncertainty. ``None`` if all outcomes are alike."""
    decomposition: BrierDecomposition | None
    by_confidence_bucket: dict[str, ConfidenceBucket]
    reliability: tuple[ReliabilityBin, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the scores as plain values."""
        return asdict(self)


def compute_scores(predictions: Sequence[ResolvedPrediction]) -> ForecastScores:
    """Compute all scores of resolved predictions."""
    buckets = {}
    for name in CONFIDENCE_BUCKETS:
        members = [item for item in predictions if item.confidence_bucket == name]
        buckets[name] = ConfidenceBucket(len(members), accuracy(members) if members else None)
    if not predictions:
        return ForecastScores(0, None, None, None, None, None, None, None, None, buckets, ())
    table = reliability_bins(predictions)
    error = fsum(row.count * abs(row.mean_probability - row.observed) for row in table) / len(predictions)
    decomposition, brier = decompose_brier(predictions), brier_score(predictions)
    return ForecastScores(
        count=len(predictions),
        brier_score=brier,
        log_score=log_score(predictions),
        calibration_score=1 - error,
        calibration_error=error,
        accuracy=accuracy(predictions),
        base_rate=_mean(item.outcome for item in predictions),
        skill=1 - brier / decomposition.uncertainty if decomposition.uncertainty > 0 else None,
        decomposition=decomposition,
        by_confidence_bucket=buckets,
        reliability=table,
    )


def brier_score(predictions: Sequence[ResolvedPrediction]) -> float:
    """Return the mean squared distance between probability and outcome."""
    return _mean((item.probability - item.outcome) ** 2 for item in predictions)


def log_score(predictions: Sequence[ResolvedPrediction]) -> float:
    """Return the mean log-likelihood of the outcomes, with probabilities kept ``EPSILON`` away from 0 and 1."""
    clamped = [(min(max(item.probability, EPSILON), 1 - EPSILON), item.outcome) for item in predictions]
    return _mean(outcome * log(p) + (1 - outcome) * log(1 - p) for p, outcome in clamped)


def accuracy(predictions: Sequence[ResolvedPrediction]) -> float:
    """Return the share of predictions on the right side of one half; one half itself counts as half right."""
    return _mean(
        0.5 if item.probability == 0.5 else float((item.probability > 0.5) == (item.outcome > 0.5))
        for item in predictions
    )


def reliability_bins(predictions: Sequence[ResolvedPrediction]) -> tuple[ReliabilityBin, ...]:
    """Return the bins that are not empty, from low to high."""
    table = []
    for index, members in enumerate(_group_into_bins(predictions)):
        if members:
            observed = _mean(item.outcome for item in members)
            table.append(
                ReliabilityBin(
                    lower=index / BIN_COUNT,
                    upper=(index + 1) / BIN_COUNT,
                    count=len(members),
                    mean_probability=_mean(item.probability for item in members),
                    observed=observed,
                    interval=wilson_interval(observed, len(members)),
                )
            )
    return tuple(table)


def decompose_brier(predictions: Sequence[ResolvedPrediction]) -> BrierDecomposition:
    """Split the Brier score into its terms."""
    total, base_rate = len(predictions), _mean(item.outcome for item in predictions)
    reliability, resolution, spread, covariance = [], [], [], []
    for members in _group_into_bins(predictions):
        if members:
            mean, observed = _mean(item.probability for item in members), _mean(item.outcome for item in members)
            reliability.append(len(members) * (mean - observed) ** 2)
            resolution.append(len(members) * (observed - base_rate) ** 2)
            spread += [(item.probability - mean) ** 2 for item in members]
            covariance += [2 * (item.probability - mean) * (item.outcome - observed) for item in members]
    return BrierDecomposition(
        reliability=fsum(reliability) / total,
        resolution=fsum(resolution) / total,
        uncertainty=base_rate * (1 - base_rate),
        within_spread=fsum(spread) / total,
        within_covariance=fsum(covariance) / total,
    )


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a frequency that was observed as ``share`` of ``count`` cases."""
    square = _Z_95 * _Z_95
    middle = (share + square / (2 * count)) / (1 + square / count)
    radius = _Z_95 / (1 + square / count) * sqrt(share * (1 - share) / count + square / (4 * count * count))
    return max(0.0, min(middle - radius, share)), min(1.0, max(middle + radius, share))


def _group_into_bins(predictions: Sequence[ResolvedPrediction]) -> list[list[ResolvedPrediction]]:
    bins: list[list[ResolvedPrediction]] = [[] for _ in range(BIN_COUNT)]
    for item in predictions:
        bins[min(int(item.probability * BIN_COUNT), BIN_COUNT - 1)].append(item)
    return bins


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return fsum(numbers) / len(numbers)
