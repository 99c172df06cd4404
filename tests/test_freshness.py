"""How old a record is, when it was confirmed, and when it expires."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import lukasa
from lukasa import Draft
from lukasa.core.freshness import describe_age, describe_freshness, is_expired, stated_at

NOW = datetime(2026, 5, 20, 12, tzinfo=UTC)


@pytest.mark.requirement("RCL-7")
@pytest.mark.parametrize(
    ("days", "age"),
    [
        (0, "today"),
        (0.6, "yesterday"),
        (3, "3 days ago"),
        (13, "13 days ago"),
        (14, "2 weeks ago"),
        (60, "8 weeks ago"),
        (65, "2 months ago"),
        (400, "13 months ago"),
        (800, "2 years ago"),
        (-3, "in 3 days"),
    ],
)
def test_an_age_is_said_in_days_weeks_months_or_years(days, age):
    assert describe_age(NOW - timedelta(days=days), NOW) == age


@pytest.mark.requirement("RCL-7")
def test_times_in_a_body_that_are_no_times_are_ignored():
    with lukasa.open("memory:", embedder="hash") as memory:
        body = {"expires_at": "soon", "confirmed_at": 7, "stated_at": None}
        record = memory.journal.append(Draft("note", "Tea is at four.", body)).unwrap()
    assert not is_expired(record, NOW)
    assert stated_at(record) == record.moment
    assert describe_freshness(record, record.moment) == "today"
