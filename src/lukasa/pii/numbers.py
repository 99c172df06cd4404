"""Payment cards and American social security numbers in a normalised text.

A card is known by its brand, length and check digit, and by the words around it; its digits may be grouped in any way.
A social security number is known by its area rules; without dashes it counts only where the text mentions one.

Cards are looked for in all groups of digits at once, with arrays: a text may hold half a million groups.
"""

from __future__ import annotations

import re
import string
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice

Span = tuple[int, int]
Scan = Callable[[int], Iterable[Span]]
"""A search for findings that start at an offset or later."""

MIN_CARD_DIGITS, MAX_CARD_DIGITS = 12, 19
CARD_CONTEXT_BEFORE, CARD_CONTEXT_AFTER = 40, 24
MAX_RUN_LENGTH = 120
"""Longer runs of digits are tables: the digits of a card in a table are one group."""
_MAX_GROUPS, _MAX_GROUP_SIZE = 5, 6

_CARD_START = re.compile(r"[0-6](?<![A-Za-z0-9_].)(?=(?:[ .-]{0,2}[0-9]){11})")
_CARD_WORDS = re.compile(
    r"card|c(?<!\wc)c\b|visa|master|amex|american express|discover|maestro|diners|jcb|unionpay|cvv|cvc|p(?<!\wp)an\b|karte|carte|"
    r"tarjeta|billing|expir"
)
_OTHER_WORDS = (
    "order|tracking|track|invoice|ticket|ref|serial|imei|imsi|iccid|isbn|ean|upc|gtin|barcode|timestamp|case|sku|uuid|guid|hash|"
    "build|commit|version|phone|tel|call|fax|mobile|shipment|parcel|package|receipt|transaction|batch|lot|part|model|customer|"
    "member|user|device|session|request|trace|span|job|run|id|no|nr|number|iban|account|acct|routing|license|licence|passport|"
    "seed|checksum|epoch|bestellung|rechnung|sendung"
)
_OTHER_NUMBER_BEFORE = re.compile(
    rf"(?:(?<![a-z])(?:{_OTHER_WORDS}|refer\w*)(?:[^\w\n]{{0,3}}(?:id|no|nr|number|code|#))?|nummer|number)"
    r"[^\w\n]{0,7}\n?[^\w\n]{0,4}\Z|\+\Z"
)
"""Words before a number that make it something other than a card."""

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

_SURE_LENGTHS, _LENGTHS = [0] * 10_000, [0] * 10_000
"""Possible lengths by the first four digits, one bit each: without a mention of a card, and with one."""
for _first, _last, _alone, _mentioned in _BRANDS:
    _sure = sum(1 << length for length in _alone)
    for _prefix in range(_first, _last + 1):
        _SURE_LENGTHS[_prefix], _LENGTHS[_prefix] = _sure, _sure | sum(1 << length for length in _mentioned)

_BARCODE_LENGTH = 13


def card_scan(text: str, lower: str, data: bytes) -> Scan:
    """Return a search for payment cards. ``data`` is the text with one byte per character."""
    candidates = _card_candidates(lower, data) if _CARD_START.search(text) else []
    contexts: dict[str, bool] = {}

    def find_cards(position: int) -> Iterator[Span]:
        previous = position
        for start, end, is_mentioned in islice(candidates, bisect_left(candidates, (position,)), None):
            if start < position:
                continue
            if not is_mentioned:
                context = lower[max(previous if previous <= start else 0, start - CARD_CONTEXT_BEFORE) : start]
                previous = end
                if context not in contexts:
                    contexts[context] = _OTHER_NUMBER_BEFORE.search(context) is not None
                if contexts[context] or _is_barcode(data[start:end]):
                    continue
            yield start, end
            position = end

    return find_cards


def _is_barcode(digits: bytes) -> bool:
    return len(digits) == _BARCODE_LENGTH and (sum(digits[::2]) + 3 * sum(digits[1::2]) - 48 * 25) % 10 == 0


