"""Nearest neighbours over stored vectors: exact while they are few; else all sketches are scanned and few vectors read.

A sketch is the signs of a vector's numbers, one bit each: a thirty-second of its size. The search narrows in three
steps: by how many signs differ, over all sketches; by the question's own numbers under those signs, over the few
thousand that are left; by the vectors themselves, read from the store, over a few hundred. Sketches are kept in memory,
shared by the readers of an engine, and brought up to date from the store before each use, so what another process put
there is found.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from lukasa.storage.sqlite.sql import SQL

EXACT_SEARCH_LIMIT = 4_000
"""Up to this many vectors are compared exactly."""
_USUAL_LENGTH = 384
_MIN_CAPACITY = 1_024
_LOAD_BATCH_SIZE = 50_000
_BLOCK_SIZE = 16_384
_MAX_REFINED = 32_768
_BITS_OF_BYTE = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32)


def encode_vector(vector: Sequence[float]) -> tuple[bytes, bytes]:
    """The sketch of a vector, and the vector brought to length one, in half precision."""
    ((sketch, half),) = encode_vectors([vector])
    return sketch, half


def encode_vectors(vectors: Sequence[Sequence[float]]) -> Iterator[tuple[bytes, bytes]]:
    """The same for many, those of one length together."""
    if len({len(vector) for vector in vectors}) > 1:
        for vector in vectors:
            yield from encode_vectors([vector])
        return
    array = np.asarray(vectors, dtype=np.float32).reshape(len(vectors), -1)
    norms = np.linalg.norm(array, axis=1, keepdims=True)
    units = np.divide(array, norms, out=array.copy(), where=norms > 0)
    for sketch, half in zip(_compute_sketches(units), units.astype("<f2"), strict=True):
        yield sketch.tobytes(), half.tobytes()


def _compute_sketches(units: NDArray[np.float32]) -> NDArray[np.uint64]:
    """One row of words of 64 bits for each row of numbers."""
    bits = np.packbits(units > 0, axis=1)
    padded = np.zeros((len(bits), -(-bits.shape[1] // 8) * 8), dtype=np.uint8)
    padded[:, : bits.shape[1]] = bits
    return padded.view(np.uint64)


def scan_size(count: int) -> int:
    """How many of so many sketches to look at more closely at first."""
    return max(2_000, count // 200)


def rerank_size(limit: int, length: int) -> int:
    """How many vectors to read for the nearest ``limit``; the shorter they are, the coarser are their sketches."""
    return max(200, 3 * limit * max(_USUAL_LENGTH, length) // max(2 * length, 1))


def rank_nearest(vector: Sequence[float], rows: Iterable[Sequence[Any]], limit: int | None) -> list[tuple[int, float]]:
    """(position, cosine) of the nearest, best first; a record counts by its best chunk."""
    seqs, scores = compute_cosines(vector, rows)
    best: dict[int, float] = {}
    for at in np.argsort(-scores, kind="stable").tolist():
        best.setdefault(seqs[at], float(scores[at]))
        if limit is not None and len(best) >= limit:
            break
    return list(best.items())


def compute_cosines(vector: Sequence[float], rows: Iterable[Sequence[Any]]) -> tuple[list[int], NDArray[np.float32]]:
    """Positions and cosines of stored vectors; those of another length are left out."""
    wanted = np.asarray(vector, dtype=np.float32)
    norm = float(np.linalg.norm(wanted))
    wanted = wanted / norm if norm else wanted
    size = 2 * len(wanted)
    found = [row for row in rows if len(row[1]) == size]
    if not found:
        return [], np.zeros(0, dtype=np.float32)
    stored = np.frombuffer(b"".join([row[1] for row in found]), dtype="<f2").reshape(len(found), -1)
    # not a matrix product: for that many small ones it would wake threads that cost more than they bring
    return [row[0] for row in found], np.einsum("ij,j->i", stored.astype(np.float32), wanted)


class SketchArray(NamedTuple):
    """Sketches as they were at some moment: positions, and one row per word of 64 bits with that word of each sketch."""

    seqs: NDArray[np.int64]
    words: NDArray[np.uint64]

    def find_nearest(self, vector: Sequence[float], count: int) -> list[int]:
        """The positions nearest by sketch, best first, some of them perhaps twice; none of vectors of another length."""
        asked = np.asarray(vector, dtype=np.float32)
        sketch = _compute_sketches(asked[None, :])[0]
        if len(sketch) != len(self.words):
            return []
        apart = self._count_differing_signs(sketch)
        reach = int(np.searchsorted(np.cumsum(np.bincount(apart)), count))
        chosen = np.flatnonzero(apart <= reach)
        if len(chosen) <= _MAX_REFINED:
            order = np.argsort(-self._estimate_similarity(chosen, asked), kind="stable")
        else:
            order = np.argsort(apart[chosen], kind="stable")
        found: list[int] = self.seqs[chosen[order[:count]]].tolist()
        return found

    def _count_differing_signs(self, sketch: NDArray[np.uint64]) -> NDArray[np.uint16]:
        """In how many signs each sketch differs, block by block so that all of it happens in the nearest cache."""
        apart = np.zeros(len(self.seqs), dtype=np.uint16)
        differing = np.empty(_BLOCK_SIZE, dtype=np.uint64)
        counts = np.empty(_BLOCK_SIZE, dtype=np.uint8)
        for start in range(0, len(apart), _BLOCK_SIZE):
            block = apart[start : start + _BLOCK_SIZE]
            size = len(block)
            for words, asked in zip(self.words, sketch, strict=True):
                np.bitwise_xor(words[start : start + size], asked, out=differing[:size])
                np.bitwise_count(differing[:size], out=counts[:size])
                np.add(block, counts[:size], out=block)
        return apart

    def _estimate_similarity(self, chosen: NDArray[np.intp], vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """How far the question's numbers point the way of each chosen sketch's signs: of each byte of it, added up."""
        signs = np.ascontiguousarray(self.words[:, chosen].T).view(np.uint8)
        numbers = np.zeros(8 * signs.shape[1], dtype=np.float32)
        numbers[: len(vector)] = vector
        by_byte = np.einsum("ij,kj->ki", _BITS_OF_BYTE, numbers.reshape(-1, 8))
        agreement = np.zeros(len(chosen), dtype=np.float32)
        for byte, worth in zip(signs.T, by_byte, strict=True):
            agreement += worth[byte]
        return agreement


class ModelSketches:
    """The sketches of one model in memory, growing as vectors are put."""

    def __init__(self) -> None:
        self._edition = -1
        self._clear(0)

    def _clear(self, width: int) -> None:
        self._newest_seq = self._count = 0
        self._seqs = np.empty(0, dtype=np.int64)
        self._words = np.empty((width, 0), dtype=np.uint64)

    def refresh(self, database: apsw.Connection, model: str) -> SketchArray:
        """All sketches, with what was put since; read anew when something came out of order. What was removed may stay."""
        edition = database.execute(SQL["edition"], (model,)).get or 0
        if edition != self._edition:
            self._clear(0)
            self._edition = edition
        rows: Iterator[Any] = iter(database.execute(SQL["sketches"], (model, self._newest_seq)))
        while batch := list(islice(rows, _LOAD_BATCH_SIZE)):
            self._append_rows(batch)
        return SketchArray(self._seqs[: self._count], self._words[:, : self._count])

    def _append_rows(self, batch: list[Any]) -> None:
        """Takes in sketches as long as the first that ever came; others, if a model has such, are compared exactly."""
        if not self._count:
            self._clear(len(batch[0][1]) // 8)
        width = len(self._words)
        rows = [row for row in batch if len(row[1]) == 8 * width]
        end = self._count + len(rows)
        self._ensure_capacity(end)
        self._seqs[self._count : end] = [row[0] for row in rows]
        bits = np.frombuffer(b"".join([row[1] for row in rows]), dtype=np.uint64)
        self._words[:, self._count : end] = bits.reshape(len(rows), width).T
        self._count, self._newest_seq = end, int(batch[-1][0])

    def _ensure_capacity(self, count: int) -> None:
        """Moves to larger arrays when these are full; whoever still looks at the old ones keeps them."""
        if count <= len(self._seqs):
            return
        room = max(_MIN_CAPACITY, count, len(self._seqs) * 5 // 4)
        seqs, words = np.empty(room, dtype=np.int64), np.empty((len(self._words), room), dtype=np.uint64)
        seqs[: self._count] = self._seqs[: self._count]
        words[:, : self._count] = self._words[:, : self._count]
        self._seqs, self._words = seqs, words


class SketchCache:
    """The sketches of every model that was asked for, shared by the readers of one engine."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._models: dict[str, ModelSketches] = {}

    def get_sketches(self, database: apsw.Connection, model: str) -> SketchArray:
        """The sketches of a model as the store has them now."""
        with self._lock:
            return self._models.setdefault(model, ModelSketches()).refresh(database, model)


def json_array(seqs: Sequence[int]) -> str:
    """Positions as a statement takes them."""
    return json.dumps(list(seqs))
