"""The exam: the same idempotency key gives the same answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest

from lukasa.engine import Engine, Reader
from lukasa.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.record import Sealed
from lukasa.scope import EVERYTHING, Reach
from lukasa.testing.clock import FrozenClock
from lukasa.testing.contract.examination import (
    Examination,
    add,
    at,
    drop,
    keeps,
    listed,
    note,
    propose,
    read,
    text_of,
    tip,
    together,
    written,
)


class IdempotencyKeys(Examination):
    """The same key gives the same answer."""

    @keeps("LOG-3")
    def test_a_repeated_key_answers_as_the_first_time_and_writes_nothing(self, engine: Engine) -> None:
        batch = [propose("hello", id="a"), propose(id="b", body={"x": 1})]
        first = engine.append(EVERYTHING, batch, key="k")
        before = tip(engine)
        again = engine.append(EVERYTHING, batch, key="k")
        assert isinstance(first, Accepted)
        assert isinstance(again, Accepted)
        assert (first.repeated, again.repeated) == (False, True)
        assert list(again.records) == list(first.records)
        assert tip(engine) == before

    def test_a_repeated_key_answers_with_what_was_written_then(self, engine: Engine) -> None:
        first = add(engine, propose("then", id="a"), key="k")
        note(engine, "a", "now")
        assert add(engine, propose("then", id="a"), key="k") == first

    @keeps("LOG-3")
    def test_a_key_is_remembered_across_a_reopening(self, engine: Engine, clock: FrozenClock) -> None:
        first = add(engine, propose("hello", made="made-1"), key="k")
        engine = self.reopen(engine, clock)
        assert add(engine, propose("hello", made="made-2"), key="k") == first
        assert len(read(engine)) == 1

    def test_a_key_for_other_content_is_refused(self, engine: Engine) -> None:
        add(engine, propose("hello", id="a"), key="k")
        for other in ([propose("goodbye", id="a")], [propose("hello", id="b")], [propose("hello", id="a"), propose()]):
            outcome = engine.append(EVERYTHING, other, key="k")
            assert isinstance(outcome, Refused)
            assert outcome.code == "key_reused"
        assert listed(engine) == ["a"]

    @pytest.mark.parametrize(
        ("first", "second"), [("a-long-made-up-id", "another-made-up-id"), ("1", "2"), ('"', "\\")]
    )
    def test_ids_made_up_on_the_way_do_not_make_content_differ(self, engine: Engine, first: str, second: str) -> None:
        records = add(engine, propose("step 1 of 2", made=first), key="k")
        assert add(engine, propose("step 1 of 2", made=second), key="k") == records

    @pytest.mark.parametrize(("first", "second"), [("1", "2"), ("e", "s")])
    def test_short_made_up_ids_do_not_make_different_content_look_alike(
        self, engine: Engine, first: str, second: str
    ) -> None:
        add(engine, propose(f"step {first}", made=first), key="k")
        outcome = engine.append(EVERYTHING, [propose(f"step {second}", made=second)], key="k")
        assert isinstance(outcome, Refused)
        assert outcome.code == "key_reused"

    @keeps("LOG-4")
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (Reach.of(["a"]), Reach.of(["b"])),
            (Reach.of(["a"]), EVERYTHING),
            (Reach.of(["a", "b"]), Reach.of(["a,b"])),
            (Reach.of(["*"]), EVERYTHING),
            (Reach.of(["b"], write=["a"]), Reach.of(["a"], write=["a"])),
        ],
        ids=["scopes", "owner", "comma", "star", "readable"],
    )
    def test_keys_of_different_reaches_never_meet(self, engine: Engine, one: Reach, other: Reach) -> None:
        def write(reach: Reach, text: str) -> Outcome:
            scope = min(reach.writable or {"a"})
            return engine.append(reach, lambda _: [propose(text, made=text, scope=scope)], key="k")

        first, second = write(one, "first"), write(other, "second")
        assert isinstance(first, Accepted)
        assert isinstance(second, Accepted)
        assert not second.repeated
        assert second.record.text == "second"

    @keeps("LOG-3")
    def test_a_decision_with_a_key_runs_once(self, engine: Engine) -> None:
        runs: list[int] = []

        def decide(reader: Reader) -> Sequence[Sealed]:
            runs.append(reader.tip())
            return [propose("decided", made=f"run-{len(runs)}")]

        first = written(engine.append(EVERYTHING, decide, key="k"))
        note(engine, "between")
        assert written(engine.append(EVERYTHING, decide, key="k")) == first
        assert len(runs) == 1

    @keeps("LOG-3")
    def test_of_many_writers_with_one_key_one_writes_and_all_get_its_answer(self, engine: Engine) -> None:
        def write(name: str) -> Outcome:
            return engine.append(EVERYTHING, [propose("once", made=name)], key="k")

        outcomes = together([partial(write, f"made-by-{name}") for name in range(8)])
        (record,) = read(engine)
        assert [written(outcome) for outcome in outcomes] == [[record]] * 8
        assert sum(not outcome.repeated for outcome in outcomes if isinstance(outcome, Accepted)) == 1

    @pytest.mark.parametrize("key", ["", "\0", "\ud800", "k" * 10_000, "'; DROP TABLE log; --"])
    def test_any_text_is_a_key(self, engine: Engine, key: str) -> None:
        first = add(engine, propose("hello", id="a"), key=key)
        assert add(engine, propose("hello", id="a"), key=key) == first

    def test_a_lost_race_does_not_use_up_its_key(self, engine: Engine) -> None:
        note(engine, "a")
        assert engine.append(EVERYTHING, [propose("mine", id="a", expected=0)], key="k") == Conflict(at("a"), 0, 1)
        drop(engine, "a")
        assert add(engine, propose("mine", id="a", expected=0), key="k")[0].version == 3

    def test_a_repeated_key_writes_nothing_even_after_its_version_was_compacted_away(self, engine: Engine) -> None:
        add(engine, propose("then", id="a"), key="k")
        note(engine, "a", "now")
        engine.compact()
        outcome = engine.append(EVERYTHING, [propose("then", id="a")], key="k")
        assert isinstance(outcome, Accepted)
        assert outcome.repeated
        assert text_of(engine, "a") == "now"
