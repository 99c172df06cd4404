"""Scores and calibration, compared with scikit-learn; extreme cases have defined values."""

import math
import random
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lukasa.forecasts.calibration import (
    MIN_PREDICTIONS,
    ProbabilityCorrection,
    build_calibration_report,
    compute_trend,
    cross_validated_gain,
    find_weak_categories,
    fit_correction,
)
from lukasa.forecasts.scoring import (
    ResolvedPrediction,
    brier_score,
    compute_scores,
    decompose_brier,
    log_score,
    reliability_bins,
    wilson_interval,
)
from support.narrow import present

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from sklearn.calibration import calibration_curve
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import brier_score_loss, log_loss

PAIRS = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60)


def resolved(pairs):
    return [ResolvedPrediction(probability, float(outcome)) for probability, outcome in pairs]


def sample_predictions(count, truth=lambda p: p, seed=1, **fields):
    """Draw predictions whose outcomes happen with the probability ``truth(p)``."""
    rng = random.Random(seed)
    probabilities = [rng.random() for _ in range(count)]
    return [ResolvedPrediction(p, float(rng.random() < truth(p)), **fields) for p in probabilities]


@pytest.mark.requirement("FOR-4")
@given(PAIRS)
def test_brier_and_log_scores_equal_those_of_scikit_learn(pairs):
    probabilities, outcomes = [p for p, _ in pairs], [int(o) for _, o in pairs]
    scores = compute_scores(resolved(pairs))
    assert scores.brier_score == pytest.approx(
        brier_score_loss(outcomes, probabilities, labels=[0, 1], pos_label=1), abs=1e-12
    )
    assert scores.log_score == pytest.approx(-log_loss(outcomes, probabilities, labels=[0, 1]), rel=1e-9, abs=1e-9)


@pytest.mark.requirement("FOR-4")
@given(PAIRS)
def test_the_reliability_bins_equal_those_of_scikit_learn(pairs):
    nudged = [(min(max(p, 1e-6), 1 - 1e-6) if round(p * 10, 9) % 1 else min(p + 1e-6, 1 - 1e-6), o) for p, o in pairs]
    table = reliability_bins(resolved(nudged))
    observed, predicted = calibration_curve([int(o) for _, o in nudged], [p for p, _ in nudged], n_bins=10, pos_label=1)
    assert [row.observed for row in table] == pytest.approx(list(observed))
    assert [row.mean_probability for row in table] == pytest.approx(list(predicted))
    assert sum(row.count for row in table) == len(pairs)
    for row in table:
        assert 0 <= row.interval[0] <= row.observed + 1e-12
        assert row.observed - 1e-12 <= row.interval[1] <= 1


@pytest.mark.requirement("FOR-4")
@given(PAIRS)
def test_the_terms_of_the_decomposition_add_up_to_the_brier_score(pairs):
    items = resolved(pairs)
    parts = decompose_brier(items)
    assert parts.brier == pytest.approx(brier_score(items), abs=1e-12)
    assert min(parts.reliability, parts.resolution, parts.uncertainty, parts.within_spread) >= 0
    scores = compute_scores(items)
    assert scores.calibration_error is not None
    assert scores.calibration_score == pytest.approx(1 - scores.calibration_error)
    assert 0 <= scores.calibration_error <= 1
    assert sum(bucket.count for bucket in scores.by_confidence_bucket.values()) == len(items)


@pytest.mark.requirement("FOR-4")
def test_scores_of_extreme_cases_are_defined():
    nothing = compute_scores([])
    assert (nothing.count, nothing.brier_score, nothing.log_score, nothing.calibration_score) == (0, None, None, None)
    assert nothing.by_confidence_bucket["high"].accuracy is None
    right, wrong = compute_scores(resolved([(1, True), (0, False)])), compute_scores(resolved([(1, False), (0, True)]))
    assert (right.brier_score, wrong.brier_score) == (0, 1)
    assert right.log_score == pytest.approx(0, abs=1e-15)
    assert wrong.log_score == pytest.approx(math.log(2**-52))
    assert (right.accuracy, wrong.accuracy) == (1, 0)
    one_class = compute_scores(resolved([(0.7, True)] * 5))
    assert one_class.skill is None
    assert present(one_class.decomposition).uncertainty == 0
    assert compute_scores(resolved([(0.5, True)])).accuracy == 0.5
    assert wilson_interval(0, 1)[0] == 0
    assert wilson_interval(1, 1)[1] == 1


@pytest.mark.requirement("FOR-4")
def test_the_bucket_follows_from_the_confidence_or_else_from_the_probability():
    items = [
        ResolvedPrediction(0.5, 1, 0.8),
        ResolvedPrediction(0.5, 1, 0.79),
        ResolvedPrediction(0.9, 1, 0.1),
        ResolvedPrediction(0.1, 0),
        ResolvedPrediction(0.55, 0),
    ]
    assert [item.confidence_bucket for item in items] == ["high", "medium", "low", "high", "low"]
    assert compute_scores(items).by_confidence_bucket["low"].accuracy == 0.5


