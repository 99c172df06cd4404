"""Payment cards and American social security numbers in a normalised text.

A card is known by its brand, length and check digit, and by the words around it; its digits may be grouped in any way.
A social security number is known by its area rules; without dashes it counts only where the text mentions one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import accumulate

Span = tuple[int, int]
Scan = Callable[[int], Iterable[Span]]
"""A search for findings that start at an offset or later."""

MIN_CARD_DIGITS, MAX_CARD_DIGITS = 12, 19
CARD_CONTEXT_BEFORE, CARD_CONTEXT_AFTER = 40, 24
MAX_RUN_LENGTH = 120
"""Longer runs of digits are tables: the digits of a card in a table are one group."""

_DIGIT_RUN = re.compile(
    r"[0-9](?<![A-Za-z0-9_].)(?=[0-9 .-]{11})(?:[0-9]{11,}+|[0-9]*+(?=[ -]|\.[0-9]{4}(?![0-9])))"
    r"(?=((?:[ -]{1,2}[0-9]+|\.[0-9]{4}(?![0-9]))*))\1(?![A-Za-z_])"
)
"""Digits with separators, at least twelve characters; the lookaheads skip short numbers without building a match.

The group that is looked at and then repeated never gives digits back. Python before 3.11.5 misses matches of possessive
groups, which would say the same."""
_GROUPS_OF_A_CARD = re.compile(
    r"(?<![0-9])(?=([0-9]{4}(?:[ .-]{1,2}[0-9]{1,6}(?![0-9])){1,4}|[0-9]{12,19})(?![0-9]))[0-9]"
)
_GROUP = re.compile(r"[0-9]+")
_SEPARATORS = b" .-"
_LONE_GROUP = re.compile(r"(?<![0-9])[0-9]{12,19}(?![0-9])")
_CARD_GROUPING = re.compile(r"[0-9]+|[0-9]{4}(?:[ .-]{1,2}[0-9]{1,6}){1,4}|[0-9](?:[ .-]{1,2}[0-9])+")
"""Digits in groups as on a card, or not grouped, or each by itself."""

_CARD_WORDS = re.compile(
    r"card|c(?<!\wc)c\b|visa|master|amex|american express|discover|maestro|diners|jcb|unionpay|cvv|cvc|p(?<!\wp)an\b|karte|carte|"
    r"tarjeta|billing|expir"
)

_OTHER_NUMBERS = (  # noqa: SIM905 - a list of words reads best as words
    "order tracking track invoice ticket ref serial imei imsi iccid isbn ean upc gtin barcode timestamp case sku uuid guid hash "
    "build commit version phone tel call fax mobile shipment parcel package receipt transaction batch lot part model customer "
    "member user device session request trace span job run id no nr number iban account acct routing license licence passport "
    "seed checksum epoch bestellung rechnung sendung"
).split()


def _reversed_pattern(words: Iterable[str]) -> str:
    """Build a pattern of reversed words, grouped by their last letter so that few alternatives are tried."""
    by_last_letter: dict[str, list[str]] = {}
    for word in words:
        by_last_letter.setdefault(word[-1], []).append(word[-2::-1])
    return "|".join(f"{letter}(?:{'|'.join(rests)})" for letter, rests in by_last_letter.items())


_OTHER_NUMBER_PATTERN = _reversed_pattern(_OTHER_NUMBERS) + r"|\w*refer"
_OTHER_NUMBER_BEFORE = re.compile(
    rf"\n?[^\w\n]{{0,4}}(?:[^\w\n]{{0,3}}(?:{_OTHER_NUMBER_PATTERN})|"
    rf"(?:{_reversed_pattern(('id', 'no', 'nr', 'number', 'code'))}|#)[^\w\n]{{0,3}}(?:{_OTHER_NUMBER_PATTERN}))"
)
"""Words that make a number something other than a card, matched on the reversed text before the number."""

_BRANDS = (
    (5000, 5099, (), range(12, 20)),
    (5600, 5899, (12,), range(12, 20)),
    (5730, 5739, (), range(12, 20)),  # twelve digits are a telephone number of Colombia
    (5840, 5849, (), range(12, 20)),  # or of Venezuela
    (6000, 6999, (), range(12, 20)),
    *(
        (first, first, (12, 15, 16, 18, 19), (13, 14, 17))
        for first in (5018, 5020, 5038, 5893, 6304, 6390, 6759, 6761, 6762, 6763)
    ),
    (604, 604, (), (12,)),
    (3600, 3699, (14,), range(15, 20)),
    (3800, 3999, (14,), range(15, 20)),
    (3000, 3059, (14,), range(15, 20)),
    (3095, 3095, (14,), range(15, 20)),
    (4000, 4999, (13, 16, 19), ()),
    (5100, 5599, (16,), ()),
    (2221, 2720, (16,), ()),
    (2131, 2131, (15,), ()),
    (1800, 1800, (15,), ()),
    (3400, 3499, (15,), ()),
    (3700, 3799, (15,), ()),
    (6000, 6099, (16,), (12, 13, 14, 15, 17, 18, 19)),
    (6200, 6299, (16, 19), (12, 13, 14, 15, 17, 18)),
    (6370, 6389, (16,), (12, 13, 14, 15, 17, 18, 19)),
    (6440, 6599, (16, 19), (12, 13, 14, 15, 17, 18)),
    (3500, 3599, (16,), (17, 18, 19)),
)
"""First four digits (from, to), lengths that are cards by themselves, lengths that are cards where the text mentions one."""

_CARD_LENGTHS: dict[bytes, dict[int, bool]] = {
    b"%04d" % prefix: dict.fromkeys(mentioned, False) | dict.fromkeys(alone, True)
    for first, last, alone, mentioned in _BRANDS
    for prefix in range(first, last + 1)
}
"""Possible lengths by the first four digits, and whether a number of that length needs no mention of a card."""

_BARCODE_LENGTH = 13
_NO_LENGTHS: dict[int, bool] = {}
_LUHN_DOUBLED = bytes.maketrans(b"0123456789", b"0246813579")


class Mentions:
    """Words near a number. Questions come in ascending order, so that the text is searched only once."""

    def __init__(self, words: re.Pattern[str], lower: str) -> None:
        self._words, self._lower = words, lower
        self._next = 0

    def between(self, start: int, end: int) -> bool:
        """Return whether one of the words lies between two offsets."""
        start = max(0, start)
        if self._next < start:
            match = self._words.search(self._lower, start)
            self._next = match.start() if match else len(self._lower) + 1
        if self._next >= end:
            return False
        match = self._words.search(self._lower, start, end + 1)
        return match is not None and match.end() <= end


def card_scan(text: str, lower: str, data: bytes) -> Scan:
    """Return a search for payment cards. ``data`` is the text with one byte per character."""
    return partial(_find_cards, text, data, lower, Mentions(_CARD_WORDS, lower))


def _find_cards(text: str, data: bytes, lower: str, mentions: Mentions, position: int) -> Iterator[Span]:
    def is_card(start: int, end: int, digits: bytes) -> bool:
        """Return whether digits are a card by their brand, check digit and grouping and the text around."""
        size = len(digits)
        is_sure = _CARD_LENGTHS.get(digits[:4], _NO_LENGTHS).get(size)
        if is_sure is None:
            return False
        if (sum(digits[-1::-2]) + sum(digits[-2::-2].translate(_LUHN_DOUBLED)) - 48 * size) % 10 or len(
            set(digits)
        ) == 1:
            return False
        if data[start - 1 : start] in (b".", b",", b"/") and data[start - 2 : start - 1].isdigit():
            return False
        return (
            is_sure
            and data[start - 1 : start] != b"+"
            and not (size == _BARCODE_LENGTH and (sum(digits[::2]) + 3 * sum(digits[1::2]) - 48 * 25) % 10 == 0)
            and _CARD_GROUPING.fullmatch(text, start, end) is not None
            and not _OTHER_NUMBER_BEFORE.match(lower[max(0, start - CARD_CONTEXT_BEFORE) : start][::-1])
        ) or mentions.between(start - CARD_CONTEXT_BEFORE, end + CARD_CONTEXT_AFTER)

    for run in _DIGIT_RUN.finditer(text, position):
        run_start, run_end = run.span()
        length = run_end - run_start
        digits = data[run_start:run_end]
        if digits.isdigit():
            if length in _CARD_LENGTHS.get(digits[:4], _NO_LENGTHS) and is_card(run_start, run_end, digits):
                yield run_start, run_end
            continue
        if length > MAX_RUN_LENGTH:
            for start, end in map(re.Match.span, _LONE_GROUP.finditer(text, run_start, run_end)):
                if is_card(start, end, data[start:end]):
                    yield start, end
            continue
        digits = digits.translate(None, _SEPARATORS)
        if len(digits) < MIN_CARD_DIGITS:
            continue
        free = 0
        if not mentions.between(run_start - CARD_CONTEXT_BEFORE, run_end + CARD_CONTEXT_AFTER):
            if 2 * len(digits) <= length + 1 and is_card(run_start, run_end, digits):
                yield run_start, run_end
                continue
            for start, end in (match.span(1) for match in _GROUPS_OF_A_CARD.finditer(text, run_start, run_end)):
                prefix = data[start : start + 4]
                for group in _GROUP.finditer(text, start, end) if start >= free and prefix in _CARD_LENGTHS else ():
                    if is_card(start, group.end(), data[start : group.end()].translate(None, _SEPARATORS)):
                        free = group.end()
                        yield start, free
                        break
            continue
        offsets = [offset for offset in range(run_start, run_end) if data[offset] >= 48]
        for first, after in _luhn_spans(digits, range(MIN_CARD_DIGITS, MAX_CARD_DIGITS + 1)):
            start, end = offsets[first], offsets[after - 1] + 1
            if first < free or data[start - 1 : start].isdigit() or data[end : end + 1].isdigit():
                continue
            if is_card(start, end, digits[first:after]):
                yield start, end
                free = after


def _luhn_spans(digits: bytes, lengths: Iterable[int]) -> list[Span]:
    """Return the spans of digits that end with the check digit of Luhn, in order; sums of all digits make it cheap."""
    even_doubled, odd_doubled = bytearray(digits), bytearray(digits)
    even_doubled[::2] = digits[::2].translate(_LUHN_DOUBLED)
    odd_doubled[1::2] = digits[1::2].translate(_LUHN_DOUBLED)
    sums = list(accumulate(odd_doubled, initial=0)), list(accumulate(even_doubled, initial=0))
    found: list[Span] = []
    for length in lengths:
        above = 48 * length  # digits are counted with their character codes
        for parity in (0, 1):
            totals = sums[(parity + length - 1) % 2]
            firsts = range(parity, len(digits) - length + 1, 2)
            found += [
                (first, first + length)
                for first, before, after in zip(firsts, totals[parity::2], totals[parity + length :: 2], strict=False)
                if (after - before - above) % 10 == 0
            ]
    found.sort()
    return found


_SSN = re.compile(r"([0-9](?<![\w.-].)[0-9][0-9])([ .-]?)([0-9]{2})\2([0-9]{4})(?![\w-]|\.[0-9])")
_SSN_WORDS = re.compile(
    r"s(?<!\ws)sn?s?\b|social[ -]?security|soc\.? sec|s(?<!\ws)ocial (?:number|is|no)|tax(?:payer)? id|t(?<!\wt)in\b|i(?<!\wi)tin\b"
)
_ADVERTISED_SSNS = frozenset({"078051120", "219099999", "123456789"})
_SSN_CONTEXT_BEFORE, _SSN_CONTEXT_AFTER = 60, 30


def mentions_ssn(lower: str) -> bool:
    """Return whether a text mentions social security numbers anywhere."""
    return _SSN_WORDS.search(lower) is not None


def ssn_scan(text: str, lower: str) -> Scan:
    """Return a search for social security numbers."""
    return partial(_find_ssns, text, Mentions(_SSN_WORDS, lower))


def _find_ssns(text: str, mentions: Mentions, position: int) -> Iterator[Span]:
    for match in _SSN.finditer(text, position):
        area, separator, group, serial = match.groups()
        if area in ("000", "666") or area[0] == "9" or group == "00" or serial == "0000":
            continue
        start, end = match.span()
        if (separator == "-" and area + group + serial not in _ADVERTISED_SSNS) or mentions.between(
            start - _SSN_CONTEXT_BEFORE, end + _SSN_CONTEXT_AFTER
        ):
            yield start, end
