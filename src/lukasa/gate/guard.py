"""The guard: finds personal data and secrets in a text. A pure function; it keeps and logs nothing of what it read.

A text is folded first (compatibility forms, invisible characters, dashes and spaces of all sorts), then looked at for

- ``card``: payment cards by brand, length and check digit, however they are grouped;
- ``ssn``: American social security numbers by their area rules; without dashes only where the text speaks of one;
- ``secret``: keys and tokens by their provider's spelling, or announced by a keyword and random enough;
- ``password``: told in prose, set in a file, or inside a URL; PINs likewise;
- ``private_key``: the armour of one.

What it names is the class and the place, never the value.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from math import log2
from typing import Literal, NamedTuple

from lukasa.gate.secrets import (
    ANNOUNCED,
    COMMON_AFTER_PASSWORD,
    IN_URL,
    KEYS_THAT_ARE_SECRET,
    PASSWORDS,
    PIN,
    PRIVATE_KEYS,
    PROVIDERS,
    Spelling,
    is_placeholder,
)

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
    folded = text if text.isascii() else _folded(text)
    found = _apart(sorted(_everything(folded)))
    if not found or folded is text:
        return found
    ends = list(accumulate(len(_FOLDING[ord(character)]) for character in text))
    return [_moved(spotted, ends) for spotted in found]


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


class _Folding(dict[int, str]):
    """What each character is taken for; learned as characters come by."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        if category == "Cf" or "\ufe00" <= character <= "\ufe0f":
            folded = ""
        elif category == "Pd" or character in "\u2212\u2043\u00b7":
            folded = "-"
        elif category == "Zs":
            folded = " "
        else:
            folded = unicodedata.normalize("NFKC", character)
            if len(folded) == 1 and not folded.isascii() and folded.isdecimal():
                folded = str(unicodedata.decimal(folded))
        if len(self) < 100_000:
            self[code] = folded
        return folded


_FOLDING = _Folding()
_FEW_REPLACED = 16


def _folded(text: str) -> str:
    """The text with every character taken for what it is taken for. Most texts have few that change, or none."""
    table = {letter: _FOLDING[ord(letter)] for letter in set(text)}
    changed = [letter for letter, taken in table.items() if taken != letter]
    if len(changed) > _FEW_REPLACED:
        return text.translate({ord(letter): taken for letter, taken in table.items()})
    for letter in changed:
        text = text.replace(letter, table[letter])
    return text


def _moved(spotted: Spotted, ends: list[int]) -> Spotted:
    """The same piece in the text as it was written."""
    return Spotted(bisect_right(ends, spotted.start), bisect_left(ends, spotted.end) + 1, spotted.sort)


def _apart(found: Iterable[Spotted]) -> list[Spotted]:
    pieces: list[Spotted] = []
    for spotted in found:
        if pieces and spotted.start < pieces[-1].end:
            first = pieces[-1]
            pieces[-1] = Spotted(first.start, max(first.end, spotted.end), first.sort)
        else:
            pieces.append(spotted)
    return pieces


def _everything(text: str) -> Iterator[Spotted]:
    lower = text.replace("\u0130", "\u0131").lower()  # the one letter whose small form is two characters
    hinted, hinted_small = _Hints(text), _Hints(lower)
    if _DIGIT.search(text):
        yield from _cards(text, lower)
        yield from _ssns(text, lower)
        if "pin" in lower:
            yield from (Spotted(*match.span("value"), "password") for match in PIN.finditer(lower))
    for _, pattern in hinted(PRIVATE_KEYS):
        yield from (Spotted(*match.span(), "private_key") for match in pattern.finditer(text))
    if _LONG_WORD.search(text):
        yield from _secrets(text, lower, hinted, hinted_small)
    for _, pattern in hinted_small(PASSWORDS):
        yield from (match for found in pattern.finditer(lower) for match in _password(text, found))
    if "://" in text and "@" in text:
        for match in IN_URL.finditer(text):
            if not is_placeholder(match["value"]) and match["value"].lower() not in ("password", "pass", "pwd"):
                yield Spotted(*match.span("value"), "password")


_LONG_WORD = re.compile(r"[A-Za-z0-9+/_=.:~-]{16}")
"""No key or token is shorter, and few texts have such a word."""


def _secrets(text: str, lower: str, hinted: _Hints, hinted_small: _Hints) -> Iterator[Spotted]:
    for hint, pattern in hinted(PROVIDERS):
        for match in pattern.finditer(text):
            if _random_enough(match.group()[len(hint) :], 2.0) and _DIGIT.search(match.group()):
                yield Spotted(*match.span(), "secret")
    for hint, pattern in hinted_small(ANNOUNCED):
        yield from (match for found in pattern.finditer(lower) for match in _announced(text, hint, found))