# Calibration


@pytest.mark.requirement("FOR-5")
def test_the_fit_without_a_prior_equals_logistic_regression(monkeypatch):
    monkeypatch.setattr("lukasa.forecasts.calibration.PRIOR", 1e-9)
    items = sample_predictions(400, lambda p: 0.2 + 0.5 * p)
    bias, scaling = fit_correction(items)
    logits = [[math.log(item.probability / (1 - item.probability))] for item in items]
    model = LogisticRegression(C=1e9, tol=1e-10, max_iter=1000).fit(logits, [item.outcome for item in items])
    assert bias == pytest.approx(model.intercept_[0], abs=1e-4)
    assert scaling == pytest.approx(model.coef_[0][0], abs=1e-4)


@pytest.mark.requirement("FOR-5")
def test_an_overconfident_agent_is_corrected_and_gains_on_unseen_predictions():
    overconfident = sample_predictions(400, lambda p: 0.5 + 0.4 * (p - 0.5))
    report = build_calibration_report(overconfident)
    assert report.correction.applies
    assert report.correction.confidence_scaling < 0.7
    assert report.correction.gain is not None
    assert report.correction.gain > 0.01
    assert abs(report.correction(0.95) - 0.5) < 0.45
    fresh = sample_predictions(2000, lambda p: 0.5 + 0.4 * (p - 0.5), seed=2)
    corrected = [ResolvedPrediction(report.correction(item.probability), item.outcome) for item in fresh]
    assert brier_score(corrected) < brier_score(fresh)
    assert log_score(corrected) > log_score(fresh)


@pytest.mark.requirement("FOR-5")
def test_an_agent_that_expects_too_much_has_a_negative_bias():
    report = build_calibration_report(sample_predictions(400, lambda p: 0.6 * p))
    assert report.correction.bias_correction < -0.2
    assert report.mean_error is not None
    assert report.mean_error > 0.1


@pytest.mark.requirement("FOR-5")
def test_no_correction_applies_below_the_minimum_or_without_a_gain():
    too_small = build_calibration_report(sample_predictions(MIN_PREDICTIONS - 1, lambda p: 0.1))
    assert too_small.correction == ProbabilityCorrection(samples=MIN_PREDICTIONS - 1)
    assert not too_small.correction.applies
    assert str(MIN_PREDICTIONS) in too_small.why
    good = build_calibration_report(sample_predictions(3000))
    assert abs(good.correction.confidence_scaling - 1) < 0.1
    assert good.correction.gain == pytest.approx(0, abs=0.002)
    assert not ProbabilityCorrection(0.1, 0.9, 100, -0.001).applies


@pytest.mark.requirement("FOR-5")
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 1e-300, 0.5, 1.0]) | st.floats(0, 1), st.booleans()), min_size=1, max_size=80
    )
)
def test_the_fit_is_finite_for_any_predictions_and_outcomes(pairs):
    items = resolved(pairs)
    bias, scaling = fit_correction(items)
    assert math.isfinite(bias)
    assert 0 <= scaling < 100
    assert all(0 <= ProbabilityCorrection(bias, scaling)(p) <= 1 for p, _ in pairs)
    assert math.isfinite(cross_validated_gain(items)) if len(items) >= MIN_PREDICTIONS else True
    assert build_calibration_report(items).performance_trend in ("improving", "stable", "declining")


@pytest.mark.requirement("FOR-5")
def test_the_trend_compares_the_newer_half_with_the_older_one():
    bad, good = resolved([(0.9, False)] * 20), resolved([(0.9, True)] * 20)
    assert compute_trend(bad + good) == "improving"
    assert compute_trend(good + bad) == "declining"
    assert compute_trend(good + good) == "stable"
    assert compute_trend((bad + good)[:19]) == "stable"


@pytest.mark.requirement("FOR-5")
def test_weak_categories_are_clearly_worse_than_the_overall_score():
    items = [ResolvedPrediction(0.9, 1, None, "releases")] * 20 + [ResolvedPrediction(0.9, 0, None, "regulation")] * 5
    items += (
        [ResolvedPrediction(0.9, 0, None, "rare")] * 4
        + [ResolvedPrediction(0.7, 0, None, "weather")] * 6
        + [ResolvedPrediction(0.9, 0)] * 9
    )
    assert find_weak_categories(items) == ("regulation", "weather")
    assert find_weak_categories([]) == ()


@pytest.mark.requirement("FOR-5")
@pytest.mark.parametrize("period", [2, 3, 5, 10])
def test_the_gain_does_not_depend_on_outcomes_that_repeat_in_time(period):
    pairs = [(0.5, index % period == 0) for index in range(200)]
    in_blocks = sorted(pairs, key=lambda pair: pair[1])
    gains = [cross_validated_gain(resolved(order)) for order in (pairs, in_blocks)]
    assert gains[0] == pytest.approx(gains[1], abs=0.004)
    true_gain = (1 / period - 0.5) ** 2  # the base rate instead of one half
    assert gains[0] == pytest.approx(true_gain, abs=0.01)
