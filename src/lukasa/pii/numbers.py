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
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

Span = tuple[int, int]
Scan = Callable[[int], Iterable[Span]]
"""A search for findings that start at an offset or later."""

MIN_CARD_DIGITS, MAX_CARD_DIGITS = 12, 19
CARD_CONTEXT_BEFORE, CARD_CONTEXT_AFTER = 40, 24
MAX_RUN_LENGTH = 120
"""Longer runs of digits are tables: the digits of a card in a table are one group."""

NUMBER_SHAPE_TABLE = bytes(48 if code in b"0123456789 .-" else 120 for code in range(256))
"""A table that turns the characters of numbers into zeros and everything else into x."""
CARD_SHAPE = b"0" * MIN_CARD_DIGITS
_GROUP = re.compile(r"[0-9]++(?![A-Za-z_])")
_RUN = re.compile(
    r"[0-9](?<![A-Za-z0-9_].)(?=(?:[ .-]{0,2}[0-9]){11})[0-9]*+(?![A-Za-z_])"
    r"(?:(?:[ -]{1,2}|(?:(?<=(?<![0-9])[0-9]{4})|(?<=(?<![0-9])[0-9]{6}))\.(?=[0-9]{1,6}(?![0-9])))"
    rf"{_GROUP.pattern}){{0,80}}"
)
"""Groups of digits with separators between them, at least twelve digits. A run with so many groups is a table."""
_MAX_FEW_SHAPES, _MAX_FEW_RUNS, _MAX_FEW_GROUPS = 1_000, 100, 20_000
_CHARACTERS_PER_SEARCH = 128
"""Searching so many characters of a text takes as long as one more search near a number."""
_CARD_GROUPING = re.compile(r"[0-9]+|[0-9]{4}(?:[ .-]{1,2}[0-9]{1,6}){1,4}")
_SINGLE_DIGITS = re.compile(r"[0-9](?:[ .-]{1,2}[0-9])+")
"""Digits in groups as on a card, or not grouped; or each by itself."""
_CARD_WORDS = re.compile(
    r"c(?:ar(?:d|te)|v[vc]|c(?<!\wcc)\b)|visa|ma(?:ster|estro)|am(?:ex|erican express)|di(?:scover|ners)|jcb|unionpay|"
    r"p(?<!\wp)an\b|karte|tarjeta|billing|expir"
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

_CARD_LENGTHS: dict[bytes, dict[int, bool]] = {
    b"%04d" % prefix: dict.fromkeys(mentioned, False) | dict.fromkeys(alone, True)
    for first, last, alone, mentioned in _BRANDS
    for prefix in range(first, last + 1)
}
"""Possible lengths by the first four digits, and whether a number of that length needs no mention of a card."""
_DOUBLED_DIGITS = bytes.maketrans(b"0123456789", b"0246813579")
_BARCODE_LENGTH = 13


def card_scan(text: str, lower: str, data: bytes) -> Scan:
    """Return a search for payment cards. ``data`` is the text with one byte per character."""
    shape, runs, end = data.translate(NUMBER_SHAPE_TABLE), list[Span](), 0
    for _ in range(_MAX_FEW_SHAPES):
        if (start := shape.find(CARD_SHAPE, end)) < 0 or len(runs) >= _MAX_FEW_RUNS:
            break
        end = shape.find(b"x", start)
        end = end if end >= 0 else len(shape)
        runs += (run.span() for run in islice(_RUN.finditer(text, start, end + 1), _MAX_FEW_RUNS))
    else:
        start = 0
    is_few = start < 0 and all(end - start <= MAX_RUN_LENGTH for start, end in runs)
    candidates = _candidates_in_runs(text, lower, data, runs) if is_few else _candidates_in_arrays(lower, data)
    contexts: dict[str, bool] = {}

    def find_cards(position: int) -> Iterator[Span]:
        previous = position
        for start, end, is_mentioned in islice(candidates, bisect_left(candidates, (position,)), None):
            if start < position or not data[start:end].strip(b"6 .-"):  # no other digit repeated has a check digit
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


def _candidates_in_runs(text: str, lower: str, data: bytes, runs: list[Span]) -> list[tuple[int, int, bool]]:
    """List the numbers with a card's brand, length, check digit and grouping, and whether the text mentions a card there."""
    candidates = []
    for run_start, run_end in runs:
        groups = [group.span() for group in _GROUP.finditer(text, run_start, run_end)]
        for head, (start, _) in enumerate(groups):
            run_digits = data[start:run_end].translate(None, b" .-")
            lengths = _CARD_LENGTHS.get(run_digits[:4])
            if not lengths or (text[start - 1 : start] in (".", ",", "/") and data[start - 2 : start - 1].isdigit()):
                continue
            size = 0
            for group_start, end in groups[head : head + MAX_CARD_DIGITS]:
                size += end - group_start
                digits = run_digits[:size]
                if size not in lengths or not _has_check_digit(digits):
                    continue
                is_mentioned = _mentions_card(lower, start, end)
                if is_mentioned or (
                    lengths[size]
                    and (
                        _CARD_GROUPING.fullmatch(text, start, end)
                        or ((start, end) == (run_start, run_end) and _SINGLE_DIGITS.fullmatch(text, start, end))
                    )
                ):
                    candidates.append((start, end, is_mentioned))
    return candidates


def _mentions_card(lower: str, start: int, end: int) -> bool:
    """Return whether a word near a number mentions a card."""
    mention = _CARD_WORDS.search(lower, max(0, start - CARD_CONTEXT_BEFORE), end + CARD_CONTEXT_AFTER + 1)
    return mention is not None and mention.end() <= end + CARD_CONTEXT_AFTER


def _has_check_digit(digits: bytes) -> bool:
    return (sum(digits[-1::-2]) + sum(digits[-2::-2].translate(_DOUBLED_DIGITS)) - 48 * len(digits)) % 10 == 0


@cache
def _lookup_tables() -> tuple[NDArray[Any], ...]:
    """Return the letters by character code, and a card's lengths by its first four digits, a bit for each length.

    The lengths are those of a card without a mention, and of a card with one.
    """
    import numpy as np

    is_letter = np.zeros(256, bool)
    is_letter[list(string.ascii_letters.encode() + b"_")] = True
    alone, known = np.zeros(10_000, np.int32), np.zeros(10_000, np.int32)
    for prefix, lengths in _CARD_LENGTHS.items():
        alone[int(prefix)] = sum(1 << length for length, is_sure in lengths.items() if is_sure)
        known[int(prefix)] = sum(1 << length for length in lengths)
    return is_letter, alone, known


def _card_mentions(lower: str) -> NDArray[Any]:
    """Return the places of all words that mention a card, and a last one that is far behind the text."""
    import numpy as np

    far = len(lower) + 10 * MAX_RUN_LENGTH
    return np.array([*(match.span() for match in _CARD_WORDS.finditer(lower)), (far, far)])


def _candidates_in_arrays(lower: str, data: bytes) -> list[tuple[int, int, bool]]:
    """List the same numbers in a text with many runs, all at once."""
    import numpy as np

    is_letter, alone, known = _lookup_tables()
    doubled_digits = np.frombuffer(_DOUBLED_DIGITS, np.uint8)[48:58] - np.uint8(48)
    codes = np.frombuffer(b" " + data + b" ", np.uint8)
    places = np.flatnonzero((codes - np.uint8(48)) < 10).astype(np.int32)
    starts = np.flatnonzero(np.diff(places, prepend=-2) > 1)  # of the groups, among the digits
    ends = np.append(starts[1:], len(places))
    first, last = places[starts], places[ends - 1] + 1  # of the groups, in the text
    apart = ~(is_letter[codes[first - 1]] | is_letter[codes[last]])
    if not apart.all():
        starts, ends, first, last = starts[apart], ends[apart], first[apart], last[apart]
    if not starts.size:
        return []
    gap, left, right = first[1:] - last[:-1], codes[last[:-1]], codes[first[1:] - 1]
    is_joined = (gap <= 2) & ((left == 32) | (left == 45)) & ((right == 32) | (right == 45))
    sizes = ends - starts
    is_joined |= (gap == 1) & (left == 46) & ((sizes[:-1] == 4) | (sizes[:-1] == 6)) & (sizes[1:] <= 6)
    run = np.append(0, np.cumsum(~is_joined))
    heads = np.flatnonzero(np.append(True, ~is_joined))
    in_table = (last[np.append(heads[1:], len(run)) - 1] - first[heads] > MAX_RUN_LENGTH)[run]
    if in_table.any():  # each group of a table is a run by itself
        is_joined &= ~in_table[1:]
        run = np.append(0, np.cumsum(~is_joined))
        heads = np.flatnonzero(np.append(True, ~is_joined))
    tails = np.append(heads[1:], len(run)) - 1
    digits = np.append(codes[places] - np.uint8(48), np.zeros(MAX_CARD_DIGITS, np.uint8))
    prefix = digits[starts].astype(np.int16)
    for offset in (1, 2, 3):
        prefix = 10 * prefix + digits[starts + offset]
    group = np.flatnonzero((ends[tails][run] - starts >= MIN_CARD_DIGITS) & (known[prefix] > 0))
    is_fraction = np.isin(codes[first[group] - 1], (44, 46, 47)) & ((codes[first[group] - 2] - np.uint8(48)) < 10)
    group = group[~is_fraction]
    if not group.size:
        return []
    lengths, mentions = known[prefix[group]], None
    if group.size > _MAX_FEW_GROUPS:  # most of them need no check digit
        mentions = _card_mentions(lower)
        next_mention = mentions[np.searchsorted(mentions[:, 0], first[group] - 1 - CARD_CONTEXT_BEFORE), 0]
        is_near = next_mention < first[group] + MAX_RUN_LENGTH + CARD_CONTEXT_AFTER
        is_usual = (sizes[group] == 4) | (sizes[group] >= MIN_CARD_DIGITS) | (heads[run[group]] == group)
        lengths = np.where(is_near, lengths, np.where(is_usual, alone[prefix[group]], 0))
        group, lengths = group[lengths > 0], lengths[lengths > 0]
    head, size = np.nonzero(lengths[:, None] >> np.arange(MIN_CARD_DIGITS, MAX_CARD_DIGITS + 1, dtype=np.int32) & 1)
    size += MIN_CARD_DIGITS
    group_ending = np.full(len(digits) + 1, -1)
    group_ending[ends] = np.arange(len(ends))
    head = group[head]
    tail = group_ending[starts[head] + size]
    kept = (tail >= 0) & (run[head] == run[tail])
    head, tail, size = head[kept], tail[kept], size[kept]
    begin, end = starts[head], starts[head] + size
    totals = []
    for doubled in (0, 1):
        counted = digits.copy()
        counted[doubled::2] = doubled_digits[digits[doubled::2]]
        sums = np.append(np.uint8(0), np.cumsum(counted, dtype=np.uint8))
        totals.append(sums[end] - sums[begin])  # sums overflow, but nineteen digits add up to less than 256
    total = np.where(end % 2 == 0, *totals)
    kept = total % 10 == 0
    head, tail, size = head[kept], tail[kept], size[kept]
    if not head.size:
        return []
    begin, end, count = first[head] - 1, last[tail] - 1, tail - head + 1
    if mentions is None and len(begin) < len(lower) // _CHARACTERS_PER_SEARCH:
        spans = zip(begin.tolist(), end.tolist(), strict=True)
        is_mentioned = np.fromiter((_mentions_card(lower, *span) for span in spans), bool, len(begin))
    else:
        mentions = _card_mentions(lower) if mentions is None else mentions
        next_mention = mentions[np.searchsorted(mentions[:, 0], begin - CARD_CONTEXT_BEFORE), 1]
        is_mentioned = next_mention <= end + CARD_CONTEXT_AFTER
    is_usual = (sizes[head] == 4) & (count <= 5)
    for step in range(1, 5):
        is_usual &= sizes[np.minimum(head + step, tail)] <= 6
    is_usual |= (count == 1) | ((count == size) & (heads[run[head]] == head) & (tails[run[tail]] == tail))
    kept = is_mentioned | (is_usual & (alone[prefix[head]] >> size & 1 == 1))
    return list(zip(begin[kept].tolist(), end[kept].tolist(), is_mentioned[kept].tolist(), strict=True))


_SSN_SHAPE = re.compile(rb"000-00-0000")
_SPACED_SSN_SHAPES = (b"000 00 0000", b"000.00.0000")
_SSN_SHAPE_TABLE = bytes(48 if 48 <= code < 58 else code for code in range(256))
_SSN = re.compile(
    r"[0-9](?<![\w.-].)(?<!9)(?!00(?<=000)|66(?<=666))[0-9][0-9]([ .-]?)(?!00)[0-9][0-9]\1(?!0000)[0-9]{4}(?![\w-]|\.[0-9])"
)
ADVERTISED_SSN = re.compile(r"(?<![\w.-])(?:078-05-1120|219-09-9999|123-45-6789)(?![\w-])")
ADVERTISED_ENDS = ("-1120", "-9999", "-6789")
_SSN_WORDS_BY_PART = {
    part: re.compile(pattern)
    for part, pattern in (
        ("ss", r"ss(?<!\wss)n?s?\b"),
        ("soc", r"soc(?:ial[ -]?security|\.? sec|(?<!\wsoc)ial (?:number|is|no))"),
        ("tax", r"tax(?:payer)? id"),
        ("tin", r"tin(?:(?<!\wtin)|(?<=itin)(?<!\witin))\b"),
    )
}
"""Words that mention the number, by how they start: a search for a literal takes less time than one for all words."""
_SSN_WORDS = re.compile("|".join(pattern.pattern for pattern in _SSN_WORDS_BY_PART.values()))
_SSN_CONTEXT_BEFORE, _SSN_CONTEXT_AFTER = 60, 30


def ssn_scan(text: str, lower: str, data: bytes) -> Scan:
    """Return a search for social security numbers: with dashes anywhere, otherwise near words that mention one."""
    shape = data.translate(_SSN_SHAPE_TABLE)
    has_candidate = b"0" * 9 in shape.replace(b"0" * 10, b"x") or any(each in shape for each in _SPACED_SSN_SHAPES)
    if has_candidate and any(part in lower and words.search(lower) for part, words in _SSN_WORDS_BY_PART.items()):
        return partial(_find_mentioned_ssns, text, lower)
    return partial(_find_dashed_ssns, text, shape)


def _find_dashed_ssns(text: str, shape: bytes, position: int) -> Iterator[Span]:
    for hit in _SSN_SHAPE.finditer(shape, position):
        if (match := _SSN.match(text, hit.start())) and not ADVERTISED_SSN.match(text, hit.start()):
            yield match.span()


def _find_mentioned_ssns(text: str, lower: str, position: int) -> Iterator[Span]:
    mention_start, mention_end = -1, -1
    for match in _SSN.finditer(text, position):
        start, end = match.span()
        if match[1] == "-" and not ADVERTISED_SSN.match(text, start):
            yield start, end
            continue
        if mention_start < start - _SSN_CONTEXT_BEFORE:
            mention = _SSN_WORDS.search(lower, max(0, start - _SSN_CONTEXT_BEFORE))
            mention_start, mention_end = mention.span() if mention else (len(text), 2 * len(text))
        if mention_end <= end + _SSN_CONTEXT_AFTER:
            yield start, end
