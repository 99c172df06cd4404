"""The exam: proving the store whole and rebuilding what is derived."""

from __future__ import annotations

import pytest

from lukasa.storage.engine import Engine
from lukasa.testing.clock import FrozenClock
from lukasa.testing.contract.base import (
    EngineTestBase,
    add,
    delete_note,
    derived_links,
    find_ids,
    log_entries,
    make_draft,
    make_key,
    nearest_ids,
    quarantine,
    release,
    requirement,
    write_note,
)
from lukasa.testing.contract.dump import dump_store
from lukasa.testing.contract.example_store import fill_example_store


class VerifyTests(EngineTestBase):
    """``verify`` proves the store whole, and finds what is not."""

    @requirement("LOG-5")
    def test_an_empty_store_is_sound(self, engine: Engine) -> None:
        verdict = engine.verify()
        assert verdict.sound
        assert verdict.versions == 0

    @requirement("LOG-5")
    def test_a_lived_in_store_is_sound_and_looking_changes_nothing(self, engine: Engine, clock: FrozenClock) -> None:
        fill_example_store(engine, clock)
        before = dump_store(engine)
        verdict = engine.verify()
        assert verdict.findings == ()
        assert verdict.versions == len(log_entries(engine))
        assert dump_store(engine) == before

    def test_progress_is_told_and_never_passes_the_whole(self, engine: Engine) -> None:
        add(engine, *(make_draft(id=f"{number}") for number in range(5)))
        told: list[tuple[int, int]] = []
        engine.verify(lambda done, whole: told.append((done, whole)))
        engine.reindex(lambda done, whole: told.append((done, whole)))
        engine.compact(progress=lambda done, whole: told.append((done, whole)))
        assert told
        assert all(0 <= done <= whole for done, whole in told)

    @requirement("LOG-5")
    def test_an_altered_line_is_found_and_named(self, engine: Engine, clock: FrozenClock) -> None:
        fill_example_store(engine, clock)
        write_note(engine, "damaged", "the truth")
        self.alter_entry(engine, make_key("damaged"))
        verdict = engine.verify()
        assert not verdict.sound
        assert any(str(make_key("damaged")) in finding.where for finding in verdict.findings)
        assert not any(str(make_key("n0")) in finding.where for finding in verdict.findings)

    @requirement("LOG-5")
    @pytest.mark.parametrize("superseded", [False, True])
    def test_a_lost_line_is_found_and_its_place_named(
        self, engine: Engine, clock: FrozenClock, superseded: bool
    ) -> None:
        fill_example_store(engine, clock)
        write_note(engine, "damaged", "the truth", kind="rare")
        if superseded:
            delete_note(engine, "damaged", kind="rare")
        self.lose_entry(engine, make_key("damaged", kind="rare"))
        verdict = engine.verify()
        assert not verdict.sound
        assert any("shared/rare" in finding.where and not finding.repairable for finding in verdict.findings)

    @requirement("LOG-5", "RCL-5")
    def test_a_broken_text_index_is_found_and_rebuilt(self, engine: Engine, clock: FrozenClock) -> None:
        fill_example_store(engine, clock)
        write_note(engine, "damaged", "findable")
        before = dump_store(engine)
        self.break_text_index(engine, make_key("damaged"))
        findings = engine.verify().findings
        assert findings
        assert all(finding.repairable for finding in findings)
        engine.reindex()
        assert engine.verify().findings == ()
        assert find_ids(engine, "findable") == ["damaged"]
        assert dump_store(engine) == before

    @requirement("LOG-5")
    def test_rebuilding_does_not_hide_that_a_line_was_lost(self, engine: Engine) -> None:
        write_note(engine, "a")
        write_note(engine, "damaged")
        self.lose_entry(engine, make_key("damaged"))
        engine.reindex()
        assert not engine.verify().sound

    @requirement("LOG-5")
    def test_rebuilding_does_not_hide_that_a_line_was_altered(self, engine: Engine) -> None:
        write_note(engine, "damaged", "the truth")
        self.alter_entry(engine, make_key("damaged"))
        engine.reindex()
        assert any(str(make_key("damaged")) in finding.where for finding in engine.verify().findings)


class ReindexTests(EngineTestBase):
    """Everything derived from the log can be rebuilt from it."""

    @requirement("LOG-5", "RCL-5")
    def test_rebuilding_changes_nothing_that_can_be_seen(self, engine: Engine, clock: FrozenClock) -> None:
        fill_example_store(engine, clock)
        before = dump_store(engine)
        engine.reindex()
        assert dump_store(engine) == before
        assert engine.verify().sound
        release(engine, "mallory")
        before = dump_store(engine)
        engine.reindex()
        assert dump_store(engine) == before

    @requirement("LOG-6", "RCL-5")
    def test_quarantines_are_rebuilt_as_they_came_to_be(self, engine: Engine, clock: FrozenClock) -> None:
        write_note(engine, "bad", author="mallory")
        write_note(engine, "before", author="ada", links=derived_links("bad"))
        since = clock.advance(60)
        quarantine(engine, "mallory")
        write_note(engine, "during", author="ada", links=derived_links("bad"))
        release(engine, "mallory")
        write_note(engine, "between", author="ada", links=derived_links("bad"))
        quarantine(engine, "mallory", since)
        write_note(engine, "bad", "again", author="mallory")
        write_note(engine, "after", author="ada", links=derived_links("bad"))
        before = dump_store(engine)
        engine.reindex()
        assert dump_store(engine) == before

    def test_idempotency_keys_and_vectors_outlive_a_rebuilding(self, engine: Engine) -> None:
        (record,) = first = add(engine, make_draft("once", id="a"), key="k")
        engine.put_vectors("m", [(record.seq, 0, [1.0, 0.0])])
        engine.reindex()
        assert add(engine, make_draft("once", id="a"), key="k") == first
        assert nearest_ids(engine, [1.0, 0.0]) == ["a"]
