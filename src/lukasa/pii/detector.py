"""The guard: finds personal data and secrets in a text. A pure function; it keeps and logs nothing of what it read.

A text is folded first (compatibility forms, invisible characters, dashes and spaces of all sorts), then looked at for

- ``card``: payment cards by brand, length and check digit, however they are grouped;
- ``ssn``: American social security numbers by their area rules; without dashes only where the text speaks of one;
- ``secret``: keys and tokens by their provider's spelling, or announced by a keyword and random enough;
- ``password``: told in prose, set in a file, or inside a URL; PINs likewise;
- ``private_key``: the armour of one.

Finds are exact, but for crowds of them (``lukasa.pii.crowds``). A long text is looked at all at once
(``lukasa.pii.bulk``), with the same finds.

What it names is the class and the place, never the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import repeat
from math import log2
from operator import gt, itemgetter
from typing import TYPE_CHECKING, Literal, NamedTuple

from lukasa.pii import numbers
from lukasa.pii.crowds import Crowds
from lukasa.pii.normalize import LONG, Span, normalise_with_offsets
from lukasa.pii.numbers import DIGIT
from lukasa.pii.patterns import (
    COMMON_AFTER_PASSWORD,
    LABELLED_SECRETS,
    PASSWORDS,
    PIN,
    PRIVATE_KEYS,
    PROVIDER_TOKENS,
    SECRET_KEY_CONTEXT,
    URL_PASSWORD,
    is_placeholder,
)

if TYPE_CHECKING:
    from lukasa.pii.bulk import Ground

PiiClass = Literal["card", "ssn", "secret", "password", "private_key"]
CLASS_NAMES: dict[PiiClass, str] = {
    "card": "a payment card number",
    "ssn": "a social security number",
    "secret": "an API key or token",
    "password": "a password",
    "private_key": "a private key",
}


class PiiFinding(NamedTuple):
    """What was found and where, from ``start`` to before ``end``; never the value itself."""

    start: int
    end: int
    pii_class: PiiClass


def find_pii(text: str) -> list[PiiFinding]:
    """Everything personal or secret in a text, in order; pieces that overlap are one."""
    plain = normalise_with_offsets(text)
    found: list[_FindingTuple] = []
    for sort, spans in _scan_all(plain.text):
        found += [(start, end, sort) for start, end in spans]
    found.sort()
    found = _merge_overlaps(found)
    if plain.ends is not None:
        places = plain.original_spans([piece[0] for piece in found], [piece[1] for piece in found])
        found = [(start, end, piece[2]) for (start, end), piece in zip(places, found, strict=True)]
    return list(map(tuple.__new__, repeat(PiiFinding), found))


def redact_text(text: str) -> str:
    """The text with ``[card]``, ``[password]`` … where those stood."""
    pieces, at = [], 0
    for spotted in find_pii(text):
        pieces += [text[at : spotted.start], f"[{spotted.pii_class}]"]
        at = spotted.end
    return "".join([*pieces, text[at:]])


def describe_findings(findings: Iterable[PiiFinding]) -> str:
    """What was found, in words: "a password and an API key or token"."""
    words = [CLASS_NAMES[sort] for sort in dict.fromkeys(spotted.pii_class for spotted in findings)]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


_FindingTuple = tuple[int, int, PiiClass]
_Match = re.Match[str]


def _merge_overlaps(found: list[_FindingTuple]) -> list[_FindingTuple]:
    if not any(map(gt, map(itemgetter(1), found), map(itemgetter(0), found[1:]))):
        return found
    pieces: list[_FindingTuple] = []
    start, end, sort = found[0]
    for begin, until, other in found:
        if begin >= end:
            pieces.append((start, end, sort))
            start, end, sort = begin, until, other
        elif until > end:
            end = until
    return [*pieces, (start, end, sort)]


def _scan_all(text: str) -> Iterator[tuple[PiiClass, Iterable[Span]]]:
    lower = text.replace("\u0130", "\u0131").lower()  # the one letter whose small form is two characters
    if len(text) < LONG:
        yield from _scan_short(text, lower)
        yield from _scan_by_hints(text, lower, text.__contains__, lower.__contains__)
    else:
        from lukasa.pii.bulk import Ground

        ground = Ground(text, lower)
        yield from _scan_long(ground)
        yield from _scan_by_hints(text, lower, ground.may_have, ground.may_have_small)


def _scan_by_hints(
    text: str, lower: str, contains: Callable[[str], bool], contains_lower: Callable[[str], bool]
) -> Iterator[tuple[PiiClass, Iterable[Span]]]:
    for hint, pattern, _ in PRIVATE_KEYS:
        if contains(hint):
            yield "private_key", Crowds(text).finds(partial(pattern.finditer, text), _Match.span)
    crowds = Crowds(text)
    if contains_lower("pin"):
        yield "password", crowds.finds(partial(PIN.finditer, lower), _pin_span)
    for hint, pattern, _ in PASSWORDS:
        if contains_lower(hint):
            yield "password", crowds.finds(partial(pattern.finditer, lower), partial(_password_span, text))
    if contains("://") and "@" in text:
        yield "password", crowds.finds(partial(URL_PASSWORD.finditer, text), _url_password_span)


def _scan_short(text: str, lower: str) -> Iterator[tuple[PiiClass, Iterable[Span]]]:
    if DIGIT.search(text):
        yield "card", numbers.find_cards(text, lower)
        yield "ssn", numbers.find_ssns(text, lower)
    if _LONG_WORD.search(text):
        crowds = Crowds(text)
        for hint, pattern, _ in PROVIDER_TOKENS:
            if hint in text:
                yield "secret", crowds.finds(partial(pattern.finditer, text), _token_span)
        for hint, pattern, _ in LABELLED_SECRETS:
            if hint in lower:
                yield (
                    "secret",
                    crowds.finds(partial(pattern.finditer, lower), partial(_labelled_secret_span, text, hint)),
                )


def _scan_long(ground: Ground) -> Iterator[tuple[PiiClass, Iterable[Span]]]:
    from lukasa.pii import bulk

    if ground.digit.any():
        yield "card", bulk.cards(ground)
        yield "ssn", bulk.ssns(ground)
    if ground.long_words.any():
        crowds = Crowds(ground.text)
        for _, matches in bulk.tokens(ground, PROVIDER_TOKENS):
            yield "secret", crowds.finds(matches, _token_span)
        for word, matches in bulk.announced(ground, LABELLED_SECRETS):
            yield "secret", crowds.finds(matches, partial(_labelled_secret_span, ground.text, word))


_LONG_WORD = re.compile(r"[A-Za-z0-9+/_=.:~-]{16}")
"""No key or token is shorter, and few texts have such a word."""

# Secrets and passwords


def _token_span(match: _Match) -> Span | None:
    if not DIGIT.search(match[0]):
        return None
    value = match[match.lastindex or 0]
    return match.span() if _has_entropy(value[:64], 2.0) or _has_entropy(value[64:], 2.0) else None


def _labelled_secret_span(text: str, label: str, match: _Match) -> Span | None:
    start, end = match.span(1)
    value = text[start:end]
    if value[0] in _TRIMMED_CHARACTERS or value[-1] in _TRIMMED_CHARACTERS:
        value = value.strip(_TRIMMED_CHARACTERS)
    at = match.start()
    if label == "key":
        if not SECRET_KEY_CONTEXT.match(text[max(0, at - 12) : at].lower()[::-1]):
            return None
    elif at and text[at - 1].isalpha():
        return None
    if len(value) >= 16 and _is_mixed(value) and _has_entropy(value, 3.2) and not is_placeholder(value):
        return start, end
    return None


_TRIMMED_CHARACTERS = ".=-_"


def _pin_span(match: _Match) -> Span:
    return match.span("value")


def _url_password_span(match: _Match) -> Span | None:
    value = match["value"]
    if is_placeholder(value) or value.lower() in ("password", "pass", "pwd"):
        return None
    return match.span("value")


def _password_span(text: str, match: _Match) -> Span | None:
    start, end = match.span("value")
    at = match.start()
    if text[start] in "<[{$%(" or (at and text[at - 1].isalnum()):
        return None
    value = text[start:end].rstrip(".!?)")
    return (start, start + len(value)) if value and _is_password(value, match) else None


_NOT_A_PASSWORD = re.compile(r"\d{1,3}(?:[-–+]\w+)?|\d+[-–]\d+|https?:.*|/\S*|[\w.]+[(\[].*")
"""Lengths, ranges, addresses, paths and calls of functions."""

_UNLIKE_A_WORD = re.compile(r"[\d_]|[^\w'’.-]|[a-z][A-Z]")
_MORE_WORDS = re.compile(r"[\"'`”’»]?[^\S\n]+\w")


def _is_password(value: str, match: _Match) -> bool:
    """Whether what follows the word is a password, and not something said about one."""
    if value.lower() in COMMON_AFTER_PASSWORD or match["many"]:
        return False
    if _UNLIKE_A_WORD.search(value):
        return not _NOT_A_PASSWORD.fullmatch(value) and not is_placeholder(value)
    if not match["quote"]:
        if len(value) < 4 or _MORE_WORDS.match(match["after"]):
            return False
        if value.endswith(("ed", "ing", "able", "ible", "ly")) and match["sign"] not in ("=", ":=", "=="):
            return False
    return not is_placeholder(value)


def _has_entropy(value: str, min_bits: float) -> bool:
    """Whether a piece of text has at least so many bits in each character."""
    size, letters = len(value), set(value)
    if len(letters) < 2**min_bits:
        return False
    if len(letters) >= _count_characters_needed(size, min_bits):
        return True
    return log2(size) - sum(map(_times_log2, map(value.count, letters))) / size >= min_bits


@cache
def _times_log2(count: int) -> float:
    return count * log2(count)


@cache
def _count_characters_needed(size: int, min_bits: float) -> int:
    """So many different characters are enough, however they are distributed."""
    for letters in range(1, size + 1):
        most = size - letters + 1
        if (letters - 1) / size * log2(size) - most / size * log2(most / size) >= min_bits:
            return letters
    return size + 1


_LETTER_AND_DIGITS = re.compile(r"(?=[^A-Za-z]*[A-Za-z])(?=[^0-9]*[0-9][^0-9]*[0-9]).*?[^-_./]{10}")


def _is_mixed(value: str) -> bool:
    """Letters and digits both, and not the parts of a sentence or a path."""
    if not _LETTER_AND_DIGITS.match(value):
        return False
    return len(value) < 20 or len(value.encode().translate(None, b"0123456789")) > 0.05 * len(value)
