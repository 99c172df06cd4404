"""Dates in a text: "on 3 May 2024", "in June", "last Friday", "two weeks ago".

Each is a period of days. A relative date is resolved against the moment of its text, so that "yesterday" in a record of a
Monday is a Sunday. A month without a year is that month of every year.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta

from lukasa.text.lexicon import WORDS, read_values
from lukasa.text.patterns import compile_on_use

_MONTHS = list(WORDS["months"])
_MONTH_NUMBERS = {name: number for number, name in enumerate(_MONTHS, 1)}
_MONTH_NUMBERS |= {name[:3]: number for name, number in _MONTH_NUMBERS.items()} | {"sept": 9}
_WEEKDAYS = list(WORDS["weekdays"])
_NUMBER_WORDS = {WORDS["numbers"][str(count)][0]: count for count in range(11)} | {
    "a": 1,
    "an": 1,
    "couple": 2,
    "few": 3,
}
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}

_MONTH = "(?P<month>" + "|".join(sorted(_MONTH_NUMBERS, key=len, reverse=True)) + r")\b\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?\b"
_YEAR = r"(?P<year>(?:19|20)\d\d)\b"
_ABSOLUTE_PATTERNS = [
    rf"\b{_YEAR}-(?P<mm>\d\d)-(?P<day>\d\d)\b",
    rf"\b{_DAY}(?: of)? {_MONTH},? {_YEAR}",
    rf"\b{_MONTH} {_DAY},? {_YEAR}",
    rf"\b{_MONTH},?(?: of)? {_YEAR}",
    rf"\b{_MONTH} {_DAY}",
    rf"\b{_DAY}(?: of)? {_MONTH}",
    rf"\b(?:in|of|during|since|by|until|late|early|mid|this|last|next|and|from|through)[ -]{_MONTH}",
    rf"\b(?:in|during|of|since|by|until|through|year) {_YEAR}",
]
_ABSOLUTE_RE = [compile_on_use(pattern, re.IGNORECASE) for pattern in _ABSOLUTE_PATTERNS]
_ABSOLUTE_HINT = compile_on_use(rf"[12][09][0-9][0-9]|\b(?:{'|'.join(name[:3] for name in _MONTHS)})", re.IGNORECASE)
_COUNT_PATTERN = r"(?P<count>\d{1,3}|" + "|".join(_NUMBER_WORDS) + r")(?: of)?"
_RELATIVE_RE = compile_on_use(
    rf"\b(?:(?P<near>the day after tomorrow|yesterday|today|tonight|tomorrow|last night|this morning|the other day|the day before yesterday)"
    rf"|(?P<which>last|past|this|next|previous|coming) (?P<unit>week(?:end)?|month|year|{'|'.join(_WEEKDAYS)}|{'|'.join(_SEASONS)})"
    rf"|{_COUNT_PATTERN} (?P<steps>day|week|weekend|month|year)s? (?P<way>ago|back|from now|later)"
    rf"|in {_COUNT_PATTERN.replace('count', 'ahead')} (?P<stride>day|week|month|year)s?)\b",
    re.IGNORECASE,
)
_RELATIVE_HINTS = [
    *("ago", "last ", "next ", "this ", "past ", "yesterday", "tomorrow", "today", "tonight", "from now"),
    *("previous ", "coming ", "back", "later", "other day", "in "),
]

_GERMAN_WORDS = read_values("relative_dates") | {forms[1]: day for day, forms in WORDS["weekdays"].items()}
_GERMAN_WEEKDAYS = "|".join(word for word, english in _GERMAN_WORDS.items() if english in _WEEKDAYS)
_CALENDAR_RE = compile_on_use(
    rf"{_RELATIVE_RE.pattern}(?! \()|\b(?P<near_german>heute|gestern|übermorgen|vorgestern|(?-i:(?<!heute )(?<!am )morgen))\b"
    rf"|\b(?P<which_german>(?:nächste|letzte|diese|kommende)[ns]?) (?P<unit_german>Woche|Wochenende|Monat|Jahr|{_GERMAN_WEEKDAYS})\b"
    rf"|\bin (?P<ahead_german>\d{{1,3}}|einem|einer|zwei|drei|vier|fünf|sechs) (?P<stride_german>Tag|Woche|Monat|Jahr)(?:en|n)?\b"
    rf"|\b(?:on|by|until|before|is|to|this|am|bis|ist) (?P<weekday>{'|'.join(_WEEKDAYS)}|{_GERMAN_WEEKDAYS})\b",
    re.IGNORECASE,
)
_CALENDAR_HINTS = [*_RELATIVE_HINTS, "day", "week", "month", "year", *_GERMAN_WORDS]


@dataclass(frozen=True, slots=True)
class Period:
    """Days from the first to the last; in every year if the text named no year."""

    first: date
    last: date
    repeats_yearly: bool = False

    def contains(self, day: date) -> bool:
        return any(period.first <= day <= period.last for period in self._occurrences_near(day.year))

    def days_since(self, day: date) -> int | None:
        """Return the days from the end of the period to a day: 0 inside the period, None before it."""
        gaps = [max((day - period.last).days, 0) for period in self._occurrences_near(day.year) if day >= period.first]
        return min(gaps, default=None)

    def overlaps(self, other: Period) -> bool:
        """Return whether the two have a day in common."""
        years = {other.first.year, other.last.year} if self.repeats_yearly else {self.first.year, self.last.year}
        return any(
            mine.first <= theirs.last and theirs.first <= mine.last
            for year in years
            for mine in self._occurrences_near(year)
            for theirs in other._occurrences_near(year)
        )

    @property
    def length(self) -> int:
        return (self.last - self.first).days + 1

    def _occurrences_near(self, year: int) -> list[Period]:
        if not self.repeats_yearly:
            return [self]
        periods: list[Period] = []
        for start_year in (year - 1, year):
            try:
                first = self.first.replace(year=start_year)
                periods.append(Period(first, first + (self.last - self.first)))
            except (ValueError, OverflowError):
                continue  # not every year has a 29 February
        return periods


def find_periods(text: str, moment: date | None = None) -> tuple[Period, ...]:
    """Return the periods that a text names; relative ones only when its moment is given."""
    found: dict[Period, None] = {}

    def collect(match: re.Match[str]) -> str:
        """Blank out a date, so that a later pattern does not read a part of it again."""
        period = _parse_absolute(match.groupdict())
        if period is None:
            return match[0]
        found[period] = None
        return " " * len(match[0])

    if _ABSOLUTE_HINT.search(text):
        rest = text
        for pattern in _ABSOLUTE_RE:
            rest = pattern.sub(collect, rest)
    lower = text.lower()
    if moment is not None and any(hint in lower for hint in _RELATIVE_HINTS):
        for match in _RELATIVE_RE.finditer(text):
            try:
                found[
                    _parse_relative({name: value.lower() for name, value in match.groupdict().items() if value}, moment)
                ] = None
            except (ValueError, OverflowError):
                continue  # a date a thousand years ago is outside the calendar
    return tuple(found)


def write_calendar_dates(text: str, moment: date, *, weekdays: bool = False) -> str:
    """Write the calendar date behind each relative one: "tomorrow (2026-03-11)"; ``weekdays`` includes "on Friday".

    A text that has a date of its own stays as it is.
    """
    lower = text.lower()
    has_hint = any(hint in lower for hint in _CALENDAR_HINTS)
    if not has_hint or any(pattern.search(text) for pattern in _ABSOLUTE_RE[:6]):
        return text

    def write(match: re.Match[str]) -> str:
        words = {name.removesuffix("_german"): value.lower() for name, value in match.groupdict().items() if value}
        if words.get("weekday") and not weekdays:
            return match[0]
        try:
            written = _format_period(words, moment)
        except (ValueError, OverflowError):
            return match[0]  # a date a thousand years ago is outside the calendar
        return f"{match[0]} ({written})" if written else match[0]

    return _CALENDAR_RE.sub(write, text)


def _format_period(words: dict[str, str], moment: date) -> str:
    """Return the date of a relative expression: a day, a week, a month or a year; "" when it is too vague."""
    words = {name: " ".join(_GERMAN_WORDS.get(word, word) for word in value.split()) for name, value in words.items()}
    if weekday := words.get("weekday"):
        return _calendar_period(weekday, 0, moment).first.isoformat()
    count = words.get("count") or words.get("ahead")
    unit = words.get("steps") or words.get("stride") or words.get("unit", "day")
    if count is not None:
        if count in ("couple", "few"):
            return ""
        distance = _parse_count(count) if words.get("way", "later") in {"from now", "later"} else -_parse_count(count)
        if unit in {"day", "week"}:
            return (moment + timedelta(distance * (7 if unit == "week" else 1))).isoformat()
        if unit == "month":
            year, month = divmod(moment.year * 12 + moment.month - 1 + distance, 12)
            return f"{year:04}-{month + 1:02}"
        return f"{moment.year + distance:04}" if unit == "year" else ""
    if words.get("near") == "the other day" or unit in _SEASONS:
        return ""
    period = _parse_relative(words, moment)
    if period.length == 1:
        return period.first.isoformat()
    if unit == "month":
        return period.first.isoformat()[:7]
    if unit == "year":
        return period.first.isoformat()[:4]
    return f"{period.first.isoformat()} to {period.last.isoformat()}"


def _parse_absolute(parts: dict[str, str | None]) -> Period | None:
    month = int(mm) if (mm := parts.get("mm")) else _MONTH_NUMBERS.get((parts.get("month") or "").lower(), 0)
    year, day = int(parts.get("year") or 0), int(parts.get("day") or 0)
    try:
        if not month:
            return Period(date(year, 1, 1), date(year, 12, 31))
        yearly = not year
        year = year or 2000  # a leap year, so that every day of a year can be named
        if day:
            return Period(date(year, month, day), date(year, month, day), yearly)
        return Period(date(year, month, 1), _last_day_of_month(year, month), yearly)
    except ValueError:
        return None


def _last_day_of_month(year: int, month: int) -> date:
    return date(year + month // 12, month % 12 + 1, 1) - timedelta(1)


def _parse_relative(groups: dict[str, str], moment: date) -> Period:
    if near := groups.get("near"):
        shifts = {
            "yesterday": -1,
            "last night": -1,
            "tomorrow": 1,
            "the day after tomorrow": 2,
            "the other day": -2,
            "the day before yesterday": -2,
        }
        return _period_around(moment + timedelta(shifts.get(near, 0)), 1 if near == "the other day" else 0)
    if which := groups.get("which"):
        return _calendar_period(groups["unit"], {"this": 0, "next": 1, "coming": 1}.get(which, -1), moment)
    if steps := groups.get("steps"):
        count = _parse_count(groups["count"])
        return _period_at_distance(steps, count if groups["way"] in {"from now", "later"} else -count, moment)
    return _period_at_distance(groups["stride"], _parse_count(groups["ahead"]), moment)


def _parse_count(word: str) -> int:
    return int(word) if word.isdigit() else _NUMBER_WORDS[word]


def _period_around(day: date, days: int) -> Period:
    return Period(day - timedelta(days), day + timedelta(days))


def _calendar_period(unit: str, offset: int, moment: date) -> Period:
    """Return the period of "this week", "last month" or "next Friday"."""
    if unit in _WEEKDAYS:
        gap = (_WEEKDAYS.index(unit) - moment.weekday()) % 7
        day = (
            moment + timedelta(gap or (7 if offset > 0 else 0))
            if offset >= 0
            else moment - timedelta((7 - gap) % 7 or 7)
        )
        return Period(day, day)
    monday = moment - timedelta(moment.weekday())
    if unit == "week":
        return Period(monday + timedelta(7 * offset), monday + timedelta(7 * offset + 6))
    if unit == "weekend":
        return Period(monday + timedelta(7 * offset + 5), monday + timedelta(7 * offset + 6))
    if unit == "month":
        year, month = divmod(moment.year * 12 + moment.month - 1 + offset, 12)
        return Period(date(year, month + 1, 1), _last_day_of_month(year, month + 1))
    if unit == "year":
        return Period(date(moment.year + offset, 1, 1), date(moment.year + offset, 12, 31))
    start = date(moment.year + offset if offset > 0 else moment.year, _SEASONS[unit], 1)
    if offset < 0 and start + timedelta(92) > moment:
        start = start.replace(year=start.year - 1)
    return Period(start, start + timedelta(91))


def _period_at_distance(unit: str, count: int, moment: date) -> Period:
    """Return the period of "three days ago" or "in two weeks"; longer units give wider periods."""
    if unit == "day":
        return _period_around(moment + timedelta(count), 0 if abs(count) < 4 else 1)
    if unit in {"week", "weekend"}:
        return _period_around(moment + timedelta(7 * count), 3)
    if unit == "month":
        return _period_around(moment + timedelta(round(30.4 * count)), 15)
    return Period(date(moment.year + count, 1, 1), date(moment.year + count, 12, 31))
