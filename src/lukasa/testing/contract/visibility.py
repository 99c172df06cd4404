"""Conformance tests of visibility: scopes outside a reach, and authors in quarantine."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast

import pytest

from lukasa.core.outcome import Conflict, Refused
from lukasa.core.record import Link, ValidatedDraft
from lukasa.core.scope import FULL_REACH, SYSTEM, Reach
from lukasa.storage.append import WriteReader
from lukasa.storage.engine import Engine, Reader
from lukasa.testing.clock import FrozenClock
from lukasa.testing.contract.base import (
    EngineTestBase,
    add,
    counts,
    delete_note,
    derived_links,
    descendants,
    find_ids,
    get,
    history,
    list_ids,
    log_entries,
    make_draft,
    make_key,
    matches,
    nearest_ids,
    neighbours,
    quarantine,
    read,
    refusal_code,
    release,
    requirement,
    text_of,
    tip,
    write_note,
)
from lukasa.testing.contract.example_store import PARTS_WITH_SYSTEM_RECORDS, dump_store

OPEN_REACH = Reach.of(["open"])


def fill_open_scope(engine: Engine) -> None:
    """Write versions, links, a tombstone and a vector into the scope ``open``."""
    first = write_note(engine, "a", "the secret is out", scope="open", author="ada", labels=("l=1",))
    for text in ("another word", "another word, changed"):
        write_note(engine, "b", text, scope="open", author="ben", links=derived_links(make_key("a", "open")))
    write_note(engine, "c", "gone", scope="open", links=(Link("about", make_key("x", "closed")),))
    delete_note(engine, "c", scope="open")
    engine.put_vectors("m", [(first.seq, 0, [1.0, 0.0])])


def fill_closed_scope(engine: Engine) -> None:
    """Write the same into the scope ``closed``, with links into ``open``."""
    b = make_key("b", "open")
    links = (*derived_links(make_key("a", "open")), Link("about", b))
    first = write_note(engine, "a", "a secret, secret word", scope="closed", author="ada", labels=("l=1",))
    write_note(engine, "b", "the secret changed", scope="closed", links=links, body={"s": "secret"})
    write_note(engine, "b", "the secret changed again", scope="closed", links=links)
    write_note(engine, "d", "secret", scope="closed", kind="fact", links=derived_links(b))
    write_note(engine, "x", "secret", scope="closed")
    delete_note(engine, "x", scope="closed")
    engine.put_vectors("m", [(first.seq, 0, [1.0, 0.0])])
    add(engine, make_draft("secret", id="keyed", scope="closed"), key="k")


class ScopeTests(EngineTestBase):
    """A caller learns nothing of a scope outside its reach and writes nothing there."""

    @requirement("LOG-4")
    @pytest.mark.parametrize(
        "query",
        [
            {},
            {"scopes": ("closed",)},
            {"scopes": ("closed", "open")},
            {"every_version": True},
            {"hidden": True, "every_version": True},
            {"labels": ("l=1",)},
            {"author": "ada"},
            {"kinds": ("fact",)},
            {"mentions": "secret"},
            {"as_of": 10_000},
            {"as_of": 10_000, "every_version": True},
            {"newest_first": True, "limit": 50},
        ],
        ids=lambda query: " ".join(query) or "all",
    )
    def test_no_query_returns_records_outside_the_reach(self, engine: Engine, query: dict[str, Any]) -> None:
        fill_open_scope(engine)
        fill_closed_scope(engine)
        assert {record.scope for record in read(engine, OPEN_REACH, **query)} <= {"open"}
        assert {match.record.scope for match in matches(engine, "secret word changed", OPEN_REACH, **query)} <= {"open"}
        with engine.snapshot(OPEN_REACH) as reader:
            assert "closed" not in repr(reader.tally())

    @requirement("LOG-4")
    def test_get_history_and_neighbours_return_nothing_of_a_closed_scope(self, engine: Engine) -> None:
        fill_closed_scope(engine)
        key = make_key("b", "closed")
        assert get(engine, key) is not None
        for how in ({}, {"version": 1}, {"version": 2}, {"as_of": 10_000}):
            assert get(engine, key, OPEN_REACH, **how) is None
        assert history(engine, key, OPEN_REACH) == []
        assert neighbours(engine, key, reach=OPEN_REACH) == []
        assert nearest_ids(engine, [1.0, 0.0], OPEN_REACH) == []

    @requirement("LOG-4")
    def test_records_at_positions_are_within_reach(self, engine: Engine) -> None:
        fill_open_scope(engine)
        fill_closed_scope(engine)
        with engine.snapshot(OPEN_REACH) as reader:
            found = cast("WriteReader", reader).records(range(1000))
            assert {record.scope for record in found} == {"open"}
            assert set(reader.texts_at(range(1000))) <= {record.seq for record in found}

    @requirement("LOG-4")
    def test_neighbours_shows_links_of_readable_records_only(self, engine: Engine) -> None:
        write_note(engine, "a", scope="open", links=(Link("about", make_key("x", "closed")),))
        write_note(engine, "x", scope="closed", links=(Link("about", make_key("a", "open")),))
        assert neighbours(engine, make_key("a", "open"), reach=OPEN_REACH) == [("about", "out", "x")]
        assert neighbours(engine, make_key("x", "closed"), reach=OPEN_REACH) == [("about", "in", "a")]
        assert neighbours(engine, make_key("a", "open")) == [("about", "in", "x"), ("about", "out", "x")]

    @requirement("LOG-4")
    def test_descendants_does_not_follow_links_through_a_closed_scope(self, engine: Engine) -> None:
        write_note(engine, "a", scope="open")
        write_note(engine, "b", scope="closed", links=derived_links(make_key("a", "open")))
        write_note(engine, "c", scope="open", links=derived_links(make_key("b", "closed")))
        assert descendants(engine, make_key("a", "open")) == ["b", "c"]
        assert descendants(engine, make_key("a", "open"), reach=OPEN_REACH) == []

    @requirement("LOG-4")
    def test_no_result_changes_when_a_closed_scope_is_filled(self, engine: Engine) -> None:
        fill_open_scope(engine)
        without = ("words", "old words")  # scores depend on the whole store; the order of matches is compared below
        before = dump_store(engine, OPEN_REACH, without=without)
        words = [find_ids(engine, word, OPEN_REACH) for word in ("secret", "word", "changed")]
        fill_closed_scope(engine)
        assert dump_store(engine, OPEN_REACH, without=without) == before
        assert [find_ids(engine, word, OPEN_REACH) for word in ("secret", "word", "changed")] == words
        assert counts(engine, OPEN_REACH) == {("open", "note"): (2, 5)}

    @requirement("LOG-4")
    def test_tip_reveals_nothing_of_a_closed_scope(self, engine: Engine) -> None:
        assert tip(engine, OPEN_REACH) == 0
        fill_closed_scope(engine)
        assert tip(engine, OPEN_REACH) == 0
        record = write_note(engine, "a", scope="open")
        fill_closed_scope(engine)
        assert tip(engine, OPEN_REACH) == record.seq

    @requirement("LOG-4")
    def test_an_empty_reach_reads_nothing(self, engine: Engine) -> None:
        fill_open_scope(engine)
        nothing = Reach.of([])
        assert read(engine, nothing) == []
        assert read(engine, nothing, every_version=True, labels=("l=1",)) == []
        assert find_ids(engine, "secret", nothing) == []
        assert counts(engine, nothing) == {}

    @requirement("LOG-4")
    def test_system_records_are_open_to_the_owner_only(self, engine: Engine) -> None:
        write_note(engine, "a", scope="open")
        record = quarantine(engine, "mallory")
        assert read(engine, scopes=(SYSTEM,)) == [record]
        for reach in (OPEN_REACH, Reach.of(["open", SYSTEM]), Reach.of([SYSTEM])):
            assert read(engine, reach, scopes=(SYSTEM,)) == []
            assert get(engine, record.key, reach) is None
            assert history(engine, record.key, reach) == []
            with engine.snapshot(reach) as reader:
                assert SYSTEM not in repr(reader.tally())
            assert refusal_code(engine.append(reach, [make_draft(id="x", scope=SYSTEM)])) == "scope_closed"

    @requirement("LOG-4")
    @pytest.mark.parametrize(
        "fields", [{}, {"expected": 0}, {"expected": 7}, {"deleted": True}, {"deleted": True, "expected": 1}]
    )
    @pytest.mark.parametrize("id", ["taken", "free"])
    def test_writing_to_a_closed_scope_is_refused_with_one_reason(
        self, engine: Engine, id: str, fields: dict[str, Any]
    ) -> None:
        write_note(engine, "taken", scope="closed")
        before = tip(engine)
        draft = make_draft(id=id, scope="closed", **fields)
        outcomes = [
            engine.append(OPEN_REACH, [draft]),
            engine.append(OPEN_REACH, lambda _: [draft]),
            engine.append(OPEN_REACH, [draft], key="k"),
            engine.append(OPEN_REACH, [make_draft(generated_id="taken", scope="closed")]),
        ]
        assert [outcome.code for outcome in outcomes if isinstance(outcome, Refused)] == ["scope_closed"] * 4
        assert len({outcome.reason for outcome in outcomes if isinstance(outcome, Refused)}) == 1
        assert tip(engine) == before

    @requirement("LOG-4")
    def test_a_readable_scope_need_not_be_writable(self, engine: Engine) -> None:
        write_note(engine, "a", scope="library")
        reader_only = Reach.of(["library", "own"], write=["own"])
        assert list_ids(engine, reader_only) == ["a"]
        assert refusal_code(engine.append(reader_only, [make_draft(id="a", scope="library")])) == "scope_closed"
        add(engine, make_draft(id="b", scope="own"), reach=reader_only)
        assert list_ids(engine, reader_only) == ["a", "b"]

    @requirement("LOG-4")
    def test_a_writable_scope_need_not_be_readable(self, engine: Engine) -> None:
        drop_box = Reach.of(["own"], write=["own", "box"])
        write_note(engine, "a", "theirs", scope="box")

        def condition(reader: Reader) -> Sequence[ValidatedDraft]:
            assert reader.get(make_key("a", "box")) is None
            assert reader.read() == []
            return [make_draft("mine", id="b", scope="box")]

        assert engine.append(drop_box, condition)
        assert list_ids(engine, drop_box) == []
        assert list_ids(engine, scopes=("box",)) == ["a", "b"]

    @requirement("LOG-4", "LOG-7")
    def test_replay_refuses_entries_outside_the_reach(self, engine: Engine, other_store: Engine) -> None:
        fill_open_scope(engine)
        fill_closed_scope(engine)
        write_note(other_store, "a", "a secret, secret word", scope="closed", author="ada", labels=("l=1",))
        before = tip(other_store)
        log = read(engine, every_version=True)
        results = list(other_store.replay(OPEN_REACH, log_entries(engine)))
        states = ["added" if record.scope == "open" else "refused" for record in log]
        assert [result.state for result in results] == states
        assert len({result.reason for result in results if result.state == "refused"}) == 1
        assert {record.scope for record in read(other_store, every_version=True, after=before)} == {"open"}

    @requirement("LOG-4", "LOG-6")
    def test_only_a_system_record_can_quarantine_an_author(self, engine: Engine, other_store: Engine) -> None:
        rule = {"author": "ada", "since": None, "reason": ""}
        write_note(other_store, "q", kind="quarantine", scope="open", body=rule)
        write_note(engine, "a", "hello", scope="closed", author="ada")
        (result,) = engine.replay(OPEN_REACH, log_entries(other_store))
        assert result.state in ("added", "refused")
        assert get(engine, make_key("a", "closed")) is not None
        assert find_ids(engine, "hello") == ["a"]

    @requirement("LOG-4", "LOG-6")
    def test_quarantine_hides_from_callers_with_a_limited_reach(self, engine: Engine, clock: FrozenClock) -> None:
        write_note(engine, "good", "word", scope="open", author="ada")
        clock.advance(1)
        write_note(engine, "bad", "word", scope="open", author="mallory")
        write_note(engine, "made", "word", scope="open", author="ada", links=derived_links(make_key("bad", "open")))
        quarantine(engine, "mallory", clock.now() - timedelta(seconds=1))
        assert list_ids(engine, OPEN_REACH) == ["good"]
        assert list_ids(engine, OPEN_REACH, every_version=True, hidden=True) == ["good"]
        assert find_ids(engine, "word", OPEN_REACH) == ["good"]
        assert descendants(engine, make_key("bad", "open"), reach=OPEN_REACH) == []
        assert descendants(engine, make_key("bad", "open"), reach=OPEN_REACH, hidden=True) == []

    @requirement("LOG-4")
    def test_two_callers_with_different_reaches_share_one_store(self, engine: Engine) -> None:
        ada, ben = Reach.of(["shared", "ada"]), Reach.of(["shared", "ben"])
        add(engine, make_draft("mine", id="x", scope="ada"), reach=ada)
        add(engine, make_draft("mine", id="x", scope="ben"), reach=ben)
        add(engine, make_draft("ours", id="y"), reach=ben)
        assert [(record.scope, record.id) for record in read(engine, ada)] == [("ada", "x"), ("shared", "y")]
        assert [(record.scope, record.id) for record in read(engine, ben)] == [("ben", "x"), ("shared", "y")]
        assert len(read(engine, FULL_REACH)) == 3


class QuarantineTests(EngineTestBase):
    """Quarantine hides at once from every read, derivations included; release restores everything."""

    @requirement("LOG-6")
    def test_every_read_is_without_records_of_a_quarantined_author(self, engine: Engine) -> None:
        about = Link("about", make_key("good"))
        record = write_note(engine, "bad", "a lie", author="mallory", labels=("l=1",), links=(about,))
        write_note(engine, "good", "a truth", author="ada")
        engine.put_vectors("m", [(record.seq, 0, [1.0, 0.0])])
        quarantine(engine, "mallory")
        assert get(engine, "bad") is None
        assert get(engine, "bad", version=1) is None
        assert get(engine, "bad", as_of=record.seq) is None
        assert get(engine, "bad", as_of=record.recorded_at) is None
        assert history(engine, "bad") == []
        assert list_ids(engine) == ["good"]
        assert list_ids(engine, every_version=True) == ["good"]
        assert list_ids(engine, as_of=record.seq) == []
        assert list_ids(engine, as_of=record.seq, every_version=True) == []
        assert list_ids(engine, labels=("l=1",)) == []
        assert list_ids(engine, author="mallory") == []
        assert list_ids(engine, mentions="lie") == []
        assert find_ids(engine, "lie") == []
        assert find_ids(engine, "lie", as_of=record.seq) == []
        assert find_ids(engine, "lie", every_version=True) == []
        assert nearest_ids(engine, [1.0, 0.0]) == []
        assert neighbours(engine, "good") == []
        assert neighbours(engine, "bad") == []
        assert counts(engine) == {("shared", "note"): (1, 2)}
        assert engine.verify().sound

    @requirement("LOG-6")
    def test_the_owner_can_read_hidden_records(self, engine: Engine) -> None:
        write_note(engine, "bad", "a lie", author="mallory")
        quarantine(engine, "mallory")
        assert list_ids(engine, hidden=True, every_version=True) == ["bad"]
        assert find_ids(engine, "lie", hidden=True, every_version=True) == ["bad"]
        write_note(engine, "child", "a lie retold", author="ada", links=derived_links("bad"))
        assert descendants(engine, "bad") == []
        assert descendants(engine, "bad", hidden=True) == ["child"]

    @requirement("LOG-6")
    def test_quarantine_hides_derivations_at_any_depth(self, engine: Engine) -> None:
        write_note(engine, "bad", author="mallory")
        write_note(engine, "child", author="ada", links=derived_links("bad"))
        write_note(engine, "grandchild", author="ben", links=derived_links("child"))
        write_note(engine, "round", author="ben", links=derived_links("grandchild", "round"))
        write_note(engine, "bystander", author="ada", links=(Link("about", make_key("bad")),))
        quarantine(engine, "mallory")
        assert list_ids(engine) == ["bystander"]
        assert list_ids(engine, every_version=True) == ["bystander"]
        assert engine.verify().sound

    @requirement("LOG-6")
    def test_a_derivation_counts_from_the_version_current_when_it_was_written(self, engine: Engine) -> None:
        write_note(engine, "topic", "good", author="ada")
        write_note(engine, "before", author="ada", links=derived_links("topic"))
        write_note(engine, "topic", "bad", author="mallory")
        write_note(engine, "during", author="ada", links=derived_links("topic"))
        write_note(engine, "topic", "good again", author="ada")
        write_note(engine, "after", author="ada", links=derived_links("topic"))
        quarantine(engine, "mallory")
        assert list_ids(engine) == ["before", "topic", "after"]
        assert engine.verify().sound

    @requirement("LOG-6")
    @pytest.mark.parametrize("deleted", [False, True])
    def test_the_version_before_a_hidden_one_or_a_hidden_tombstone_is_current(
        self, engine: Engine, deleted: bool
    ) -> None:
        good = write_note(engine, "a", "good", author="ada")
        hidden = write_note(engine, "a", "bad", author="mallory", deleted=deleted)
        quarantine(engine, "mallory")
        assert get(engine, "a") == good
        assert history(engine, "a") == [good]
        assert find_ids(engine, "good") == ["a"]
        assert counts(engine) == {("shared", "note"): (1, 2)}
        release(engine, "mallory")
        assert get(engine, "a") == (None if deleted else hidden)

    def test_a_record_stays_deleted_when_the_version_after_its_tombstone_is_hidden(self, engine: Engine) -> None:
        write_note(engine, "a", "good", author="ada")
        delete_note(engine, "a", author="ada")
        write_note(engine, "a", "bad", author="mallory")
        quarantine(engine, "mallory")
        assert get(engine, "a") is None
        assert list_ids(engine) == []
        assert engine.append(FULL_REACH, [make_draft("good again", id="a", author="ada", expected=0)])
        assert text_of(engine, "a") == "good again"

    @requirement("LOG-6")
    def test_a_quarantine_since_a_time_hides_later_records_only(self, engine: Engine, clock: FrozenClock) -> None:
        old = write_note(engine, "a", "old", author="mallory")
        since = clock.advance(60)
        write_note(engine, "a", "new", author="mallory")
        write_note(engine, "b", "new", author="mallory")
        quarantine(engine, "mallory", since)
        assert read(engine, scopes=("shared",)) == [old]
        assert history(engine, "a") == [old]
        assert find_ids(engine, "new") == []
        quarantine(engine, "mallory", since + timedelta(microseconds=1))
        assert list_ids(engine) == ["a", "b"]
        quarantine(engine, "mallory")
        assert list_ids(engine) == []
        assert engine.verify().sound

    @requirement("LOG-6")
    def test_later_writes_of_a_quarantined_author_are_hidden(self, engine: Engine) -> None:
        good = write_note(engine, "a", "good", author="ada")
        quarantine(engine, "mallory")
        assert write_note(engine, "a", "bad", author="mallory").version == 2
        assert add(engine, make_draft("bad", generated_id="made", author="mallory"))[0].version == 1
        delete_note(engine, "a", author="mallory")
        assert get(engine, "a") == good
        assert list_ids(engine) == ["a"]
        assert find_ids(engine, "bad") == []
        assert engine.verify().sound
        release(engine, "mallory")
        assert list_ids(engine) == ["made"]
        assert [version.version for version in history(engine, "a")] == [1, 2, 3]

    @requirement("LOG-6")
    def test_later_derivations_from_hidden_records_are_hidden(self, engine: Engine) -> None:
        write_note(engine, "bad", author="mallory")
        write_note(engine, "mixed", "good", author="ada")
        write_note(engine, "mixed", "bad", author="mallory")
        quarantine(engine, "mallory")
        write_note(engine, "child", author="ada", links=derived_links("bad"))
        write_note(engine, "grandchild", author="ada", links=derived_links("child"))
        write_note(engine, "fine", author="ada", links=derived_links("mixed", "unknown"))
        assert list_ids(engine) == ["mixed", "fine"]
        assert engine.verify().sound
        release(engine, "mallory")
        assert list_ids(engine) == ["bad", "mixed", "child", "grandchild", "fine"]

    @requirement("LOG-6")
    def test_a_derivation_from_a_hidden_record_of_the_same_batch_is_hidden(self, engine: Engine) -> None:
        quarantine(engine, "mallory")
        child = make_draft(id="child", author="ada", links=derived_links("bad"))
        add(engine, make_draft(id="bad", author="mallory"), child)
        assert list_ids(engine) == []
        engine.reindex()
        assert list_ids(engine) == []

    @requirement("LOG-6")
    def test_system_records_are_never_hidden(self, engine: Engine) -> None:
        write_note(engine, "bad", author="mallory")
        record = write_note(engine, "own", scope=SYSTEM, author="mallory", links=derived_links("bad"))
        rule = quarantine(engine, "mallory")
        later = write_note(engine, "later", scope=SYSTEM, author="mallory", links=derived_links("bad"))
        assert read(engine, scopes=(SYSTEM,)) == [record, rule, later]
        engine.reindex()
        assert read(engine, scopes=(SYSTEM,)) == [record, rule, later]

    @requirement("LOG-6")
    def test_release_restores_every_result(self, engine: Engine, clock: FrozenClock) -> None:
        first = write_note(engine, "a", "one", author="mallory", labels=("l=1",), links=(Link("about", make_key("b")),))
        write_note(engine, "b", "two", author="ada", links=derived_links("a"))
        clock.advance(1)
        write_note(engine, "a", "three", author="ada")
        write_note(engine, "a", "four", author="mallory")
        write_note(engine, "c", "five", author="mallory")
        delete_note(engine, "b", author="mallory")
        engine.put_vectors("m", [(first.seq, 0, [1.0, 0.0])])
        before = dump_store(engine, without=PARTS_WITH_SYSTEM_RECORDS)
        state = (read(engine), read(engine, every_version=True), counts(engine))
        quarantine(engine, "mallory")
        assert list_ids(engine) != [record.id for record in state[0]]
        release(engine, "mallory")
        own = ("shared",)
        assert dump_store(engine, without=PARTS_WITH_SYSTEM_RECORDS) == before
        assert (read(engine, scopes=own), read(engine, scopes=own, every_version=True), counts(engine)) == state
        assert engine.verify().sound

    @requirement("LOG-6")
    def test_a_record_under_two_quarantines_is_hidden_until_both_are_released(self, engine: Engine) -> None:
        write_note(engine, "m", author="mallory")
        write_note(engine, "n", author="nick", links=derived_links("m"))
        write_note(engine, "child", author="ada", links=derived_links("m", "n"))
        quarantine(engine, "mallory")
        quarantine(engine, "nick")
        write_note(engine, "later", author="ada", links=derived_links("child"))
        assert list_ids(engine) == []
        release(engine, "mallory")
        assert list_ids(engine) == ["m"]
        quarantine(engine, "mallory")
        release(engine, "nick")
        assert list_ids(engine) == []
        release(engine, "mallory")
        assert list_ids(engine) == ["m", "n", "child", "later"]
        assert engine.verify().sound

    @requirement("LOG-3", "LOG-6")
    def test_an_expected_version_is_the_visible_one_and_numbers_are_never_used_twice(self, engine: Engine) -> None:
        write_note(engine, "a", "one", author="ada")
        write_note(engine, "a", "two", author="mallory")
        quarantine(engine, "mallory")
        stale = make_draft("x", id="a", author="ada", expected=2)
        assert engine.append(FULL_REACH, [stale]) == Conflict(make_key("a"), 2, 1)
        (third,) = add(engine, make_draft("three", id="a", author="ada", expected=1))
        assert third.version == 3
        assert [version.version for version in history(engine, "a")] == [1, 3]
        release(engine, "mallory")
        assert get(engine, "a") == third
        assert [version.version for version in history(engine, "a")] == [1, 2, 3]

    @requirement("LOG-3", "LOG-6")
    def test_a_key_with_only_hidden_versions_is_free_for_other_authors(self, engine: Engine) -> None:
        write_note(engine, "a", "bad", author="mallory")
        quarantine(engine, "mallory")
        (mine,) = add(engine, make_draft("mine", id="a", author="ada", expected=0))
        assert mine.version == 2
        assert get(engine, "a") == mine
        release(engine, "mallory")
        assert get(engine, "a") == mine
        assert engine.verify().sound

    @pytest.mark.parametrize("author", ["unnamed", "'; --", "%", "\U0001f600", "mal\u2028lory", "x" * 200])
    def test_quarantine_accepts_any_author_and_hides_no_other(self, engine: Engine, author: str) -> None:
        write_note(engine, "theirs", author=author)
        write_note(engine, "other", author="ada")
        quarantine(engine, author)
        assert list_ids(engine) == ["other"]
        release(engine, author)
        assert list_ids(engine) == ["theirs", "other"]

    @requirement("LOG-6")
    def test_a_quarantine_is_in_force_after_reopening(self, engine: Engine, clock: FrozenClock) -> None:
        write_note(engine, "a", author="mallory")
        quarantine(engine, "mallory")
        engine = self.reopen(engine, clock)
        write_note(engine, "b", author="mallory")
        assert list_ids(engine) == []
        release(engine, "mallory")
        assert list_ids(engine) == ["a", "b"]

    @requirement("LOG-6")
    def test_a_quarantine_is_in_force_at_once_for_other_engines_on_the_store(
        self, engine: Engine, clock: FrozenClock
    ) -> None:
        other = self.open_second(engine, clock)
        write_note(other, "a", author="mallory")
        assert list_ids(other) == ["a"]
        quarantine(engine, "mallory")
        write_note(other, "b", author="mallory")
        assert list_ids(other) == []

    def test_a_repeated_key_of_a_hidden_record_writes_nothing(self, engine: Engine) -> None:
        draft = make_draft("a lie", id="a", author="mallory")
        add(engine, draft, key="k")
        quarantine(engine, "mallory")
        before = read(engine, every_version=True, hidden=True)
        engine.append(FULL_REACH, [draft], key="k")
        assert read(engine, every_version=True, hidden=True) == before