class _Hints:
    """Tells which spellings a text could have. A long text is asked first whether it has the letters at all."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._letters = set(text) if len(text) > _LONG else None
        self._plain = b"" if self._letters is None or text.isascii() else text.encode("ascii", "replace")

    def __call__(self, spellings: tuple[Spelling, ...]) -> list[Spelling]:
        if self._letters is None:
            text = self._text
            return [spelling for spelling in spellings if spelling.hint in text]
        return [spelling for spelling in spellings if self._letters.issuperset(spelling.hint) and self._has(spelling)]

    def _has(self, spelling: Spelling) -> bool:
        if self._plain and spelling.hint.isascii():  # bytes are quicker to search than wide characters
            return spelling.hint.encode() in self._plain
        return spelling.hint in self._text


# Cards

_DIGIT = re.compile(r"\d")
_RUN = re.compile(r"\d(?<![A-Za-z0-9_].)\d*(?:[ -]{1,2}\d+|\.\d{4}(?!\d))*")
_LETTER = re.compile(r"[A-Za-z_]")
_GROUP, _LONG_GROUP = re.compile(r"\d+"), re.compile(r"\d{12,}")
_LONG = 10_000
_LONGEST_RUN = 120
"""Digits that go on for longer are a table: there a card stands in one piece."""
_CARD_WORDS = re.compile(
    r"card|\bcc\b|visa|master|amex|american express|discover|maestro|diners|jcb|unionpay|cvv|cvc|\bpan\b|karte|carte|tarjeta|billing|expir"
)
_OTHER_NUMBERS = re.compile(
    r"(?:order|tracking|track|invoice|ticket|refer\w*|ref|serial|imei|imsi|iccid|isbn|ean|upc|gtin|barcode|timestamp|case|sku|uuid|guid|hash|build|commit|"
    r"version|phone|tel|call|fax|mobile|shipment|parcel|package|receipt|transaction|batch|lot|part|model|customer|member|user|device|session|request|trace|span|"
    r"job|run|id|no|nr|number|iban|account|acct|routing|license|licence|passport|seed|checksum|epoch|bestellung|rechnung|sendung)[^\w\n]{0,3}(?:id|no|nr|number|code|#)?[^\w\n]{0,4}$"
)
_BEFORE, _AFTER = 40, 24
_SHORTEST_CARD, _LONGEST_CARD = 12, 19
_ODD = bytes.maketrans(b"0123456789", bytes(range(10)))
_EVEN = bytes.maketrans(b"0123456789", bytes((0, 2, 4, 6, 8, 1, 3, 5, 7, 9)))


def _cards(text: str, lower: str) -> Iterator[Spotted]:
    for run in _RUN.finditer(text):
        start, end = run.span()
        if end - start < _SHORTEST_CARD or _LETTER.match(text, end):
            continue
        short = end - start <= _LONGEST_RUN
        groups = [group.span() for group in (_GROUP if short else _LONG_GROUP).finditer(text, start, end)]
        most = _LONGEST_CARD if short else 1
        at = 0
        while at < len(groups):
            until = _card_from(text, lower, groups, at, most=most)
            if until:
                yield Spotted(groups[at][0], groups[until - 1][1], "card")
            at = until or at + 1


def _card_from(text: str, lower: str, groups: list[tuple[int, int]], at: int, *, most: int) -> int:
    """After which group a card ends that begins with this one; 0 if none does."""
    start = groups[at][0]
    if text[start] not in "23456" or (start and text[start - 1] in ".,/" and text[start - 2 : start - 1].isdigit()):
        return 0
    digits = ""
    for until in range(at, min(at + most, len(groups))):
        digits += text[groups[until][0] : groups[until][1]]
        if len(digits) > _LONGEST_CARD:
            return 0
        if len(digits) >= _SHORTEST_CARD and _checks(digits) and (sure := _brand(digits)) is not None:
            spoken_of = _CARD_WORDS.search(lower[max(0, start - _BEFORE) : groups[until][1] + _AFTER]) is not None
            if spoken_of or (
                sure
                and _usual(groups[at : until + 1])
                and not _OTHER_NUMBERS.search(lower[max(0, start - _BEFORE) : start])
            ):
                return until + 1
    return 0


def _usual(groups: list[tuple[int, int]]) -> bool:
    """Whether digits are grouped as on a card, or not at all."""
    sizes = tuple(end - start for start, end in groups)
    return (
        len(sizes) == 1 or (sizes[0] == 4 and max(sizes) <= 6 and len(sizes) <= 5) or all(size == 1 for size in sizes)
    )


def _brand(digits: str) -> bool | None:
    """Whether a number of a card's brand and length stands for itself; ``False`` if the text must speak of a card."""
    length, two, four = len(digits), int(digits[:2]), int(digits[:4])
    if digits[0] == "4":
        return True if length == 16 else False if length in (13, 19) else None
    if 51 <= two <= 55 or 2221 <= four <= 2720:
        return True if length == 16 else None
    if two in (34, 37):
        return True if length == 15 else None
    if four == 6011 or two == 65 or 6440 <= four <= 6499 or 3528 <= four <= 3589 or two == 62 or two in (60, 81, 82):
        return True if length == 16 else False if 16 < length <= 19 else None
    if two in (36, 38, 39) or 3000 <= four <= 3059:
        return False if 14 <= length <= 19 else None
    if two in (50, 56, 57, 58) or digits[0] == "6":
        return False
    return None


