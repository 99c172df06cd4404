"""A frozen clock and repeatable ids."""

from __future__ import annotations

import itertools
import random
import threading
from datetime import UTC, datetime, timedelta

from lukasa.core.clock import SortableIds, to_utc

NOON = datetime(2026, 2, 3, 12, tzinfo=UTC)


class FrozenClock:
    """A clock whose time changes only when a test moves it."""

    def __init__(self, moment: datetime = NOON) -> None:
        self._moment = to_utc(moment)
        self._lock = threading.Lock()

    def now(self) -> datetime:
        return self._moment

    def set(self, moment: datetime) -> None:
        self._moment = to_utc(moment)

    def advance(self, seconds: float = 1.0) -> datetime:
        """Move the time by some seconds, back if they are negative, and return it."""
        with self._lock:
            self._moment += timedelta(seconds=seconds)
            return self._moment


class CountingIds:
    """Generator of the ids ``id-1``, ``id-2``, …"""

    def __init__(self, prefix: str = "id-") -> None:
        self._prefix = prefix
        self._numbers = itertools.count(1)

    def __call__(self) -> str:
        return f"{self._prefix}{next(self._numbers)}"


def seeded_ids(seed: int, clock: FrozenClock | None = None) -> SortableIds:
    """Return a generator of real ids that repeat for the same seed."""
    return SortableIds(clock or FrozenClock(), random.Random(seed))
