"""Numbers that are somebody's: payment cards and American social security numbers, in a folded text.

A card is told by its brand, length and check digit, and by what is said around it; it may be grouped in any way. The same
for a social security number, by its area rules; without dashes only where the text speaks of one. Here one is found
after the other; ``lukasa.pii.bulk`` finds all those of a long text at once, by the same rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from lukasa.pii.normalize import Span

DIGIT = re.compile(r"[0-9]")
_DIGIT_RUN = re.compile(r"\d(?<![A-Za-z0-9_].)\d*(?:[ -]{1,2}\d+|\.\d{4}(?!\d))*")
_LETTER = re.compile(r"[A-Za-z_]")
_DIGIT_GROUP, _LONG_DIGIT_GROUP = re.compile(r"\d+"), re.compile(r"\d{12,}")
MAX_RUN_LENGTH = 120
"""Digits that go on for longer are a table: there a card stands in one piece."""
MIN_CARD_DIGITS, MAX_CARD_DIGITS = 12, 19
CARD_CONTEXT_BEFORE, CARD_CONTEXT_AFTER = 40, 24

CARD_WORDS = re.compile(
    r"card|\bcc\b|visa|master|amex|american express|discover|maestro|diners|jcb|unionpay|cvv|cvc|\bpan\b|karte|carte|tarjeta|billing|expir"
)
CARD_WORD_PREFIXES = (
    "car", "cc", "vis", "mas", "ame", "dis", "mae", "din", "jcb", "uni", "cvv", "cvc", "pan", "kar", "tar", "bil", "exp"
)  # fmt: skip

_OTHER_NUMBERS = (  # noqa: SIM905 - a list of words reads best as words
    "order tracking track invoice ticket ref serial imei imsi iccid isbn ean upc gtin barcode timestamp case sku uuid guid hash "
    "build commit version phone tel call fax mobile shipment parcel package receipt transaction batch lot part model customer "
    "member user device session request trace span job run id no nr number iban account acct routing license licence passport "
    "seed checksum epoch bestellung rechnung sendung"
).split()


def _reversed_pattern(words: Iterable[str]) -> str:
    """A pattern of the words from their ends, by their last letter, so that few are tried."""
    ways: dict[str, list[str]] = {}
    for word in words:
        ways.setdefault(word[-1], []).append(word[-2::-1])
    return "|".join(f"{letter}(?:{'|'.join(rests)})" for letter, rests in ways.items())


_OTHER_NUMBER_PATTERN = _reversed_pattern(_OTHER_NUMBERS) + r"|\w*refer"
_OTHER_NUMBER_BEFORE = re.compile(
    rf"\n?[^\w\n]{{0,4}}(?:[^\w\n]{{0,3}}(?:{_OTHER_NUMBER_PATTERN})|"
    rf"(?:{_reversed_pattern(('id', 'no', 'nr', 'number', 'code'))}|#)[^\w\n]{{0,3}}(?:{_OTHER_NUMBER_PATTERN}))"
)
"""What says that a number is none of a card's, read from the number backwards."""
MAX_GAP = 8
"""So many characters may stand between the number and what is said of it."""


def _build_brand_tables() -> tuple[bytes, bytes]:
    """For the first four digits: a bit for each length from 12 on of a card that stands for itself, or must be spoken of."""
    alone, spoken_of = bytearray(10_000), bytearray(10_000)
    for first, last, lengths, lengths_spoken_of in (
        (5000, 5099, (), range(12, 20)),
        (5600, 5899, (), range(12, 20)),
        (6000, 6999, (), range(12, 20)),
        (3600, 3699, (), range(14, 20)),
        (3800, 3999, (), range(14, 20)),
        (3000, 3059, (), range(14, 20)),
        (4000, 4999, (16,), (13, 19)),
        (5100, 5599, (16,), ()),
        (2221, 2720, (16,), ()),
        (3400, 3499, (15,), ()),
        (3700, 3799, (15,), ()),
        (6000, 6099, (16,), (17, 18, 19)),
        (6200, 6299, (16,), (17, 18, 19)),
        (6440, 6599, (16,), (17, 18, 19)),
        (3528, 3589, (16,), (17, 18, 19)),
    ):
        for bits, sizes in ((alone, lengths), (spoken_of, lengths_spoken_of)):
            bits[first : last + 1] = bytes([sum(1 << (size - MIN_CARD_DIGITS) for size in sizes)]) * (last + 1 - first)
    return bytes(alone), bytes(spoken_of)


BRANDS_ALWAYS, BRANDS_IF_MENTIONED = _build_brand_tables()
LUHN_DOUBLED = bytes((0, 2, 4, 6, 8, 1, 3, 5, 7, 9))
_ODD_DIGITS = bytes.maketrans(b"0123456789", bytes(range(10)))
_EVEN_DIGITS = bytes.maketrans(b"0123456789", LUHN_DOUBLED)


