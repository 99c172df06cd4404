"""Long texts, looked at all at once: the same finds as one after the other, in time that no text can stretch.

A folded text is held as an array of bytes (characters beyond ASCII are question marks, so places stay the same). Every
digit, group of digits and possible beginning of a word or token is found by a few passes over the array, however
many there are; only what passes all that can be said about it in numbers is looked at by itself.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property, partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lukasa.pii import numbers
from lukasa.pii.crowds import Matches
from lukasa.pii.normalize import Span
from lukasa.pii.patterns import SecretPattern

Bools = NDArray[np.bool_]
Places = NDArray[np.int64]

_ALPHABETS = ("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "0123456789", "_")


def _are(characters: str) -> Bools:
    table = np.zeros(256, bool)
    table[[ord(character) for character in characters]] = True
    return table


_LETTER = _are(_ALPHABETS[0] + "_")
_ALNUM = _are(_ALPHABETS[0] + _ALPHABETS[1])
_WORD = _are("".join(_ALPHABETS))
_IN_TOKENS = _are("".join(_ALPHABETS) + "+/=.:~-")
_EDGE = 64
"""So many empty bytes stand before and after the text, so that looking around needs no care."""


class Ground:
    """A long folded text as an array."""

    def __init__(self, text: str, lower: str) -> None:
        self.text, self.lower = text, lower
        self.bytes = _padded(text)

    @cached_property
    def digit(self) -> Bools:
        return (self.bytes - np.uint8(48)) < 10

    @cached_property
    def sums(self) -> NDArray[np.uint16]:
        return _sums(self.bytes)

    @cached_property
    def lower_sums(self) -> NDArray[np.uint16]:
        return _sums(_padded(self.lower))

    @cached_property
    def long_words(self) -> Bools:
        """Where a word begins, or goes on, that is long enough for a token."""
        return _runs(_IN_TOKENS[self.bytes], 16)

    @cached_property
    def next_long_word(self) -> Places:
        return np.append(np.flatnonzero(self.long_words), len(self.bytes) + _SOON)

    @cached_property
    def words_of_eight(self) -> Bools:
        return _runs(_ALNUM[self.bytes], 8)

    def may_have(self, word: str) -> bool:
        """Whether the text may have a word. ``False`` is certain."""
        return word in self.text if len(word) < 3 or not word.isascii() else bool((self.sums == _sum(word)).any())

    def may_have_small(self, word: str) -> bool:
        """The same, of the text in small letters."""
        return (
            word in self.lower if len(word) < 3 or not word.isascii() else bool((self.lower_sums == _sum(word)).any())
        )

    def words(self, pattern: re.Pattern[str], beginnings: tuple[str, ...]) -> Words:
        """The words of a pattern."""
        at = starting_with(self.lower_sums, beginnings)
        matches = (pattern.match(self.lower, place) for place in at.tolist())
        never = len(self.text) + _EDGE
        ends = np.array([match.end() if match else never for match in matches] + [never])
        return Words(at, np.minimum.accumulate(ends[::-1])[::-1])


class Words(NamedTuple):
    """Where some words may begin, and where the first that stands there or later ends."""

    starts: Places
    soonest: Places

    def within(self, starts: Places, ends: Places) -> Bools:
        """Which of the pieces from ``starts`` to ``ends`` have one of the words inside."""
        return self.soonest[np.searchsorted(self.starts, starts)] <= ends


def _runs(here: Bools, size: int) -> Bools:
    """Where so many in a row are. A power of two."""
    row, step = here.copy(), 1
    while step < size:
        row[:-step] &= row[step:]
        row[len(row) - step :] = False
        step *= 2
    return row


def _padded(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(bytes(_EDGE) + text.encode("ascii", "replace") + bytes(_EDGE), np.uint8)


# Beginnings


@cache
def _beginnings(words: tuple[str, ...]) -> Bools:
    """For the sum of three letters: whether a word may begin with them."""
    table = np.zeros(1 << 16, bool)
    for word in words:
        table[[_sum(word[:2] + chr(third)) for third in (range(256) if len(word) == 2 else word[2:3].encode())]] = True
    return table


def _sum(word: str) -> int:
    first, second, third = map(ord, word[:3])
    return (first * _FIRST + second * _SECOND + third) & 0xFFFF


_FIRST, _SECOND = 16_337, 131


def _sums(spelled: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """The sum of each three letters."""
    wide = spelled.astype(np.uint16)
    return wide[:-2] * np.uint16(_FIRST) + wide[1:-1] * np.uint16(_SECOND) + wide[2:]


def starting_with(sums: NDArray[np.uint16], words: tuple[str, ...]) -> Places:
    """Where one of the words may stand, by its first three letters. A few of the places may have something else."""
    if len(words) == 1 and len(words[0]) > 2:
        return np.flatnonzero(sums == _sum(words[0])) - _EDGE
    return np.flatnonzero(_beginnings(words)[sums]) - _EDGE


def tokens(ground: Ground, spellings: Sequence[SecretPattern]) -> Iterator[tuple[str, Matches]]:
    """Those spellings that the text may have, and where they match."""
    first = [spelling for spelling in spellings if spelling.hint_offsets == range(1)]
    at = starting_with(ground.sums, tuple(spelling.hint for spelling in first)) + _EDGE
    at = at[ground.long_words[at] & ~_ALNUM[ground.bytes[at - 1]]]
    sums = ground.sums[at]
    for spelling in first:
        places = at[sums == _sum(spelling.hint)] if len(spelling.hint) > 2 else at
        if spelling.hint == "eyJ" and places.size:
            places = _before_two_dots(ground.bytes, places)
        if places.size:
            yield spelling.hint, _matches(spelling.pattern, ground.text, places - _EDGE)
    for spelling in spellings:
        if spelling.hint_offsets != range(1):
            places = _with_word_before(ground, spelling)
            if places.size:
                yield spelling.hint, _matches(spelling.pattern, ground.text, places - _EDGE, quick_to_find=False)


def announced(ground: Ground, spellings: Sequence[SecretPattern]) -> Iterator[tuple[str, Matches]]:
    """Those words that the text has soon before something long, and where they match."""
    for spelling in spellings:
        at = starting_with(ground.lower_sums, (spelling.hint,)) + _EDGE
        if at.size:
            at = at[
                ground.next_long_word[np.searchsorted(ground.next_long_word, at + len(spelling.hint))] - at <= _SOON
            ]
        if at.size:
            yield spelling.hint, _matches(spelling.pattern, ground.lower, at - _EDGE)


_SOON = 32
_MANY = 2_000


def _matches(pattern: re.Pattern[str], text: str, places: Places, *, quick_to_find: bool = True) -> Matches:
    """The matches that begin at these places and do not overlap. If there are many, the pattern finds them as soon."""
    if len(places) > _MANY and quick_to_find:
        return partial(pattern.finditer, text)

    waiting = places.tolist()

    def matches(at: int) -> Iterator[re.Match[str]]:
        for place in islice(waiting, bisect_left(waiting, at), None):
            if place >= at and (match := pattern.match(text, place)):
                yield match
                at = match.end()

    return matches


def _before_two_dots(spelled: NDArray[np.uint8], at: Places) -> Places:
    """Where three parts follow with a dot between them, the second of which begins like the first."""
    other = np.flatnonzero(~_IN_PART[spelled])
    one = other[np.searchsorted(other, at)]
    at, one = at[spelled[one] == 46], one[spelled[one] == 46]
    at = at[(one - at <= 2003) & (spelled[one + 1] == 101) & (spelled[one + 2] == 121) & (spelled[one + 3] == 74)]
    one = other[np.searchsorted(other, at)]
    two = other[np.searchsorted(other, one + 1)]
    three = other[np.minimum(np.searchsorted(other, two + 1), len(other) - 1)]
    whole: Bools = (spelled[two] == 46) & (two - one <= 4004) & (three - two > 10)
    return at[whole]


_IN_PART = _are("".join(_ALPHABETS) + "-")


def _with_word_before(ground: Ground, spelling: SecretPattern) -> Places:
    """Where a word begins that the spelling's hint follows."""
    spelled, hint = ground.bytes, spelling.hint
    at = np.flatnonzero(spelled == ord(hint)) if len(hint) == 1 else starting_with(ground.sums, (hint,)) + _EDGE
    at = at[ground.words_of_eight[at - 8]] if at.size else at
    if not at.size:
        return at
    begins = [at - before for before in spelling.hint_offsets]
    places = np.concatenate([place[ground.words_of_eight[place] & ~_ALNUM[spelled[place - 1]]] for place in begins])
    return np.sort(places)


