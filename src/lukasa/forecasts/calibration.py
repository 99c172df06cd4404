"""Calibration from resolved predictions: a correction of probabilities, the trend, and weak categories.

A probability is corrected on the log-odds scale: ``p' = σ(scaling · logit(p) + bias)``. A scaling below 1 means that the
agent is overconfident, a bias below 0 that it expects too much to happen. Both are fitted together by maximum likelihood
of the outcomes; the penalty ``PRIOR`` pulls them towards no correction, so that moving them takes evidence. Five-fold
cross-validation measures whether the correction helps on predictions it was not fitted on; if not, none is made. Predictions
are dealt to the folds in a shuffled order, the same each time, so that outcomes that repeat in time do not fill one fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import exp, fsum, log, sqrt
from random import Random
from typing import Any, Literal

from lukasa.forecasts.scoring import EPSILON, ResolvedPrediction, brier_score

MIN_PREDICTIONS = 30
"""The number of resolved predictions below which nothing is corrected."""

MIN_PER_CATEGORY = 5
MIN_PER_HALF = 10
CATEGORY_MARGIN = 0.02
PRIOR = 4.0
FOLDS = 5

Trend = Literal["improving", "stable", "declining"]


@dataclass(frozen=True, slots=True)
class ProbabilityCorrection:
    """A correction of probabilities. ``gain`` is the fall of the Brier score on predictions it was not fitted on."""

    bias_correction: float = 0.0
    confidence_scaling: float = 1.0
    samples: int = 0
    gain: float | None = None

    @property
    def applies(self) -> bool:
        """Whether there are enough predictions and the correction helps."""
        return self.samples >= MIN_PREDICTIONS and self.gain is not None and self.gain > 0

    def __call__(self, probability: float) -> float:
        return _sigmoid(self.confidence_scaling * _logit(probability) + self.bias_correction)


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """The results of a calibration; ``why`` says in a sentence whether a correction is made."""

    correction: ProbabilityCorrection
    mean_error: float | None
    """Mean probability minus mean outcome: above 0 when too much was expected to happen."""
    performance_trend: Trend
    areas_for_improvement: tuple[str, ...]
    why: str

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return asdict(self) | {"applies": self.correction.applies}


def build_calibration_report(predictions: Sequence[ResolvedPrediction]) -> CalibrationReport:
    """Calibrate on predictions, given oldest first."""
    count = len(predictions)
    correction = ProbabilityCorrection(samples=count)
    why = f"{MIN_PREDICTIONS} settled predictions are needed before anything is corrected; there are {count}."
    if count >= MIN_PREDICTIONS:
        bias, scaling = fit_correction(predictions)
        correction = ProbabilityCorrection(bias, scaling, count, cross_validated_gain(predictions))
        why = (
            f"Fitted on {count} predictions; on others it lowers the Brier score by {correction.gain:.4f}."
            if correction.applies
            else f"No correction: one fitted on these {count} predictions would not have improved later forecasts."
        )
    return CalibrationReport(
        correction=correction,
        mean_error=fsum(item.probability - item.outcome for item in predictions) / count if count else None,
        performance_trend=compute_trend(predictions),
        areas_for_improvement=find_weak_categories(predictions),
        why=why,
    )


def fit_correction(predictions: Sequence[ResolvedPrediction]) -> tuple[float, float]:
    """Fit bias and scaling, which is at least 0, by Newton's method; the prior keeps both finite for any outcomes."""
    bias, scaling = 0.0, 1.0
    points = [(_logit(item.probability), item.outcome) for item in predictions]
    for _ in range(50):
        slope_b, slope_s = PRIOR * bias, PRIOR * (scaling - 1)
        bb, bs, ss = PRIOR, 0.0, PRIOR
        for x, outcome in points:
            p = _sigmoid(scaling * x + bias)
            weight = p * (1 - p)
            slope_b += p - outcome
            slope_s += (p - outcome) * x
            bb += weight
            bs += weight * x
            ss += weight * x * x
        determinant = bb * ss - bs * bs
        step_b = (ss * slope_b - bs * slope_s) / determinant
        step_s = (bb * slope_s - bs * slope_b) / determinant
        length = max(abs(step_b), abs(step_s), 1.0)  # limit the step: far from the optimum Newton overshoots
        bias, scaling = bias - step_b / length, scaling - step_s / length
        if max(abs(step_b), abs(step_s)) < 1e-10:
            break
    if scaling < 0:  # at a scaling of 0 the probabilities do not matter, as if all were one half
        return fit_correction([ResolvedPrediction(0.5, item.outcome) for item in predictions])[0], 0.0
    return bias, scaling


def cross_validated_gain(predictions: Sequence[ResolvedPrediction]) -> float:
    """Return how far the Brier score falls when each fold is corrected by a fit on the other folds."""
    corrected = []
    shuffled = Random(FOLDS).sample(predictions, len(predictions))  # noqa: S311 - no secret, and the same each time
    for fold in range(FOLDS):
        bias, scaling = fit_correction([item for index, item in enumerate(shuffled) if index % FOLDS != fold])
        correct = ProbabilityCorrection(bias, scaling)
        corrected += [ResolvedPrediction(correct(item.probability), item.outcome) for item in shuffled[fold::FOLDS]]
    return brier_score(predictions) - brier_score(corrected)


def compute_trend(predictions: Sequence[ResolvedPrediction]) -> Trend:
    """Compare the newer half with the older one; a difference within one standard error is ``stable``."""
    half = len(predictions) // 2
    if half < MIN_PER_HALF:
        return "stable"
    older, newer = (
        [(item.probability - item.outcome) ** 2 for item in part] for part in (predictions[:half], predictions[-half:])
    )
    difference = fsum(newer) / half - fsum(older) / half
    standard_error = sqrt((_variance(older) + _variance(newer)) / half)
    if abs(difference) <= standard_error or difference == 0:
        return "stable"
    return "improving" if difference < 0 else "declining"


def find_weak_categories(predictions: Sequence[ResolvedPrediction]) -> tuple[str, ...]:
    """Return the categories whose Brier score is clearly worse than the overall one, worst first."""
    if not predictions:
        return ()
    by_category: dict[str, list[ResolvedPrediction]] = {}
    for item in predictions:
        by_category.setdefault(item.category, []).append(item)
    large = {name: items for name, items in by_category.items() if name and len(items) >= MIN_PER_CATEGORY}
    scores = sorted((-brier_score(items), name) for name, items in large.items())
    limit = brier_score(predictions) + CATEGORY_MARGIN
    return tuple(name for negative, name in scores if -negative > limit)


def _variance(values: Sequence[float]) -> float:
    mean = fsum(values) / len(values)
    return fsum((value - mean) ** 2 for value in values) / max(len(values) - 1, 1)


def _logit(probability: float) -> float:
    p = min(max(probability, EPSILON), 1 - EPSILON)
    return log(p) - log(1 - p)


def _sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x)) if x >= 0 else exp(x) / (1 + exp(x))