def find_cards(text: str, lower: str) -> Iterator[Span]:
    for run in _DIGIT_RUN.finditer(text):
        start, end = run.span()
        if end - start < MIN_CARD_DIGITS or _LETTER.match(text, end):
            continue
        short = end - start <= MAX_RUN_LENGTH
        groups = [group.span() for group in (_DIGIT_GROUP if short else _LONG_DIGIT_GROUP).finditer(text, start, end)]
        most = MAX_CARD_DIGITS if short else 1
        at = 0
        while at < len(groups):
            until = _find_card_end(text, lower, groups, at, max_groups=most)
            if until:
                yield groups[at][0], groups[until - 1][1]
            at = until or at + 1


def _find_card_end(text: str, lower: str, groups: list[Span], first_group: int, *, max_groups: int) -> int:
    """After which group a card ends that begins with this one; 0 if none does."""
    start = groups[first_group][0]
    if text[start] not in "23456" or (start and text[start - 1] in ".,/" and text[start - 2 : start - 1].isdigit()):
        return 0
    digits = ""
    for until in range(first_group, min(first_group + max_groups, len(groups))):
        digits += text[groups[until][0] : groups[until][1]]
        if len(digits) > MAX_CARD_DIGITS:
            return 0
        if len(digits) >= MIN_CARD_DIGITS and (sure := _match_brand(digits)) is not None and _passes_luhn(digits):
            end = groups[until][1]
            if _mentions(CARD_WORDS, lower, start - CARD_CONTEXT_BEFORE, end + CARD_CONTEXT_AFTER) or (
                sure
                and _is_card_grouping(groups[first_group : until + 1])
                and not is_other_number(lower[:start][::-1], start)
            ):
                return until + 1
    return 0


def is_other_number(reversed_text: str, start: int) -> bool:
    """Whether the text, given from its end, says of a number that it is an order's, a phone's … ."""
    at = len(reversed_text) - start
    return _OTHER_NUMBER_BEFORE.match(reversed_text, at, at + CARD_CONTEXT_BEFORE) is not None


def _mentions(words: re.Pattern[str], lower: str, start: int, end: int) -> bool:
    """Whether one of the words stands in a piece of the text."""
    match = words.search(lower, max(0, start), end + 1)
    return match is not None and match.end() <= end


def _is_card_grouping(groups: list[Span]) -> bool:
    """Whether digits are grouped as on a card, or not at all."""
    sizes = [end - start for start, end in groups]
    return len(sizes) == 1 or (sizes[0] == 4 and max(sizes) <= 6 and len(sizes) <= 5) or max(sizes) == 1


def _match_brand(digits: str) -> bool | None:
    """Whether a number of a card's brand and length stands for itself; ``False`` if the text must speak of a card."""
    four, bit = int(digits[:4]), 1 << (len(digits) - MIN_CARD_DIGITS)
    return True if BRANDS_ALWAYS[four] & bit else False if BRANDS_IF_MENTIONED[four] & bit else None


def _passes_luhn(digits: str) -> bool:
    """The check digit of Luhn; a number of one digit alone is nobody's."""
    spelled = digits.encode()
    total = sum(spelled[-1::-2].translate(_ODD_DIGITS)) + sum(spelled[-2::-2].translate(_EVEN_DIGITS))
    return total % 10 == 0 and len(set(digits)) > 1


# Social security numbers

_SSN = re.compile(r"(\d(?<![\w.-].)\d\d)([ .-]?)(\d\d)\2(\d{4})(?![\w-]|\.\d)")
SSN_WORDS = re.compile(
    r"\bssn?s?\b|social[ -]?security|soc\.? sec|\bsocial (?:number|is|no)|tax(?:payer)? id|\btin\b|\bitin\b"
)
SSN_WORD_PREFIXES = ("ss", "soc", "tax", "tin", "iti")
ADVERTISED_SSNS = frozenset({"078051120", "219099999", "123456789"})
SSN_CONTEXT_BEFORE, SSN_CONTEXT_AFTER = 60, 30


def find_ssns(text: str, lower: str) -> Iterable[Span]:
    for match in _SSN.finditer(text):
        area, sign, group, serial = match.groups()
        if area in ("000", "666") or area[0] == "9" or group == "00" or serial == "0000":
            continue
        start, end = match.span()
        if (sign == "-" and area + group + serial not in ADVERTISED_SSNS) or _mentions(
            SSN_WORDS, lower, start - SSN_CONTEXT_BEFORE, end + SSN_CONTEXT_AFTER
        ):
            yield start, end
