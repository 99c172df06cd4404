"""The guard: finds personal data and secrets in a text. A pure function; it keeps and logs nothing of what it read.

A text is folded first (compatibility forms, invisible characters, dashes and spaces of all sorts), then looked at for

- ``card``: payment cards by brand, length and check digit, however they are grouped;
- ``ssn``: American social security numbers by their area rules; without dashes only where the text speaks of one;
- ``secret``: keys and tokens by their provider's spelling, or announced by a keyword and random enough;
- ``password``: told in prose, set in a file, or inside a URL; PINs likewise;
- ``private_key``: the armour of one.

Finds are exact, but for crowds of them (``lukasa.gate.crowds``). A long text is looked at all at once
(``lukasa.gate.bulk``), with the same finds.

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

from lukasa.gate import numbers
from lukasa.gate.crowds import Crowds
from lukasa.gate.folding import LONG, Span, folded
from lukasa.gate.numbers import DIGIT
from lukasa.gate.secrets import (
    ANNOUNCED,
    COMMON_AFTER_PASSWORD,
    IN_URL,
    KEYS_THAT_ARE_SECRET,
    PASSWORDS,
    PIN,
    PRIVATE_KEYS,
    PROVIDERS,
    is_placeholder,
)

if TYPE_CHECKING:
    from lukasa.gate.bulk import Ground

Sort = Literal["card", "ssn", "secret", "password", "private_key"]
NAMES: dict[Sort, str] = {
    "card": "a payment card number",
    "ssn": "a social security number",
    "secret": "an API key or token",
    "password": "a password",
    "private_key": "a private key",
}


class Spotted(NamedTuple):
    """What was found and where, from ``start`` to before ``end``; never the value itself."""

    start: int
    end: int
    sort: Sort


def scan(text: str) -> list[Spotted]:
    """Everything personal or secret in a text, in order; pieces that overlap are one."""
    plain = folded(text)
    found: list[_Found] = []
    for sort, spans in _everything(plain.text):
        found += [(start, end, sort) for start, end in spans]
    found.sort()
    found = _apart(found)
    if plain.ends is not None:
        places = plain.written([piece[0] for piece in found], [piece[1] for piece in found])
        found = [(start, end, piece[2]) for (start, end), piece in zip(places, found, strict=True)]
    return list(map(tuple.__new__, repeat(Spotted), found))


def redacted(text: str) -> str:
    """The text with ``[card]``, ``[password]`` … where those stood."""
    pieces, at = [], 0
    for spotted in scan(text):
        pieces += [text[at : spotted.start], f"[{spotted.sort}]"]
        at = spotted.end
    return "".join([*pieces, text[at:]])


def named(found: Iterable[Spotted]) -> str:
    """What was found, in words: "a password and an API key or token"."""
    words = [NAMES[sort] for sort in dict.fromkeys(spotted.sort for spotted in found)]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


_Found = tuple[int, int, Sort]
_Match = re.Match[str]


def _apart(found: list[_Found]) -> list[_Found]:
    if not any(map(gt, map(itemgetter(1), found), map(itemgetter(0), found[1:]))):
        return found
    pieces: list[_Found] = []
    start, end, sort = found[0]
    for begin, until, other in found:
        if begin >= end:
            pieces.append((start, end, sort))
            start, end, sort = begin, until, other
        elif until > end:
            end = until
    return [*pieces, (start, end, sort)]


def _everything(text: str) -> Iterator[tuple[Sort, Iterable[Span]]]:
    lower = text.replace("\u0130", "\u0131").lower()  # the one letter whose small form is two characters
    if len(text) < LONG:
        yield from _of_short(text, lower)
        yield from _by_hints(text, lower, text.__contains__, lower.__contains__)
    else:
        from lukasa.gate.bulk import Ground

        ground = Ground(text, lower)
        yield from _of_long(ground)
        yield from _by_hints(text, lower, ground.may_have, ground.may_have_small)


def _by_hints(
    text: str, lower: str, has: Callable[[str], bool], has_small: Callable[[str], bool]
) -> Iterator[tuple[Sort, Iterable[Span]]]:
    for hint, pattern, _ in PRIVATE_KEYS:
        if has(hint):
            yield "private_key", Crowds(text).finds(partial(pattern.finditer, text), _Match.span)
    crowds = Crowds(text)
    if has_small("pin"):
        yield "password", crowds.finds(partial(PIN.finditer, lower), _pin)
    for hint, pattern, _ in PASSWORDS:
        if has_small(hint):
            yield "password", crowds.finds(partial(pattern.finditer, lower), partial(_password, text))
    if has("://") and "@" in text:
        yield "password", crowds.finds(partial(IN_URL.finditer, text), _in_url)


def _of_short(text: str, lower: str) -> Iterator[tuple[Sort, Iterable[Span]]]:
    if DIGIT.search(text):
        yield "card", numbers.cards(text, lower)
        yield "ssn", numbers.ssns(text, lower)
    if _LONG_WORD.search(text):
        crowds = Crowds(text)
        for hint, pattern, _ in PROVIDERS:
            if hint in text:
                yield "secret", crowds.finds(partial(pattern.finditer, text), _token)
        for hint, pattern, _ in ANNOUNCED:
            if hint in lower:
                yield "secret", crowds.finds(partial(pattern.finditer, lower), partial(_announced, text, hint))


def _of_long(ground: Ground) -> Iterator[tuple[Sort, Iterable[Span]]]:
    from lukasa.gate import bulk

    if ground.digit.any():
        yield "card", bulk.cards(ground)
        yield "ssn", bulk.ssns(ground)
    if ground.long_words.any():
        crowds = Crowds(ground.text)
        for _, matches in bulk.tokens(ground, PROVIDERS):
            yield "secret", crowds.finds(matches, _token)
        for word, matches in bulk.announced(ground, ANNOUNCED):
            yield "secret", crowds.finds(matches, partial(_announced, ground.text, word))


_LONG_WORD = re.compile(r"[A-Za-z0-9+/_=.:~-]{16}")
"""No key or token is shorter, and few texts have such a word."""

# Secrets and passwords


def _token(match: _Match) -> Span | None:
    if not DIGIT.search(match[0]):
        return None
    value = match[match.lastindex or 0]
    return match.span() if _random_enough(value[:64], 2.0) or _random_enough(value[64:], 2.0) else None


def _announced(text: str, word: str, match: _Match) -> Span | None:
    start, end = match.span(1)
    value = text[start:end]
    if value[0] in _TRIMMED or value[-1] in _TRIMMED:
        value = value.strip(_TRIMMED)
    at = match.start()
    if word == "key":
        if not KEYS_THAT_ARE_SECRET.match(text[max(0, at - 12) : at].lower()[::-1]):
            return None
    elif at and text[at - 1].isalpha():
        return None
    if len(value) >= 16 and _mixed(value) and _random_enough(value, 3.2) and not is_placeholder(value):
        return start, end
    return None


_TRIMMED = ".=-_"


def _pin(match: _Match) -> Span:
    return match.span("value")


def _in_url(match: _Match) -> Span | None:
    value = match["value"]
    if is_placeholder(value) or value.lower() in ("password", "pass", "pwd"):
        return None
    return match.span("value")


def _password(text: str, match: _Match) -> Span | None:
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


def _random_enough(value: str, least: float) -> bool:
    """Whether a piece of text has at least so many bits in each character."""
    size, letters = len(value), set(value)
    if len(letters) < 2**least:
        return False
    if len(letters) >= _surely_random(size, least):
        return True
    return log2(size) - sum(map(_times_log2, map(value.count, letters))) / size >= least


@cache
def _times_log2(count: int) -> float:
    return count * log2(count)


@cache
def _surely_random(size: int, least: float) -> int:
    """So many different characters are enough, however they are distributed."""
    for letters in range(1, size + 1):
        most = size - letters + 1
        if (letters - 1) / size * log2(size) - most / size * log2(most / size) >= least:
            return letters
    return size + 1


_LETTER_AND_DIGITS = re.compile(r"(?=[^A-Za-z]*[A-Za-z])(?=[^0-9]*[0-9][^0-9]*[0-9]).*?[^-_./]{10}")


def _mixed(value: str) -> bool:
    """Letters and digits both, and not the parts of a sentence or a path."""
    if not _LETTER_AND_DIGITS.match(value):
        return False
    return len(value) < 20 or len(value.encode().translate(None, b"0123456789")) > 0.05 * len(value)
