"""Every formula of the documents on sessions and on trust, recomputed from their text with fractions.

Nothing here uses a function of the product to compute what it expects: sums are exact fractions, logarithms are decimals
of forty digits. Where a document leaves a definition open, the one of docs/reference is written out again.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from decimal import Decimal, getcontext
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lukasa
from lukasa.forecasts.calibration import PRIOR, build_calibration_report, fit_correction
from lukasa.forecasts.scoring import ResolvedPrediction, compute_scores
from lukasa.forecasts.session_sections import add_figures
from lukasa.sessions.patch import apply_changes
from lukasa.testing import FrozenClock
from support.narrow import present

getcontext().prec = 40
THOUSANDTHS = st.integers(0, 1000)
RESOLVED = st.lists(
    st.tuples(THOUSANDTHS, st.booleans(), st.none() | THOUSANDTHS, st.sampled_from(["", "law", "sport"])), max_size=40
)
DAYS = st.lists(st.sampled_from([0, 1, 10, 45, 91]), min_size=1, max_size=14)


def as_predictions(resolved):
    return [
        ResolvedPrediction(p / 1000, float(happened), None if sure is None else sure / 1000, category)
        for p, happened, sure, category in resolved
    ]


def mean(values):
    values = list(values)
    return sum(values, Fraction(0)) / len(values)


def cosine(left, right):
    length = math.sqrt(math.fsum(x * x for x in left) * math.fsum(x * x for x in right))
    return math.fsum(x * y for x, y in zip(left, right, strict=True)) / length if length else 0.0


def bins(pairs):
    """Deal pairs of probability and outcome to ten equal bins; 1 belongs to the last."""
    table: dict[int, list[tuple[Fraction, Fraction]]] = {}
    for p, outcome in pairs:
        table.setdefault(min(int(p * 10), 9), []).append((p, outcome))
    return table


@pytest.mark.requirement("FOR-4")
@given(RESOLVED)
def test_scores_are_those_of_their_definitions(resolved):
    pairs = [(Fraction(p, 1000), Fraction(happened)) for p, happened, _, _ in resolved]
    scores = compute_scores(as_predictions(resolved))
    assert scores.count == len(pairs)
    if not pairs:
        assert (scores.brier_score, scores.log_score, scores.calibration_score, scores.accuracy) == (None,) * 4
        return
    brier = mean((p - outcome) ** 2 for p, outcome in pairs)
    assert scores.brier_score == pytest.approx(float(brier), abs=1e-14)

    smallest = Decimal(2) ** -52
    logs = []
    for p, outcome in pairs:
        given = Decimal(p.numerator) / Decimal(p.denominator)
        given = given if outcome else 1 - given
        logs.append(max(min(given, 1 - smallest), smallest).ln())
    assert scores.log_score == pytest.approx(float(sum(logs) / len(logs)), rel=1e-12, abs=1e-14)

    table, count = bins(pairs), len(pairs)
    errors = [
        abs(mean(p for p, _ in row) - mean(o for _, o in row)) * Fraction(len(row), count) for row in table.values()
    ]
    assert scores.calibration_error == pytest.approx(float(sum(errors)), abs=1e-14)
    assert scores.calibration_score == pytest.approx(float(1 - sum(errors)), abs=1e-14)
    assert [(row.lower, row.count) for row in scores.reliability] == [(b / 10, len(table[b])) for b in sorted(table)]

    base_rate = mean(o for _, o in pairs)
    terms = scores.decomposition
    reliability = sum(
        Fraction(len(r), count) * (mean(p for p, _ in r) - mean(o for _, o in r)) ** 2 for r in table.values()
    )
    resolution = sum(Fraction(len(r), count) * (mean(o for _, o in r) - base_rate) ** 2 for r in table.values())
    assert present(terms).reliability == pytest.approx(float(reliability), abs=1e-14)
    assert present(terms).resolution == pytest.approx(float(resolution), abs=1e-14)
    assert present(terms).uncertainty == pytest.approx(float(base_rate * (1 - base_rate)), abs=1e-14)
    assert present(terms).brier == pytest.approx(float(brier), abs=1e-13)
    uncertainty = base_rate * (1 - base_rate)
    assert scores.skill == (pytest.approx(float(1 - brier / uncertainty), abs=1e-12) if uncertainty else None)

    def accuracy(rows):
        half = Fraction(1, 2)
        return mean(half if p == half else Fraction((p > half) == (o == 1)) for p, o in rows)

    assert scores.accuracy == pytest.approx(float(accuracy(pairs)), abs=1e-14)
    buckets: dict[str, list[tuple[Fraction, Fraction]]] = {"high": [], "medium": [], "low": []}
    for pair, (_, _, sure, _) in zip(pairs, resolved, strict=True):
        confidence = max(pair[0], 1 - pair[0]) if sure is None else Fraction(sure, 1000)
        name = "high" if confidence >= Fraction(8, 10) else "medium" if confidence >= Fraction(6, 10) else "low"
        buckets[name].append(pair)
    for name, rows in buckets.items():
        found = scores.by_confidence_bucket[name]
        assert found.count == len(rows)
        assert found.accuracy == (pytest.approx(float(accuracy(rows)), abs=1e-14) if rows else None)


@pytest.mark.requirement("FOR-4")
@given(st.integers(1, 200), st.data())
def test_confidence_bounds_solve_their_equation(count, data):
    """Wilson's bounds are the frequencies x at which the observed share is z standard errors away."""
    hits = data.draw(st.integers(0, count))
    pairs = [(1000, i < hits, None, "") for i in range(count)]
    (row,) = compute_scores(as_predictions(pairs)).reliability
    z_square = Fraction("1.959963984540054") ** 2
    for bound in row.interval:
        x, share = Fraction(bound), Fraction(hits, count)
        distance = count * (share - x) ** 2 - z_square * x * (1 - x)
        assert abs(float(distance)) < 1e-9 * count
    assert row.interval[0] <= hits / count <= row.interval[1]


