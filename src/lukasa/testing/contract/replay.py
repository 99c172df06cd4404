"""Conformance tests of ``replay``: adding the entries of another log."""

from __future__ import annotations

from lukasa.core.record import Key, Link
from lukasa.core.scope import FULL_REACH
from lukasa.storage.engine import Engine
from lukasa.testing.clock import FrozenClock
from lukasa.testing.contract.base import (
    EngineFactory,
    EngineTestBase,
    add,
    counts,
    delete_note,
    derived_links,
    find_ids,
    get,
    history,
    list_ids,
    log_entries,
    make_draft,
    make_key,
    neighbours,
    owner_journal,
    quarantine,
    read,
    release,
    requirement,
    text_of,
    tip,
    write_note,
)
from lukasa.testing.contract.example_store import dump_store, fill_example_store


def replay_states(engine: Engine, log: list[tuple[bytes, bytes]]) -> list[str]:
    return [result.state for result in engine.replay(FULL_REACH, log)]


class ReplayTests(EngineTestBase):
    """``replay`` adds each entry verbatim and once."""

    @requirement("LOG-7")
    def test_replay_adds_a_log_verbatim_and_gives_the_same_state(
        self, engine: Engine, other_store: Engine, clock: FrozenClock
    ) -> None:
        fill_example_store(engine, clock)
        log = log_entries(engine)
        assert set(replay_states(other_store, log)) == {"added"}
        assert log_entries(other_store) == log
        original, replayed = (dump_store(e, without=("vectors",), positions=False) for e in (engine, other_store))
        assert replayed == original
        assert other_store.verify().sound

    @requirement("LOG-7")
    def test_replay_leaves_a_present_entry_unchanged(self, engine: Engine, other_store: Engine) -> None:
        for id in "aab":
            write_note(engine, id, "hello")
        log = log_entries(engine)
        assert replay_states(other_store, log[:2]) == ["added", "added"]
        assert replay_states(other_store, log + log) == ["present", "present", "added", *["present"] * 3]
        before = dump_store(other_store)
        assert replay_states(other_store, log + log) == ["present"] * 6
        assert replay_states(engine, log) == ["present"] * 3
        assert dump_store(other_store) == before

    @requirement("LOG-7")
    def test_replay_returns_one_result_per_entry_in_order(self, engine: Engine, other_store: Engine) -> None:
        add(engine, *(make_draft(f"number {number}", id=f"{number}") for number in range(1_500)))
        log = log_entries(engine)
        log[700] = (log[700][0], log[701][1])
        assert replay_states(other_store, log) == ["added"] * 700 + ["refused"] + ["added"] * 799
        assert counts(other_store) == {("shared", "note"): (1_499, 1_499)}

    @requirement("LOG-5", "LOG-7")
    def test_replay_refuses_an_entry_that_does_not_match_its_digest(self, engine: Engine, other_store: Engine) -> None:
        write_note(engine, "a", "hello")
        ((entry, digest),) = log_entries(engine)
        altered = [
            (entry.replace(b"hello", b"jello"), digest),
            (entry, digest[::-1]),
            (entry, b""),
            (entry[:-1], digest),
        ]
        for pair in (*altered, (b"not an entry", b"\0" * 32)):
            assert replay_states(other_store, [pair]) == ["refused"]
        assert tip(other_store) == 0

    @requirement("LOG-7")
    def test_replay_refuses_another_record_with_the_same_key_and_version(
        self, engine: Engine, other_store: Engine
    ) -> None:
        write_note(engine, "a", "theirs")
        write_note(engine, "a", "theirs too")
        write_note(engine, "b", "theirs")
        write_note(other_store, "a", "ours")
        (first, *_) = results = list(other_store.replay(FULL_REACH, log_entries(engine)))
        assert [result.state for result in results] == ["refused", "added", "added"]
        assert first.reason
        assert [version.text for version in history(other_store, "a")] == ["ours", "theirs too"]

    def test_replay_keeps_the_first_of_two_entries_for_one_version(
        self, engine: Engine, other_store: Engine, make_engine: EngineFactory
    ) -> None:
        write_note(engine, "a", "first")
        write_note(other_store, "a", "second")
        target = make_engine()
        assert replay_states(target, log_entries(engine) + log_entries(other_store)) == ["added", "refused"]
        assert text_of(target, "a") == "first"

    @requirement("LOG-5", "LOG-7")
    def test_replay_refuses_erased_records(self, engine: Engine, other_store: Engine) -> None:
        write_note(engine, "a", "erased")
        write_note(engine, "a", "erased too")
        write_note(engine, "b", "kept")
        log = log_entries(engine)
        owner_journal(engine).erase(make_key("a"))
        assert replay_states(engine, log) == ["refused", "refused", "present"]
        assert get(engine, "a") is None
        assert "refused" not in replay_states(other_store, log_entries(engine))
        assert replay_states(other_store, log) == ["refused", "refused", "present"], "the receipt is part of the log"

    @requirement("LOG-5", "LOG-7")
    def test_replay_adds_a_record_written_after_the_erasure_of_its_key(
        self, engine: Engine, clock: FrozenClock, other_store: Engine
    ) -> None:
        write_note(engine, "a", "erased")
        owner_journal(engine).erase(make_key("a"))
        clock.advance(60)
        write_note(engine, "a", "written later")
        log = log_entries(engine)
        assert replay_states(other_store, log[:1]) == ["added"], "the receipt comes first"
        assert replay_states(other_store, log) == ["present", "added"]
        assert text_of(other_store, "a") == "written later"

    @requirement("LOG-7")
    def test_replay_accepts_versions_in_any_order(self, engine: Engine, other_store: Engine) -> None:
        versions = [
            write_note(engine, "a", "one", labels=("l=1",), links=(Link("about", make_key("x")),)),
            write_note(engine, "a", "two"),
            delete_note(engine, "a"),
            write_note(engine, "a", "four", labels=("l=4",), links=(Link("about", make_key("y")),)),
        ]
        log = log_entries(engine)
        assert replay_states(other_store, [log[3], log[0], log[2], log[1]]) == ["added"] * 4
        assert [version.digest for version in history(other_store, "a")] == [version.digest for version in versions]
        assert text_of(other_store, "a") == "four"
        assert [find_ids(other_store, word) for word in ("one", "two", "four")] == [[], [], ["a"]]
        assert list_ids(other_store, labels=("l=1",)) == []
        assert list_ids(other_store, labels=("l=4",)) == ["a"]
        assert neighbours(other_store, "a") == [("about", "out", "y")]
        assert counts(other_store) == {("shared", "note"): (1, 4)}
        assert write_note(other_store, "a").version == 5
        assert other_store.verify().sound

    def test_replaying_an_older_version_does_not_restore_a_deleted_record(
        self, engine: Engine, other_store: Engine
    ) -> None:
        write_note(engine, "a", "one")
        delete_note(engine, "a")
        log = log_entries(engine)
        assert replay_states(other_store, log[::-1]) == ["added", "added"]
        assert get(other_store, "a") is None
        assert counts(other_store) == {("shared", "note"): (0, 2)}
        assert other_store.verify().sound

    def test_replay_assigns_growing_positions_to_late_versions(self, engine: Engine, other_store: Engine) -> None:
        write_note(engine, "a", "one")
        write_note(engine, "a", "two")
        positions = [write_note(other_store, "x").seq]
        for entry in reversed(log_entries(engine)):
            replay_states(other_store, [entry])
            positions.append(tip(other_store))
        other_store.compact()
        positions.append(write_note(other_store, "y").seq)
        assert positions == sorted(set(positions))
        assert list_ids(other_store, after=positions[2]) == ["y"], "a reader continues from its last position"

    @requirement("LOG-6", "LOG-7")
    def test_replayed_quarantines_and_releases_take_effect(self, engine: Engine, other_store: Engine) -> None:
        write_note(engine, "bad", "word", author="mallory")
        write_note(engine, "child", "word", author="ada", links=derived_links("bad"))
        quarantine(engine, "mallory")
        write_note(engine, "later", "word", author="mallory")
        write_note(engine, "grandchild", "word", author="ada", links=derived_links("later"))
        replay_states(other_store, log_entries(engine))
        assert list_ids(other_store) == []
        assert find_ids(other_store, "word") == []
        release(engine, "mallory")
        replay_states(other_store, log_entries(engine))
        assert list_ids(other_store) == ["bad", "child", "later", "grandchild"]
        assert other_store.verify().sound

    @requirement("LOG-6", "LOG-7")
    def test_the_newest_version_of_a_quarantine_counts_in_any_replay_order(
        self, engine: Engine, other_store: Engine
    ) -> None:
        write_note(engine, "a", author="mallory")
        quarantine(engine, "mallory")
        release(engine, "mallory")
        replay_states(other_store, log_entries(engine)[::-1])
        assert list_ids(other_store) == ["a"]
        other_store.reindex()
        assert list_ids(other_store) == ["a"]

    @requirement("LOG-6", "LOG-7")
    def test_replayed_entries_of_a_quarantined_author_are_hidden(self, engine: Engine, other_store: Engine) -> None:
        write_note(engine, "bad", "word", author="mallory")
        write_note(engine, "child", "word", author="ada", links=derived_links("bad"))
        write_note(engine, "fine", "word", author="ada")
        quarantine(other_store, "mallory")
        assert replay_states(other_store, log_entries(engine)) == ["added"] * 3
        assert list_ids(other_store) == ["fine"]
        assert find_ids(other_store, "word") == ["fine"]
        other_store.reindex()
        assert list_ids(other_store) == ["fine"]
        release(other_store, "mallory")
        assert list_ids(other_store) == ["bad", "child", "fine"]
        assert other_store.verify().sound

    @requirement("LOG-7")
    def test_two_stores_that_exchange_their_logs_hold_the_same_records(
        self, engine: Engine, other_store: Engine
    ) -> None:
        for store, name in ((engine, "one"), (other_store, "two")):
            write_note(store, name, f"from {name}", scope=name)
            write_note(store, name, f"again from {name}", scope=name)
        replay_states(engine, log_entries(other_store))
        replay_states(other_store, log_entries(engine))
        assert {record.digest for record in read(engine)} == {record.digest for record in read(other_store)}
        assert get(engine, Key("two", "note", "two")) is not None
        assert engine.verify().sound
        assert other_store.verify().sound
