"""The lexicon: every list of words that the rules of the text analyser know, from ``lexicon.txt``."""

from __future__ import annotations

from lukasa.text.word_lists import load_word_lists

WORDS = load_word_lists("lukasa.text", "lexicon.txt")