def _card_candidates(lower: str, data: bytes) -> list[tuple[int, int, bool]]:
    """List the numbers with a card's brand, length, check digit and grouping, and whether the text mentions a card there."""
    import numpy as np

    codes = np.frombuffer(b" " + data + b" ", np.uint8)
    places = np.flatnonzero((codes - np.uint8(48)) < 10).astype(np.int32)
    starts = np.flatnonzero(np.diff(places, prepend=-2) > 1)  # of the groups, among the digits
    ends = np.append(starts[1:], len(places))
    first, last = places[starts], places[ends - 1] + 1  # of the groups, in the text
    is_letter = np.zeros(256, bool)
    is_letter[list(string.ascii_letters.encode() + b"_")] = True
    apart = ~(is_letter[codes[first - 1]] | is_letter[codes[last]])
    starts, ends, first, last = starts[apart], ends[apart], first[apart], last[apart]
    if not starts.size:
        return []
    gap, left, right = first[1:] - last[:-1], codes[last[:-1]], codes[first[1:] - 1]
    is_joined = (gap <= 2) & ((left == 32) | (left == 45)) & ((right == 32) | (right == 45))
    is_joined |= (gap == 1) & (left == 46) & (last[1:] - first[1:] == 4)
    for is_table_split in (False, True):
        run = np.append(0, np.cumsum(~is_joined, dtype=np.int32))
        heads = np.flatnonzero(np.diff(run, prepend=-1))
        tails = np.append(heads[1:], len(run)) - 1
        if not is_table_split:
            is_joined &= (last[tails] - first[heads] <= MAX_RUN_LENGTH)[run[1:]]
    digits = np.append(codes[places] - np.uint8(48), np.zeros(4, np.uint8))
    prefix = digits[starts].astype(np.int16)
    for offset in (1, 2, 3):
        prefix = 10 * prefix + digits[starts + offset]
    alone, known = np.array(_SURE_LENGTHS, np.int32), np.array(_LENGTHS, np.int32)
    group = np.flatnonzero((ends[tails][run] - starts >= MIN_CARD_DIGITS) & (known[prefix] > 0))
    before, earlier = codes[first[group] - 1], codes[first[group] - 2]
    group = group[~(((before == 46) | (before == 44) | (before == 47)) & ((earlier - np.uint8(48)) < 10))]
    if not group.size:
        return []
    sizes = ends - starts
    may_stand_alone = (sizes[group] == 4) | (sizes[group] >= MIN_CARD_DIGITS) | (heads[run[group]] == group)
    far = len(data) + 10 * MAX_RUN_LENGTH
    mentions = np.array([*(match.span() for match in _CARD_WORDS.finditer(lower)), (far, far)], np.int32)
    next_mention = mentions[np.searchsorted(mentions[:, 0], first[group] - 1 - CARD_CONTEXT_BEFORE), 0]
    is_near = next_mention < first[group] + MAX_RUN_LENGTH + CARD_CONTEXT_AFTER
    group, lengths = (
        group[may_stand_alone | is_near],
        np.where(is_near, known[prefix[group]], alone[prefix[group]])[may_stand_alone | is_near],
    )
    doubled, sums = np.array([0, 2, 4, 6, 8, 1, 3, 5, 7, 9], np.uint8)[digits], []
    for first_doubled in (0, 1):
        counted = digits.copy()
        counted[first_doubled::2] = doubled[first_doubled::2]
        sums.append(np.append(0, np.cumsum(counted, dtype=np.int32)))
    changes = np.append(0, np.cumsum(digits[1:] != digits[:-1], dtype=np.int32))
    group_ending = np.full(len(digits) + MAX_CARD_DIGITS, -1, np.int32)
    group_ending[ends] = np.arange(len(ends))
    found = []
    for length in range(MIN_CARD_DIGITS, MAX_CARD_DIGITS + 1):
        head = group[lengths >> length & 1 == 1]
        tail = group_ending[starts[head] + length]
        kept = (tail >= 0) & (run[head] == run[tail])
        head, tail = head[kept], tail[kept]
        begin, end = starts[head], starts[head] + length
        total = np.where(end % 2 == 0, sums[0][end] - sums[0][begin], sums[1][end] - sums[1][begin])
        kept = (total % 10 == 0) & (changes[end - 1] > changes[begin])
        found.append((head[kept], tail[kept], np.full(kept.sum(), length)))
    head, tail, size = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((size, head))
    head, tail, size = head[order], tail[order], size[order]
    begin, end = first[head] - 1, last[tail] - 1
    next_mention = np.searchsorted(mentions[:, 0], begin - CARD_CONTEXT_BEFORE)
    is_mentioned = mentions[next_mention, 1] <= end + CARD_CONTEXT_AFTER
    count = tail - head + 1
    is_usual = (sizes[head] == 4) & (count <= _MAX_GROUPS)
    for step in range(1, _MAX_GROUPS):
        is_usual &= sizes[np.minimum(head + step, tail)] <= _MAX_GROUP_SIZE
    is_usual |= (count == size) & (heads[run[head]] == head) & (tails[run[tail]] == tail)
    is_usual |= count == 1
    kept = is_mentioned | (is_usual & (alone[prefix[head]] >> size & 1 == 1))
    return list(zip(begin[kept].tolist(), end[kept].tolist(), is_mentioned[kept].tolist(), strict=True))


