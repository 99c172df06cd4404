"""The document's arithmetic on examples computed by hand, and what holds of it for all numbers."""

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
from lukasa.trust.score import TrustSums, binomial_cdf, compute_depth, compute_score, weighted_mean

NOW = datetime(2026, 2, 3, 12, tzinfo=UTC)


def trust_of(window, total=None):
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
    """Sums of dissents that are all of the same depth."""
    each = [TrustSums.from_dissent(impact=at < impacts, depth=depth) for at in range(dissents)]
    return TrustSums.all([*each, TrustSums(overrides=overrides, regrets=regrets)])


@pytest.mark.requirement("TRU-3")
@pytest.mark.parametrize(
    ("found", "trust"),
    [
        (sums(), 0.6),  # nothing is known: the initial trust
        (sums(10, 6, 0.75, 42, 4), 0.4 * 0.6 + 0.3 * 0.75 + 0.3 * (1 - 4 / 42)),
        (sums(1, 1, 1.4), 1.0),  # 0.4 + 0.42 + 0.3 = 1.12, clamped
        (sums(2, 1, 0.5), 0.2 + 0.15 + 0.3),
        (sums(4, 0, 0.1), 0.03 + 0.3),
        (sums(0, 0, 0, 1, 0), 0.3),  # only overrides: no dissent adds anything
        (sums(0, 0, 0, 2, 2), 0.0),
        (sums(5, 5, 2.0), 1.0),
    ],
)
def test_trust_is_the_documents_weighted_sum(found, trust):
    assert trust_of(found).trust == pytest.approx(trust)


@pytest.mark.requirement("TRU-3")
def test_the_formula_is_clamped_and_the_raw_figure_is_still_told():
    best = trust_of(sums(5, 5, 2.0))
    assert (best.trust, best.raw) == (1.0, pytest.approx(1.3))


@pytest.mark.requirement("TRU-3")
@pytest.mark.parametrize(("in_window", "basis"), [(4, "history"), (5, "window")])
def test_a_window_with_fewer_than_five_events_gives_way_to_all_history(in_window, basis):
    found = trust_of(sums(in_window, in_window, 1.0), sums(20, in_window, 1.0))
    assert found.dissents_from == basis
    assert found.impact_ratio == (1.0 if basis == "window" else in_window / 20)


@pytest.mark.requirement("TRU-3")
def test_dissents_and_overrides_each_look_at_their_own_window():
    found = trust_of(sums(9, 3, 1.0, 1, 1), sums(30, 30, 1.0, 10, 1))
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
    )  # fmt: skip


@pytest.mark.requirement("TRU-3")
@given(any_sums())
def test_trust_lies_within_its_interval_and_the_interval_within_bounds(found):
    told = trust_of(found)
    assert 0 <= told.low <= told.trust <= told.high <= 1


@pytest.mark.requirement("TRU-3")
@given(st.integers(1, 40), st.data())
def test_more_of_the_same_makes_a_score_surer(events, data):
    found = sums(events, data.draw(st.integers(0, events)), data.draw(st.floats(0, 1.2)))
    many = TrustSums(*(10 * each for each in found))
    few, more = trust_of(found), trust_of(many)
    assert more.trust == pytest.approx(few.trust)
    if few.low > 0 and few.high < 1:
        assert more.high - more.low < few.high - few.low


@pytest.mark.requirement("TRU-9")
def test_feedback_is_weighed_by_trust():
    assert weighted_mean({"a": 1.0, "b": 0.0}, {"a": 0.75, "b": 0.25}) == pytest.approx(0.75)
    assert weighted_mean({"a": 1.0}, {"a": 0.0}) is None


# The window and the fold

events = st.lists(
    st.tuples(st.integers(0, 400), st.booleans(), st.floats(0, 2, allow_nan=False), st.booleans()), max_size=60
)


@pytest.mark.requirement("TRU-8")
@given(events, st.integers(0, 30), st.randoms(use_true_random=False))
def test_the_folded_sums_are_exactly_those_of_the_raw_events(happened, later, chance):
    """The stated tolerance is none: sums are whole numbers. Events may come late and in any order."""
    start = date(2025, 1, 1)
    standing = TrustAggregate("a", start)
    last = max((day for day, *_ in happened), default=0) + later
    in_time = sorted(happened, key=lambda event: event[0] + chance.choice([0, 0, 40]))
    today = 0
    raw = []
    for day, impact, depth, is_dissent in in_time:
        today = max(today, day)
        found = (
            TrustSums.from_dissent(impact=impact, depth=depth)
            if is_dissent
            else TrustSums(overrides=1, regrets=int(impact))
        )
        standing = standing.advance_to(start + timedelta(today)).with_sums(found, start + timedelta(day))
        raw.append((day, found))
    standing = standing.advance_to(start + timedelta(last))
    today = max(today, last)
    assert standing.total == TrustSums.all(found for _, found in raw)
    assert standing.window == TrustSums.all(found for day, found in raw if day >= today - 90)
    assert len(standing.days) <= 91


