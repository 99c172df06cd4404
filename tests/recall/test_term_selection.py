"""Which words are asked for: all in a small store; in a large one the rare ones alone and the common ones together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lukasa.recall.term_selection import MAX_MATCHED_TEXTS, SelectedTerms, select_terms

pytestmark = pytest.mark.requirement("RCL-1")

LARGE = 1_000_000


def test_a_small_store_is_asked_for_every_word():
    assert select_terms(
        ["heron", "river"], {"heron": MAX_MATCHED_TEXTS, "river": MAX_MATCHED_TEXTS}, MAX_MATCHED_TEXTS
    ) == SelectedTerms(("heron", "river"))


def test_rare_words_are_asked_for_alone_and_common_ones_only_together():
    holding = {"heron": 3, "otter": 40, "good": 50_000, "day": 80_000}
    assert select_terms(["good", "heron", "day", "otter"], holding, LARGE) == SelectedTerms(
        ("heron", "otter"), ("good", "day")
    )


def test_so_many_common_words_are_asked_together_that_few_texts_hold_them_all():
    holding = dict.fromkeys(["a", "b", "c", "d"], 300_000)
    assert select_terms(list(holding), holding, LARGE) == SelectedTerms((), ("a", "b", "c", "d"))
    holding = dict.fromkeys(holding, 100_000)
    assert select_terms(list(holding), holding, LARGE) == SelectedTerms((), ("a", "b", "c"))
    holding = dict.fromkeys(holding, 50_000)
    assert select_terms(list(holding), holding, LARGE) == SelectedTerms((), ("a", "b"))


def test_one_common_word_beside_rare_ones_is_left_out_but_asked_for_when_there_is_no_other():
    assert select_terms(["good", "heron"], {"heron": 3, "good": 90_000}, LARGE) == SelectedTerms(("heron",))
    assert select_terms(["good"], {"good": 90_000}, LARGE) == SelectedTerms(("good",))


def test_a_word_that_nothing_is_known_of_counts_as_rare():
    assert select_terms(["new", "good"], {"good": 90_000}, LARGE) == SelectedTerms(("new",))


@given(
    holding=st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(0, 2_000_000), max_size=8),
    texts=st.integers(0, 2_000_000),
)
def test_something_is_asked_whenever_there_are_words_and_never_too_much(holding, texts):
    words = list(holding)
    any_of, together = select_terms(words, holding, texts)
    assert bool(words) == bool(any_of or together)
    assert {*any_of, *together} <= set(words)
    assert not set(any_of) & set(together)
    assert len(together) != 1
    if texts > MAX_MATCHED_TEXTS and len(any_of) > 1:
        assert sum(holding[word] for word in any_of) <= MAX_MATCHED_TEXTS
