"""Exact nearest neighbours over stored vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


def pack(vector: Sequence[float]) -> bytes:
    """A vector of length one, as little-endian float32."""
    array = np.asarray(vector, dtype="<f4")
    norm = float(np.linalg.norm(array))
    return (array / norm if norm else array).tobytes()


def nearest(vector: Sequence[float], rows: Iterable[Sequence[Any]], limit: int | None) -> list[tuple[int, float]]:
    """(position, cosine) of the nearest, best first; a record counts by its best chunk."""
    seqs: list[int] = []
    blobs: list[bytes] = []
    wanted = np.frombuffer(pack(vector), dtype="<f4")
    for seq, blob in rows:
        if len(blob) == wanted.nbytes:
            seqs.append(seq)
            blobs.append(blob)
    if not seqs or limit == 0:
        return []
    scores = np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(seqs), -1) @ wanted
    best: dict[int, float] = {}
    for at in np.argsort(-scores, kind="stable"):
        best.setdefault(seqs[at], float(scores[at]))
        if limit is not None and len(best) >= limit:
            break
    return list(best.items())
