"""The exam: quarantine hides an author's records and all that came of them, until it is lifted."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lukasa.outcome import Conflict
from lukasa.record import Link
from lukasa.scope import FULL_REACH, SYSTEM
from lukasa.storage.engine import Engine
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
    make_draft,
    make_key,
    nearest_ids,
    neighbours,
    quarantine,
    read,
    release,
    requirement,
    text_of,
    write_note,
)
from lukasa.testing.contract.dump import dump_store

_PARTS_WITH_SYSTEM_RECORDS = (
    "log",
    "versions",
    "live",
    "newest first",
    "tally",
    "tip",
    "get",
    "history",
    "as of position",
    "as of time",
)


class QuarantineTests(EngineTestBase):
    """Hidden at once from every verb, with what was derived; reversible without a trace."""

    @requirement("LOG-6")
    def test_every_verb_hides_at_once_what_the_author_wrote(self, engine: Engine) -> None:
        record = write_note(
            engine, "bad", "a lie", author="mallory", labels=("l=1",), links=(Link("about", make_key("good")),)
        )
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
    def test_the_owner_can_look_at_what_is_hidden(self, engine: Engine) -> None:
        write_note(engine, "bad", "a lie", author="mallory")
        quarantine(engine, "mallory")
        assert list_ids(engine, hidden=True, every_version=True) == ["bad"]
        assert find_ids(engine, "lie", hidden=True, every_version=True) == ["bad"]
        write_note(engine, "child", "a lie retold", author="ada", links=derived_links("bad"))
        assert descendants(engine, "bad") == []
        assert descendants(engine, "bad", hidden=True) == ["child"]

    @requirement("LOG-6")
    def test_what_was_derived_is_hidden_however_indirectly(self, engine: Engine) -> None:
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
    def test_derivation_is_from_the_version_that_stood_then(self, engine: Engine) -> None:
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
    def test_the_version_before_reappears(self, engine: Engine) -> None:
        good = write_note(engine, "a", "good", author="ada")
        write_note(engine, "a", "bad", author="mallory")
        quarantine(engine, "mallory")
        assert get(engine, "a") == good
        assert history(engine, "a") == [good]
        assert find_ids(engine, "good") == ["a"]
        assert counts(engine) == {("shared", "note"): (1, 2)}

    @requirement("LOG-6")
    def test_a_deletion_is_hidden_too_and_its_record_reappears(self, engine: Engine) -> None:
        good = write_note(engine, "a", "good", author="ada")
        delete_note(engine, "a", author="mallory")
        quarantine(engine, "mallory")
        assert get(engine, "a") == good
        release(engine, "mallory")
        assert get(engine, "a") is None

    def test_a_tombstone_that_reappears_keeps_its_record_deleted(self, engine: Engine) -> None:
        write_note(engine, "a", "good", author="ada")
        delete_note(engine, "a", author="ada")
        write_note(engine, "a", "bad", author="mallory")
        quarantine(engine, "mallory")
        assert get(engine, "a") is None
        assert list_ids(engine) == []
        assert engine.append(FULL_REACH, [make_draft("good again", id="a", author="ada", expected=0)])
        assert text_of(engine, "a") == "good again"

    @requirement("LOG-6")
    def test_only_what_was_written_since_is_hidden(self, engine: Engine, clock: FrozenClock) -> None:
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
    def test_later_writes_of_the_author_are_hidden_as_they_come(self, engine: Engine) -> None:
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
    def test_later_derivations_from_what_is_hidden_are_hidden_as_they_come(self, engine: Engine) -> None:
        write_note(engine, "bad", author="mallory")
        write_note(engine, "mixed", "good", author="ada")
        write_note(engine, "mixed", "bad", author="mallory")
        quarantine(engine, "mallory")
        write_note(engine, "child", author="ada", links=derived_links("bad"))
        write_note(engine, "grandchild", author="ada", links=derived_links("child"))
        write_note(engine, "fine", author="ada", links=derived_links("mixed", "unheard of"))
        assert list_ids(engine) == ["mixed", "fine"]
        assert engine.verify().sound
        release(engine, "mallory")
        assert list_ids(engine) == ["bad", "mixed", "child", "grandchild", "fine"]

    @requirement("LOG-6")
    def test_one_batch_hides_what_it_derives_from_its_own_hidden_records(self, engine: Engine) -> None:
        quarantine(engine, "mallory")
        add(
            engine,
            make_draft(id="bad", author="mallory"),
            make_draft(id="child", author="ada", links=derived_links("bad")),
        )
        assert list_ids(engine) == []
        engine.reindex()
        assert list_ids(engine) == []

    @requirement("LOG-6")
    def test_the_stores_own_books_are_never_hidden(self, engine: Engine) -> None:
        write_note(engine, "bad", author="mallory")
        record = write_note(engine, "own", scope=SYSTEM, author="mallory", links=derived_links("bad"))
        book = quarantine(engine, "mallory")
        later = write_note(engine, "later", scope=SYSTEM, author="mallory", links=derived_links("bad"))
        assert read(engine, scopes=(SYSTEM,)) == [record, book, later]
        engine.reindex()
        assert read(engine, scopes=(SYSTEM,)) == [record, book, later]

    @requirement("LOG-6")
    def test_release_restores_exactly(self, engine: Engine, clock: FrozenClock) -> None:
        first = write_note(engine, "a", "one", author="mallory", labels=("l=1",), links=(Link("about", make_key("b")),))
        write_note(engine, "b", "two", author="ada", links=derived_links("a"))
        clock.advance(1)
        write_note(engine, "a", "three", author="ada")
        write_note(engine, "a", "four", author="mallory")
        write_note(engine, "c", "five", author="mallory")
        delete_note(engine, "b", author="mallory")
        engine.put_vectors("m", [(first.seq, 0, [1.0, 0.0])])
        before = dump_store(engine, without=_PARTS_WITH_SYSTEM_RECORDS)
        state = (read(engine), read(engine, every_version=True), counts(engine))
        quarantine(engine, "mallory")
        assert list_ids(engine) != [record.id for record in state[0]]
        release(engine, "mallory")
        own = ("shared",)
        assert dump_store(engine, without=_PARTS_WITH_SYSTEM_RECORDS) == before
        assert (read(engine, scopes=own), read(engine, scopes=own, every_version=True), counts(engine)) == state
        assert engine.verify().sound

    @requirement("LOG-6")
    def test_what_two_quarantines_hide_stays_hidden_until_both_are_lifted(self, engine: Engine) -> None:
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
    def test_others_expect_the_version_they_see_and_numbers_are_never_used_twice(self, engine: Engine) -> None:
        write_note(engine, "a", "one", author="ada")
        write_note(engine, "a", "two", author="mallory")
        quarantine(engine, "mallory")
        assert engine.append(FULL_REACH, [make_draft("x", id="a", author="ada", expected=2)]) == Conflict(
            make_key("a"), 2, 1
        )
        (third,) = add(engine, make_draft("three", id="a", author="ada", expected=1))
        assert third.version == 3
        assert [version.version for version in history(engine, "a")] == [1, 3]
        release(engine, "mallory")
        assert get(engine, "a") == third
        assert [version.version for version in history(engine, "a")] == [1, 2, 3]

    @requirement("LOG-3", "LOG-6")
    def test_a_key_whose_every_version_is_hidden_is_free_for_others(self, engine: Engine) -> None:
        write_note(engine, "a", "bad", author="mallory")
        quarantine(engine, "mallory")
        (mine,) = add(engine, make_draft("mine", id="a", author="ada", expected=0))
        assert mine.version == 2
        assert get(engine, "a") == mine
        release(engine, "mallory")
        assert get(engine, "a") == mine
        assert engine.verify().sound

    @pytest.mark.parametrize("author", ["nobody", "'; --", "%", "\U0001f600", "mal\u2028lory", "x" * 200])
    def test_any_author_can_be_put_in_quarantine_and_no_other_is_touched(self, engine: Engine, author: str) -> None:
        write_note(engine, "theirs", author=author)
        write_note(engine, "other", author="ada")
        quarantine(engine, author)
        assert list_ids(engine) == ["other"]
        release(engine, author)
        assert list_ids(engine) == ["theirs", "other"]

    @requirement("LOG-6")
    def test_a_quarantine_outlives_a_reopening(self, engine: Engine, clock: FrozenClock) -> None:
        write_note(engine, "a", author="mallory")
        quarantine(engine, "mallory")
        engine = self.reopen(engine, clock)
        write_note(engine, "b", author="mallory")
        assert list_ids(engine) == []
        release(engine, "mallory")
        assert list_ids(engine) == ["a", "b"]

    @requirement("LOG-6")
    def test_another_engine_on_the_store_hides_at_once_too(self, engine: Engine, clock: FrozenClock) -> None:
        other = self.open_second(engine, clock)
        write_note(other, "a", author="mallory")
        assert list_ids(other) == ["a"]
        quarantine(engine, "mallory")
        write_note(other, "b", author="mallory")
        assert list_ids(other) == []

    def test_a_repeated_key_does_not_show_what_is_hidden(self, engine: Engine) -> None:
        reach = FULL_REACH
        add(engine, make_draft("a lie", id="a", author="mallory"), reach=reach, key="k")
        quarantine(engine, "mallory")
        before = read(engine, every_version=True, hidden=True)
        engine.append(reach, [make_draft("a lie", id="a", author="mallory")], key="k")
        assert read(engine, every_version=True, hidden=True) == before
