"""The exam: erasing for good."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from lukasa.engine import ERASURE, Engine, Reader
from lukasa.record import Key, Link, line_of
from lukasa.scope import SYSTEM
from lukasa.testing.clock import FrozenClock
from lukasa.testing.contract.examination import (
    Examination,
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
    owner,
    quarantine,
    read,
    receipt_for,
    release,
    tip,
)
from lukasa.testing.contract.lived_in import live_in
from lukasa.testing.contract.observation import observe


class Erasing(Examination):
    """Every version of the chosen records is gone, and a receipt without content is left."""

    @keeps("LOG-5")
    def test_an_erased_record_is_gone_from_every_verb(self, engine: Engine) -> None:
        first = note(engine, "a", "secret", labels=("l=1",), links=(Link("about", at("b")), *derived("b")))
        note(engine, "a", "secret too", labels=("l=1",), links=(Link("about", at("b")),), body={"x": "hush"})
        engine.put_vectors("m", [(first.seq, 0, [1.0, 0.0]), (tip(engine), 0, [1.0, 0.0])])
        erased = engine.erase(lambda _: [at("a")], receipt_for)
        assert (erased.records, erased.versions, dict(erased.by_kind)) == (1, 2, {"note": 1})
        assert get(engine, "a") is None
        assert get(engine, "a", version=1) is None
        assert get(engine, "a", as_of=first.seq) is None
        assert history(engine, "a") == []
        assert listed(engine, every_version=True, hidden=True) == []
        assert listed(engine, labels=("l=1",), every_version=True) == []
        assert listed(engine, mentions="hush", every_version=True) == []
        assert found(engine, "secret", every_version=True) == []
        assert nearest(engine, [1.0, 0.0], every_version=True) == []
        assert neighbours(engine, "a") == neighbours(engine, "b") == []
        assert descendants(engine, "b") == []
        assert counts(engine) == {}
        assert engine.verify().sound

    @keeps("LOG-5")
    def test_thereceipt_for_is_stored_in_the_same_step(self, engine: Engine) -> None:
        note(engine, "a", kind="fact")
        note(engine, "b")
        before = tip(engine)
        engine.erase(lambda _: [at("a", kind="fact"), at("b")], receipt_for)
        (receipt,) = read(engine, kinds=(ERASURE,))
        assert receipt.body == {"records": 2, "versions": 2, "by_kind": {"fact": 1, "note": 1}}
        assert receipt.seq > before

    @keeps("LOG-5")
    def test_areceipt_for_tells_nothing_of_what_was_erased(self, engine: Engine) -> None:
        note(engine, "patient-4711", "diagnosis", author="doctor-who", scope="clinic")
        receipt = owner(engine).erase(at("patient-4711", "clinic"), reason="on request")
        assert receipt.id is not None
        record = get(engine, Key(SYSTEM, ERASURE, receipt.id))
        assert record is not None
        line = line_of(record)
        for trace in (b"patient-4711", b"diagnosis", b"doctor-who", b"clinic"):
            assert trace not in line

    @keeps("LOG-5")
    def test_other_records_are_left_exactly_as_they_were(self, engine: Engine, clock: FrozenClock) -> None:
        live_in(engine, clock)
        words = ("words", "words of old")  # ranking may shift when words go
        books = ("log", "versions", "live", "newest first", "tally", "tip", "get", "history", "as of position")
        before = observe(engine, without=(*words, *books, "as of time"))
        before_log = [record for record in read(engine, every_version=True, hidden=True) if record.scope != SYSTEM]
        note(engine, "doomed", "nobody else says supercalifragilistic")
        engine.erase(lambda _: [at("doomed")], receipt_for)
        assert observe(engine, without=(*words, *books, "as of time")) == before
        after_log = [record for record in read(engine, every_version=True, hidden=True) if record.scope != SYSTEM]
        assert after_log == before_log
        assert engine.verify().sound

    @keeps("LOG-5")
    def test_erasing_what_is_not_there_does_nothing_and_leaves_noreceipt_for(self, engine: Engine) -> None:
        note(engine, "a")
        before = observe(engine)
        erased = engine.erase(lambda _: [at("unknown")], receipt_for)
        assert (erased.records, erased.versions) == (0, 0)
        assert engine.erase(lambda _: [], receipt_for).versions == 0
        assert observe(engine) == before

    @keeps("LOG-5", "LOG-6")
    def test_hidden_and_deleted_records_can_be_erased(self, engine: Engine) -> None:
        note(engine, "hidden", "secret", author="mallory")
        note(engine, "child", "secret", author="ada", links=derived("hidden"))
        note(engine, "deleted", "secret")
        drop(engine, "deleted")
        quarantine(engine, "mallory")

        def choose(reader: Reader) -> Sequence[Key]:
            return [at("hidden"), at("deleted"), *reader.descendants([at("hidden")], hidden=True)]

        assert engine.erase(choose, receipt_for).records == 3
        release(engine, "mallory")
        assert read(engine, scopes=("shared",), every_version=True, hidden=True) == []
        assert engine.verify().sound

    @keeps("LOG-3", "LOG-5")
    @pytest.mark.parametrize("step", ["choosing", "receipt"])
    def test_an_erasure_that_fails_erases_nothing(self, engine: Engine, step: str) -> None:
        class Unwilling(Exception):
            pass

        def fail(_: object) -> Any:
            raise Unwilling

        note(engine, "a", "kept")
        before = observe(engine)
        with pytest.raises(Unwilling):
            engine.erase(fail if step == "choosing" else lambda _: [at("a")], fail)
        assert observe(engine) == before
        assert engine.verify().sound

    def test_positions_are_never_used_again(self, engine: Engine) -> None:
        note(engine, "a")
        last = note(engine, "b").seq
        engine.erase(lambda _: [at("b")], receipt_for)
        assert note(engine, "c").seq > last

    @keeps("LOG-5")
    def test_an_erased_record_stays_away_after_rebuilding_and_reopening(
        self, engine: Engine, clock: FrozenClock
    ) -> None:
        note(engine, "a", "secret")
        note(engine, "b", "kept")
        engine.erase(lambda _: [at("a")], receipt_for)
        engine.reindex()
        engine = self.reopen(engine, clock)
        assert listed(engine) == ["b"]
        assert found(engine, "secret", every_version=True) == []
