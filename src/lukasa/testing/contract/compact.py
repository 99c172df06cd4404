"""The exam: dropping what is superseded."""

from __future__ import annotations

from lukasa.record import Link
from lukasa.storage.engine import Engine
from lukasa.testing.clock import FrozenClock
from lukasa.testing.contract.base import (
    EngineTestBase,
    counts,
    delete_note,
    derived_links,
    find_ids,
    get,
    history,
    list_ids,
    make_key,
    neighbours,
    quarantine,
    read,
    release,
    requirement,
    text_of,
    write_note,
)
from lukasa.testing.contract.dump import dump_store
from lukasa.testing.contract.example_store import fill_example_store


class CompactTests(EngineTestBase):
    """Dropping what is superseded, and nothing else."""

    @requirement("LOG-5")
    def test_the_newest_stays_and_the_superseded_goes(self, engine: Engine) -> None:
        for text in ("one", "two", "three"):
            newest = write_note(engine, "a", text, labels=(f"l={text}",), links=(Link("about", make_key(text)),))
        other = write_note(engine, "b", "only")
        assert engine.compact().versions == 2
        assert history(engine, "a") == [newest]
        assert read(engine, every_version=True) == [newest, other]
        assert find_ids(engine, "one two three", every_version=True) == ["a"]
        assert list_ids(engine, labels=("l=one",), every_version=True) == []
        assert neighbours(engine, "one") == []
        assert counts(engine) == {("shared", "note"): (2, 2)}
        assert engine.compact().versions == 0
        assert engine.verify().sound

    @requirement("LOG-5")
    def test_the_present_is_the_same_after_as_before(self, engine: Engine, clock: FrozenClock) -> None:
        fill_example_store(engine, clock)
        present = ("live", "newest first", "get", "neighbours", "labels", "words", "vectors", "tip")
        seen = dump_store(engine)
        before = {name: seen[name] for name in present}
        engine.compact()
        seen = dump_store(engine)
        assert {name: seen[name] for name in present} == before
        assert engine.verify().sound

    @requirement("LOG-5")
    def test_a_tombstone_stays_so_that_the_record_stays_deleted(self, engine: Engine) -> None:
        write_note(engine, "a", "one")
        tombstone = delete_note(engine, "a")
        assert engine.compact().versions == 1
        assert history(engine, "a") == [tombstone]
        assert get(engine, "a") is None
        assert write_note(engine, "a").version == 3

    @requirement("LOG-5", "LOG-6")
    def test_what_is_hidden_stays_and_can_be_released(self, engine: Engine) -> None:
        good = write_note(engine, "a", "good", author="ada")
        write_note(engine, "a", "bad", author="mallory")
        write_note(engine, "a", "worse", author="mallory")
        quarantine(engine, "mallory")
        assert engine.compact().versions == 0
        assert get(engine, "a") == good
        release(engine, "mallory")
        assert text_of(engine, "a") == "worse"
        assert [version.text for version in history(engine, "a")] == ["good", "bad", "worse"]

    @requirement("LOG-5")
    def test_only_what_was_superseded_before_a_time_goes(self, engine: Engine, clock: FrozenClock) -> None:
        write_note(engine, "a", "one")
        clock.advance(60)
        write_note(engine, "a", "two")
        moment = clock.advance(60)
        write_note(engine, "a", "three")
        clock.advance(60)
        write_note(engine, "a", "four")
        assert engine.compact(before=moment).versions == 1
        assert [version.text for version in history(engine, "a")] == ["two", "three", "four"]
        assert text_of(engine, "a", as_of=moment) == "three"
        assert engine.verify().sound

    def test_positions_are_never_used_twice(self, engine: Engine) -> None:
        positions = [write_note(engine, "a").seq for _ in range(3)]
        engine.compact()
        positions.append(write_note(engine, "b").seq)
        assert positions == sorted(set(positions))

    @requirement("LOG-6", "RCL-5")
    def test_rebuilding_after_compacting_changes_nothing_that_can_be_seen(
        self, engine: Engine, clock: FrozenClock
    ) -> None:
        fill_example_store(engine, clock)
        engine.compact()
        before = dump_store(engine)
        engine.reindex()
        assert dump_store(engine) == before

    @requirement("LOG-6")
    def test_a_derivation_made_before_a_quarantine_stays_visible_when_its_good_source_version_is_compacted(
        self, engine: Engine
    ) -> None:
        write_note(engine, "topic", "bad", author="mallory")
        write_note(engine, "topic", "good", author="ada")
        write_note(engine, "child", author="ada", links=derived_links("topic"))
        write_note(engine, "topic", "better", author="ada")
        quarantine(engine, "mallory")
        assert list_ids(engine) == ["child", "topic"]
        engine.compact()
        engine.reindex()
        assert list_ids(engine) == ["child", "topic"]

    @requirement("LOG-6")
    def test_a_derivation_made_under_a_quarantine_stays_visible_when_its_good_source_version_is_compacted(
        self, engine: Engine
    ) -> None:
        write_note(engine, "topic", "good", author="ada")
        write_note(engine, "topic", "bad", author="mallory")
        quarantine(engine, "mallory")
        write_note(engine, "child", author="ada", links=derived_links("topic"))
        write_note(engine, "topic", "better", author="ada")
        assert list_ids(engine) == ["child", "topic"]
        engine.compact()
        engine.reindex()
        assert list_ids(engine) == ["child", "topic"]

    @requirement("LOG-6", "RCL-5")
    def test_a_quarantine_that_was_lifted_is_remembered_when_rebuilding(self, engine: Engine) -> None:
        write_note(engine, "topic", "bad", author="mallory")
        write_note(engine, "topic", "worse", author="nick")
        quarantine(engine, "mallory")
        quarantine(engine, "nick")
        write_note(engine, "child", author="ada", links=derived_links("topic"))
        release(engine, "nick")
        assert list_ids(engine) == ["topic"]
        engine.compact()
        before = dump_store(engine)
        engine.reindex()
        assert dump_store(engine) == before