@pytest.mark.requirement("FOR-5")
@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 999), st.booleans()), min_size=30, max_size=60))
def test_the_correction_is_the_maximum_of_the_penalised_likelihood(pairs):
    predictions = as_predictions([(p, happened, None, "") for p, happened in pairs])
    bias, scaling = fit_correction(predictions)
    slopes = [PRIOR * bias, PRIOR * (scaling - 1)]
    for p, happened in pairs:
        logit = math.log(p / (1000 - p))
        corrected = 1 / (1 + math.exp(-(scaling * logit + bias)))
        slopes[0] += corrected - happened
        slopes[1] += (corrected - happened) * logit
    assert abs(slopes[0]) < 1e-6
    assert abs(slopes[1]) < 1e-6 or scaling == 0  # a scaling below 0 is not allowed
    report = build_calibration_report(predictions)
    for p in (1, 250, 500, 999):
        odds = (p / (1000 - p)) ** report.correction.confidence_scaling * math.exp(report.correction.bias_correction)
        assert report.correction(p / 1000) == pytest.approx(odds / (1 + odds), abs=1e-12)
    expected = mean(Fraction(p, 1000) - happened for p, happened in pairs)
    assert report.mean_error == pytest.approx(float(expected), abs=1e-14)
    half = len(pairs) // 2
    squares = [(Fraction(p, 1000) - happened) ** 2 for p, happened in pairs]
    older, newer = squares[:half], squares[-half:]
    variances = [sum((x - mean(part)) ** 2 for x in part) / (half - 1) for part in (older, newer)]
    difference, error_square = mean(newer) - mean(older), sum(variances) / half
    if abs(float(difference**2 - error_square)) > 1e-12:
        trend = "stable" if difference**2 <= error_square else "improving" if difference < 0 else "declining"
        assert report.performance_trend == trend


@pytest.mark.requirement("FOR-3")
@given(THOUSANDTHS, st.lists(st.integers(-1000, 1000), max_size=6))
def test_an_estimate_is_the_base_rate_plus_its_adjustments(base_rate, adjustments):
    with lukasa.open("memory:", clock=FrozenClock(), embedder=None) as memory:
        factors = [{"factor": f"f{i}", "adjustment": value / 1000} for i, value in enumerate(adjustments)]
        assert memory.forecasts.reason("m", base_rate=base_rate / 1000, factors=factors)
        expected = Fraction(base_rate + sum(adjustments), 1000)
        assert memory.forecasts.estimate("m") == pytest.approx(min(max(float(expected), 0.0), 1.0), abs=1e-12)


