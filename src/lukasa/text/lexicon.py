"""The lexicon: every list of words that the rules for English and German know, from ``lexicon.txt``.

The file has sections headed ``[name]``. A section holds words separated by white space; ``_`` stands for a space in a phrase, and
``word=value|value`` gives a word values. Lines that begin with ``#`` are comments.
"""

from __future__ import annotations

from pathlib import Path

WordList = dict[str, tuple[str, ...]]
"""Words or phrases in the order of the file, each with its values, mostly none."""


def read_lexicon() -> dict[str, WordList]:
    """Read the sections of the lexicon."""
    sections: dict[str, WordList] = {}
    section: WordList = {}
    for line in Path(__file__).with_name("lexicon.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            section = sections[line.strip("[]")] = {}
        elif not line.startswith("#"):
            for entry in line.split():
                word, _, values = entry.replace("_", " ").partition("=")
                section[word] = tuple(values.split("|")) if values else ()
    return sections


WORDS = read_lexicon()

STOP_WORDS = frozenset(WORDS["stop_words"])
"""Words of a question that do not help to find a text."""

STOP_WORDS_EXCEPT_NEGATIONS = STOP_WORDS.difference(WORDS["negated_stop_words"])
"""Words that two statements may differ in without saying different things."""

COMMON_WORDS = frozenset(WORDS["common_words"])
"""Words that come last in the order that near-duplicate keys are made of; stores hold such keys, so the list never changes."""

CHAT_STOP_WORDS = frozenset(WORDS["chat_stop_words"])
"""Words of a conversation that do not make a sentence worth a place in a summary."""


def read_values(name: str) -> dict[str, str]:
    """Return the first value of each word of a list."""
    return {word: values[0] for word, values in WORDS[name].items()}


def read_groups(*names: str) -> dict[str, str]:
    """Map every word of some lists to the first word of its group."""
    return {word: first for name in names for first, others in WORDS[name].items() for word in (first, *others)}
