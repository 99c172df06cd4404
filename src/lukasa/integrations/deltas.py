"""Small differences between two versions of a byte string.

Where one place changed or a little was appended, a difference names what both versions share and holds the rest. Other
differences are compressed with the earlier version as their dictionary. A long version is cut into blocks: those that the
earlier version also has are named by their place there, the rest is compressed.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable

_WINDOW = 32_768
_BLOCK = 64
_SHORT = 256
_WORD = 64
_STEP = struct.Struct("<III")
_ONE_CHANGE = struct.Struct("<cB6I")


def encode_difference(base: bytes, new: bytes, near: int = 0) -> bytes:
    """Return the delta that turns ``base`` into ``new``; the first change is looked for ``near`` a position first."""
    near = max(near - _WORD // 4, 0)
    is_near = near < min(len(base), len(new)) and base.startswith(new[:near])
    is_near = is_near and not base.startswith(new[near : near + _WORD], near)
    start = near + _count_equal_bytes(base, near, new, near, _WORD) if is_near else _count_equal(base, 0, new, 0)
    end = _count_equal_end(base, new, start)
    changed = len(new) - start - end
    if changed <= _SHORT:  # one place changed
        return _ONE_CHANGE.pack(b"s", 2, 0, 0, start, changed, len(base) - end, end) + new[start : start + changed]
    steps, literal, position, start = [], bytearray(), 0, 0
    if base[_BLOCK : 2 * _BLOCK] == new[_BLOCK : 2 * _BLOCK]:  # most begin alike, but for a length at the start
        length = _count_equal(base, _BLOCK, new, _BLOCK)
        literal += new[:_BLOCK]
        steps.append((_BLOCK, _BLOCK, length))
        position = start = _BLOCK + length
        if len(new) - position <= 2 * _SHORT:  # something was appended
            packed = _pack_steps([*steps, (len(new) - position, 0, 0)])
            return b"s\2" + packed + bytes(literal) + new[position:]
    if len(base) <= _WINDOW and len(new) <= _WINDOW:
        return b"z" + _compress(new, base)
    places: dict[bytes, int] = {}
    if len(new) - position > _WINDOW:
        for place in range(0, len(base) - _BLOCK + 1, _BLOCK):
            places.setdefault(base[place : place + _BLOCK], place)
    else:
        position = len(new)  # the rest is compressed with the end of the earlier version
    while position < len(new):
        found = places.get(new[position : position + _BLOCK]) if len(new) - position >= _BLOCK else None
        if found is None:
            position += 1
            continue
        literal += new[start:position]
        length = _count_equal(base, found, new, position)
        steps.append((position - start, found, length))
        position += length
        start = position
    literal += new[start:]
    steps.append((len(new) - start, 0, 0))
    packed = zlib.compress(_pack_steps(steps), 6)
    return b"b" + struct.pack("<I", len(packed)) + packed + _compress(bytes(literal), base[-_WINDOW:])


def apply_difference(base: bytes, difference: bytes) -> bytes:
    """Return the version that a difference leads to."""
    kind, content = difference[:1], difference[1:]
    if kind == b"z":
        return _decompress(content, base)
    if kind == b"s":
        size = 1 + content[0] * _STEP.size
        table, literal = content[1:size], content[size:]
    else:
        (size,) = struct.unpack_from("<I", content)
        table = zlib.decompress(content[4 : 4 + size])
        literal = _decompress(content[4 + size :], base[-_WINDOW:])
    parts, position = [], 0
    for literal_length, place, length in _STEP.iter_unpack(table):
        parts += [literal[position : position + literal_length], base[place : place + length]]
        position += literal_length
    return b"".join(parts)


def _pack_steps(steps: Iterable[tuple[int, int, int]]) -> bytes:
    """Pack steps: the length of a literal, then the place and the length of what follows it in the earlier version."""
    return b"".join(_STEP.pack(*step) for step in steps)


def _count_equal(base: bytes, base_position: int, new: bytes, new_position: int) -> int:
    """Return how many bytes are equal from two positions on."""
    low, high, step = 0, min(len(base) - base_position, len(new) - new_position), 4_096
    while low + step < high:
        if base.startswith(new[new_position + low : new_position + low + step], base_position + low):
            low, step = low + step, 2 * step
        else:
            high = low + step
    while high - low > _WORD:
        middle = (low + high) // 2
        if base.startswith(new[new_position + low : new_position + middle], base_position + low):
            low = middle
        else:
            high = middle
    return low + _count_equal_bytes(base, base_position + low, new, new_position + low, high - low)


def _count_equal_bytes(base: bytes, base_position: int, new: bytes, new_position: int, limit: int) -> int:
    """Return how many bytes are equal from two positions on, among few."""
    one, other = base[base_position : base_position + limit], new[new_position : new_position + limit]
    length = min(len(one), len(other))
    unequal = int.from_bytes(one[:length], "big") ^ int.from_bytes(other[:length], "big")
    return length - (unequal.bit_length() + 7) // 8


def find_change(difference: bytes) -> int:
    """Return where the first change of a difference is; 0 if it has no such place."""
    if difference[:2] == b"s\2":
        return int(_STEP.unpack_from(difference, 2)[2])
    return 0


def _count_equal_end(base: bytes, new: bytes, start: int) -> int:
    """Return how many bytes are equal at the ends, of those after ``start``."""
    base_end, new_end = len(base), len(new)
    low, high = 0, min(base_end, new_end) - start
    if high > _WORD and base.endswith(new[new_end - high + _WORD :]):  # most often a few bytes changed
        low = high - _WORD
    while high - low > _WORD:
        middle = (low + high) // 2
        if base.startswith(new[new_end - middle : new_end - low], base_end - middle):
            low = middle
        else:
            high = middle
    one, other = base[base_end - high : base_end - low], new[new_end - high : new_end - low]
    unequal = int.from_bytes(one, "little") ^ int.from_bytes(other, "little")
    return high - (unequal.bit_length() + 7) // 8


def _compress(content: bytes, dictionary: bytes) -> bytes:
    compressor = zlib.compressobj(6, zdict=dictionary) if dictionary else zlib.compressobj(6)
    return compressor.compress(content) + compressor.flush()


def _decompress(content: bytes, dictionary: bytes) -> bytes:
    decompressor = zlib.decompressobj(zdict=dictionary) if dictionary else zlib.decompressobj()
    return decompressor.decompress(content) + decompressor.flush()
