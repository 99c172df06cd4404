"""Nearest neighbours over stored vectors: exact while they are few; else all sketches are scanned and few vectors read.

A sketch is the signs of a vector's numbers, one bit each: a thirty-second of its size. The vectors nearest by sketch
are read and compared exactly. Sketches are kept in memory, shared by the readers of an engine, and brought up to date
from the store before each use, so what another process put there is found.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from lukasa.engines.sqlite.sql import SQL

FEW = 4_000
_ROOM = 1_024


def pack(vector: Sequence[float]) -> tuple[bytes, bytes]:
    """The sketch of a vector, and the vector brought to length one, in half precision."""
    array = np.asarray(vector, dtype=np.float32)
    norm = float(np.linalg.norm(array))
    unit = array / norm if norm else array
    return _sketch(unit).tobytes(), unit.astype("<f2").tobytes()


def _sketch(unit: NDArray[np.float32]) -> NDArray[np.uint64]:
    bits = np.packbits(unit > 0)
    padded = np.zeros(-(-len(bits) // 8) * 8, dtype=np.uint8)
    padded[: len(bits)] = bits
    return padded.view(np.uint64)


def nearest(vector: Sequence[float], rows: Iterable[Sequence[Any]], limit: int | None) -> list[tuple[int, float]]:
    """(position, cosine) of the nearest, best first; a record counts by its best chunk."""
    seqs, scores = cosines(vector, rows)
    best: dict[int, float] = {}
    for at in np.argsort(-scores, kind="stable"):
        best.setdefault(seqs[at], float(scores[at]))
        if limit is not None and len(best) >= limit:
            break
    return list(best.items())


def cosines(vector: Sequence[float], rows: Iterable[Sequence[Any]]) -> tuple[list[int], NDArray[np.float32]]:
    """Positions and cosines of stored vectors; those of another length are left out."""
    wanted = np.asarray(vector, dtype=np.float32)
    norm = float(np.linalg.norm(wanted))
    wanted = wanted / norm if norm else wanted
    seqs: list[int] = []
    blobs: list[bytes] = []
    for seq, blob, *_ in rows:
        if len(blob) == 2 * len(wanted):
            seqs.append(seq)
            blobs.append(blob)
    if not seqs:
        return [], np.zeros(0, dtype=np.float32)
    stored = np.frombuffer(b"".join(blobs), dtype="<f2").reshape(len(seqs), -1).astype(np.float32)
    return seqs, stored @ wanted


class Sketches:
    """The sketches of one model, in memory."""

    def __init__(self) -> None:
        self._edition = -1
        self._newest = 0
        self._count = 0
        self._seqs = np.zeros(0, dtype=np.int64)
        self._bits = np.zeros((0, 0), dtype=np.uint64)

    def __len__(self) -> int:
        return self._count

    def refresh(self, database: apsw.Connection, model: str) -> None:
        """Takes in what was put since, or everything anew when something came out of order. What was removed may stay."""
        edition = database.execute(SQL["edition"], (model,)).get or 0
        if edition != self._edition:
            self._edition, self._newest, self._count = edition, 0, 0
        rows: list[Any] = database.execute(SQL["sketches"], (model, self._newest)).fetchall()
        if not rows:
            return
        width = len(rows[0][1]) // 8
        if self._bits.shape[1] != width:
            self._seqs, self._bits, self._count = np.zeros(0, dtype=np.int64), np.zeros((0, width), dtype=np.uint64), 0
        rows = [row for row in rows if len(row[1]) == 8 * width]
        self._make_room(len(rows))
        end = self._count + len(rows)
        self._seqs[self._count : end] = [row[0] for row in rows]
        self._bits[self._count : end] = np.frombuffer(b"".join(row[1] for row in rows), dtype=np.uint64).reshape(
            -1, width
        )
        self._count, self._newest = end, int(rows[-1][0])

    def _make_room(self, more: int) -> None:
        if self._count + more > len(self._seqs):
            room = max(_ROOM, self._count + more, len(self._seqs) * 3 // 2)
            self._seqs = np.resize(self._seqs, room)
            self._bits = np.resize(self._bits, (room, self._bits.shape[1]))

    def nearest(self, vector: Sequence[float], count: int) -> list[int]:
        """The positions nearest by sketch, in no order, some of them perhaps twice."""
        asked = _sketch(np.asarray(vector, dtype=np.float32))
        if len(asked) != self._bits.shape[1]:
            return []
        apart = np.bitwise_count(self._bits[: self._count] ^ asked).sum(axis=1, dtype=np.uint16)
        if count >= self._count:
            return [int(seq) for seq in self._seqs[: self._count]]
        return [int(seq) for seq in self._seqs[np.argpartition(apart, count)[:count]]]


class Shelf:
    """The sketches of every model that was asked for, shared by the readers of one engine."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._models: dict[str, Sketches] = {}

    def near(self, database: apsw.Connection, model: str, vector: Sequence[float], count: int) -> list[int] | None:
        """The positions nearest by sketch; ``None`` when there are so few that all can be compared."""
        with self._guard:
            sketches = self._models.setdefault(model, Sketches())
            sketches.refresh(database, model)
            return None if len(sketches) <= max(FEW, count) else sketches.nearest(vector, count)


def among(seqs: Sequence[int]) -> str:
    """Positions as a statement takes them."""
    return json.dumps(list(seqs))