@pytest.mark.requirement("FOR-4")
@settings(max_examples=25)
@given(st.lists(st.tuples(THOUSANDTHS, st.sampled_from([True, False, None])), max_size=12), DAYS)
def test_the_section_performance_metrics_counts_and_scores_what_was_resolved(made, gaps):
    clock = FrozenClock()
    with lukasa.open("memory:", clock=clock, embedder=None) as memory:
        resolved = []
        for number, (p, outcome) in enumerate(made):
            clock.advance(gaps[number % len(gaps)] * 86_400)
            assert memory.forecasts.predict(f"Will {number} happen?", p / 1000, prediction_id=f"p{number}")
            if outcome is not None:
                assert memory.forecasts.resolve(f"p{number}", outcome)
                resolved.append((clock.now(), Fraction(p, 1000), Fraction(outcome)))
        found = memory.forecasts.metrics()
        assert (found["total_predictions"], found["resolved_predictions"]) == (len(made), len(resolved))
        for days, scores in ((None, found), (30, found["rolling_30_days"])):
            rows = [(p, o) for at, p, o in resolved if days is None or at >= clock.now() - timedelta(days=days)]
            brier = mean((p - o) ** 2 for p, o in rows) if rows else None
            assert scores["brier_score"] == (None if brier is None else pytest.approx(float(brier), abs=1e-12))


@pytest.mark.requirement("FOR-4")
@given(st.integers(1, 500), THOUSANDTHS, st.integers(0, 20), THOUSANDTHS)
def test_imported_scores_carry_on_as_means_weighted_by_resolved_predictions(before, old, after, new):
    scores = ("brier_score", "log_score", "calibration_score")
    imported = {"total_predictions": before, "resolved_predictions": before, **dict.fromkeys(scores, old / 1000)}
    own = {"total_predictions": after, "resolved_predictions": after, "by_confidence_bucket": {}}
    own |= dict.fromkeys(scores, new / 1000 if after else None)
    found = add_figures(imported, own)
    assert found["resolved_predictions"] == before + after
    expected = Fraction(old * before + new * after, 1000 * (before + after))
    for name in scores:
        assert found[name] == pytest.approx(float(expected), abs=1e-12)