# Cards


class _Groups:
    """The groups of digits that are part of a run in which a card may stand. Places are those of the padded array."""

    def __init__(self, spelled: NDArray[np.uint8], digit: Bools) -> None:
        edges = np.flatnonzero(digit[1:] != digit[:-1]) + 1
        starts, ends = edges[0::2].copy(), edges[1::2].copy()
        before = _LETTER[spelled[starts - 1]]
        first = np.ones(len(starts) + 1, bool)
        if len(starts) > 1:
            gap, left, right = starts[1:] - ends[:-1], spelled[ends[:-1]], spelled[starts[1:] - 1]
            signs = ((left == 32) | (left == 45)) & ((right == 32) | (right == 45)) & (gap <= 2)
            dot = (gap == 1) & (left == 46) & (ends[1:] - starts[1:] == 4)
            first[1:-1] = ~(signs | dot) | before[:-1]
        run = np.cumsum(first[:-1]) - 1
        heads, tails = np.flatnonzero(first[:-1]), np.flatnonzero(first[1:])
        size = ends[tails] - starts[heads]
        right_size = (size >= numbers.MIN_CARD_DIGITS) & ~_LETTER[spelled[ends[tails]]] & ~before[heads]
        in_table = (size > numbers.MAX_RUN_LENGTH)[run]
        kept = right_size[run] & (~in_table | (ends - starts >= numbers.MIN_CARD_DIGITS))
        self.starts, self.ends, run = starts[kept], ends[kept], run[kept]
        self.in_table = in_table[kept]
        self.sizes = self.ends - self.starts
        self.after = np.cumsum(self.sizes)
        self.at = self.after - self.sizes
        digits = spelled[digit] - np.uint8(48)
        self.digits = digits if kept.all() else digits[np.repeat(kept, ends - starts)]
        last = np.flatnonzero(np.append(run[1:] != run[:-1], True)) if len(run) else run
        self.run_after = np.repeat(self.after[last], np.diff(np.append(-1, last))) if len(run) else self.after


