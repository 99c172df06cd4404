"""Pieces of patterns, a search for patterns that start with a keyword, and what a value that matched looks like."""

from __future__ import annotations

import hashlib
import re
import string
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.resources import files
from itertools import pairwise
from math import log2
from typing import NamedTuple

from lukasa.pii.numbers import Span

_MAX_MISSES, _MANY_MATCHES, _SMALL_DISTANCE = 4_000, 500, 60
_MAX_LOOKBEHIND, _MAX_MATCH = 60, 800
"""How much of the text before and after a keyword decides on a match, at most."""


class KeywordPattern(NamedTuple):
    """A pattern that starts with a keyword, and a simpler one that matches the text in lower case wherever the pattern may."""

    pattern: re.Pattern[str]
    hint: re.Pattern[str]


def build_trie_pattern(rests: dict[str, str]) -> str:
    """Build a pattern of words and what follows each, with one branch for each next letter."""
    by_letter: dict[str, dict[str, str]] = {}
    for word, rest in rests.items():
        if word:
            by_letter.setdefault(word[0], {})[word[1:]] = rest
    branches = [re.escape(letter) + build_trie_pattern(words) for letter, words in by_letter.items()]
    branches += [rests[""]] if "" in rests else []
    return f"(?:{'|'.join(branches)})" if len(branches) > 1 else branches[0]


def words_pattern(words: Iterable[str]) -> str:
    """Build a pattern of words in small letters, in capitals, and with one capital. It is faster than one that ignores case."""
    return build_trie_pattern({form: "" for word in words for form in (word, word.upper(), word.capitalize())})


def any_case(word: str) -> str:
    """Build a pattern of a word in small and capital letters in any mixture."""
    return "".join(f"[{letter}{letter.upper()}]" if letter != letter.upper() else letter for letter in word)


def find_after_keyword(
    search: KeywordPattern, judge: Callable[[re.Match[str]], Span | None], text: str, lower: str, position: int
) -> Iterator[Span]:
    """Yield what ``judge`` finds in the matches of a pattern. ``lower`` is the text in lower case.

    A hint starts with a literal, so it is found in less time than the pattern. Where nothing is found, the same text
    further on holds nothing either. Where hints mislead often, or are followed by a match nearly everywhere, the pattern
    alone takes less time.
    """
    match_at, is_at = search.pattern.match, text.startswith
    harmless: str | None = None
    last_start = last_distance = length = misses = matches = 0
    first = position
    for start in map(re.Match.start, search.hint.finditer(lower, position)):
        if start < position:
            continue
        if harmless and is_at(harmless, start - _MAX_LOOKBEHIND):
            position = start + length
            continue
        match = match_at(text, start)
        if match:
            position = match.end()
            matches += 1
            if span := judge(match):
                yield span
                continue
        else:
            misses += 1
        if misses > _MAX_MISSES or (matches > _MANY_MATCHES and position - first < matches * _SMALL_DISTANCE):
            break
        distance = start - last_start
        harmless = None
        if distance == last_distance and start >= _MAX_LOOKBEHIND:
            harmless = text[start - _MAX_LOOKBEHIND : start + _MAX_MATCH]
            length = position - start if match else 1
        last_start, last_distance = start, distance
    else:
        return
    for match in search.pattern.finditer(text, max(start, position)):
        if span := judge(match):
            yield span


_PLACEHOLDER = re.compile(
    r"example|placeholder|change_?me|redacted|dummy|goes_here|_here|xxxx|\*\*\*|\.\.\.|abcdefghijklmnopqrstuvwxyz"
)
START_OF_VARIABLE = r"[<\[{]|[$%(](?:[{(]|(?!(?=\S{0,60}[0-9])\S{0,60}[!@#^&*+~?]))"
"""The sign before a variable, unless a digit and another sign follow as in a password."""
_NO_VALUE = re.compile(
    rf"{START_OF_VARIABLE}|your|(?:os|process|env|config|settings|secrets|vault|self|this|request|args|params|var|local|data|module|enc)[.\[(]|"
    r"(?:x+|\*+|\.+|-+|_+|#+|none|null|nil|true|false|undefined|todo|tbd|n/a)\Z"
)


def is_placeholder(value: str) -> bool:
    """Return whether a value only marks the place of a secret."""
    lower = value.lower()
    return lower[-1] in ">]})" or bool(_NO_VALUE.match(lower) or _PLACEHOLDER.search(lower))


_WORDS = re.compile(r"[a-z]+(?:[-_.][a-z]+)+|[A-Z]+(?:[-_.][A-Z]+)+")


def is_token(value: str) -> bool:
    """Return whether a value in a token's format is more than a row of the same few characters, words or an example."""
    min_bits = 2.7 if len(value) >= 32 else 2.0
    return (
        (has_entropy(value[:64], min_bits) or (len(value) > 64 and has_entropy(value[64:], min_bits)))
        and not _WORDS.fullmatch(value)
        and not is_placeholder(value)
    )


_RANDOM_VALUE = re.compile(
    r"(?:(?:[A-Za-z0-9]{0,9}+|[A-Za-z]{10,400}+|[0-9]{10,400}+)[_.-]){0,8}"
    r"(?=[A-Za-z0-9]{10})(?:[A-Za-z]{1,400}+[0-9]|[0-9]{1,400}+[A-Za-z])"
)
_NEXT_CHARACTERS = dict(
    zip(string.digits + string.ascii_lowercase, "1234567890bcdefghijklmnopqrstuvwxyza", strict=True)
)
_MAX_STEPS = 40


def is_random(value: str) -> bool:
    """Return whether a part of a value has letters and digits, and few characters are followed by the next one."""
    return _RANDOM_VALUE.match(value) is not None and (
        len(value) <= _MAX_STEPS
        or sum(_NEXT_CHARACTERS.get(first) == second for first, second in pairwise(value.lower())) < _MAX_STEPS
    )


def has_entropy(value: str, min_bits: float) -> bool:
    """Return whether a text has at least so many bits of entropy per character."""
    size, letters = len(value), set(value)
    if len(letters) < 2**min_bits:
        return False
    return log2(size) - sum(count * log2(count) for count in map(value.count, letters)) / size >= min_bits


@cache
def _published_examples() -> frozenset[str]:
    lines = (files(__package__) / "published_examples.txt").read_text("utf-8").splitlines()
    return frozenset(line.partition(" ")[0] for line in lines if not line.startswith("#"))


def is_published(value: str) -> bool:
    """Return whether a token is an example that its provider publishes. The examples are kept as digests."""
    return hashlib.sha256(value.encode()).hexdigest()[:24] in _published_examples()
