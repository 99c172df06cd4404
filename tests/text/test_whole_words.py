"""Whole words of a name: not inside longer words, but anywhere in scripts without spaces."""

import pytest

from lukasa.text.terms import whole_words_pattern


@pytest.mark.parametrize(
    ("words", "text", "found"),
    [
        ("ann", "ann's tea", True),
        ("ann", "annual", False),
        ("ann", "joann", False),
        ("ann", "user_ann@example.com", True),
        ("4711", "no. 4711.", True),
        ("4711", "147112", False),
        ("ada lovelace", "by ada lovelace, 1843", True),
        ("田中", "田中さんは火曜日です", True),
        ("สมชาย", "คุณสมชายมา", True),
        ("@ada", "ask @ada now", True),
        ("c++", "we use c++.", True),
        ("мария", "марияна", False),
    ],
)
def test_words_are_found_where_they_are_whole(words, text, found):
    assert bool(whole_words_pattern(words).search(text)) is found