_DOUBLED = np.frombuffer(numbers.LUHN_DOUBLED, np.uint8)
_ALONE = np.frombuffer(numbers.BRANDS_ALWAYS, np.uint8)
_SPOKEN_OF = np.frombuffer(numbers.BRANDS_IF_MENTIONED, np.uint8)
_MOST_GROUPS, _LARGEST_GROUP = 5, 6
_FARTHEST = numbers.CARD_CONTEXT_BEFORE + numbers.MAX_RUN_LENGTH + numbers.CARD_CONTEXT_AFTER


def cards(ground: Ground) -> Iterator[Span]:
    """Every payment card."""
    groups = _Groups(ground.bytes, ground.digit)
    first, last, size, spoken_of = _with_check_digit(ground, groups)
    if not first.size:
        return
    starts, ends = groups.starts[first] - _EDGE, groups.ends[last] - _EDGE
    four = _first_four(groups.digits, groups.at[first])
    alone = (_ALONE[four] >> (size - numbers.MIN_CARD_DIGITS)) & 1 == 1
    here = spoken_of | (alone & _usual(groups, first, last, size))
    starts, ends, doubtful = starts[here], ends[here], ~spoken_of[here]
    doubtful &= _letter_before(ground.bytes, starts)
    backwards = ground.lower[::-1] if doubtful.any() else ""
    free = 0
    for start, end, ask in zip(starts.tolist(), ends.tolist(), doubtful.tolist(), strict=True):
        if start >= free and not (ask and numbers.is_other_number(backwards, start)):
            yield start, end
            free = end


