"""The document's formula on examples computed by hand, its properties, and the rules on single dissents."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lukasa.trust.aggregate import TrustAggregate
from lukasa.trust.analytics import entropy
from lukasa.trust.rules import (
    DissentHistory,
    DissentInput,
    ImpactCounts,
    fresh_citations,
    has_fallen,
    is_favour,
    is_shallow,
    judge_dissent,
)
from lukasa.trust.score import CountedDissent, TrustSums, binomial_cdf, compute_depth, compute_score, weighted_mean
from support.narrow import present

NOW = datetime(2026, 2, 3, 12, tzinfo=UTC)


def score_of(window, total=None):
    return compute_score("a", window, total or window, NOW)


# Depth


@pytest.mark.requirement("TRU-2")
@pytest.mark.parametrize(
    ("words", "citations", "novelty", "depth"),
    [
        (0, 0, 0.0, 0.0),
        (10, 0, 0.0, 0.2),
        (25, 1, 0.0, 0.7),
        (50, 2, 0.0, 1.4),  # the document's own example: 1.4
        (50, 3, 0.0, 1.5),
        (500, 9, 0.0, 1.5),
        (20, 1, 0.35, 0.95),
        (50, 3, 0.9, 2.0),
        (50, 0, 1.3, 2.0),
    ],
)
def test_depth_adds_length_citations_and_novelty(words, citations, novelty, depth):
    assert compute_depth("w " * words, ["c"] * citations, novelty) == pytest.approx(depth)


# Trust


def sums(dissents=0, impacts=0, depth=0.0, overrides=0, regrets=0):
    """Return the sums of dissents that all have the same depth."""
    parts = [
        TrustSums.from_dissent(impact=number < impacts, depth=depth, counted=CountedDissent(number < impacts, depth))
        for number in range(dissents)
    ]
    return TrustSums.sum_all([*parts, TrustSums(overrides=overrides, regrets=regrets)])


@pytest.mark.requirement("TRU-3")
@pytest.mark.parametrize(
    ("given", "trust"),
    [
        (sums(), 0.6),  # no events: the initial trust
        (sums(10, 6, 0.75, 42, 4), 0.4 * 0.6 + 0.3 * 0.75 + 0.3 * (1 - 4 / 42)),
        (sums(1, 1, 1.4), 1.0),  # 0.4 + 0.42 + 0.3 = 1.12, clamped
        (sums(2, 1, 0.5), 0.2 + 0.15 + 0.3),
        (sums(4, 0, 0.1), 0.03 + 0.3),
        (sums(0, 0, 0, 1, 0), 0.3),  # only overrides: no dissent adds anything
        (sums(0, 0, 0, 2, 2), 0.0),
        (sums(5, 5, 2.0), 1.0),
    ],
)
def test_trust_is_the_documents_weighted_sum(given, trust):
    assert score_of(given).trust == pytest.approx(trust)
    assert score_of(given).adjusted_score == pytest.approx(trust), "the rules changed nothing"


@pytest.mark.requirement("TRU-3")
def test_the_adjusted_score_is_the_same_formula_over_what_the_rules_let_count():
    found = score_of(sums(6, 5, 1.0)._replace(counted=4, counted_impacts=1, counted_depth=2_000_000))
    assert found.trust == pytest.approx(0.4 * 5 / 6 + 0.3 + 0.3)
    assert found.adjusted_score == pytest.approx(0.4 / 4 + 0.3 * 0.5 + 0.3)
    assert (found.dissents, found.counted, found.adjusted_impact_ratio) == (6, 4, 0.25)
    excluded = score_of(sums(6, 5, 1.0)._replace(counted=0, counted_impacts=0, counted_depth=0))
    assert excluded.adjusted_score == 0.6, "nothing counted: the initial trust"


@pytest.mark.requirement("TRU-3")
def test_a_score_is_clamped_and_also_holds_the_raw_formula():
    best = score_of(sums(5, 5, 2.0))
    assert (best.trust, best.raw) == (1.0, pytest.approx(1.3))


@pytest.mark.requirement("TRU-3")
@pytest.mark.parametrize(("in_window", "basis"), [(4, "history"), (5, "window")])
def test_a_window_with_fewer_than_five_events_is_replaced_by_all_history(in_window, basis):
    found = score_of(sums(in_window, in_window, 1.0), sums(20, in_window, 1.0))
    assert found.dissents_from == basis
    assert found.impact_ratio == (1.0 if basis == "window" else in_window / 20)


@pytest.mark.requirement("TRU-3")
def test_dissents_and_overrides_choose_window_or_history_separately():
    found = score_of(sums(9, 3, 1.0, 1, 1), sums(30, 30, 1.0, 10, 1))
    assert (found.dissents_from, found.overrides_from) == ("window", "history")
    assert found.trust == pytest.approx(0.4 / 3 + 0.3 + 0.3 * 0.9)


counts = st.integers(0, 500)


@st.composite
def any_sums(draw):
    dissents, overrides = draw(counts), draw(counts)
    depth = draw(st.floats(0, 2)) if dissents else 0.0
    return sums(0)._replace(
        dissents=dissents, impacts=draw(st.integers(0, dissents)), depth=round(depth * 1e6) * dissents,
        squares=round(depth * 1000) ** 2 * dissents, overrides=overrides, regrets=draw(st.integers(0, overrides)),
        counted=(counted := draw(st.integers(0, dissents))), counted_impacts=draw(st.integers(0, counted)),
        counted_depth=draw(st.integers(0, 2_000_000)) * counted,
    )  # fmt: skip


@pytest.mark.requirement("TRU-3")
@given(any_sums())
def test_trust_lies_within_its_interval_and_the_interval_within_bounds(given):
    score = score_of(given)
    assert 0 <= score.low <= score.trust <= score.high <= 1
    assert 0 <= score.adjusted_score <= 1


@pytest.mark.requirement("TRU-3")
@given(st.integers(1, 40), st.data())
def test_more_events_of_the_same_kind_narrow_the_interval(events, data):
    given = sums(events, data.draw(st.integers(0, events)), data.draw(st.floats(0, 1.2)))
    few, more = score_of(given), score_of(TrustSums(*(10 * value for value in given)))
    assert more.trust == pytest.approx(few.trust)
    if few.low > 0 and few.high < 1:
        assert more.high - more.low < few.high - few.low


@pytest.mark.requirement("TRU-9")
def test_the_weighted_mean_uses_trust_as_weights():
    assert weighted_mean({"a": 1.0, "b": 0.0}, {"a": 0.75, "b": 0.25}) == pytest.approx(0.75)
    assert weighted_mean({"a": 1.0}, {"a": 0.0}) is None


# The window and the running sums

events = st.lists(
    st.tuples(st.integers(0, 400), st.booleans(), st.floats(0, 2, allow_nan=False), st.booleans()), max_size=60
)


@pytest.mark.requirement("TRU-8")
@given(events, st.integers(0, 30), st.randoms(use_true_random=False))
def test_running_sums_are_exactly_those_of_the_raw_events(happened, later, rng):
    """Add events late and in any order. The documented tolerance is 0, because sums are whole numbers."""
    start = date(2025, 1, 1)
    aggregate = TrustAggregate("a", start)
    last = max((day for day, *_ in happened), default=0) + later
    in_time = sorted(happened, key=lambda event: event[0] + rng.choice([0, 0, 40]))
    today = 0
    raw = []
    for day, impact, depth, is_dissent in in_time:
        today = max(today, day)
        found = (
            TrustSums.from_dissent(impact=impact, depth=depth, counted=CountedDissent(impact, depth / 2))
            if is_dissent
            else TrustSums(overrides=1, regrets=int(impact))
        )
        aggregate = aggregate.advance_to(start + timedelta(today)).with_sums(found, start + timedelta(day))
        raw.append((day, found))
    aggregate = aggregate.advance_to(start + timedelta(last))
    today = max(today, last)
    assert aggregate.total == TrustSums.sum_all(found for _, found in raw)
    assert aggregate.window == TrustSums.sum_all(found for day, found in raw if day >= today - 90)
    assert len(aggregate.days) <= 91


@pytest.mark.requirement("TRU-8", "TRU-12")
@given(events)
def test_an_aggregate_is_read_back_as_it_was_written(happened):
    aggregate = TrustAggregate("a", date(2025, 1, 1))
    for day, impact, depth, _ in happened:
        when = date(2025, 1, 1) + timedelta(day)
        aggregate = aggregate.advance_to(when)
        counted = judge_dissent(DissentInput("x " * 20, ("c",), depth / 2, impact), aggregate.past)
        aggregate = aggregate.with_dissent(counted, ("c",), when, impact=impact, depth=depth, of="b")
    assert TrustAggregate.from_bodies(aggregate.to_body(), aggregate.to_days_body()) == aggregate


# Rules


@pytest.mark.requirement("TRU-3")
def test_an_ordinary_dissent_counts_with_the_documents_inputs():
    dissent = DissentInput("w " * 50, ("Accuracy", "Completeness"), 0.3, impact=True)
    assert judge_dissent(dissent, DissentHistory()) == ((True, pytest.approx(1.7)), "", False)


@pytest.mark.requirement("TRU-13")
def test_a_criterion_cited_in_ten_dissents_in_a_row_adds_no_depth():
    always = [("Accuracy",)] * 10
    assert fresh_citations(("Accuracy", "Style"), always) == ("Style",)
    assert fresh_citations(("Accuracy",), always[:9]) == ("Accuracy",)
    assert fresh_citations(("Accuracy", "Accuracy"), ()) == ("Accuracy",)
    dissent = DissentInput("w " * 50, ("Accuracy",), 0.0, impact=False)
    assert judge_dissent(dissent, DissentHistory(recent_citations=always)).counted == (False, pytest.approx(1.0))


@pytest.mark.requirement("TRU-3")
def test_shallow_impacts_are_credited_one_for_one_with_substantial_ones():
    assert is_shallow("no", ())
    assert is_shallow("no " * 400, ()), "repeating one word adds no substance"
    assert not is_shallow("no", ("Accuracy",))
    shallow = DissentInput("typo here", (), 0.9, impact=True)
    assert judge_dissent(shallow, DissentHistory()) == ((False, pytest.approx(0.94)), "shallow", True)
    credited = [DissentHistory(substantial_impacts=3, shallow_impacts=count) for count in (2, 3)]
    assert [present(judge_dissent(shallow, history).counted).impact for history in credited] == [True, False]
    assert judge_dissent(shallow._replace(impact=False), DissentHistory()).why == ""


@pytest.mark.requirement("TRU-14")
def test_a_favour_is_an_impact_rate_that_neither_side_has_with_others():
    assert is_favour(ImpactCounts(12, 12), ImpactCounts(60, 24), ImpactCounts(60, 22))
    assert not is_favour(ImpactCounts(12, 12), ImpactCounts(60, 55), ImpactCounts(60, 22)), (
        "all give in to this dissenter"
    )
    assert not is_favour(ImpactCounts(12, 12), ImpactCounts(60, 24), ImpactCounts(60, 58)), (
        "this author gives in to all"
    )
    assert not is_favour(ImpactCounts(4, 4), ImpactCounts(60, 8), ImpactCounts(60, 8)), "too few to tell"
    assert not is_favour(ImpactCounts(50, 50), ImpactCounts(50, 50), ImpactCounts(50, 50)), (
        "two that deal only with each other"
    )
    assert is_favour(ImpactCounts(12, 12), ImpactCounts(60, 24), ImpactCounts(12, 12)), (
        "a puppet that deals with no other agent"
    )


@pytest.mark.requirement("TRU-5")
def test_a_fall_is_a_run_of_failures_that_chance_does_not_explain():
    assert has_fallen("0000010000", ImpactCounts(50, 40))
    assert not has_fallen("1110111101", ImpactCounts(50, 40))
    assert not has_fallen("0000000000", ImpactCounts(50, 10)), "it never did much better"
    assert not has_fallen("000000000", ImpactCounts(50, 40)), "too few to tell"
    assert not has_fallen("0000000000", ImpactCounts(9, 9)), "too little before"


def test_binomial_cdf_is_the_distribution_function():
    assert binomial_cdf(0, 10, 0.5) == pytest.approx(1 / 1024)
    assert binomial_cdf(1, 2, 0.5) == pytest.approx(0.75)
    assert binomial_cdf(10, 10, 0.3) == pytest.approx(1.0)
    assert binomial_cdf(5_000, 10_000, 0.5) == pytest.approx(0.504, abs=1e-3)
    assert (binomial_cdf(3, 10, 0.0), binomial_cdf(3, 10, 1.0), binomial_cdf(10, 10, 1.0)) == (1.0, 0.0, 1.0)


@pytest.mark.requirement("TRU-13")
def test_entropy_is_in_bits():
    assert entropy([]) == 0
    assert entropy([7]) == 0
    assert entropy([5, 5]) == pytest.approx(1)
    assert entropy([1, 1, 1, 1, 0]) == pytest.approx(2)
