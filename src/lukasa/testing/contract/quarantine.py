"""The exam: quarantine hides an author's records and all that came of them, until it is lifted."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lukasa.engine import Engine
from lukasa.outcome import Conflict
from lukasa.record import Link
from lukasa.scope import EVERYTHING, SYSTEM
from lukasa.testing.clock import FrozenClock
from lukasa.testing.contract.examination import (
    Examination,
    add,
    at,
    counts,
    derived,
    descendants,
    drop,
    found,
    get,
    history,
    keeps,
    listed,
    nearest,
    neighbours,
    note,
    propose,
    quarantine,
    read,
    release,
    text_of,
)
from lukasa.testing.contract.observation import observe

_BOOKS = ("log", "versions", "live", "newest first", "tally", "tip", "get", "history", "as of position", "as of time")


class Quarantine(Examination):
    """Hidden at once from every verb, with what was derived; reversible without a trace."""

    @keeps("LOG-6")
    def test_every_verb_hides_at_once_what_the_author_wrote(self, engine: Engine) -> None:
        record = note(engine, "bad", "a lie", author="mallory", labels=("l=1",), links=(Link("about", at("good")),))
        note(engine, "good", "a truth", author="ada")
        engine.put_vectors("m", [(record.seq, 0, [1.0, 0.0])])
        quarantine(engine, "mallory")
        assert get(engine, "bad") is None
        assert get(engine, "bad", version=1) is None
        assert get(engine, "bad", as_of=record.seq) is None
        assert get(engine, "bad", as_of=record.recorded_at) is None
        assert history(engine, "bad") == []
        assert listed(engine) == ["good"]
        assert listed(engine, every_version=True) == ["good"]
        assert listed(engine, as_of=record.seq) == []
        assert listed(engine, as_of=record.seq, every_version=True) == []
        assert listed(engine, labels=("l=1",)) == []
        assert listed(engine, author="mallory") == []
        assert listed(engine, mentions="lie") == []
        assert found(engine, "lie") == []
        assert found(engine, "lie", as_of=record.seq) == []
        assert found(engine, "lie", every_version=True) == []
        assert nearest(engine, [1.0, 0.0]) == []
        assert neighbours(engine, "good") == []
        assert neighbours(engine, "bad") == []
        assert counts(engine) == {("shared", "note"): (1, 2)}
        assert engine.verify().sound

    @keeps("LOG-6")
    def test_the_owner_can_look_at_what_is_hidden(self, engine: Engine) -> None:
        note(engine, "bad", "a lie", author="mallory")
        quarantine(engine, "mallory")
        assert listed(engine, hidden=True, every_version=True) == ["bad"]
        assert found(engine, "lie", hidden=True, every_version=True) == ["bad"]
        note(engine, "child", "a lie retold", author="ada", links=derived("bad"))
        assert descendants(engine, "bad") == []
        assert descendants(engine, "bad", hidden=True) == ["child"]

    @keeps("LOG-6")
    def test_what_was_derived_is_hidden_however_indirectly(self, engine: Engine) -> None:
        note(engine, "bad", author="mallory")
        note(engine, "child", author="ada", links=derived("bad"))
        note(engine, "grandchild", author="ben", links=derived("child"))
        note(engine, "round", author="ben", links=derived("grandchild", "round"))
        note(engine, "bystander", author="ada", links=(Link("about", at("bad")),))
        quarantine(engine, "mallory")
        assert listed(engine) == ["bystander"]
        assert listed(engine, every_version=True) == ["bystander"]
        assert engine.verify().sound

    @keeps("LOG-6")
    def test_derivation_is_from_the_version_that_stood_then(self, engine: Engine) -> None:
        note(engine, "topic", "good", author="ada")
        note(engine, "before", author="ada", links=derived("topic"))
        note(engine, "topic", "bad", author="mallory")
        note(engine, "during", author="ada", links=derived("topic"))
        note(engine, "topic", "good again", author="ada")
        note(engine, "after", author="ada", links=derived("topic"))
        quarantine(engine, "mallory")
        assert listed(engine) == ["before", "topic", "after"]
        assert engine.verify().sound

    @keeps("LOG-6")
    def test_the_version_before_reappears(self, engine: Engine) -> None:
        good = note(engine, "a", "good", author="ada")
        note(engine, "a", "bad", author="mallory")
        quarantine(engine, "mallory")
        assert get(engine, "a") == good
        assert history(engine, "a") == [good]
        assert found(engine, "good") == ["a"]
        assert counts(engine) == {("shared", "note"): (1, 2)}

    @keeps("LOG-6")
    def test_a_deletion_is_hidden_too_and_its_record_reappears(self, engine: Engine) -> None:
        good = note(engine, "a", "good", author="ada")
        drop(engine, "a", author="mallory")
        quarantine(engine, "mallory")
        assert get(engine, "a") == good
        release(engine, "mallory")
        assert get(engine, "a") is None

    def test_a_tombstone_that_reappears_keeps_its_record_deleted(self, engine: Engine) -> None:
        note(engine, "a", "good", author="ada")
        drop(engine, "a", author="ada")
        note(engine, "a", "bad", author="mallory")
        quarantine(engine, "mallory")
        assert get(engine, "a") is None
        assert listed(engine) == []
        assert engine.append(EVERYTHING, [propose("good again", id="a", author="ada", expected=0)])
        assert text_of(engine, "a") == "good again"

    @keeps("LOG-6")
    def test_only_what_was_written_since_is_hidden(self, engine: Engine, clock: FrozenClock) -> None:
        old = note(engine, "a", "old", author="mallory")
        since = clock.advance(60)
        note(engine, "a", "new", author="mallory")
        note(engine, "b", "new", author="mallory")
        quarantine(engine, "mallory", since)
        assert read(engine, scopes=("shared",)) == [old]
        assert history(engine, "a") == [old]
        assert found(engine, "new") == []
        quarantine(engine, "mallory", since + timedelta(microseconds=1))
        assert listed(engine) == ["a", "b"]
        quarantine(engine, "mallory")
        assert listed(engine) == []
        assert engine.verify().sound

    @keeps("LOG-6")
    def test_later_writes_of_the_author_are_hidden_as_they_come(self, engine: Engine) -> None:
        good = note(engine, "a", "good", author="ada")
        quarantine(engine, "mallory")
        assert note(engine, "a", "bad", author="mallory").version == 2
        assert add(engine, propose("bad", made="made", author="mallory"))[0].version == 1
        drop(engine, "a", author="mallory")
        assert get(engine, "a") == good
        assert listed(engine) == ["a"]
        assert found(engine, "bad") == []
        assert engine.verify().sound
        release(engine, "mallory")
        assert listed(engine) == ["made"]
        assert [version.version for version in history(engine, "a")] == [1, 2, 3]

    @keeps("LOG-6")
    def test_later_derivations_from_what_is_hidden_are_hidden_as_they_come(self, engine: Engine) -> None:
        note(engine, "bad", author="mallory")
        note(engine, "mixed", "good", author="ada")
        note(engine, "mixed", "bad", author="mallory")
        quarantine(engine, "mallory")
        note(engine, "child", author="ada", links=derived("bad"))
        note(engine, "grandchild", author="ada", links=derived("child"))
        note(engine, "fine", author="ada", links=derived("mixed", "unheard of"))
        assert listed(engine) == ["mixed", "fine"]
        assert engine.verify().sound
        release(engine, "mallory")
        assert listed(engine) == ["bad", "mixed", "child", "grandchild", "fine"]

    @keeps("LOG-6")
    def test_one_batch_hides_what_it_derives_from_its_own_hidden_records(self, engine: Engine) -> None:
        quarantine(engine, "mallory")
        add(engine, propose(id="bad", author="mallory"), propose(id="child", author="ada", links=derived("bad")))
        assert listed(engine) == []
        engine.reindex()
        assert listed(engine) == []

    @keeps("LOG-6")
    def test_the_stores_own_books_are_never_hidden(self, engine: Engine) -> None:
        note(engine, "bad", author="mallory")
        record = note(engine, "own", scope=SYSTEM, author="mallory", links=derived("bad"))
        book = quarantine(engine, "mallory")
        later = note(engine, "later", scope=SYSTEM, author="mallory", links=derived("bad"))
        assert read(engine, scopes=(SYSTEM,)) == [record, book, later]
        engine.reindex()
        assert read(engine, scopes=(SYSTEM,)) == [record, book, later]

    @keeps("LOG-6")
    def test_release_restores_exactly(self, engine: Engine, clock: FrozenClock) -> None:
        first = note(engine, "a", "one", author="mallory", labels=("l=1",), links=(Link("about", at("b")),))
        note(engine, "b", "two", author="ada", links=derived("a"))
        clock.advance(1)
        note(engine, "a", "three", author="ada")
        note(engine, "a", "four", author="mallory")
        note(engine, "c", "five", author="mallory")
        drop(engine, "b", author="mallory")
        engine.put_vectors("m", [(first.seq, 0, [1.0, 0.0])])
        before = observe(engine, without=_BOOKS)
        state = (read(engine), read(engine, every_version=True), counts(engine))
        quarantine(engine, "mallory")
        assert listed(engine) != [record.id for record in state[0]]
        release(engine, "mallory")
        own = ("shared",)
        assert observe(engine, without=_BOOKS) == before
        assert (read(engine, scopes=own), read(engine, scopes=own, every_version=True), counts(engine)) == state
        assert engine.verify().sound

    @keeps("LOG-6")
    def test_what_two_quarantines_hide_stays_hidden_until_both_are_lifted(self, engine: Engine) -> None:
        note(engine, "m", author="mallory")
        note(engine, "n", author="nick", links=derived("m"))
        note(engine, "child", author="ada", links=derived("m", "n"))
        quarantine(engine, "mallory")
        quarantine(engine, "nick")
        note(engine, "later", author="ada", links=derived("child"))
        assert listed(engine) == []
        release(engine, "mallory")
        assert listed(engine) == ["m"]
        quarantine(engine, "mallory")
        release(engine, "nick")
        assert listed(engine) == []
        release(engine, "mallory")
        assert listed(engine) == ["m", "n", "child", "later"]
        assert engine.verify().sound

    @keeps("LOG-3", "LOG-6")
    def test_others_expect_the_version_they_see_and_numbers_are_never_used_twice(self, engine: Engine) -> None:
        note(engine, "a", "one", author="ada")
        note(engine, "a", "two", author="mallory")
        quarantine(engine, "mallory")
        assert engine.append(EVERYTHING, [propose("x", id="a", author="ada", expected=2)]) == Conflict(at("a"), 2, 1)
        (third,) = add(engine, propose("three", id="a", author="ada", expected=1))
        assert third.version == 3
        assert [version.version for version in history(engine, "a")] == [1, 3]
        release(engine, "mallory")
        assert get(engine, "a") == third
        assert [version.version for version in history(engine, "a")] == [1, 2, 3]

    @keeps("LOG-3", "LOG-6")
    def test_a_key_whose_every_version_is_hidden_is_free_for_others(self, engine: Engine) -> None:
        note(engine, "a", "bad", author="mallory")
        quarantine(engine, "mallory")
        (mine,) = add(engine, propose("mine", id="a", author="ada", expected=0))
        assert mine.version == 2
        assert get(engine, "a") == mine
        release(engine, "mallory")
        assert get(engine, "a") == mine
        assert engine.verify().sound

    @pytest.mark.parametrize("author", ["nobody", "'; --", "%", "\U0001f600", "mal\u2028lory", "x" * 200])
    def test_any_author_can_be_put_in_quarantine_and_no_other_is_touched(self, engine: Engine, author: str) -> None:
        note(engine, "theirs", author=author)
        note(engine, "other", author="ada")
        quarantine(engine, author)
        assert listed(engine) == ["other"]
        release(engine, author)
        assert listed(engine) == ["theirs", "other"]

    @keeps("LOG-6")
    def test_a_quarantine_outlives_a_reopening(self, engine: Engine, clock: FrozenClock) -> None:
        note(engine, "a", author="mallory")
        quarantine(engine, "mallory")
        engine = self.reopen(engine, clock)
        note(engine, "b", author="mallory")
        assert listed(engine) == []
        release(engine, "mallory")
        assert listed(engine) == ["a", "b"]

    @keeps("LOG-6")
    def test_another_engine_on_the_store_hides_at_once_too(self, engine: Engine, clock: FrozenClock) -> None:
        other = self.alongside(engine, clock)
        note(other, "a", author="mallory")
        assert listed(other) == ["a"]
        quarantine(engine, "mallory")
        note(other, "b", author="mallory")
        assert listed(other) == []

    def test_a_repeated_key_does_not_show_what_is_hidden(self, engine: Engine) -> None:
        reach = EVERYTHING
        add(engine, propose("a lie", id="a", author="mallory"), reach=reach, key="k")
        quarantine(engine, "mallory")
        before = read(engine, every_version=True, hidden=True)
        engine.append(reach, [propose("a lie", id="a", author="mallory")], key="k")
        assert read(engine, every_version=True, hidden=True) == before