def _letter_before(spelled: NDArray[np.uint8], starts: Places) -> Bools:
    """Whether a word stands so near before a number that it may say what it is."""
    near = np.zeros(len(starts), bool)
    for step in range(1, numbers.MAX_GAP + 2):
        near |= _LETTER[spelled[starts + _EDGE - step]]
    return near


def _with_check_digit(ground: Ground, groups: _Groups) -> tuple[Places, Places, Places, Bools]:
    """The groups in which a number begins and ends that has a card's brand, length and check digit; its length; and
    whether the text speaks of cards there."""
    digits, until = groups.digits, np.where(groups.in_table, groups.after, groups.run_after)
    nothing = np.zeros(0, np.int64)
    first = np.flatnonzero(until - groups.at >= numbers.MIN_CARD_DIGITS)
    if first.size:
        before, earlier = ground.bytes[groups.starts[first] - 1], ground.bytes[groups.starts[first] - 2]
        in_number = ((before == 46) | (before == 44) | (before == 47)) & ((earlier - np.uint8(48)) < 10)
        four = _first_four(digits, groups.at[first])
        possible = ~in_number & ((_ALONE | _SPOKEN_OF)[four] > 0)
        first, four = first[possible], four[possible]
    if not first.size:
        return nothing, nothing, nothing, nothing > 0
    words = ground.words(numbers.CARD_WORDS, numbers.CARD_WORD_PREFIXES)
    begin = groups.starts[first] - _EDGE - numbers.CARD_CONTEXT_BEFORE
    lengths = np.where(words.within(begin, begin + _FARTHEST), _ALONE[four] | _SPOKEN_OF[four], _ALONE[four])
    first, lengths = first[lengths > 0], lengths[lengths > 0]
    odd, even = digits.copy(), _DOUBLED[digits]
    odd[0::2], even[0::2] = even[0::2].copy(), digits[0::2]
    totals = _running(odd), _running(even)
    changes = _running(digits[1:] != digits[:-1])
    group_ending = np.full(len(digits) + 1, -1, np.int32)
    group_ending[groups.after] = np.arange(len(groups.after))
    found = []
    at, until = groups.at[first], until[first]
    some = int(np.bitwise_or.reduce(lengths)) if lengths.size else 0
    for size in range(numbers.MIN_CARD_DIGITS, numbers.MAX_CARD_DIGITS + 1):
        if not (some >> (size - numbers.MIN_CARD_DIGITS)) & 1:
            continue
        which = np.flatnonzero(((lengths >> (size - numbers.MIN_CARD_DIGITS)) & 1 == 1) & (at + size <= until))
        which = which[group_ending[at[which] + size] >= 0]
        start, after = at[which], at[which] + size
        total = np.where(after & 1, totals[1][after] - totals[1][start], totals[0][after] - totals[0][start])
        which = which[(total % 10 == 0) & (changes[after - 1] > changes[start])]
        found.append((first[which], group_ending[at[which] + size], np.full(len(which), size)))
    if not found:
        return nothing, nothing, nothing, nothing > 0
    begin, end, sizes = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.lexsort((sizes, begin))
    begin, end, sizes = begin[order], end[order], sizes[order]
    around = (
        groups.starts[begin] - _EDGE - numbers.CARD_CONTEXT_BEFORE,
        groups.ends[end] - _EDGE + numbers.CARD_CONTEXT_AFTER,
    )
    return begin, end, sizes, words.within(*around)


