"""What an agent can learn from its settled predictions: how far off it is, whether it improves, where it is weak.

A prediction is corrected on the scale of log-odds: ``p' = σ(scaling · logit(p) + bias)``. A scaling below 1 says that the
agent is too sure of itself, a bias below 0 that it expects too much to happen. Both are fitted together by the outcomes'
likelihood, held near no correction at all by ``PRIOR``: it takes evidence to move them. Whether the correction would have
helped on predictions it was not fitted on is measured in five folds; if it would not, none is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import exp, fsum, log, sqrt
from typing import Any, Literal

from lukasa.forecasts.scoring import EPSILON, ResolvedPrediction, brier_score, group_predictions

MIN_PREDICTIONS = 30
"""So many settled predictions are needed before anything is corrected."""

MIN_PER_CATEGORY = 5
MIN_PER_HALF = 10
CATEGORY_MARGIN = 0.02
PRIOR = 4.0
FOLDS = 5

Trend = Literal["improving", "stable", "declining"]


@dataclass(frozen=True, slots=True)
class ProbabilityCorrection:
    """How probabilities are corrected. ``gain`` is by how much the Brier score fell on predictions it had not seen."""

    bias_correction: float = 0.0
    confidence_scaling: float = 1.0
    samples: int = 0
    gain: float | None = None

    @property
    def applies(self) -> bool:
        """Whether there is enough to go by, and it helps."""
        return self.samples >= MIN_PREDICTIONS and self.gain is not None and self.gain > 0

    def __call__(self, probability: float) -> float:
        return _sigmoid(self.confidence_scaling * _logit(probability) + self.bias_correction)


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """What was learned so far."""

    correction: ProbabilityCorrection
    mean_error: float | None
    """Mean probability less mean outcome: above 0 when too much was expected."""
    performance_trend: Trend
    areas_for_improvement: tuple[str, ...]
    why: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"applies": self.correction.applies}


def build_calibration_report(predictions: Sequence[ResolvedPrediction]) -> CalibrationReport:
    """What predictions teach, oldest first."""
    error = fsum(item.probability - item.outcome for item in predictions) / len(predictions) if predictions else None
    correction = ProbabilityCorrection(samples=len(predictions))
    if len(predictions) >= MIN_PREDICTIONS:
        bias, scaling = fit_correction(predictions)
        correction = ProbabilityCorrection(bias, scaling, len(predictions), cross_validated_gain(predictions))
    return CalibrationReport(
        correction,
        error,
        compute_trend(predictions),
        find_weak_categories(predictions),
        _explain_correction(correction),
    )


def fit_correction(predictions: Sequence[ResolvedPrediction]) -> tuple[float, float]:
    """Bias and scaling by Newton's method; the prior keeps them finite whatever the outcomes are."""
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
        length = max(abs(step_b), abs(step_s), 1.0)  # never a leap: far from the optimum Newton overshoots
        bias, scaling = bias - step_b / length, scaling - step_s / length
        if max(abs(step_b), abs(step_s)) < 1e-10:
            break
    return bias, max(scaling, 0.0)


def cross_validated_gain(predictions: Sequence[ResolvedPrediction]) -> float:
    """By how much the Brier score falls when each fold is corrected by what the others teach."""
    corrected = []
    for fold in range(FOLDS):
        rest = [item for at, item in enumerate(predictions) if at % FOLDS != fold]
        bias, scaling = fit_correction(rest)
        apply = ProbabilityCorrection(bias, scaling)
        corrected += [
            ResolvedPrediction(apply(item.probability), item.outcome)
            for at, item in enumerate(predictions)
            if at % FOLDS == fold
        ]
    return brier_score(predictions) - brier_score(corrected)


def compute_trend(predictions: Sequence[ResolvedPrediction]) -> Trend:
    """Whether the newer half is better than the older one by more than chance would make it (one standard error)."""
    half = len(predictions) // 2
    if half < MIN_PER_HALF:
        return "stable"
    older, newer = (
        [(item.probability - item.outcome) ** 2 for item in part] for part in (predictions[:half], predictions[-half:])
    )
    difference = fsum(newer) / half - fsum(older) / half
    error = sqrt((_variance(older) + _variance(newer)) / half)
    if abs(difference) <= error or difference == 0:
        return "stable"
    return "improving" if difference < 0 else "declining"


def find_weak_categories(predictions: Sequence[ResolvedPrediction]) -> tuple[str, ...]:
    """The categories that are clearly worse than the whole, the worst first."""
    if not predictions:
        return ()
    overall = brier_score(predictions)
    scored = {
        name: brier_score(items)
        for name, items in group_predictions(predictions, lambda item: item.category).items()
        if name and len(items) >= MIN_PER_CATEGORY
    }
    return tuple(
        sorted(
            (name for name in scored if scored[name] > overall + CATEGORY_MARGIN),
            key=lambda name: (-scored[name], name),
        )
    )


def _explain_correction(correction: ProbabilityCorrection) -> str:
    if correction.samples < MIN_PREDICTIONS:
        return f"{MIN_PREDICTIONS} settled predictions are needed before anything is corrected; there are {correction.samples}."
    if not correction.applies:
        return f"A correction from {correction.samples} predictions would not have helped on others, so none is made."
    return f"Fitted on {correction.samples} predictions; on others it lowers the Brier score by {correction.gain:.4f}."


def _variance(values: Sequence[float]) -> float:
    middle = fsum(values) / len(values)
    return fsum((value - middle) ** 2 for value in values) / max(len(values) - 1, 1)


def _logit(probability: float) -> float:
    p = min(max(probability, EPSILON), 1 - EPSILON)
    return log(p) - log(1 - p)


def _sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x)) if x >= 0 else exp(x) / (1 + exp(x))
