"""The exam: erasing for good."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from lukasa.record import Key, Link, entry_bytes
from lukasa.scope import SYSTEM
from lukasa.storage.engine import ERASURE, Engine, Reader
from lukasa.testing.clock import FrozenClock
from lukasa.testing.contract.base import (
    EngineTestBase,
    counts,
    delete_note,
    derived_links,
    descendants,
    find_ids,
    get,
    history,
    list_ids,
    make_key,
    nearest_ids,
    neighbours,
    owner_journal,
    quarantine,
    read,
    receipt_for,
    release,
    requirement,
    tip,
    write_note,
)
from lukasa.testing.contract.dump import dump_store
from lukasa.testing.contract.example_store import fill_example_store


class EraseTests(EngineTestBase):
    """Every version of the chosen records is gone, and a receipt without content is left."""

    @requirement("LOG-5")
    def test_an_erased_record_is_gone_from_every_verb(self, engine: Engine) -> None:
        first = write_note(
            engine, "a", "secret", labels=("l=1",), links=(Link("about", make_key("b")), *derived_links("b"))
        )
        write_note(
            engine, "a", "secret too", labels=("l=1",), links=(Link("about", make_key("b")),), body={"x": "hush"}
        )
        engine.put_vectors("m", [(first.seq, 0, [1.0, 0.0]), (tip(engine), 0, [1.0, 0.0])])
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

    @requirement("LOG-5")
    def test_thereceipt_for_is_stored_in_the_same_step(self, engine: Engine) -> None:
        write_note(engine, "a", kind="fact")
        write_note(engine, "b")
        before = tip(engine)
        engine.erase(lambda _: [make_key("a", kind="fact"), make_key("b")], receipt_for)
        (receipt,) = read(engine, kinds=(ERASURE,))
        assert receipt.body == {"records": 2, "versions": 2, "by_kind": {"fact": 1, "note": 1}}
        assert receipt.seq > before

    @requirement("LOG-5")
    def test_areceipt_for_tells_nothing_of_what_was_erased(self, engine: Engine) -> None:
        write_note(engine, "patient-4711", "diagnosis", author="doctor-who", scope="clinic")
        receipt = owner_journal(engine).erase(make_key("patient-4711", "clinic"), reason="on request")
        assert receipt.id is not None
        record = get(engine, Key(SYSTEM, ERASURE, receipt.id))
        assert record is not None
        line = entry_bytes(record)
        for trace in (b"patient-4711", b"diagnosis", b"doctor-who", b"clinic"):
            assert trace not in line

    @requirement("LOG-5")
    def test_other_records_are_left_exactly_as_they_were(self, engine: Engine, clock: FrozenClock) -> None:
        fill_example_store(engine, clock)
        words = ("words", "words of old")  # ranking may shift when words go
        books = ("log", "versions", "live", "newest first", "tally", "tip", "get", "history", "as of position")
        before = dump_store(engine, without=(*words, *books, "as of time"))
        before_log = [record for record in read(engine, every_version=True, hidden=True) if record.scope != SYSTEM]
        write_note(engine, "doomed", "nobody else says supercalifragilistic")
        engine.erase(lambda _: [make_key("doomed")], receipt_for)
        assert dump_store(engine, without=(*words, *books, "as of time")) == before
        after_log = [record for record in read(engine, every_version=True, hidden=True) if record.scope != SYSTEM]
        assert after_log == before_log
        assert engine.verify().sound

    @requirement("LOG-5")
    def test_erasing_what_is_not_there_does_nothing_and_leaves_noreceipt_for(self, engine: Engine) -> None:
        write_note(engine, "a")
        before = dump_store(engine)
        erased = engine.erase(lambda _: [make_key("unknown")], receipt_for)
        assert (erased.records, erased.versions) == (0, 0)
        assert engine.erase(lambda _: [], receipt_for).versions == 0
        assert dump_store(engine) == before

    @requirement("LOG-5", "LOG-6")
    def test_hidden_and_deleted_records_can_be_erased(self, engine: Engine) -> None:
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
    @pytest.mark.parametrize("step", ["choosing", "receipt"])
    def test_an_erasure_that_fails_erases_nothing(self, engine: Engine, step: str) -> None:
        class ErasureFailed(Exception):
            pass

        def fail(_: object) -> Any:
            raise ErasureFailed

        write_note(engine, "a", "kept")
        before = dump_store(engine)
        with pytest.raises(ErasureFailed):
            engine.erase(fail if step == "choosing" else lambda _: [make_key("a")], fail)
        assert dump_store(engine) == before
        assert engine.verify().sound

    def test_positions_are_never_used_again(self, engine: Engine) -> None:
        write_note(engine, "a")
        last = write_note(engine, "b").seq
        engine.erase(lambda _: [make_key("b")], receipt_for)
        assert write_note(engine, "c").seq > last

    @requirement("LOG-5")
    def test_an_erased_record_stays_away_after_rebuilding_and_reopening(
        self, engine: Engine, clock: FrozenClock
    ) -> None:
        write_note(engine, "a", "secret")
        write_note(engine, "b", "kept")
        engine.erase(lambda _: [make_key("a")], receipt_for)
        engine.reindex()
        engine = self.reopen(engine, clock)
        assert list_ids(engine) == ["b"]
        assert find_ids(engine, "secret", every_version=True) == []
