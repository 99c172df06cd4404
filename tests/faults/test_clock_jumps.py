"""A jumping clock: order follows the position, and nothing is hidden or dropped because of it."""

from datetime import UTC, datetime, timedelta

import pytest

import lukasa
from lukasa.storage.engine import Query

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


class JumpingClock:
    """A clock that returns the time it was set to."""

    def __init__(self):
        self.time = NOON

    def now(self):
        return self.time


@pytest.fixture
def clock():
    return JumpingClock()


JUMPS = [
    timedelta(0),
    timedelta(days=40000),
    timedelta(days=-20000),
    timedelta(seconds=-1),
    timedelta(0),
    timedelta(days=-700000),
    timedelta(days=365),
    timedelta(microseconds=1),
]


@pytest.fixture
def jumped(store, clock):
    """A store written to while the clock jumped back and forth, with one record changed at every jump."""
    with lukasa.open(store, clock=clock) as memory:
        for number, jump in enumerate(JUMPS):
            clock.time = NOON + jump
            memory.journal.write("note", f"number {number}", {"number": number}, author="a")
            memory.journal.write("state", f"state {number}", {"number": number}, id="only", author="b")
        yield memory


@pytest.mark.requirement("LOG-1", "LOG-2")
def test_order_and_newest_version_follow_the_position_whatever_the_clock_says(jumped):
    journal = jumped.journal
    numbers = list(range(len(JUMPS)))
    notes = list(journal.read(Query(kinds=("note",))))
    assert [record.body["number"] for record in notes] == numbers
    assert [record.seq for record in notes] == sorted(record.seq for record in notes)
    newest_first = journal.read(Query(kinds=("note",), newest_first=True))
    assert [record.body["number"] for record in newest_first] == numbers[::-1]
    (state,) = journal.read(Query(kinds=("state",)))
    assert state.body["number"] == numbers[-1]
    assert [record.version for record in journal.history(state.key)] == [number + 1 for number in numbers]
    assert journal.get(state.key, as_of=journal.history(state.key)[3].seq).body["number"] == 3
    assert jumped.verify().sound


@pytest.mark.requirement("LOG-5")
@pytest.mark.parametrize("jump", [timedelta(days=-40000), timedelta(days=40000)], ids=["back", "forth"])
def test_compaction_after_a_clock_jump_drops_only_superseded_versions(jumped, clock, jump):
    clock.time = NOON + jump
    live = {(record.key, record.digest) for record in jumped.journal.read()}
    jumped.compact()
    jumped.journal.reindex()
    kept = list(jumped.journal.read(Query(kinds=("note", "state"))))
    assert {(record.key, record.digest) for record in kept} == live
    assert len(kept) == len(JUMPS) + 1
    assert jumped.verify().sound


@pytest.mark.requirement("LOG-6")
@pytest.mark.parametrize("jump", [timedelta(days=-40000), timedelta(days=40000)], ids=["back", "forth"])
def test_a_quarantine_after_a_clock_jump_hides_only_its_author_and_release_shows_everything(jumped, clock, jump):
    clock.time = NOON + jump
    before = list(jumped.journal.read())
    assert jumped.journal.quarantine("a")
    assert {record.author for record in jumped.journal.read(Query(kinds=("note", "state")))} == {"b"}
    clock.time = NOON
    assert jumped.journal.release("a")
    assert list(jumped.journal.read(Query(kinds=("note", "state")))) == before
    assert jumped.verify().sound


@pytest.mark.requirement("LOG-7")
def test_a_log_written_under_a_jumping_clock_is_exported_and_imported_unchanged(jumped, exported, tmp_path):
    jumped.export(tmp_path / "log.jsonl")
    with lukasa.open(tmp_path / "other.db") as other:
        other.import_(tmp_path / "log.jsonl")
        assert exported(other) == exported(jumped)
        assert other.verify().sound


@pytest.mark.requirement("LOG-3")
def test_generated_ids_are_unique_when_the_clock_stops_or_repeats(store, clock):
    with lukasa.open(store, clock=clock) as memory, lukasa.open(store, clock=clock) as twin:
        for jump in (0, 1, 0, -1, 0):
            clock.time = NOON + timedelta(seconds=jump)
            for each in (memory, twin):
                assert each.journal.write("note", "again")
        assert len(list(memory.journal.read())) == 10
