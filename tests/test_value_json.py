"""Values as JSON and back: what ``read_value`` reads is what ``write_value`` was given."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import given

from lukasa.core.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.core.record import Key, Link, Record
from lukasa.experience import Episode
from lukasa.recall import QuestionKind
from lukasa.testing import bodies
from lukasa.value_json import read_value, write_value

KEY = Key("shared", "note", "n-1")
MOMENT = datetime(2026, 11, 19, 9, 30, 0, 250_000, tzinfo=UTC)
RECORD = Record(
    "note", "n-1", "shared", "ada", "manual", 2, 7, MOMENT, MOMENT, None, False, {"n": [1, {"x": None}]}, "Hello",
    (Link("cites", KEY),), ("tag=a",), b"\x00\xff",
)  # fmt: skip


class Pair(NamedTuple):
    """A named tuple."""

    left: int
    right: Key | str


@dataclass(frozen=True, slots=True)
class Node:
    """A value that holds one of its own class, and a live object."""

    _live: Any
    name: str
    below: tuple[Node, ...] = ()


@pytest.mark.requirement("DOO-8")
@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Record, RECORD),
        (Record | None, None),
        (Episode, Episode(RECORD)),
        (Sequence[Outcome], (Accepted((RECORD,), repeated=True), Refused("pii", "No."), Conflict(KEY, 1, 2))),
        (tuple[Key, ...] | Refused, (KEY,)),
        (tuple[Key, ...] | Refused, Refused("pii", "No.")),
        (tuple[tuple[str, tuple[str, ...]], ...], (("a", ("b", "c")),)),
        (Pair, Pair(1, KEY)),
        (Pair, Pair(1, "n-1")),
        (Mapping[date, float], {date(2026, 11, 19): 1.0}),
        (Mapping[Key, int], {KEY: 3}),
        (dict[str, Any], {"a": {"b": [1, 2.5, True, None]}}),
        (frozenset[str], frozenset({"b", "a"})),
        (datetime | int | None, MOMENT),
        (datetime | int | None, 4),
        (timedelta, timedelta(seconds=1.5)),
        (PurePosixPath, PurePosixPath("a/b")),
        (QuestionKind, next(iter(QuestionKind))),
        (Literal["a", "b"] | None, "b"),
        (int | str, "4"),
        (Literal["a"] | Key, KEY),
        (None | list[str], ["a"]),
        (bytes, b"\x01"),
    ],
)
def test_what_is_read_is_what_was_written(hint: Any, value: Any) -> None:
    found = read_value(hint, json.loads(json.dumps(write_value(value))))
    assert found == value
    assert type(found) is type(value)


def test_a_field_that_is_live_is_not_written_and_is_given_to_the_reader() -> None:
    value = Node("engine", "a", (Node("engine", "b"),))
    assert write_value(value) == {"name": "a", "below": [{"name": "b", "below": []}]}
    assert read_value(Node, write_value(value), {"_live": "engine"}) == value


def test_fields_that_a_newer_server_sends_are_passed_over() -> None:
    assert read_value(Key, {**write_value(KEY), "more": 1}) == KEY
    assert list(read_value(Iterator[Key], [write_value(KEY)])) == [KEY]


@given(bodies())
def test_any_json_stays_as_it_is(content: Any) -> None:
    assert read_value(Mapping[str, Any], json.loads(json.dumps(write_value(content)))) == content
