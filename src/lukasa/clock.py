"""Time, ids and chance, injected so that every rule about them can be tested without waiting.

Times are aware UTC datetimes with microseconds inside and ISO 8601 with ``Z`` at every door.
"""

from __future__ import annotations

import itertools
import os
import random
import weakref
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

from lukasa.errors import InvalidInput

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """Tells the present moment."""

    def now(self) -> datetime: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


IdMaker = Callable[[], str]


class SortableIds:
    """Ids that sort by the time they were made: 12 hex digits of milliseconds, 6 of a counter, 8 of chance.

    Sorted ids keep the store's key index growing at its end, which is what keeps adds cheap at a million records.
    The chance is drawn once per maker: it tells makers apart, the counter tells one maker's ids apart.
    """

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._now = clock.now
        self._rng = rng
        self._last_milliseconds, self._time_prefix = -1, ""
        self._reseed()
        if hasattr(os, "register_at_fork"):
            renew = weakref.WeakMethod(self._reseed)
            os.register_at_fork(after_in_child=lambda: (own := renew()) and own())  # a fork must not repeat its parent

    def _reseed(self) -> None:
        self._suffix = f"{self._rng.getrandbits(32):08x}"
        self._counter = itertools.count(self._rng.getrandbits(20))

    def __call__(self) -> str:
        now = int(self._now().timestamp() * 1000)
        if now != self._last_milliseconds:
            self._last_milliseconds, self._time_prefix = now, f"{now:012x}"
        return f"{self._time_prefix}{next(self._counter) & 0xFFFFFF:06x}{self._suffix}"


def to_microseconds(moment: datetime) -> int:
    """Microseconds since 1970, exact (no float in between)."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def from_microseconds(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)


def to_iso(moment: datetime) -> str:
    """``2026-02-03T12:00:00Z``; microseconds appear only when there are any."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return moment.isoformat()[:-6] + "Z"


def from_iso(text: str) -> datetime:
    """Parses ISO 8601; a moment without a zone is taken as UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(
            f"{text[:60]!r} is not a time.", hint="Use ISO 8601, such as 2026-02-03T12:00:00Z."
        ) from error
    return moment if moment.tzinfo is UTC else to_utc(moment)


def to_utc(moment: datetime) -> datetime:
    """The moment in UTC; one without a zone is taken as UTC. A zone may push it off the calendar: refused."""
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(f"{moment!r} has no counterpart in UTC.") from error