def _checks(digits: str) -> bool:
    """The check digit of Luhn; a number of one digit alone is nobody's."""
    spelled = digits.encode()
    total = sum(spelled[-1::-2].translate(_ODD)) + sum(spelled[-2::-2].translate(_EVEN))
    return total % 10 == 0 and len(set(digits)) > 1


# Social security numbers

_SSN = re.compile(r"(\d(?<![\w.-].)\d\d)([ .-]?)(\d\d)\2(\d{4})(?![\w-]|\.\d)")
_SSN_WORDS = re.compile(
    r"\bssn?s?\b|social[ -]?security|soc\.? sec|\bsocial (?:number|is|no)|tax(?:payer)? id|\btin\b|\bitin\b"
)
_ADVERTISED = frozenset({"078051120", "219099999", "123456789"})


def _ssns(text: str, lower: str) -> Iterator[Spotted]:
    for match in _SSN.finditer(text):
        area, sign, group, serial = match.groups()
        if area in ("000", "666") or area[0] == "9" or group == "00" or serial == "0000":
            continue
        if (sign == "-" and area + group + serial not in _ADVERTISED) or _SSN_WORDS.search(
            lower[max(0, match.start() - 60) : match.end() + 30]
        ):
            yield Spotted(*match.span(), "ssn")


# Secrets and passwords


def _announced(text: str, word: str, match: re.Match[str]) -> Iterator[Spotted]:
    start, end = match.span("value")
    value = text[start:end].strip(".=-_")
    if (
        len(value) < 16
        or len(set(value)) < 8
        or (match.start() and text[match.start() - 1].isalpha() and word != "key")
    ):
        return
    if word == "key" and not KEYS_THAT_ARE_SECRET.search(text[max(0, match.start() - 12) : match.start()].lower()):
        return
    if _mixed(value) and _random_enough(value, 3.2) and not is_placeholder(value):
        yield Spotted(start, end, "secret")


def _password(text: str, match: re.Match[str]) -> Iterator[Spotted]:
    start = match.start("value")
    value = text[start : match.end("value")].rstrip(".!?)")
    before = text[match.start() - 1 : match.start()]
    if value and not before.isalnum() and _is_password(value, match):
        yield Spotted(start, start + len(value), "password")


_NOT_A_PASSWORD = re.compile(r"\d{1,3}(?:[-–+]\w+)?|\d+[-–]\d+|https?:.*|/\S*|[\w.]+[(\[].*")
"""Lengths, ranges, addresses, paths and calls of functions."""


_UNLIKE_A_WORD = re.compile(r"[\d_]|[^\w'’.-]|[a-z][A-Z]")


def _is_password(value: str, match: re.Match[str]) -> bool:
    """Whether what follows the word is a password, and not something said about one."""
    if value.lower() in COMMON_AFTER_PASSWORD or match["many"] or is_placeholder(value):
        return False
    if _UNLIKE_A_WORD.search(value):
        return not _NOT_A_PASSWORD.fullmatch(value)
    if match["quote"]:
        return True
    last = not re.match(r"[\"'`”’»]?[^\S\n]+\w", match["after"])
    return (
        last
        and len(value) >= 4
        and (match["sign"] in ("=", ":=", "==") or not value.endswith(("ed", "ing", "able", "ible", "ly")))
    )


def _random_enough(value: str, least: float) -> bool:
    """Whether a piece of text has at least so many bits in each character."""
    size = len(value)
    if not size:
        return False
    return -sum(count / size * log2(count / size) for count in map(value.count, set(value))) >= least


_PARTS = re.compile(r"[-_./]")


def _mixed(value: str) -> bool:
    """Letters and digits both, and not the parts of a sentence or a path."""
    digits = sum(map(str.isdigit, value))
    if digits < 2 or digits >= 0.95 * len(value) or not any(map(str.isalpha, value)):
        return False
    return max(map(len, _PARTS.split(value))) >= 10
