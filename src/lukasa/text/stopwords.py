"""Lists of words that say little about a text, one list for each purpose, from ``stopwords.txt``.

The lists differ on purpose. ``COMMON_WORDS`` decides the near-duplicate keys that stores hold, so it must not change.
"""

from __future__ import annotations

from lukasa.text.word_lists import load_word_lists

_LISTS = load_word_lists("lukasa.text", "stopwords.txt")

STOP_WORDS = frozenset(_LISTS["stop_words"])
"""Words of a question that do not help to find a text."""

STOP_WORDS_EXCEPT_NEGATIONS = STOP_WORDS.difference(_LISTS["negations"])
"""Words that two statements may differ in without saying different things."""

COMMON_WORDS = frozenset(_LISTS["common_words"])
"""Words that come last in the order that near-duplicate keys are made of."""

NOISE_STOP_WORDS = frozenset(_LISTS["noise_stop_words"])
"""Words that do not make a text with a noise signal a lasting statement."""

CHAT_STOP_WORDS = frozenset(_LISTS["chat_stop_words"])
"""Words of a conversation that do not make a sentence worth a place in a summary."""