@pytest.mark.requirement("TRU-2", "TRU-3", "TRU-8", "TRU-9", "TRU-11", "TRU-13")
@settings(max_examples=25)
@given(st.data())
def test_depth_trust_statistics_and_metrics_are_the_documents(data):
    clock = FrozenClock()
    dissents: list[tuple[datetime, bool, Fraction]] = []
    overrides: list[tuple[datetime, bool]] = []
    cited: list[str] = []
    past: list[list[float]] = []
    with lukasa.open("memory:", clock=clock, embedder="hash") as memory:
        trust, embed = memory.trust, memory.recall.index.embedder.embedder.embed
        for number, gap in enumerate(data.draw(DAYS)):
            clock.advance(gap * 86_400)
            if data.draw(st.booleans()):
                words, count = data.draw(st.integers(1, 80)), data.draw(st.integers(0, 4))
                names, impact = [f"C{i}" for i in range(count)], data.draw(st.booleans())
                text = " ".join(f"w{number}x{index}" for index in range(words))
                event = (
                    trust.log_dissent("a", text, rubric_citations=names, impact=impact).unwrap_all()[0].body["event"]
                )
                first = min(Fraction(words, 50), 1) + min(Fraction(2, 10) * count, Fraction(1, 2))
                assert trust.dissent_depth(text, names) == pytest.approx(float(min(first, 2)), abs=1e-12)
                vector = [float(value) for value in embed([text])[0]]
                novelty = 1 - max(cosine(vector, other) for other in past) if past else 0
                assert event["depth_score"] == pytest.approx(min(float(first) + novelty, 2), abs=2e-3)
                past.append(vector)
                dissents.append((clock.now(), impact, Fraction(event["depth_score"])))
                cited += names
            else:
                record = trust.log_override("a", "x", "y").unwrap_all()[0]
                deadline = record.body["event"]["auto_check_deadline"]
                assert deadline == (clock.now() + timedelta(hours=24)).isoformat().replace("+00:00", "Z")
                regret = data.draw(st.booleans())
                if regret:
                    trust.revert(record.id, by="ada")
                overrides.append((clock.now(), regret))
        first_day = (clock.now() - timedelta(days=90)).date()

        def window(events):
            return [event for event in events if event[0].date() >= first_day]

        def ratio(events, index):
            return mean(Fraction(event[index]) for event in events) if events else Fraction(0)

        # Section 4: a rolling window of 90 days, or all history if it holds too little (documented: fewer than five).
        judged = window(dissents) if len(window(dissents)) >= 5 else dissents
        decided = window(overrides) if len(window(overrides)) >= 5 else overrides
        raw = Fraction(4, 10) * ratio(judged, 1) + Fraction(3, 10) * ratio(judged, 2)
        raw += Fraction(3, 10) * (1 - ratio(decided, 1))
        score = trust.score("a")
        assert score.trust == pytest.approx(float(min(max(raw, 0), 1)), abs=1e-6)
        assert score.raw == pytest.approx(float(raw), abs=1e-6)
        assert score.low <= score.trust <= score.high

        stats = trust.agent("a").long_term_stats  # section 3.5
        assert stats["avg_dissent_depth_last_90d"] == pytest.approx(float(ratio(window(dissents), 2)), abs=1e-6)
        assert stats["dissent_impact_ratio_last_90d"] == pytest.approx(float(ratio(window(dissents), 1)), abs=1e-12)
        assert stats["total_overrides"] == len(overrides)
        assert stats["regret_rate_last_90d"] == pytest.approx(float(ratio(window(overrides), 1)), abs=1e-12)

        history = trust.metrics("a").as_json()["all_history"]
        assert history["dissent_impact"] == pytest.approx(float(ratio(dissents, 1)), abs=1e-12)
        assert history["regret_rate"] == pytest.approx(float(ratio(overrides, 1)), abs=1e-12)
        useful = [not regret for _, regret in overrides]  # each changed the output
        assert history["escalation_usefulness"] == pytest.approx(sum(useful) / len(useful) if useful else 0, abs=1e-12)

        values = {"a": Fraction(1), "nobody": Fraction(0)}  # 0.6: the trust of an agent without events
        weights = {"a": Fraction(score.trust), "nobody": Fraction(6, 10)}
        expected = sum(values[name] * weights[name] for name in values) / sum(weights.values())
        assert trust.weigh({"a": 1.0, "nobody": 0.0}).value == pytest.approx(float(expected), abs=1e-9)

        if len(dissents) <= 20:
            shares = [Fraction(cited.count(name), len(cited)) for name in set(cited)]
            bits = -sum(float(share) * math.log2(share) for share in shares)
            assert trust.diversity("a").entropy == pytest.approx(bits, abs=1e-9)


@pytest.mark.requirement("CHK-4")
@settings(max_examples=25)
@given(st.integers(0, 1000), st.integers(1, 40))
def test_a_revision_changes_three_fields_and_its_delta_does_not_grow_with_the_state(probability, predictions):
    clock = FrozenClock()
    with lukasa.open("memory:", clock=clock, embedder=None) as memory, memory.sessions.start("s") as session:
        for number in range(predictions):
            item = {
                "prediction_id": f"p{number}", "market_id": f"m{number}", "question": "Will it?", "probability": 0.5,
                "confidence_interval": [0.4, 0.6], "confidence_level": 0.8, "created_at": "2026-02-03T12:00:00Z",
                "last_updated": "2026-02-03T12:00:00Z", "status": "active", "num_updates": 3,
            }  # fmt: skip
            assert session.patch([{"op": "add", "path": "/active_predictions/-", "value": item}])
        before = session.state
        clock.advance(60)
        delta = session.update_prediction("p0", probability / 1000).unwrap_all()[0]
        after = session.state
        changed = {
            name
            for name, value in after["active_predictions"][0].items()
            if value != before["active_predictions"][0][name]
        }
        assert changed - {"probability"} == {"last_updated", "num_updates"}
        assert after["active_predictions"][0]["num_updates"] == 4
        assert after["active_predictions"][1:] == before["active_predictions"][1:]
        assert len(str(delta.body)) < 700
        assert apply_changes(before, delta.body["changes"])["active_predictions"] == after["active_predictions"]
