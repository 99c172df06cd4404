"""Folding: a text as the guard reads it, and where in the text as it was written a piece of that stands.

Compatibility forms, invisible characters, dashes, spaces and digits of all sorts become plain ones. A character that stands
for several, such as a ligature, is taken apart if those are plain and three at most. Short texts are folded by a dictionary
that learns; long ones by a table of all characters that change, which is made when first needed.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import accumulate, chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LONG = 4_000
"""Texts from this size on are worth an array."""

Span = tuple[int, int]


class NormalisedText(NamedTuple):
    """A text as the guard reads it. ``ends`` says where each written character ends in it, if those are not the same."""

    text: str
    ends: Sequence[int] | NDArray[np.int64] | None = None

    def original_spans(self, starts: Sequence[int], ends: Sequence[int]) -> Iterable[Span]:
        """The same pieces in the text as it was written."""
        if self.ends is None:
            return zip(starts, ends, strict=True)
        if isinstance(self.ends, list):
            begin = [bisect_right(self.ends, start) for start in starts]
            return zip(begin, [bisect_left(self.ends, end) + 1 for end in ends], strict=True)
        import numpy as np

        begin = np.searchsorted(self.ends, np.array(starts, np.int64), "right").tolist()
        return zip(begin, (np.searchsorted(self.ends, np.array(ends, np.int64)) + 1).tolist(), strict=True)


def normalise_with_offsets(text: str) -> NormalisedText:
    """The text with every character taken for what it is taken for."""
    if text.isascii():
        return NormalisedText(text)
    if len(text) >= LONG:
        return _normalise_by_table(text)
    plain = "".join(map(_CHARACTER_CACHE.__getitem__, text))
    if plain == text:
        return NormalisedText(text)
    if len(plain) == len(text) and all(len(_CHARACTER_CACHE[letter]) == 1 for letter in set(text)):
        return NormalisedText(plain)
    return NormalisedText(plain, list(accumulate(len(_CHARACTER_CACHE[letter]) for letter in text)))


def normalise_character(character: str) -> str:
    """What a character is read as: itself, for nearly all."""
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


_MAX_PARTS = 3


class _CharacterCache(dict[str, str]):
    """What each character is taken for; learned as characters come by."""

    def __missing__(self, character: str) -> str:
        plain = normalise_character(character)
        if len(self) < 100_000:
            self[character] = plain
        return plain


_CHARACTER_CACHE = _CharacterCache()

CHANGING_RANGES = (
    range(0x80, 0x3400),
    range(0xA000, 0xAC00),
    range(0xF900, 0x20000),
    range(0x2F800, 0x2FA20),
    range(0xE0000, 0xE1000),
)
"""Outside of these blocks there are ideographs, Hangul, private characters and none: they stand for themselves."""


class _CharacterTable(NamedTuple):
    """What every character is taken for. A code beyond Unicode means a row: nothing, or characters that are several."""

    codes: NDArray[np.uint32]
    written: list[str]
    plain: list[str]
    parts: NDArray[np.uint32]
    sizes: NDArray[np.int64]


_FIRST_ROW_CODE = 0x110000


@cache
def _build_character_table() -> _CharacterTable:
    import numpy as np

    codes = np.arange(_FIRST_ROW_CODE, dtype=np.uint32)
    written, several = [""], [""]
    for character in map(chr, chain(*CHANGING_RANGES)):
        if unicodedata.category(character) in _CHANGING_CATEGORIES or not unicodedata.is_normalized("NFKC", character):
            plain = normalise_character(character)
            if len(plain) > 1:
                written.append(character)
                several.append(plain)
            codes[ord(character)] = (
                ord(plain) if len(plain) == 1 else _FIRST_ROW_CODE + (len(several) - 1 if plain else 0)
            )
    for character in "\u00b7\u2043\u2212":
        codes[ord(character)] = ord("-")
    codes[0xFE00:0xFE10] = _FIRST_ROW_CODE
    parts = np.array([[ord(part) for part in plain.ljust(_MAX_PARTS)] for plain in several], np.uint32)
    return _CharacterTable(codes, written, several, parts, np.array([len(plain) for plain in several]))


_CHANGING_CATEGORIES = frozenset({"Cf", "Pd", "Zs", "Nd"})


def _normalise_by_table(text: str) -> NormalisedText:
    import numpy as np

    table = _build_character_table()
    codes = table.codes[np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")]
    at = np.flatnonzero(codes >= _FIRST_ROW_CODE)
    if not at.size:
        return NormalisedText(_decode_codes(codes))
    which = codes[at] - _FIRST_ROW_CODE
    counts = table.sizes[which]
    sizes = np.ones(len(codes), np.int32)
    sizes[at] = counts
    ends = np.cumsum(sizes, dtype=np.int64)
    several = np.flatnonzero(np.bincount(which)[1:]) + 1
    if len(several) <= _MAX_REPLACEMENTS:
        for row in several.tolist():
            text = text.replace(table.written[row], table.plain[row])
        if text.isascii():
            return NormalisedText(text, ends)
        if several.size:
            codes = table.codes[np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")]
        return NormalisedText(_decode_codes(codes[codes < _FIRST_ROW_CODE]), ends)
    plain = np.repeat(codes, sizes)
    plain[plain >= _FIRST_ROW_CODE] = table.parts[which][np.arange(_MAX_PARTS) < counts[:, None]]
    return NormalisedText(_decode_codes(plain), ends)


_MAX_REPLACEMENTS = 16
"""So many different characters are sooner replaced one after the other."""


def _decode_codes(codes: NDArray[np.uint32]) -> str:
    return codes.astype("<u4", copy=False).tobytes().decode("utf-32-le", "surrogatepass")
