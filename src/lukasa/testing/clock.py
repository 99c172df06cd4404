"""Time and ids that do what a test tells them."""

from __future__ import annotations

import itertools
import random
import threading
from datetime import UTC, datetime, timedelta

from lukasa.clock import SortableIds, to_utc

NOON = datetime(2026, 2, 3, 12, tzinfo=UTC)


class FrozenClock:
    """Stands still until it is told to move, forwards or backwards."""

    def __init__(self, moment: datetime = NOON) -> None:
        self._moment = to_utc(moment)
        self._lock = threading.Lock()

    def now(self) -> datetime:
        return self._moment

    def set(self, moment: datetime) -> None:
        self._moment = to_utc(moment)

    def advance(self, seconds: float = 1.0) -> datetime:
        """Moves by so many seconds, back if they are negative; returns the new moment."""
        with self._lock:
            self._moment += timedelta(seconds=seconds)
            return self._moment


class CountingIds:
    """``id-1``, ``id-2``, …: ids that read well in a failed test."""

    def __init__(self, prefix: str = "id-") -> None:
        self._prefix = prefix
        self._numbers = itertools.count(1)

    def __call__(self) -> str:
        return f"{self._prefix}{next(self._numbers)}"


def seeded_ids(seed: int, clock: FrozenClock | None = None) -> SortableIds:
    """The real maker of ids with its time and chance pinned: the same seed gives the same ids."""
    return SortableIds(clock or FrozenClock(), random.Random(seed))