@pytest.mark.requirement("TRU-8", "TRU-12")
@given(events)
def test_a_standing_reads_back_as_it_was_written(happened):
    standing = TrustAggregate("a", date(2025, 1, 1))
    for day, impact, depth, _ in happened:
        when = date(2025, 1, 1) + timedelta(day)
        standing = standing.advance_to(when)
        counted = judge_dissent(DissentInput("x " * 20, ("c",), depth / 2, impact), standing.past)
        standing = standing.with_dissent(
            counted._replace(depth=round(counted.depth, 6)), "x " * 20, ("c",), when, impact, "b"
        )
    assert TrustAggregate.from_bodies(standing.to_body(), standing.to_days_body()) == standing


# What counts


@pytest.mark.requirement("TRU-3")
def test_an_ordinary_dissent_counts_as_the_formula_has_it():
    told = DissentInput("w " * 50, ("Accuracy", "Completeness"), 0.3, impact=True)
    assert judge_dissent(told, DissentHistory()) == (True, True, pytest.approx(1.7), "")


@pytest.mark.requirement("TRU-13")
def test_a_criterion_cited_ten_times_running_adds_no_depth():
    always = [("Accuracy",)] * 10
    assert fresh_citations(("Accuracy", "Style"), always) == ("Style",)
    assert fresh_citations(("Accuracy",), always[:9]) == ("Accuracy",)
    assert fresh_citations(("Accuracy", "Accuracy"), ()) == ("Accuracy",)
    told = DissentInput("w " * 50, ("Accuracy",), 0.0, impact=False)
    assert judge_dissent(told, DissentHistory(recent_citations=always)).depth == pytest.approx(1.0)


@pytest.mark.requirement("TRU-3")
def test_shallow_impacts_are_credited_only_as_far_as_there_are_substantial_ones():
    assert is_shallow("no", ())
    assert is_shallow("no " * 400, ()), "saying one word often is not substance"
    assert not is_shallow("no", ("Accuracy",))
    shallow = DissentInput("typo here", (), 0.9, impact=True)
    assert judge_dissent(shallow, DissentHistory()) == (True, False, pytest.approx(0.94), "shallow")
    assert judge_dissent(shallow, DissentHistory(substantial_impacts=3, shallow_impacts=2)).impact
    assert not judge_dissent(shallow, DissentHistory(substantial_impacts=3, shallow_impacts=3)).impact
    assert judge_dissent(shallow._replace(impact=False), DissentHistory()).why == ""


@pytest.mark.requirement("TRU-14")
def test_a_favour_is_what_neither_side_gives_to_others():
    assert is_favour(ImpactCounts(12, 12), ImpactCounts(60, 24), ImpactCounts(60, 22))
    assert not is_favour(ImpactCounts(12, 12), ImpactCounts(60, 55), ImpactCounts(60, 22)), (
        "everybody gives in to this dissenter"
    )
    assert not is_favour(ImpactCounts(12, 12), ImpactCounts(60, 24), ImpactCounts(60, 58)), (
        "this author gives in to everybody"
    )
    assert not is_favour(ImpactCounts(4, 4), ImpactCounts(60, 8), ImpactCounts(60, 8)), "too few to tell"
    assert not is_favour(ImpactCounts(50, 50), ImpactCounts(50, 50), ImpactCounts(50, 50)), (
        "two alone: the owner's judgement is all there is"
    )
    assert is_favour(ImpactCounts(12, 12), ImpactCounts(60, 24), ImpactCounts(12, 12)), (
        "a puppet that deals with nobody else"
    )


@pytest.mark.requirement("TRU-5")
def test_a_fall_is_a_run_of_failures_that_is_no_accident():
    assert has_fallen("0000010000", ImpactCounts(50, 40))
    assert not has_fallen("1110111101", ImpactCounts(50, 40))
    assert not has_fallen("0000000000", ImpactCounts(50, 10)), "it never did much better"
    assert not has_fallen("000000000", ImpactCounts(50, 40)), "too few to tell"
    assert not has_fallen("0000000000", ImpactCounts(9, 9)), "too little before"


def test_the_chance_of_few_hits_is_that_of_the_binomial_distribution():
    assert binomial_cdf(0, 10, 0.5) == pytest.approx(1 / 1024)
    assert binomial_cdf(1, 2, 0.5) == pytest.approx(0.75)
    assert binomial_cdf(10, 10, 0.3) == pytest.approx(1.0)
    assert binomial_cdf(5_000, 10_000, 0.5) == pytest.approx(0.504, abs=1e-3)
    assert (binomial_cdf(3, 10, 0.0), binomial_cdf(3, 10, 1.0), binomial_cdf(10, 10, 1.0)) == (1.0, 0.0, 1.0)


@pytest.mark.requirement("TRU-13")
def test_entropy_counts_bits():
    assert entropy([]) == 0
    assert entropy([7]) == 0
    assert entropy([5, 5]) == pytest.approx(1)
    assert entropy([1, 1, 1, 1, 0]) == pytest.approx(2)
