"""The exam: proving the store whole and rebuilding what is derived."""

from __future__ import annotations

import pytest

from lukasa.engine import Engine
from lukasa.testing.clock import FrozenClock
from lukasa.testing.contract.examination import (
    Examination,
    add,
    at,
    derived,
    drop,
    found,
    keeps,
    lines,
    nearest,
    note,
    propose,
    quarantine,
    release,
)
from lukasa.testing.contract.lived_in import live_in
from lukasa.testing.contract.observation import observe


class Proof(Examination):
    """``verify`` proves the store whole, and finds what is not."""

    @keeps("LOG-5")
    def test_an_empty_store_is_sound(self, engine: Engine) -> None:
        verdict = engine.verify()
        assert verdict.sound
        assert verdict.versions == 0

    @keeps("LOG-5")
    def test_a_lived_in_store_is_sound_and_looking_changes_nothing(self, engine: Engine, clock: FrozenClock) -> None:
        live_in(engine, clock)
        before = observe(engine)
        verdict = engine.verify()
        assert verdict.findings == ()
        assert verdict.versions == len(lines(engine))
        assert observe(engine) == before

    def test_progress_is_told_and_never_passes_the_whole(self, engine: Engine) -> None:
        add(engine, *(propose(id=f"{number}") for number in range(5)))
        told: list[tuple[int, int]] = []
        engine.verify(lambda done, whole: told.append((done, whole)))
        engine.reindex(lambda done, whole: told.append((done, whole)))
        engine.compact(progress=lambda done, whole: told.append((done, whole)))
        assert told
        assert all(0 <= done <= whole for done, whole in told)

    @keeps("LOG-5")
    def test_an_altered_line_is_found_and_named(self, engine: Engine, clock: FrozenClock) -> None:
        live_in(engine, clock)
        note(engine, "damaged", "the truth")
        self.alter_line(engine, at("damaged"))
        verdict = engine.verify()
        assert not verdict.sound
        assert any(str(at("damaged")) in finding.where for finding in verdict.findings)
        assert not any(str(at("n0")) in finding.where for finding in verdict.findings)

    @keeps("LOG-5")
    @pytest.mark.parametrize("superseded", [False, True])
    def test_a_lost_line_is_found_and_its_place_named(
        self, engine: Engine, clock: FrozenClock, superseded: bool
    ) -> None:
        live_in(engine, clock)
        note(engine, "damaged", "the truth", kind="rare")
        if superseded:
            drop(engine, "damaged", kind="rare")
        self.lose_line(engine, at("damaged", kind="rare"))
        verdict = engine.verify()
        assert not verdict.sound
        assert any("shared/rare" in finding.where and not finding.repairable for finding in verdict.findings)

    @keeps("LOG-5", "RCL-5")
    def test_a_broken_text_index_is_found_and_rebuilt(self, engine: Engine, clock: FrozenClock) -> None:
        live_in(engine, clock)
        note(engine, "damaged", "findable")
        before = observe(engine)
        self.break_text_index(engine, at("damaged"))
        findings = engine.verify().findings
        assert findings
        assert all(finding.repairable for finding in findings)
        engine.reindex()
        assert engine.verify().findings == ()
        assert found(engine, "findable") == ["damaged"]
        assert observe(engine) == before

    @keeps("LOG-5")
    def test_rebuilding_does_not_hide_that_a_line_was_lost(self, engine: Engine) -> None:
        note(engine, "a")
        note(engine, "damaged")
        self.lose_line(engine, at("damaged"))
        engine.reindex()
        assert not engine.verify().sound

    @keeps("LOG-5")
    def test_rebuilding_does_not_hide_that_a_line_was_altered(self, engine: Engine) -> None:
        note(engine, "damaged", "the truth")
        self.alter_line(engine, at("damaged"))
        engine.reindex()
        assert any(str(at("damaged")) in finding.where for finding in engine.verify().findings)


class Reindexing(Examination):
    """Everything derived from the log can be rebuilt from it."""

    @keeps("LOG-5", "RCL-5")
    def test_rebuilding_changes_nothing_that_can_be_seen(self, engine: Engine, clock: FrozenClock) -> None:
        live_in(engine, clock)
        before = observe(engine)
        engine.reindex()
        assert observe(engine) == before
        assert engine.verify().sound
        release(engine, "mallory")
        before = observe(engine)
        engine.reindex()
        assert observe(engine) == before

    @keeps("LOG-6", "RCL-5")
    def test_quarantines_are_rebuilt_as_they_came_to_be(self, engine: Engine, clock: FrozenClock) -> None:
        note(engine, "bad", author="mallory")
        note(engine, "before", author="ada", links=derived("bad"))
        since = clock.advance(60)
        quarantine(engine, "mallory")
        note(engine, "during", author="ada", links=derived("bad"))
        release(engine, "mallory")
        note(engine, "between", author="ada", links=derived("bad"))
        quarantine(engine, "mallory", since)
        note(engine, "bad", "again", author="mallory")
        note(engine, "after", author="ada", links=derived("bad"))
        before = observe(engine)
        engine.reindex()
        assert observe(engine) == before

    def test_idempotency_keys_and_vectors_outlive_a_rebuilding(self, engine: Engine) -> None:
        (record,) = first = add(engine, propose("once", id="a"), key="k")
        engine.put_vectors("m", [(record.seq, 0, [1.0, 0.0])])
        engine.reindex()
        assert add(engine, propose("once", id="a"), key="k") == first
        assert nearest(engine, [1.0, 0.0]) == ["a"]