_SSN_SHAPE = re.compile(rb"000-00-0000")
_SSN_SHAPE_TABLE = bytes(48 if 48 <= code < 58 else code for code in range(256))
_SSN = re.compile(
    r"[0-9](?<![\w.-].)(?<!9)(?!00(?<=000)|66(?<=666))[0-9][0-9]([ .-]?)(?!00)[0-9][0-9]\1(?!0000)[0-9]{4}(?![\w-]|\.[0-9])"
)
_ADVERTISED_SSN = re.compile("078-05-1120|219-09-9999|123-45-6789")
_SSN_WORDS = re.compile(
    r"s(?<!\ws)sn?s?\b|social[ -]?security|soc\.? sec|s(?<!\ws)ocial (?:number|is|no)|tax(?:payer)? id|t(?<!\wt)in\b|i(?<!\wi)tin\b"
)
_SSN_CONTEXT_BEFORE, _SSN_CONTEXT_AFTER = 60, 30


def ssn_scan(text: str, lower: str, data: bytes) -> Scan:
    """Return a search for social security numbers: with dashes anywhere, otherwise near words that mention one."""
    if _SSN_WORDS.search(lower):
        return partial(_find_mentioned_ssns, text, lower)
    return partial(_find_dashed_ssns, text, data.translate(_SSN_SHAPE_TABLE))


def _find_dashed_ssns(text: str, shape: bytes, position: int) -> Iterator[Span]:
    for hit in _SSN_SHAPE.finditer(shape, position):
        if (match := _SSN.match(text, hit.start())) and not _ADVERTISED_SSN.match(text, hit.start()):
            yield match.span()


def _find_mentioned_ssns(text: str, lower: str, position: int) -> Iterator[Span]:
    mention_start, mention_end = -1, -1
    for match in _SSN.finditer(text, position):
        start, end = match.span()
        if match[1] == "-" and not _ADVERTISED_SSN.match(text, start):
            yield start, end
            continue
        if mention_start < start - _SSN_CONTEXT_BEFORE:
            mention = _SSN_WORDS.search(lower, max(0, start - _SSN_CONTEXT_BEFORE))
            mention_start, mention_end = mention.span() if mention else (len(text), 2 * len(text))
        if mention_end <= end + _SSN_CONTEXT_AFTER:
            yield start, end
