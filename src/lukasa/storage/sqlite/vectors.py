"""Nearest neighbours over stored vectors: exact search for few vectors, a scan of sketches for many.

A sketch holds the signs of a vector's numbers, one bit each: a thirty-second of its size. The search narrows in three
steps: by the number of differing signs, over all sketches; by the query's own numbers under those signs, over the few
thousand that are left; by the vectors themselves, read from the store, over a few hundred. Sketches are cached in
memory, shared by the readers of an engine, and refreshed from the store before each use, so that vectors of other
processes are found. The store has them in blocks, each of the vectors of a few thousand positions; those of the newest
vectors are computed from the vectors.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from lukasa.core.canonical_json import encode_text
from lukasa.storage.sqlite.sql import SQL

EXACT_SEARCH_LIMIT = 4_000
"""Up to this many vectors are compared exactly."""
_LENGTH_TOLERANCE = 0.01  # of the squared length, for the rounding to half precision
_CHECKSUM_SIZE = 8
_MIN_LENGTH_OF_BYTES = 256
_SCALE_SIZE = 3  # of a vector in bytes: a number of two bytes, and one that makes the size odd
_USUAL_LENGTH = 384
_ENCODED_AT_ONCE = 512  # larger arrays are memory that the system takes back and clears each time
_MIN_CAPACITY = 1_024
_POSITIONS_IN_BLOCK, _MAX_POSITIONS_IN_BLOCK = 4_096, 32_768
_BLOCK_SIZE = 16_384
_MAX_SCANNED, _MAX_REFINED = 25_000, 100_000
_SAMPLE_STEP = 8  # one distance of so many is counted to find the limit for the nearest, in a large store
_SAMPLED_SIZE = 500_000
_MAX_CACHED_VECTORS, _MAX_CACHED_BYTES = 12_000, 6_000_000
_BITS_OF_BYTE = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32)


def encode_vector(vector: Sequence[float]) -> bytes:
    """Return a vector scaled to length one, with its checksum, as ``encode_vectors`` does."""
    (data,) = encode_vectors([vector])
    return data


def encode_vectors(vectors: Sequence[Sequence[float]]) -> list[bytes]:
    """Encode many vectors; vectors of one length are encoded together, some hundreds at a time.

    Long vectors become one byte a number, with their scale; their size is odd. Short ones are in half precision.
    """
    step = _ENCODED_AT_ONCE if len(set(map(len, vectors))) == 1 else 1
    parts = (vectors[start : start + step] for start in range(0, len(vectors), step))
    return [data for part in parts for data in _encode_alike(part)]


def _encode_alike(vectors: Sequence[Sequence[float]]) -> list[bytes]:
    """Encode vectors of one length."""
    if all(isinstance(vector, np.ndarray) for vector in vectors):
        array = np.concatenate(vectors, dtype=np.float32, casting="unsafe").reshape(len(vectors), -1)
    else:
        array = np.asarray(vectors, dtype=np.float32).reshape(len(vectors), -1)
    norms = np.linalg.norm(array, axis=1, keepdims=True)
    norms[~(norms > 0)] = 1
    units = array / norms
    if array.shape[1] >= _MIN_LENGTH_OF_BYTES and array.shape[1] % 2 == 0:
        halves = (np.abs(units).max(axis=1, keepdims=True) / np.float32(127)).astype("<f2")
        scales = halves.astype(np.float32)
        has_none = ~(scales > 0)[:, 0]
        scales[has_none] = 1
        with np.errstate(invalid="ignore"):  # what is no number is stored as some number
            units /= scales
            units[has_none] = 0
            numbers = np.rint(units, out=units).clip(-127, 127, out=units).astype(np.int8)
        odd = np.zeros((len(units), 1), dtype=np.uint8)
        data = np.concatenate((numbers.view(np.uint8), halves.view(np.uint8), odd), axis=1)
    else:
        data = units.astype("<f2").view(np.uint8).reshape(len(array), 2 * array.shape[1])
    data = np.concatenate((data, _sum_words(data)[:, np.newaxis].view(np.uint8)), axis=1)
    encoded, size = data.tobytes(), data.shape[1]
    return [encoded[start : start + size] for start in range(0, len(encoded), size)]


def _sum_words(rows: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return the sum of the 64-bit words of each row, filled up with zeros; a flipped byte changes it."""
    if missing := -rows.shape[1] % 8:
        rows = np.pad(rows, ((0, 0), (0, missing)))
    sums: NDArray[np.uint64] = rows.view("<u8").sum(axis=1, dtype="<u8")
    return sums