def _running(values: NDArray[Any]) -> NDArray[np.int32]:
    """The sum of all values before each place."""
    sums = np.zeros(len(values) + 1, np.int32)
    np.cumsum(values, dtype=np.int32, out=sums[1:])
    return sums


def _first_four(digits: NDArray[np.uint8], at: Places) -> Places:
    four = digits[at].astype(np.int64)
    for place in range(1, 4):
        four = 10 * four + digits[at + place]
    return four


def _usual(groups: _Groups, first: Places, last: Places, size: Places) -> Bools:
    """Whether digits are grouped as on a card, or not at all."""
    count, sizes = last - first + 1, groups.sizes
    by_four: Bools = (sizes[first] == 4) & (count <= _MOST_GROUPS)
    for step in range(1, _MOST_GROUPS):
        by_four &= (count <= step) | (sizes[np.minimum(first + step, last)] <= _LARGEST_GROUP)
    by_four |= (count == 1) | (count == size)
    return by_four


# Social security numbers


def ssns(ground: Ground) -> Iterable[Span]:
    """Every social security number."""
    spelled, digit = ground.bytes, ground.digit
    starts = np.flatnonzero(digit[1:] & ~_ENDS_NO_SSN[spelled[:-1]]) + 1
    two = digit[:-1] & digit[1:]
    starts = starts[digit[starts] & two[starts + 1]]
    found = []
    for sign in ("", "-", " ", "."):
        at, step = starts, len(sign)
        if sign:
            at = at[(spelled[at + 3] == ord(sign)) & (spelled[at + 5 + step] == ord(sign))]
        at = at[two[at + 3 + step] & two[at + 5 + 2 * step] & two[at + 7 + 2 * step]]
        after = at + 9 + 2 * step
        at = at[~(_ENDS_WORD[spelled[after]] | ((spelled[after] == 46) & digit[after + 1]))]
        if at.size:
            found.append(_likely_ssns(ground, at, sign))
    if not found:
        return []
    starts, ends = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.argsort(starts)
    spans = zip(starts[order].tolist(), ends[order].tolist(), strict=True)
    return spans if ground.text.isascii() else [span for span in spans if _stands_apart(ground.text, *span)]


_ENDS_WORD = _are("".join(_ALPHABETS) + "-")
_ENDS_NO_SSN = _are("".join(_ALPHABETS) + "-.")


def _likely_ssns(ground: Ground, at: Places, sign: str) -> tuple[Places, Places]:
    """Those of the places where the number has an area, and is spoken of if its spelling says too little."""
    step = len(sign)
    places = (0, 1, 2, 3 + step, 4 + step, 5 + 2 * step, 6 + 2 * step, 7 + 2 * step, 8 + 2 * step)
    number = np.zeros(len(at), np.int64)
    for place in places:
        number = number * 10 + (ground.bytes[at + place] - np.uint8(48))
    area, group, serial = number // 1_000_000, number // 10_000 % 100, number % 10_000
    likely = (area > 0) & (area != 666) & (area < 900) & (group > 0) & (serial > 0)
    starts, number = at[likely] - _EDGE, number[likely]
    ends = starts + places[-1] + 1
    sure = (
        ~np.isin(number, [int(known) for known in numbers.ADVERTISED_SSNS])
        if sign == "-"
        else np.zeros(len(number), bool)
    )
    if not sure.all():
        words = ground.words(numbers.SSN_WORDS, numbers.SSN_WORD_PREFIXES)
        sure |= words.within(starts - numbers.SSN_CONTEXT_BEFORE, ends + numbers.SSN_CONTEXT_AFTER)
    return starts[sure], ends[sure]


def _stands_apart(text: str, start: int, end: int) -> bool:
    """Whether no letter beyond ASCII touches a number; the others have been looked at."""
    return not (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum())
