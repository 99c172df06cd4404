"""Conformance tests of maintenance: verify, reindex, compact, erase, backup, reopening and closing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lukasa.core.record import Key, Link, entry_bytes
from lukasa.core.scope import FULL_REACH, SYSTEM, Reach
from lukasa.errors import LukasaError, StoreClosed
from lukasa.storage.engine import ERASURE, Engine, Query, Reader
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
    nearest_ids,
    neighbours,
    owner_journal,
    quarantine,
    read,
    receipt_for,
    release,
    requirement,
    text_of,
    tip,
    write_note,
)
from lukasa.testing.contract.example_store import PARTS_WITH_SYSTEM_RECORDS, dump_store, fill_example_store


class VerifyTests(EngineTestBase):
    """``verify`` finds every kind of damage and changes nothing."""

    @requirement("LOG-5")
    def test_verify_reports_no_finding_for_a_whole_store_and_changes_nothing(
        self, engine: Engine, clock: FrozenClock
    ) -> None:
        fill_example_store(engine, clock)
        before = dump_store(engine)
        result = engine.verify()
        assert result.findings == ()
        assert result.versions == len(log_entries(engine))
        assert dump_store(engine) == before

    def test_verify_reindex_and_compact_report_progress(self, engine: Engine) -> None:
        add(engine, *(make_draft(id=f"{number}") for number in range(5)))
        reports: list[tuple[int, int]] = []

        def report(done: int, total: int) -> None:
            reports.append((done, total))

        engine.verify(report)
        engine.reindex(report)
        engine.compact(progress=report)
        assert reports
        assert all(0 <= done <= total for done, total in reports)

    @requirement("LOG-5")
    @pytest.mark.parametrize("reindexed", [False, True])
    def test_verify_names_an_altered_entry(self, engine: Engine, clock: FrozenClock, reindexed: bool) -> None:
        fill_example_store(engine, clock)
        write_note(engine, "damaged", "the truth")
        self.alter_entry(engine, make_key("damaged"))
        if reindexed:
            engine.reindex()
        result = engine.verify()
        assert not result.sound
        assert any(str(make_key("damaged")) in finding.where for finding in result.findings)
        assert not any(str(make_key("n0")) in finding.where for finding in result.findings)

    @requirement("LOG-5")
    @pytest.mark.parametrize("superseded", [False, True])
    def test_verify_names_the_scope_and_kind_of_a_lost_entry(
        self, engine: Engine, clock: FrozenClock, superseded: bool
    ) -> None:
        fill_example_store(engine, clock)
        write_note(engine, "damaged", "the truth", kind="rare")
        if superseded:
            delete_note(engine, "damaged", kind="rare")
        self.lose_entry(engine, make_key("damaged", kind="rare"))
        result = engine.verify()
        assert not result.sound
        assert any("shared/rare" in finding.where and not finding.repairable for finding in result.findings)
        engine.reindex()
        assert not engine.verify().sound, "reindex must not hide a lost entry"

    @requirement("LOG-5", "RCL-5")
    def test_verify_finds_a_broken_text_index_and_reindex_repairs_it(self, engine: Engine, clock: FrozenClock) -> None:
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


class ReindexTests(EngineTestBase):
    """``reindex`` rebuilds everything that is derived from the log."""

    @requirement("LOG-5", "LOG-6", "RCL-5")
    @pytest.mark.parametrize("compacted", [False, True])
    def test_reindex_changes_no_result(self, engine: Engine, clock: FrozenClock, compacted: bool) -> None:
        fill_example_store(engine, clock)
        if compacted:
            engine.compact()
        before = dump_store(engine)
        engine.reindex()
        assert dump_store(engine) == before
        assert engine.verify().sound
        release(engine, "mallory")
        before = dump_store(engine)
        engine.reindex()
        assert dump_store(engine) == before

    @requirement("LOG-6", "RCL-5")
    def test_reindex_hides_what_quarantines_hid_when_they_began(self, engine: Engine, clock: FrozenClock) -> None:
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

    def test_reindex_keeps_idempotency_keys_and_vectors(self, engine: Engine) -> None:
        (record,) = first = add(engine, make_draft("once", id="a"), key="k")
        engine.put_vectors("m", [(record.seq, 0, [1.0, 0.0])])
        engine.reindex()
        assert add(engine, make_draft("once", id="a"), key="k") == first
        assert nearest_ids(engine, [1.0, 0.0]) == ["a"]


class CompactTests(EngineTestBase):
    """``compact`` drops superseded versions and nothing else."""

    @requirement("LOG-5")
    def test_compact_keeps_the_newest_version_and_drops_superseded_ones(self, engine: Engine) -> None:
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
        assert write_note(engine, "c").seq > other.seq, "positions are never used twice"
        assert engine.verify().sound

    @requirement("LOG-5")
    def test_compact_changes_no_result_about_the_present(self, engine: Engine, clock: FrozenClock) -> None:
        fill_example_store(engine, clock)
        past = ("log", "versions", "tally", "history", "as of position", "as of time", "descendants", "old words")
        before = dump_store(engine, without=past)
        engine.compact()
        assert dump_store(engine, without=past) == before
        assert engine.verify().sound

    @requirement("LOG-5")
    def test_compact_keeps_a_tombstone(self, engine: Engine) -> None:
        write_note(engine, "a", "one")
        tombstone = delete_note(engine, "a")
        assert engine.compact().versions == 1
        assert history(engine, "a") == [tombstone]
        assert get(engine, "a") is None
        assert write_note(engine, "a").version == 3

    @requirement("LOG-5", "LOG-6")
    def test_compact_keeps_hidden_versions(self, engine: Engine) -> None:
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
    def test_compact_before_a_time_keeps_what_was_current_then(self, engine: Engine, clock: FrozenClock) -> None:
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

    @requirement("LOG-6")
    @pytest.mark.parametrize("quarantined_first", [False, True])
    def test_a_derivation_stays_visible_when_its_good_source_version_is_compacted(
        self, engine: Engine, quarantined_first: bool
    ) -> None:
        if quarantined_first:
            write_note(engine, "topic", "good", author="ada")
            write_note(engine, "topic", "bad", author="mallory")
            quarantine(engine, "mallory")
        else:
            write_note(engine, "topic", "bad", author="mallory")
            write_note(engine, "topic", "good", author="ada")
        write_note(engine, "child", author="ada", links=derived_links("topic"))
        write_note(engine, "topic", "better", author="ada")
        if not quarantined_first:
            quarantine(engine, "mallory")
        assert list_ids(engine) == ["child", "topic"]
        engine.compact()
        engine.reindex()
        assert list_ids(engine) == ["child", "topic"]

    @requirement("LOG-6", "RCL-5")
    def test_reindex_after_compact_remembers_a_released_quarantine(self, engine: Engine) -> None:
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


class EraseTests(EngineTestBase):
    """``erase`` removes every version of the chosen records and writes a receipt without content."""

    @requirement("LOG-5")
    def test_every_read_is_without_an_erased_record(self, engine: Engine) -> None:
        about = Link("about", make_key("b"))
        first = write_note(engine, "a", "secret", labels=("l=1",), links=(about, *derived_links("b")))
        last = write_note(engine, "a", "secret too", labels=("l=1",), links=(about,), body={"x": "hush"})
        engine.put_vectors("m", [(first.seq, 0, [1.0, 0.0]), (last.seq, 0, [1.0, 0.0])])
        erased = engine.erase(lambda _: [make_key("a")], receipt_for)
        assert (erased.records, erased.versions, dict(erased.by_kind)) == (1, 2, {"note": 1})
        assert get(engine, "a") is None
        assert get(engine, "a", version=1) is None
        assert get(engine, "a", as_of=first.seq) is None
        assert history(engine, "a") == []
        assert list_ids(engine, every_version=True, hidden=True) == []
        assert list_ids(engine, labels=("l=1",), every_version=True) == []
        assert list_ids(engine, mentions="hush", every_version=True) == []
        assert find_ids(engine, "secret", every_version=True) == []
        assert nearest_ids(engine, [1.0, 0.0], every_version=True) == []
        assert neighbours(engine, "a") == neighbours(engine, "b") == []
        assert descendants(engine, "b") == []
        assert counts(engine) == {}
        assert engine.verify().sound
        assert write_note(engine, "c").seq > last.seq, "positions are never used twice"

    @requirement("LOG-5")
    def test_an_erased_record_is_absent_after_reindex_and_reopening(self, engine: Engine, clock: FrozenClock) -> None:
        write_note(engine, "a", "secret")
        write_note(engine, "b", "kept")
        engine.erase(lambda _: [make_key("a")], receipt_for)
        engine.reindex()
        engine = self.reopen(engine, clock)
        assert list_ids(engine) == ["b"]
        assert find_ids(engine, "secret", every_version=True) == []

    @requirement("LOG-5")
    def test_erase_stores_the_receipt_in_the_same_step(self, engine: Engine) -> None:
        write_note(engine, "a", kind="fact")
        write_note(engine, "b")
        before = tip(engine)
        engine.erase(lambda _: [make_key("a", kind="fact"), make_key("b")], receipt_for)
        (receipt,) = read(engine, kinds=(ERASURE,))
        assert receipt.body == {"records": 2, "versions": 2, "by_kind": {"fact": 1, "note": 1}}
        assert receipt.seq > before

    @requirement("LOG-5")
    def test_a_receipt_contains_nothing_of_the_erased_record(self, engine: Engine) -> None:
        write_note(engine, "patient-4711", "diagnosis", author="doctor-who", scope="clinic")
        receipt = owner_journal(engine).erase(make_key("patient-4711", "clinic"), reason="on request")
        assert receipt.id is not None
        record = get(engine, Key(SYSTEM, ERASURE, receipt.id))
        assert record is not None
        for trace in (b"patient-4711", b"diagnosis", b"doctor-who", b"clinic"):
            assert trace not in entry_bytes(record)

    @requirement("LOG-5")
    def test_of_a_record_that_loses_single_versions_the_newest_one_left_is_current(self, engine: Engine) -> None:
        for text in ("first words", "second words", "third words"):
            record = write_note(engine, "a", text)
        write_note(engine, "b", "other words")
        second = owner_journal(engine).get(record.key, version=2)
        assert second is not None
        erased = engine.erase(lambda _: [record, second, make_key("b")], receipt_for)
        assert (erased.records, erased.versions, erased.restored, dict(erased.by_kind)) == (1, 3, 1, {"note": 1})
        with engine.snapshot(FULL_REACH) as reader:
            assert [version.text for version in reader.history(record.key)] == ["first words"]
            assert [match.record.text for match in reader.match_text("words")] == ["first words"]
            tally = next(row for row in reader.tally() if row.kind == "note")
            assert (tally.live, tally.versions) == (1, 1)
        assert engine.verify().sound

    def test_erase_leaves_other_records_unchanged(self, engine: Engine, clock: FrozenClock) -> None:
        def observe() -> tuple[object, object]:
            log = [record for record in read(engine, every_version=True, hidden=True) if record.scope != SYSTEM]
            return log, dump_store(engine, without=(*PARTS_WITH_SYSTEM_RECORDS, "words", "old words"))  # scores shift

        fill_example_store(engine, clock)
        before = observe()
        write_note(engine, "erased", "supercalifragilistic occurs nowhere else")
        engine.erase(lambda _: [make_key("erased")], receipt_for)
        assert observe() == before
        assert engine.verify().sound

    @requirement("LOG-5")
    def test_erasing_a_missing_record_writes_no_receipt(self, engine: Engine) -> None:
        write_note(engine, "a")
        before = dump_store(engine)
        erased = engine.erase(lambda _: [make_key("unknown")], receipt_for)
        assert (erased.records, erased.versions) == (0, 0)
        assert engine.erase(lambda _: [], receipt_for).versions == 0
        assert dump_store(engine) == before

    @requirement("LOG-5", "LOG-6")
    def test_erase_removes_hidden_and_deleted_records(self, engine: Engine) -> None:
        write_note(engine, "hidden", "secret", author="mallory")
        write_note(engine, "child", "secret", author="ada", links=derived_links("hidden"))
        write_note(engine, "deleted", "secret")
        delete_note(engine, "deleted")
        quarantine(engine, "mallory")

        def choose(reader: Reader) -> Sequence[Key]:
            return [make_key("hidden"), make_key("deleted"), *reader.descendants([make_key("hidden")], hidden=True)]

        assert engine.erase(choose, receipt_for).records == 3
        release(engine, "mallory")
        assert read(engine, scopes=("shared",), every_version=True, hidden=True) == []
        assert engine.verify().sound

    @requirement("LOG-3", "LOG-5")
    @pytest.mark.parametrize("step", ["choose", "receipt"])
    def test_an_error_during_erase_leaves_every_record(self, engine: Engine, step: str) -> None:
        class ErasureFailed(Exception):
            pass

        def fail(_: object) -> Any:
            raise ErasureFailed

        write_note(engine, "a", "kept")
        before = dump_store(engine)
        with pytest.raises(ErasureFailed):
            engine.erase(fail if step == "choose" else lambda _: [make_key("a")], fail)
        assert dump_store(engine) == before
        assert engine.verify().sound


class LifecycleTests(EngineTestBase):
    """Backups, reopening, several engines on one store, closing."""

    @requirement("LOG-3")
    def test_reopening_a_store_changes_no_result(self, engine: Engine, clock: FrozenClock) -> None:
        fill_example_store(engine, clock)
        before = dump_store(engine)
        engine = self.reopen(engine, clock)
        assert dump_store(engine) == before
        assert engine.verify().sound

    @requirement("LOG-5")
    def test_a_backup_opens_as_an_equal_separate_store(
        self, engine: Engine, clock: FrozenClock, tmp_path: Path
    ) -> None:
        fill_example_store(engine, clock)
        engine.backup(tmp_path / "copy")
        copy = self.open_copy(tmp_path / "copy")
        # An exported log has no vectors, and its import numbers the positions again.
        copied, expected = (dump_store(store, positions=False, without=("vectors",)) for store in (copy, engine))
        assert copied == expected
        assert log_entries(copy) == log_entries(engine)
        assert copy.verify().sound
        write_note(copy, "only in the copy")
        assert get(engine, "only in the copy") is None

    def test_backup_never_overwrites_a_file(self, engine: Engine, tmp_path: Path) -> None:
        target = tmp_path / "backups" / "copy"
        target.parent.mkdir()
        target.write_bytes(b"precious")
        with pytest.raises(LukasaError):
            engine.backup(target)
        assert target.read_bytes() == b"precious"
        assert list(target.parent.iterdir()) == [target]

    @requirement("LOG-3")
    def test_two_engines_on_one_store_see_each_others_writes(self, engine: Engine, clock: FrozenClock) -> None:
        other = self.open_second(engine, clock)
        write_note(engine, "a", "from one")
        assert text_of(other, "a") == "from one"
        assert write_note(other, "a", "from the other").version == 2
        assert text_of(engine, "a") == "from the other"
        assert find_ids(engine, "other") == ["a"]
        engine.compact()
        assert len(history(other, "a")) == 1
        other.reindex()
        assert engine.verify().sound

    def test_describe_names_the_engine_and_the_store(self, engine: Engine) -> None:
        facts = engine.describe()
        assert facts["engine"]
        assert facts["store"]

    def test_every_call_on_a_closed_engine_raises_store_closed(self, engine: Engine, tmp_path: Path) -> None:
        write_note(engine, "a")
        log = log_entries(engine)
        engine.close()
        engine.close()  # closing again does nothing
        calls: list[Callable[[], Any]] = [
            lambda: tip(engine),
            lambda: engine.append(FULL_REACH, [make_draft(id="b")]),
            lambda: engine.append(FULL_REACH, lambda _: [make_draft(id="b")]),
            lambda: list(engine.replay(FULL_REACH, log)),
            lambda: engine.put_vectors("m", [(1, 0, [1.0])]),
            engine.verify,
            engine.reindex,
            engine.compact,
            lambda: engine.erase(lambda _: [make_key("a")], receipt_for),
            lambda: engine.backup(tmp_path / "copy"),
            engine.describe,
        ]
        for call in calls:
            with pytest.raises(StoreClosed):
                call()

    @requirement("LOG-5")
    def test_a_new_store_is_empty_sound_and_separate(self, engine: Engine, other_store: Engine) -> None:
        write_note(engine, "a")
        assert read(other_store, Reach(None, None)) == []
        with other_store.snapshot(FULL_REACH) as reader:
            assert reader.read(Query(every_version=True, hidden=True)) == []
            assert reader.tally() == []
        verification = other_store.verify()
        assert (verification.sound, verification.versions) == (True, 0)
