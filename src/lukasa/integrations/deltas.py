"""Small differences between two versions of a byte string.

A difference is compressed with the earlier version as its dictionary, so that what both share costs a few bytes. A long
version is cut into blocks: those that the earlier version also has are named by their place there, the rest is compressed.
"""

from __future__ import annotations

import struct
import zlib

_WINDOW = 32_768
_BLOCK = 64


def encode_difference(base: bytes, new: bytes) -> bytes:
    """Return what turns ``base`` into ``new``."""
    if len(base) <= _WINDOW and len(new) <= _WINDOW:
        return b"z" + _compress(new, base)
    steps, literal, position, start = [], bytearray(), 0, 0
    if (
        base[_BLOCK : 2 * _BLOCK] == new[_BLOCK : 2 * _BLOCK]
    ):  # most versions begin alike, but for a length at the start
        length = _count_equal(base, _BLOCK, new, _BLOCK)
        literal += new[:_BLOCK]
        steps.append((_BLOCK, _BLOCK, length))
        position = start = _BLOCK + length
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
    table = b"".join(struct.pack("<III", *step) for step in steps)
    packed = zlib.compress(table, 6)
    return b"b" + struct.pack("<I", len(packed)) + packed + _compress(bytes(literal), base[-_WINDOW:])


def apply_difference(base: bytes, difference: bytes) -> bytes:
    """Return the version that a difference leads to."""
    kind, content = difference[:1], difference[1:]
    if kind == b"z":
        return _decompress(content, base)
    (size,) = struct.unpack_from("<I", content)
    table = zlib.decompress(content[4 : 4 + size])
    literal = _decompress(content[4 + size :], base[-_WINDOW:])
    parts, position = [], 0
    for literal_length, place, length in struct.iter_unpack("<III", table):
        parts += [literal[position : position + literal_length], base[place : place + length]]
        position += literal_length
    return b"".join(parts)


def _count_equal(base: bytes, base_position: int, new: bytes, new_position: int) -> int:
    """Return how many bytes are equal from two positions on; at least one block is."""
    length, step = _BLOCK, 4_096
    limit = min(len(base) - base_position, len(new) - new_position)
    while step:
        end = min(length + step, limit)
        here, there = base_position + length, new_position + length
        if end > length and base[here : base_position + end] == new[there : new_position + end]:
            length = end
        else:
            step //= 2
    return length


def _compress(content: bytes, dictionary: bytes) -> bytes:
    compressor = zlib.compressobj(6, zdict=dictionary) if dictionary else zlib.compressobj(6)
    return compressor.compress(content) + compressor.flush()


def _decompress(content: bytes, dictionary: bytes) -> bytes:
    decompressor = zlib.decompressobj(zdict=dictionary) if dictionary else zlib.decompressobj()
    return decompressor.decompress(content) + decompressor.flush()
