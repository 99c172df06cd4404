"""Times are a datetime or a text everywhere, and both mean the same."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

import lukasa
from lukasa.core.clock import to_as_of, to_utc
from lukasa.memory import SERVICES, Memory
from lukasa.testing import FrozenClock

TEXT, TIME = "2026-03-01T12:00:00Z", datetime(2026, 3, 1, 12, tzinfo=UTC)
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "remember": lambda memory, time: memory.remember("We deploy on Tuesdays.", expires_at=time).unwrap().body,
    "confirm": lambda memory, time: memory.confirm(memory.remember("Ben leads.").unwrap().id, expires_at=time).unwrap().body,
    "vault.update": lambda memory, time: memory.vault.update(
        memory.remember("Ben leads.").unwrap().id, expires_at=time
    ).unwrap().body,
    "recall": lambda memory, time: [hit.text for hit in memory.recall("note", since=time, until=time, as_of=None)],
    "recall as of": lambda memory, time: [hit.text for hit in memory.recall("note", as_of=time)],
    "journal.write": lambda memory, time: memory.journal.write("note", "a note", happened_at=time).unwrap().happened_at,
    "journal.undo": lambda memory, time: bool(memory.journal.undo(author="ada", since=time)),
    "journal.quarantine": lambda memory, time: memory.journal.quarantine("ada", since=time).unwrap().body["since"],
    "journal.compact": lambda memory, time: memory.journal.compact(before=time).versions,
    "journal.get": lambda memory, time: memory.journal.get(lukasa.Key("shared", "note", "x"), as_of=time),
    "Query": lambda memory, time: [
        record.text
        for query in (
            lukasa.Query(since=time, until=time), lukasa.Query(recorded_since=time), lukasa.Query(as_of=time),
            lukasa.Query(kinds=("note",), since=time),
        )
        for record in memory.journal.read(query)
    ] + [match.score for match in memory.journal.find("note", lukasa.Query(since=time))],
    "context.load": lambda memory, time: memory.context.load("s", as_of=time),
    "context.transcript": lambda memory, time: list(memory.context.transcript("s", as_of=time)),
    "context.append": lambda memory, time: memory.context.append("s", "user", "Hello", timestamp=time).unwrap().happened_at,
    "context.add_fact": lambda memory, time: memory.context.add_fact("s", "The lift is broken", expires_at=time).unwrap().body,
    "episodes.record": lambda memory, time: memory.episodes.record("Fix it", timestamp=time).unwrap().body,
    "episodes.list": lambda memory, time: memory.episodes.list(since=time, until=time),
    "knowledge": lambda memory, time: memory.knowledge.add_fact("The port is 80", expires_at=time).unwrap().body,
    "forecasts.predict": lambda memory, time: memory.forecasts.predict("Rain", 0.5, due=time).unwrap().body["due"],
    "sessions.save_checkpoint": lambda memory, time: memory.sessions.save_checkpoint({}, "s", last_updated=time).unwrap_all()[0].body,
    "sessions.state": lambda memory, time: memory.sessions.state("s", as_of=time),
    "trust.score": lambda memory, time: memory.trust.score("ada", at=time),
    "trust.log_dissent": lambda memory, time: bool(memory.trust.log_dissent("ada", "Wrong.", timestamp=time)),
    "trust.set_probation": lambda memory, time: bool(memory.trust.set_probation("ada", time)),
    "consolidate": lambda memory, time: memory.consolidate(since=time, dry_run=True),
}  # fmt: skip


def in_a_new_store(call: Callable[[Any, Any], Any], time: Any) -> str:
    with lukasa.open("memory:", embedder="hash", clock=FrozenClock()) as memory:
        memory.journal.write("note", "a note", happened_at=TIME)
        return str(call(memory, time))


@pytest.mark.requirement("DOO-1")
def test_a_time_and_its_text_do_the_same_in_every_call() -> None:
    different = [name for name, call in CALLS.items() if in_a_new_store(call, TEXT) != in_a_new_store(call, TIME)]
    assert different == []


def test_what_is_no_time_is_invalid_input_in_a_query_too() -> None:
    with lukasa.open("memory:", embedder="hash") as memory:
        for wrong in ("yesterday", 5.5):
            with pytest.raises(lukasa.InvalidInput, match="is not a time"):
                list(memory.journal.read(lukasa.Query(since=wrong)))  # type: ignore[arg-type]


@pytest.mark.requirement("DOO-1")
def test_every_public_parameter_that_takes_a_time_takes_its_text() -> None:
    with lukasa.open("memory:", embedder="hash") as memory:
        things: list[type] = [Memory, *(type(getattr(memory, name)) for name in (*SERVICES, "jobs", "journal"))]
    only_times = [
        f"{thing.__name__}.{name}({parameter.name})"
        for thing in things
        for name, method in inspect.getmembers(thing, inspect.isfunction)
        if not name.startswith("_") or name == "__call__"
        for parameter in inspect.signature(method).parameters.values()
        if "datetime" in str(parameter.annotation) or "AsOf" in str(parameter.annotation)
    ]
    assert only_times == ["Conversations.fork(at)"], "a text is the id of a turn there"


@pytest.mark.requirement("DOO-1")
def test_a_text_that_is_no_time_is_refused_and_a_day_is_its_first_moment() -> None:
    assert to_utc("2026-03-01") == datetime(2026, 3, 1, tzinfo=UTC)
    assert to_as_of(7) == 7
    with lukasa.open("memory:", embedder="hash") as memory, pytest.raises(lukasa.InvalidInput, match="not a time"):
        memory.recall("note", since="last week")
