"""The clock and the id generator. Both are injected, so that tests control them.

Times are timezone-aware UTC datetimes with microseconds; every interface writes them as ISO 8601 with ``Z``.
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
Time = datetime | str
"""A time as callers give it: a ``datetime``, or a text in ISO 8601 such as ``2026-02-03T12:00:00Z`` or ``2026-02-03``."""


class Clock(Protocol):
    """A source of the current time."""

    def now(self) -> datetime: ...


class SystemClock:
    """The system clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


IdMaker = Callable[[], str]


class SortableIds:
    """Generate ids that sort by creation time: 12 hex digits of milliseconds, 6 of a counter, 8 random ones.

    Sorted ids make the key index grow at its end, which keeps adds cheap at a million records. The random digits are
    drawn once per generator and distinguish generators; the counter distinguishes the ids of one generator.
    """

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._now = clock.now
        self._rng = rng
        self._begin = self._end = _EPOCH  # of the millisecond that the prefix stands for
        self._time_prefix = ""
        self._reseed()
        if hasattr(os, "register_at_fork"):
            renew = weakref.WeakMethod(self._reseed)
            os.register_at_fork(
                after_in_child=lambda: (own := renew()) and own()
            )  # a forked child must not repeat the ids of its parent

    def _reseed(self) -> None:
        self._suffix = f"{self._rng.getrandbits(32):08x}"
        self._counter = itertools.count(self._rng.getrandbits(20))

    def __call__(self) -> str:
        now = self._now()
        if not self._begin <= now < self._end:
            milliseconds = to_microseconds(now) // 1000
            self._time_prefix = f"{milliseconds:012x}"
            self._begin, self._end = (
                _EPOCH + timedelta(milliseconds=limit) for limit in (milliseconds, milliseconds + 1)
            )
        return f"{self._time_prefix}{next(self._counter) & 0xFFFFFF:06x}{self._suffix}"


def to_as_of(as_of: Time | int | None) -> datetime | int | None:
    """Convert the time of an earlier state to UTC; a position in the log stays as it is."""
    return as_of if as_of is None or isinstance(as_of, int) else to_utc(as_of)


def to_microseconds(moment: datetime) -> int:
    """Return the microseconds since 1970 as an exact integer."""
    since = moment - _EPOCH  # a division of two periods takes twice as long
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def to_iso(moment: datetime) -> str:
    """Format a time like ``2026-02-03T12:00:00Z``; microseconds appear only when they are not zero."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return f"{moment.date().isoformat()}T{moment.time().isoformat()}Z"  # sooner than with the offset, which is cut off then


def from_iso(text: str) -> datetime:
    """Parse an ISO 8601 time; one without a zone is read as UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(
            f"{text[:60]!r} is not a time.", hint="Use ISO 8601, such as 2026-02-03T12:00:00Z."
        ) from error
    return moment if moment.tzinfo is UTC else to_utc(moment)


def to_utc(moment: Time) -> datetime:
    """Convert a time, or its text in ISO 8601, to UTC; one without a zone is read as UTC.

    Raises ``InvalidInput`` for a text that is no time, and when the result would be outside the calendar.
    """
    if isinstance(moment, str):
        return from_iso(moment)
    if not isinstance(moment, datetime):
        raise InvalidInput(f"{moment!r:.60} is not a time.", hint="Give a datetime, or a text in ISO 8601.")
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(f"{moment!r} has no counterpart in UTC.") from error
