"""The exam: dropping what is superseded."""

from __future__ import annotations

from lukasa.engine import Engine
from lukasa.record import Link
from lukasa.testing.clock import FrozenClock
from lukasa.testing.contract.examination import (
    Examination,
    at,
    counts,
    derived,
    drop,
    found,
    get,
    history,
    keeps,
    listed,
    neighbours,
    note,
    quarantine,
    read,
    release,
    text_of,
)
from lukasa.testing.contract.lived_in import live_in
from lukasa.testing.contract.observation import observe


class Compacting(Examination):
    """Dropping what is superseded, and nothing else."""

    @keeps("LOG-5")
    def test_the_newest_stays_and_the_superseded_goes(self, engine: Engine) -> None:
        for text in ("one", "two", "three"):
            newest = note(engine, "a", text, labels=(f"l={text}",), links=(Link("about", at(text)),))
        other = note(engine, "b", "only")
        assert engine.compact().versions == 2
        assert history(engine, "a") == [newest]
        assert read(engine, every_version=True) == [newest, other]
        assert found(engine, "one two three", every_version=True) == ["a"]
        assert listed(engine, labels=("l=one",), every_version=True) == []
        assert neighbours(engine, "one") == []
        assert counts(engine) == {("shared", "note"): (2, 2)}
        assert engine.compact().versions == 0
        assert engine.verify().sound

    @keeps("LOG-5")
    def test_the_present_is_the_same_after_as_before(self, engine: Engine, clock: FrozenClock) -> None:
        live_in(engine, clock)
        present = ("live", "newest first", "get", "neighbours", "labels", "words", "vectors", "tip")
        seen = observe(engine)
        before = {name: seen[name] for name in present}
        engine.compact()
        seen = observe(engine)
        assert {name: seen[name] for name in present} == before
        assert engine.verify().sound

    @keeps("LOG-5")
    def test_a_tombstone_stays_so_that_the_record_stays_deleted(self, engine: Engine) -> None:
        note(engine, "a", "one")
        tombstone = drop(engine, "a")
        assert engine.compact().versions == 1
        assert history(engine, "a") == [tombstone]
        assert get(engine, "a") is None
        assert note(engine, "a").version == 3

    @keeps("LOG-5", "LOG-6")
    def test_what_is_hidden_stays_and_can_be_released(self, engine: Engine) -> None:
        good = note(engine, "a", "good", author="ada")
        note(engine, "a", "bad", author="mallory")
        note(engine, "a", "worse", author="mallory")
        quarantine(engine, "mallory")
        assert engine.compact().versions == 0
        assert get(engine, "a") == good
        release(engine, "mallory")
        assert text_of(engine, "a") == "worse"
        assert [version.text for version in history(engine, "a")] == ["good", "bad", "worse"]

    @keeps("LOG-5")
    def test_only_what_was_superseded_before_a_time_goes(self, engine: Engine, clock: FrozenClock) -> None:
        note(engine, "a", "one")
        clock.advance(60)
        note(engine, "a", "two")
        moment = clock.advance(60)
        note(engine, "a", "three")
        clock.advance(60)
        note(engine, "a", "four")
        assert engine.compact(before=moment).versions == 1
        assert [version.text for version in history(engine, "a")] == ["two", "three", "four"]
        assert text_of(engine, "a", as_of=moment) == "three"
        assert engine.verify().sound

    def test_positions_are_never_used_twice(self, engine: Engine) -> None:
        positions = [note(engine, "a").seq for _ in range(3)]
        engine.compact()
        positions.append(note(engine, "b").seq)
        assert positions == sorted(set(positions))

    @keeps("LOG-6", "RCL-5")
    def test_rebuilding_after_compacting_changes_nothing_that_can_be_seen(
        self, engine: Engine, clock: FrozenClock
    ) -> None:
        live_in(engine, clock)
        engine.compact()
        before = observe(engine)
        engine.reindex()
        assert observe(engine) == before

    @keeps("LOG-6")
    def test_a_derivation_made_before_a_quarantine_stays_visible_when_its_good_source_version_is_compacted(
        self, engine: Engine
    ) -> None:
        note(engine, "topic", "bad", author="mallory")
        note(engine, "topic", "good", author="ada")
        note(engine, "child", author="ada", links=derived("topic"))
        note(engine, "topic", "better", author="ada")
        quarantine(engine, "mallory")
        assert listed(engine) == ["child", "topic"]
        engine.compact()
        engine.reindex()
        assert listed(engine) == ["child", "topic"]

    @keeps("LOG-6")
    def test_a_derivation_made_under_a_quarantine_stays_visible_when_its_good_source_version_is_compacted(
        self, engine: Engine
    ) -> None:
        note(engine, "topic", "good", author="ada")
        note(engine, "topic", "bad", author="mallory")
        quarantine(engine, "mallory")
        note(engine, "child", author="ada", links=derived("topic"))
        note(engine, "topic", "better", author="ada")
        assert listed(engine) == ["child", "topic"]
        engine.compact()
        engine.reindex()
        assert listed(engine) == ["child", "topic"]

    @keeps("LOG-6", "RCL-5")
    def test_a_quarantine_that_was_lifted_is_remembered_when_rebuilding(self, engine: Engine) -> None:
        note(engine, "topic", "bad", author="mallory")
        note(engine, "topic", "worse", author="nick")
        quarantine(engine, "mallory")
        quarantine(engine, "nick")
        note(engine, "child", author="ada", links=derived("topic"))
        release(engine, "nick")
        assert listed(engine) == ["topic"]
        engine.compact()
        before = observe(engine)
        engine.reindex()
        assert observe(engine) == before
