"""Term selection: all words in a small store; in a large one rare words alone and common words together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lukasa.recall.query import MAX_MATCHED_TEXTS, SelectedTerms, select_terms

pytestmark = pytest.mark.requirement("RCL-1")

LARGE = 1_000_000


def test_select_terms_uses_every_word_in_a_small_store():
    assert select_terms(
        ["heron", "river"], {"heron": MAX_MATCHED_TEXTS, "river": MAX_MATCHED_TEXTS}, MAX_MATCHED_TEXTS
    ) == SelectedTerms(("heron", "river"))


def test_select_terms_uses_rare_words_alone_and_common_words_together():
    texts_with_word = {"heron": 3, "otter": 40, "good": 50_000, "day": 80_000}
    assert select_terms(["good", "heron", "day", "otter"], texts_with_word, LARGE) == SelectedTerms(
        ("heron", "otter"), ("good", "day")
    )


def test_select_terms_combines_common_words_until_few_texts_hold_them_all():
    texts_with_word = dict.fromkeys(["a", "b", "c", "d"], 300_000)
    assert select_terms(list(texts_with_word), texts_with_word, LARGE) == SelectedTerms((), ("a", "b", "c", "d"))
    texts_with_word = dict.fromkeys(texts_with_word, 100_000)
    assert select_terms(list(texts_with_word), texts_with_word, LARGE) == SelectedTerms((), ("a", "b", "c"))
    texts_with_word = dict.fromkeys(texts_with_word, 50_000)
    assert select_terms(list(texts_with_word), texts_with_word, LARGE) == SelectedTerms((), ("a", "b"))


def test_select_terms_drops_a_single_common_word_unless_it_is_the_only_word():
    assert select_terms(["good", "heron"], {"heron": 3, "good": 90_000}, LARGE) == SelectedTerms(("heron",))
    assert select_terms(["good"], {"good": 90_000}, LARGE) == SelectedTerms(("good",))


def test_select_terms_takes_an_unknown_word_as_rare():
    assert select_terms(["new", "good"], {"good": 90_000}, LARGE) == SelectedTerms(("new",))


@given(
    texts_with_word=st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(0, 2_000_000), max_size=8),
    texts=st.integers(0, 2_000_000),
)
def test_select_terms_is_never_empty_and_never_matches_too_many_texts(texts_with_word, texts):
    words = list(texts_with_word)
    any_of, together = select_terms(words, texts_with_word, texts)
    assert bool(words) == bool(any_of or together)
    assert {*any_of, *together} <= set(words)
    assert not set(any_of) & set(together)
    assert len(together) != 1
    if texts > MAX_MATCHED_TEXTS and len(any_of) > 1:
        assert sum(texts_with_word[word] for word in any_of) <= MAX_MATCHED_TEXTS