def find_damaged_vectors(rows: Iterable[tuple[int, bytes]]) -> list[int]:
    """Return the positions of vectors that do not match their checksums.

    A vector without a checksum, as older stores have them, has the length one or zero.
    """
    damaged, by_size = list[int](), dict[int, list[tuple[int, bytes]]]()
    for row in rows:
        by_size.setdefault(len(row[1]), []).append(row)
    for size, group in by_size.items():
        if not size:
            damaged += [seq for seq, _ in group]
            continue
        data = np.frombuffer(b"".join([row[1] for row in group]), dtype=np.uint8).reshape(len(group), size)
        sound = _match_checksums(data)
        if not size % 2 and not sound.any():
            sound = _have_unit_length(data)
        damaged += [seq for (seq, _), is_sound in zip(group, sound.tolist(), strict=True) if not is_sound]
    return sorted(damaged)


def _match_checksums(data: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return which rows are a vector that is followed by its checksum."""
    if data.shape[1] < 2 + _CHECKSUM_SIZE:
        return np.zeros(len(data), dtype=bool)
    checksums = np.ascontiguousarray(data[:, -_CHECKSUM_SIZE:]).view("<u8")[:, 0]
    matching: NDArray[np.bool_] = _sum_words(np.ascontiguousarray(data[:, :-_CHECKSUM_SIZE])) == checksums
    return matching


def _have_unit_length(data: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return which rows are a vector of the length one or zero."""
    numbers = data.view("<f2").astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        lengths = np.einsum("ij,ij->i", numbers, numbers)
    is_unit: NDArray[np.bool_] = (np.abs(lengths - 1.0) <= _LENGTH_TOLERANCE) | (lengths <= _LENGTH_TOLERANCE)
    return is_unit


def _compute_sketches(are_positive: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Return a row of 64-bit words for each row of signs."""
    bits = np.packbits(are_positive, axis=1)
    padded = np.zeros((len(bits), -(-bits.shape[1] // 8) * 8), dtype=np.uint8)
    padded[:, : bits.shape[1]] = bits
    return padded.view(np.uint64)


def _find_positive(data: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return which numbers of stored vectors are positive."""
    if data.shape[1] % 2:
        return data[:, : -_CHECKSUM_SIZE - _SCALE_SIZE].view(np.int8) > 0
    if _match_checksums(data).any():
        data = np.ascontiguousarray(data[:, :-_CHECKSUM_SIZE])
    return data.view("<u2") - np.uint16(1) < 0x7FFF  # as half-precision numbers, but in a tenth of the time


class SketchBlock(NamedTuple):
    """The sketches of some vectors: positions, and for each 64-bit word one row with that word of every sketch."""

    seqs: NDArray[np.int64]
    words: NDArray[np.uint64]

    @classmethod
    def from_vectors(cls, rows: Sequence[Any]) -> SketchBlock:
        """Compute the sketches of stored vectors; those of another length than most are left out."""
        by_size: dict[int, list[Any]] = {}
        for row in rows:
            by_size.setdefault(len(row[1]) if type(row[0]) is int else 0, []).append(row)
        by_width: dict[int, list[SketchBlock]] = {}
        for size, group in by_size.items():
            if size:
                data = np.frombuffer(b"".join([row[1] for row in group]), dtype=np.uint8).reshape(-1, size)
                words = _compute_sketches(_find_positive(data))
                seqs = np.array([row[0] for row in group], dtype=np.int64)
                by_width.setdefault(words.shape[1], []).append(cls(seqs, words.T))
        blocks = max(by_width.values(), key=lambda found: sum(len(block.seqs) for block in found), default=[])
        if not blocks:
            return cls(np.empty(0, dtype=np.int64), np.empty((0, 0), dtype=np.uint64))
        seqs, words = (
            np.concatenate([block.seqs for block in blocks]),
            np.concatenate([block.words for block in blocks], 1),
        )
        order = np.argsort(seqs, kind="stable")
        return cls(seqs[order], np.ascontiguousarray(words[:, order]))

    @classmethod
    def from_bytes(cls, seqs: bytes, sketches: bytes) -> SketchBlock | None:
        """Read a stored block; none if its parts do not fit together."""
        count = len(seqs) // 8
        if len(seqs) % 8 or (len(sketches) % (8 * count) if count else len(sketches)):
            return None
        words = np.frombuffer(sketches, dtype=np.uint64)
        return cls(np.frombuffer(seqs, dtype=np.int64), words.reshape(-1, count) if count else words.reshape(0, 0))


def pack_sketches(database: apsw.Connection, model: str) -> None:
    """Store the sketches of a model's newest vectors in blocks, if these vectors span enough positions."""
    start: Any = database.execute(SQL["end_of_blocks"], (model,)).get
    newest: Any = database.execute(SQL["newest_vector"], (model,)).get
    while newest is not None and newest - start >= _POSITIONS_IN_BLOCK:
        end = min(newest, start + _MAX_POSITIONS_IN_BLOCK)
        _store_block(database, model, start, end)
        start = end


def repack_sketches(database: apsw.Connection, model: str, seqs: Iterable[int]) -> None:
    """Store the blocks of some positions again, after vectors at these positions were replaced or deleted."""
    blocks: list[Any] = database.execute(SQL["blocks_at"], (model, json.dumps(list(seqs)))).fetchall()
    for start, end in blocks:
        _store_block(database, model, start, end)


def _store_block(database: apsw.Connection, model: str, start: int, end: int) -> None:
    block = SketchBlock.from_vectors(database.execute(SQL["vectors_between"], (model, start, end)).fetchall())
    database.execute(SQL["put_sketch_block"], (model, end, block.seqs.tobytes(), block.words.tobytes()))


def rebuild_sketches(database: apsw.Connection, model: str) -> None:
    """Store all blocks of a model's sketches again."""
    database.execute(SQL["delete_sketch_blocks"], (model,))
    pack_sketches(database, model)


def find_wrong_blocks(database: apsw.Connection, model: str) -> list[int]:
    """Return the ends of the blocks that differ from the vectors."""
    wrong, start = list[int](), 0
    for end, seqs, sketches in database.execute(SQL["sketch_blocks"], (model, 0)):
        expected = SketchBlock.from_vectors(database.execute(SQL["vectors_between"], (model, start, end)).fetchall())
        if (expected.seqs.tobytes(), expected.words.tobytes()) != (seqs, sketches):
            wrong.append(end)
        start = end
    return wrong


def scan_size(count: int) -> int:
    """Return how many of ``count`` sketches the second step looks at first."""
    return max(2_000, min(count // 200, _MAX_SCANNED))


def rerank_size(limit: int, length: int) -> int:
    """Return how many vectors to read for the nearest ``limit``; short vectors have coarse sketches and need more."""
    return max(200, 3 * limit * max(_USUAL_LENGTH, length) // max(2 * length, 1))


def rank_nearest(
    vector: Sequence[float], rows: Iterable[Sequence[Any]], limit: int | None, damaged: set[int] | None = None
) -> list[tuple[int, float]]:
    """Return (position, cosine) of the nearest, best first; a record counts by its best chunk."""
    seqs, scores = compute_cosines(vector, rows, damaged)
    best: dict[int, float] = {}
    for index in np.argsort(-scores, kind="stable").tolist():
        best.setdefault(seqs[index], float(scores[index]))
        if limit is not None and len(best) >= limit:
            break
    return list(best.items())


def compute_cosines(
    vector: Sequence[float], rows: Iterable[Sequence[Any]], damaged: set[int] | None = None
) -> tuple[list[int], NDArray[np.float32]]:
    """Return positions and cosines of stored vectors, as ``decode_vectors`` returns them."""
    seqs, stored = decode_vectors(rows, len(vector), set() if damaged is None else damaged)
    return seqs, _multiply(stored, vector)


def _multiply(stored: NDArray[np.float32], vector: Sequence[float]) -> NDArray[np.float32]:
    """Return the cosines of stored vectors with another vector."""
    wanted = np.asarray(vector, dtype=np.float32)
    norm = float(np.linalg.norm(wanted))
    wanted = wanted / norm if norm else wanted
    cosines: NDArray[np.float32] = np.einsum(
        "ij,j->i", stored, wanted
    )  # threads of a matrix product cost more than they save
    return cosines


def decode_vectors(
    rows: Iterable[Sequence[Any]], length: int, damaged: set[int]
) -> tuple[list[int], NDArray[np.float32]]:
    """Return positions and numbers of stored vectors; those of another length are left out.

    Vectors that do not match their checksum are left out too, and their positions are added to ``damaged``. Vectors of
    older stores have no checksum: they count as damaged unless they have the length one, or zero.
    """
    by_size: dict[int, list[Sequence[Any]]] = {size: [] for size in _list_sizes(length)}
    for row in rows:
        if (same_size := by_size.get(len(row[1]))) is not None:
            same_size.append(row)
    seqs, parts = list[int](), [np.zeros((0, length), dtype=np.float32)]
    for size, found in by_size.items():
        if not found:
            continue
        data = np.frombuffer(b"".join([row[1] for row in found]), dtype=np.uint8).reshape(len(found), size)
        stored = _decode_rows(data, length)
        sound = _have_unit_length(data) if size == 2 * length else _match_checksums(data)
        if not sound.all():
            damaged.update(row[0] for row, is_sound in zip(found, sound.tolist(), strict=True) if not is_sound)
            found = [row for row, is_sound in zip(found, sound.tolist(), strict=True) if is_sound]
            stored = stored[sound]
        seqs += [row[0] for row in found]
        parts.append(stored)
    return seqs, parts[-1] if len(parts) == 2 else np.concatenate(parts)


def _list_sizes(length: int) -> Sequence[int]:
    """List the sizes of stored vectors of a length: in bytes, in half precision, and without a checksum."""
    sizes = (length + _SCALE_SIZE + _CHECKSUM_SIZE, 2 * length + _CHECKSUM_SIZE, 2 * length)
    return sizes[1:] if length % 2 else sizes


def _decode_rows(data: NDArray[np.uint8], length: int) -> NDArray[np.float32]:
    """Return the numbers of stored vectors of one size."""
    if data.shape[1] % 2:
        stored = data[:, :length].view(np.int8).astype(np.float32)
        stored *= np.ascontiguousarray(data[:, length : length + 2]).view("<f2").astype(np.float32)
        return stored
    return data.view("<f2")[:, :length].astype(np.float32)


class KnownPositions:
    """The positions of an array that a query accepts, as far as the store was asked since it last changed."""

    def __init__(self) -> None:
        self._edition: object = None
        self._answers = np.zeros(0, dtype=np.uint8)
        self._lock = threading.Lock()

    def select(
        self,
        seqs: NDArray[np.int64],
        indexes: NDArray[np.intp],
        ask: Callable[[Sequence[int]], Collection[int]],
        edition: object,
    ) -> NDArray[np.bool_]:
        """Return whether ``ask`` returns each of the positions with some indexes; ``edition`` is that of store and query.

        The positions stay where they are in the array; others may follow them. Without an edition nothing is kept.
        """
        with self._lock:
            answers = self._answers if edition is not None and edition == self._edition else self._answers[:0]
            if len(answers) < len(seqs):
                answers = np.pad(answers, (0, len(seqs) - len(answers)))
            if edition is not None:
                self._edition, self._answers = edition, answers
        unknown = indexes[answers[indexes] == 0]
        if len(unknown):
            wanted: list[int] = seqs[unknown].tolist()
            accepted = set(ask(wanted))
            answers[unknown] = [2 if seq in accepted else 1 for seq in wanted]
        is_accepted: NDArray[np.bool_] = answers[indexes] == 2
        return is_accepted


class CachedVectors:
    """Undamaged vectors that searches of a store of medium size have read, by index; none is changed in place."""

    def __init__(self) -> None:
        self.positions = KnownPositions()
        self._rows = np.zeros(0, dtype=np.int32)  # of each index, from 1 on
        self._data = np.empty((0, 0), dtype=np.uint8)
        self._count = 0
        self._lock = threading.Lock()

    def find(self, indexes: NDArray[np.intp], length: int) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
        """Return which of the vectors are here, and the numbers of these."""
        with self._lock:
            rows = np.zeros(len(indexes), dtype=np.int32)
            if self._data.shape[1] in _list_sizes(length):
                is_inside = indexes < len(self._rows)
                rows[is_inside] = self._rows[indexes[is_inside]]
            is_here = rows > 0
            return is_here, _decode_rows(self._data[rows[is_here] - 1], length)

    def add(self, seqs: NDArray[np.int64], vectors: Sequence[Sequence[Any]], length: int) -> None:
        """Keep sound vectors, while there is space: one for a position, all of one size."""
        chunks = Counter([seq for seq, _ in vectors])
        with self._lock:
            size = self._data.shape[1] or next(
                (len(data) for _, data in vectors if len(data) in _list_sizes(length)), 0
            )
            new = [(seq, data) for seq, data in vectors if chunks[seq] == 1 and len(data) == size] if size else []
            new = new[: _MAX_CACHED_BYTES // size - self._count] if new else new
            if not new:
                return
            end = self._count + len(new)
            if end > len(self._data):
                larger = np.empty((max(end, 2 * self._count), size), dtype=np.uint8)
                larger[: self._count] = self._data.reshape(-1, size)[: self._count]
                self._data = larger
            if len(self._rows) < len(seqs):
                self._rows = np.pad(self._rows, (0, len(seqs) - len(self._rows)))
            joined = np.frombuffer(b"".join([data for _, data in new]), dtype=np.uint8)
            self._data[self._count : end] = joined.reshape(len(new), size)
            self._rows[np.searchsorted(seqs, [seq for seq, _ in new])] = np.arange(self._count, end) + 1
            self._count = end


class SketchArray(NamedTuple):
    """All sketches of a model at one moment, laid out like a block."""

    seqs: NDArray[np.int64]
    words: NDArray[np.uint64]
    vectors: CachedVectors | None = None
    """The vectors that were read before; none of a large store, where each question needs other vectors."""

    def find_nearest(self, vector: Sequence[float], count: int) -> list[int]:
        """Return the positions nearest by sketch, best first, possibly repeated; none for a vector of another length."""
        nearest: list[int] = self.seqs[self._find_nearest_indexes(vector, count)].tolist()
        return nearest

    def _find_nearest_indexes(self, vector: Sequence[float], count: int) -> NDArray[np.intp]:
        query = np.asarray(vector, dtype=np.float32)
        sketch = _compute_sketches(query[None, :] > 0)[0]
        if len(sketch) != len(self.words):
            return np.empty(0, dtype=np.intp)
        distances = self._count_differing_signs(sketch)
        step = _SAMPLE_STEP if len(distances) > _SAMPLED_SIZE else 1
        max_distance = int(np.searchsorted(np.cumsum(np.bincount(distances[::step])), count / step))
        chosen = np.flatnonzero(distances <= max_distance)
        if len(chosen) <= _MAX_REFINED:
            order = np.argsort(-self._estimate_similarity(chosen, query), kind="stable")
        else:
            order = np.argsort(distances[chosen], kind="stable")
        nearest: NDArray[np.intp] = chosen[order[:count]]
        return nearest

    def rank_current(
        self,
        database: apsw.Connection,
        model: str,
        vector: Sequence[float],
        count: int,
        read: int,
        limit: int,
        damaged: set[int],
        edition: object,
    ) -> list[tuple[int, float]]:
        """Return what ``rank_nearest`` does for the current versions at the first ``read`` of the ``count`` nearest positions.

        A vector from memory counts only if the text index, which is small, still has the text at its position.
        """
        wanted = np.sort(self.seqs[self._find_nearest_indexes(vector, count)[:read]])  # in order: fewer page reads
        wanted = wanted[np.diff(wanted, prepend=-1) > 0]
        known, stored = wanted[:0], np.zeros((0, len(vector)), dtype=np.float32)
        if self.vectors is not None:
            indexes = np.searchsorted(self.seqs, wanted)
            is_here, stored = self.vectors.find(indexes, len(vector))

            def find_indexed(seqs: Sequence[int]) -> Collection[int]:
                return [seq for (seq,) in database.execute(SQL["current_texts_at"], (encode_text(seqs),))]

            is_current = self.vectors.positions.select(self.seqs, indexes[is_here], find_indexed, edition)
            known, stored = wanted[is_here][is_current], stored if is_current.all() else stored[is_current]
            is_here[is_here] = is_current
            wanted = wanted[~is_here]
        rows: list[Any] = []
        if len(wanted):
            rows = database.execute(SQL["current_vectors"], (model, encode_text(wanted.tolist()))).fetchall()
        found, decoded = decode_vectors(rows, len(vector), damaged)
        if self.vectors is not None and rows and not damaged:
            self.vectors.add(self.seqs, rows, len(vector))
        seqs = np.concatenate((known, np.array(found, dtype=np.int64)))
        cosines = _multiply(np.concatenate((stored, decoded)) if len(stored) else decoded, vector)
        order = np.lexsort((seqs, -cosines))
        best = dict(zip(seqs[order[:limit]].tolist(), cosines[order[:limit]].tolist(), strict=True))
        if len(best) < min(limit, len(seqs)):  # some have several chunks
            best = {}
            for seq, cosine in zip(seqs[order].tolist(), cosines[order].tolist(), strict=True):
                best.setdefault(seq, cosine)
        return list(islice(best.items(), limit))

    def _count_differing_signs(self, sketch: NDArray[np.uint64]) -> NDArray[np.uint16]:
        """Count the differing signs of each sketch, block by block so that the work stays in the CPU cache."""
        distances = np.zeros(len(self.seqs), dtype=np.uint16)
        differing = np.empty(_BLOCK_SIZE, dtype=np.uint64)
        counts = np.empty(_BLOCK_SIZE, dtype=np.uint8)
        for start in range(0, len(distances), _BLOCK_SIZE):
            block = distances[start : start + _BLOCK_SIZE]
            size = len(block)
            for words, query_word in zip(self.words, sketch, strict=True):
                np.bitwise_xor(words[start : start + size], query_word, out=differing[:size])
                np.bitwise_count(differing[:size], out=counts[:size])
                np.add(block, counts[:size], out=block)
        return distances

    def _estimate_similarity(self, chosen: NDArray[np.intp], vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """Add up the query's numbers under the signs of each chosen sketch, byte by byte."""
        signs = np.ascontiguousarray(self.words[:, chosen].T).view(np.uint8)
        numbers = np.zeros(8 * signs.shape[1], dtype=np.float32)
        numbers[: len(vector)] = vector
        by_byte = np.einsum("ij,kj->ki", _BITS_OF_BYTE, numbers.reshape(-1, 8))
        agreement = np.zeros(len(chosen), dtype=np.float32)
        for byte, sums in zip(signs.T.astype(np.intp), by_byte, strict=True):
            agreement += sums.take(byte)
        return agreement


class RankedCosines(NamedTuple):
    """The cosines of a vector with all vectors of a small store; a record counts by its best chunk."""

    seqs: NDArray[np.int64]
    """The positions, in order."""
    cosines: NDArray[np.float32]

    positions: KnownPositions

    def _find_nearest(self, limit: int) -> NDArray[np.intp]:
        """Return the indexes of the nearest, best first; of equal ones the oldest first."""
        chosen, count = np.arange(len(self.seqs)), len(self.seqs)
        if 0 < limit < count:
            chosen = np.flatnonzero(self.cosines >= np.partition(self.cosines, count - limit)[count - limit])
        nearest: NDArray[np.intp] = chosen[np.argsort(-self.cosines[chosen], kind="stable")][:limit]
        return nearest

    def list_nearest(self) -> list[tuple[int, float]]:
        """Return position and cosine of all, best first."""
        order = self._find_nearest(len(self.seqs))
        return list(zip(self.seqs[order].tolist(), self.cosines[order].tolist(), strict=True))

    def choose_nearest(
        self, limit: int, ask: Callable[[Sequence[int]], Collection[int]], edition: object
    ) -> list[tuple[int, float]] | None:
        """Return the nearest positions that ``ask`` returns, best first; ``None`` if too few of the nearest are among them."""
        count = len(self.seqs)
        tried = self._find_nearest(limit * 5 // 4)
        chosen = tried[self.positions.select(self.seqs, tried, ask, edition)][:limit]
        if len(chosen) < limit and len(tried) < count:
            return None
        return list(zip(self.seqs[chosen].tolist(), self.cosines[chosen].tolist(), strict=True))

    def at(self, seqs: Sequence[int]) -> dict[int, float]:
        """Return the cosines at some positions."""
        if not len(self.seqs):
            return {}
        wanted = np.array(seqs, dtype=np.int64)
        places = np.minimum(np.searchsorted(self.seqs, wanted), len(self.seqs) - 1)
        is_known = self.seqs[places] == wanted
        return dict(zip(wanted[is_known].tolist(), self.cosines[places[is_known]].tolist(), strict=True))


class VectorArray(NamedTuple):
    """All vectors of a small store at one moment, with their positions, in order."""

    seqs: NDArray[np.int64]
    units: NDArray[np.float32]
    positions: KnownPositions

    def compare(self, vector: Sequence[float]) -> RankedCosines:
        """Return the cosine of each position."""
        cosines = _multiply(self.units, vector)
        begins = np.flatnonzero(np.diff(self.seqs, prepend=-1))
        if len(begins) < len(self.seqs):
            return RankedCosines(self.seqs[begins], np.maximum.reduceat(cosines, begins), self.positions)
        return RankedCosines(self.seqs, cosines, self.positions)


class ModelVectors:
    """The cached vectors of one model, while the store has few."""

    def __init__(self, length: int) -> None:
        self._edition = -1
        self._length = length

    def refresh(self, database: apsw.Connection, model: str) -> VectorArray | None:
        """Read new vectors, or all again when some were written out of order; removed ones may stay.

        There are none to return if the store has many, or if some are damaged.
        """
        edition = database.execute(SQL["vector_edition"], (model,)).get or 0
        if edition != self._edition:
            self._edition, self._newest_seq = edition, 0
            self._vectors = VectorArray(
                np.empty(0, dtype=np.int64), np.empty((0, self._length), dtype=np.float32), KnownPositions()
            )
            self._has_many = False
        if not self._newest_seq and not self._has_many:
            count = database.execute(SQL["count_vectors"], (model, EXACT_SEARCH_LIMIT + 1)).get
            self._has_many = count > EXACT_SEARCH_LIMIT
        rows: Any = ()
        if not self._has_many:
            rows = database.execute(SQL["vectors_after"], (model, self._newest_seq)).fetchall()
        if rows:
            damaged = set[int]()
            seqs, units = decode_vectors(rows, self._length, damaged)
            if damaged:
                self._edition = -1
                return None
            self._newest_seq = int(rows[-1][0])
            self._vectors = VectorArray(
                np.concatenate((self._vectors.seqs, np.array(seqs, dtype=np.int64))),
                np.concatenate((self._vectors.units, units)),
                self._vectors.positions,
            )
            if len(self._vectors.seqs) > EXACT_SEARCH_LIMIT:
                self._has_many = True
                self._vectors = VectorArray(
                    self._vectors.seqs[:0].copy(), self._vectors.units[:0].copy(), KnownPositions()
                )
        return None if self._has_many else self._vectors


class ModelSketches:
    """The cached sketches of one model."""

    def __init__(self) -> None:
        self._edition = -1
        self._clear(0)

    def _clear(self, width: int) -> None:
        self._count = 0
        self._seqs = np.empty(0, dtype=np.int64)
        self._words = np.empty((width, 0), dtype=np.uint64)
        self._vectors: CachedVectors | None = CachedVectors()

    def refresh(self, database: apsw.Connection, model: str) -> SketchArray:
        """Read new sketches, or all again when vectors were written out of order; removed ones may stay."""
        edition = database.execute(SQL["vector_edition"], (model,)).get or 0
        if edition != self._edition:
            self._clear(0)
            self._edition, self._newest_seq = edition, 0
        newest = database.execute(SQL["newest_vector"], (model,)).get
        if newest is None or (type(newest) is int and newest <= self._newest_seq):  # finding a block reads whole blocks
            return self._current_array()
        expected = 0
        for end, seqs, sketches in database.execute(SQL["sketch_blocks"], (model, self._newest_seq)):
            if type(end) is not int:  # a damaged index may name another type
                continue
            if (block := SketchBlock.from_bytes(seqs, sketches)) is None:
                rows = database.execute(SQL["vectors_between"], (model, self._newest_seq, end)).fetchall()
                block = SketchBlock.from_vectors(rows)
            if not expected:
                expected = self._count + int(database.execute(SQL["count_sketches"], (model, self._newest_seq)).get)
            self._append(block, expected)
            self._newest_seq = end
        if rows := database.execute(SQL["vectors_after"], (model, self._newest_seq)).fetchall():
            self._append(SketchBlock.from_vectors(rows), expected)
            self._newest_seq = rows[-1][0] if type(rows[-1][0]) is int else self._newest_seq
        if self._count > _MAX_CACHED_VECTORS:
            self._vectors = None
        return self._current_array()

    def _current_array(self) -> SketchArray:
        return SketchArray(self._seqs[: self._count], self._words[:, : self._count], self._vectors)

    def _append(self, block: SketchBlock, expected: int) -> None:
        """Append new sketches of the same length as the first; a query of another length is compared exactly."""
        start = int(np.searchsorted(block.seqs, self._newest_seq, side="right"))
        if start == len(block.seqs):
            return
        if not self._count:
            self._clear(len(block.words))
        if len(block.words) == len(self._words):
            end = self._count + len(block.seqs) - start
            self._ensure_capacity(end, expected)
            self._seqs[self._count : end] = block.seqs[start:]
            self._words[:, self._count : end] = block.words[:, start:]
            self._count = end

    def _ensure_capacity(self, count: int, expected: int) -> None:
        """Move to larger arrays when these are full; readers of the old arrays keep them."""
        if count <= len(self._seqs):
            return
        spare = max(expected // 50, _POSITIONS_IN_BLOCK)  # the newest vectors are in no block
        capacity = max(_MIN_CAPACITY, count, expected + spare if expected else 0, len(self._seqs) * 5 // 4)
        seqs, words = np.empty(capacity, dtype=np.int64), np.empty((len(self._words), capacity), dtype=np.uint64)
        seqs[: self._count] = self._seqs[: self._count]
        words[:, : self._count] = self._words[:, : self._count]
        self._seqs, self._words = seqs, words


class VectorCache:
    """The cached vectors or sketches of all queried models, shared by the readers of one engine."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._models: dict[str, ModelSketches] = {}
        self._small_models: dict[tuple[str, int], ModelVectors] = {}

    def get_vectors(self, database: apsw.Connection, model: str, length: int) -> VectorArray | None:
        """Return all vectors of a model with some length, if they are few and none is damaged."""
        with self._lock:
            return self._small_models.setdefault((model, length), ModelVectors(length)).refresh(database, model)

    def get_sketches(self, database: apsw.Connection, model: str) -> SketchArray:
        """Return the current sketches of a model."""
        with self._lock:
            return self._models.setdefault(model, ModelSketches()).refresh(database, model)
