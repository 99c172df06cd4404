"""How fresh a record is: when it was stated, when it was last confirmed, and whether it has expired.

A record may say in its body when it expires (``expires_at``), when somebody last confirmed it (``confirmed_at``) and when
its text was stated (``stated_at``, only after a confirmation, which is a version of its own). Reading changes none of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from lukasa.core.clock import Time, from_iso, to_iso, to_utc
from lukasa.core.record import Key, Record
from lukasa.errors import InvalidInput

EXPIRES_AT, CONFIRMED_AT, STATED_AT = "expires_at", "confirmed_at", "stated_at"
_DAYS_PER_WEEK, _DAYS_PER_MONTH, _DAYS_PER_YEAR = 7, 30.44, 365.25


def read_time(record: Record, name: str) -> datetime | None:
    """Return a time of the record's body; ``None`` if it is missing or no time."""
    value = record.body.get(name)
    try:
        return from_iso(value) if isinstance(value, str) else None
    except InvalidInput:
        return None


def is_expired(record: Record, now: datetime) -> bool:
    """Return whether the record says that it does not hold any longer at this time."""
    expires_at = read_time(record, EXPIRES_AT)
    return expires_at is not None and expires_at <= now


def stated_at(record: Record) -> datetime:
    """Return when the text of the record was stated; a confirmation does not change that."""
    return read_time(record, STATED_AT) or record.moment


def last_affirmed_at(record: Record) -> datetime:
    """Return when the record was last stated or confirmed."""
    return max(stated_at(record), read_time(record, CONFIRMED_AT) or record.moment)


def confirmation_times(record: Record) -> dict[str, Any]:
    """Return the times of a confirmation in the record's body, if there was one."""
    return {name: record.body[name] for name in (CONFIRMED_AT, STATED_AT) if name in record.body}


def confirmed_body(record: Record, now: datetime, expires_at: Time | None = None) -> dict[str, Any]:
    """Return the body of the next version of a record that is confirmed now; ``expires_at`` sets a new expiry."""
    times = {CONFIRMED_AT: to_iso(now), STATED_AT: to_iso(stated_at(record))}
    if expires_at is not None:
        times[EXPIRES_AT] = to_iso(to_utc(expires_at))
    return {**record.body, **times}


def describe_age(moment: datetime, now: datetime) -> str:
    """Return how long ago a moment was, in whole days or more: today, 3 days ago, 2 weeks ago."""
    if moment - now > timedelta(days=1):
        return f"in {_count_days((moment - now).days)}"
    days = (now.date() - moment.date()).days
    if days <= 0:
        return "today"
    return "yesterday" if days == 1 else f"{_count_days(days)} ago"


def _count_days(days: int) -> str:
    for length, unit, first in (
        (_DAYS_PER_YEAR, "year", 2 * _DAYS_PER_YEAR),
        (_DAYS_PER_MONTH, "month", 2 * _DAYS_PER_MONTH),
        (_DAYS_PER_WEEK, "week", 2 * _DAYS_PER_WEEK),
    ):
        if days >= first:
            return f"{int(days / length)} {unit}s"
    return "1 day" if days == 1 else f"{days} days"


def describe_left_out(expired: Iterable[Key], orders: Iterable[Key] = ()) -> str:
    """Return the line of a block that names the records that it leaves out, and why; "" if there are none."""
    reasons = (("expired", expired), ("they give orders that nobody confirmed", orders))
    named = ((why, ", ".join(map(str, keys))) for why, keys in reasons)
    return ". ".join(f"Left out because {why}: {names}" for why, names in named if names)


def describe_freshness(record: Record, now: datetime) -> str:
    """Return how old a record is, when it was last confirmed and when it expires or expired."""
    parts = [describe_age(stated_at(record), now)]
    if (confirmed_at := read_time(record, CONFIRMED_AT)) is not None:
        parts.append(f"confirmed {describe_age(confirmed_at, now)}")
    if (expires_at := read_time(record, EXPIRES_AT)) is not None:
        verb = "expired" if expires_at <= now else "expires"
        parts.append(f"{verb} {to_iso(expires_at)[:10]}")
    return ", ".join(parts)
