"""Normalisations of a text, one function for each purpose.

- ``normalise_text`` for comparing texts: letter case, compatibility forms and runs of blanks make no difference.
- ``fold_text`` for the text index: letter case and accents make no difference.
- ``normalise_with_offsets`` for detecting personal data: each character becomes the plain one that it looks like, and
  offsets in the result can be turned back into offsets in the original.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import Literal, NamedTuple

Span = tuple[int, int]

_ACCENT = re.compile("[\u0300-\u036f]")
_MAX_PARTS = 3
_MAX_CACHED_CHARACTERS = 100_000


def normalise_text(text: str, form: Literal["NFC", "NFKC"] = "NFKC") -> str:
    """Return the text in one Unicode form, without letter case, with single blanks."""
    plain = text if text.isascii() else unicodedata.normalize(form, text)
    return " ".join(plain.casefold().split())


def fold_text(text: str) -> str:
    """Return the text without letter case and accents, as the text index folds it."""
    if text.isascii() or unicodedata.is_normalized("NFD", text):
        return text.lower()
    return _ACCENT.sub("", unicodedata.normalize("NFD", text)).lower()


class NormalisedText(NamedTuple):
    """A text with plain characters, and the text that it was made of."""

    text: str
    original: str

    def original_spans(self, spans: Iterable[Span]) -> list[Span]:
        """Return the spans of the original text that became the given spans."""
        if self.text == self.original:
            return list(spans)
        ends = list(accumulate(map(len, map(_PLAIN_CHARACTERS.__getitem__, self.original))))
        return [(bisect_right(ends, start), bisect_left(ends, end) + 1) for start, end in spans]


def normalise_with_offsets(text: str) -> NormalisedText:
    """Replace compatibility forms, invisible characters, and every kind of dash, blank and digit by plain characters."""
    return NormalisedText(text if text.isascii() else "".join(map(_PLAIN_CHARACTERS.__getitem__, text)), text)


def normalise_character(character: str) -> str:
    """Return what a character looks like: itself for nearly all.

    A character that looks like several, such as a ligature, is replaced if those are ASCII and at most three.
    """
    category = unicodedata.category(character)
    if category == "Cf" or "\ufe00" <= character <= "\ufe0f":
        return ""
    if category == "Pd" or character in "\u2212\u2043\u00b7":
        return "-"
    if category == "Zs":
        return " "
    plain = unicodedata.normalize("NFKC", character)
    if len(plain) == 1:
        return str(unicodedata.decimal(plain)) if not plain.isascii() and plain.isdecimal() else plain
    return plain if len(plain) <= _MAX_PARTS and plain.isascii() else character


class _PlainCharacters(dict[str, str]):
    """A cache of ``normalise_character``, filled as characters occur."""

    def __missing__(self, character: str) -> str:
        plain = normalise_character(character)
        if len(self) < _MAX_CACHED_CHARACTERS:
            self[character] = plain
        return plain


_PLAIN_CHARACTERS = _PlainCharacters()
