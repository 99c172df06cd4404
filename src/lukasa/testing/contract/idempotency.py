"""The exam: the same idempotency key gives the same answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest

from lukasa.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.record import ValidatedDraft
from lukasa.scope import FULL_REACH, Reach
from lukasa.storage.engine import Engine, Reader
from lukasa.testing.clock import FrozenClock
from lukasa.testing.contract.base import (
    EngineTestBase,
    accepted_records,
    add,
    delete_note,
    list_ids,
    make_draft,
    make_key,
    read,
    requirement,
    run_concurrently,
    text_of,
    tip,
    write_note,
)


class IdempotencyTests(EngineTestBase):
    """The same key gives the same answer."""

    @requirement("LOG-3")
    def test_a_repeated_key_answers_as_the_first_time_and_writes_nothing(self, engine: Engine) -> None:
        batch = [make_draft("hello", id="a"), make_draft(id="b", body={"x": 1})]
        first = engine.append(FULL_REACH, batch, key="k")
        before = tip(engine)
        again = engine.append(FULL_REACH, batch, key="k")
        assert isinstance(first, Accepted)
        assert isinstance(again, Accepted)
        assert (first.repeated, again.repeated) == (False, True)
        assert list(again.records) == list(first.records)
        assert tip(engine) == before

    def test_a_repeated_key_answers_with_what_was_written_then(self, engine: Engine) -> None:
        first = add(engine, make_draft("then", id="a"), key="k")
        write_note(engine, "a", "now")
        assert add(engine, make_draft("then", id="a"), key="k") == first

    @requirement("LOG-3")
    def test_a_key_is_remembered_across_a_reopening(self, engine: Engine, clock: FrozenClock) -> None:
        first = add(engine, make_draft("hello", generated_id="made-1"), key="k")
        engine = self.reopen(engine, clock)
        assert add(engine, make_draft("hello", generated_id="made-2"), key="k") == first
        assert len(read(engine)) == 1

    def test_a_key_for_other_content_is_refused(self, engine: Engine) -> None:
        add(engine, make_draft("hello", id="a"), key="k")
        for other in (
            [make_draft("goodbye", id="a")],
            [make_draft("hello", id="b")],
            [make_draft("hello", id="a"), make_draft()],
        ):
            outcome = engine.append(FULL_REACH, other, key="k")
            assert isinstance(outcome, Refused)
            assert outcome.code == "key_reused"
        assert list_ids(engine) == ["a"]

    @pytest.mark.parametrize(
        ("first", "second"), [("a-long-made-up-id", "another-made-up-id"), ("1", "2"), ('"', "\\")]
    )
    def test_ids_made_up_on_the_way_do_not_make_content_differ(self, engine: Engine, first: str, second: str) -> None:
        records = add(engine, make_draft("step 1 of 2", generated_id=first), key="k")
        assert add(engine, make_draft("step 1 of 2", generated_id=second), key="k") == records

    @pytest.mark.parametrize(("first", "second"), [("1", "2"), ("e", "s")])
    def test_short_made_up_ids_do_not_make_different_content_look_alike(
        self, engine: Engine, first: str, second: str
    ) -> None:
        add(engine, make_draft(f"step {first}", generated_id=first), key="k")
        outcome = engine.append(FULL_REACH, [make_draft(f"step {second}", generated_id=second)], key="k")
        assert isinstance(outcome, Refused)
        assert outcome.code == "key_reused"

    @requirement("LOG-4")
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (Reach.of(["a"]), Reach.of(["b"])),
            (Reach.of(["a"]), FULL_REACH),
            (Reach.of(["a", "b"]), Reach.of(["a,b"])),
            (Reach.of(["*"]), FULL_REACH),
            (Reach.of(["b"], write=["a"]), Reach.of(["a"], write=["a"])),
        ],
        ids=["scopes", "owner", "comma", "star", "readable"],
    )
    def test_keys_of_different_reaches_never_meet(self, engine: Engine, one: Reach, other: Reach) -> None:
        def write(reach: Reach, text: str) -> Outcome:
            scope = min(reach.writable or {"a"})
            return engine.append(reach, lambda _: [make_draft(text, generated_id=text, scope=scope)], key="k")

        first, second = write(one, "first"), write(other, "second")
        assert isinstance(first, Accepted)
        assert isinstance(second, Accepted)
        assert not second.repeated
        assert second.record.text == "second"

    @requirement("LOG-3")
    def test_a_decision_with_a_key_runs_once(self, engine: Engine) -> None:
        runs: list[int] = []

        def decide(reader: Reader) -> Sequence[ValidatedDraft]:
            runs.append(reader.tip())
            return [make_draft("decided", generated_id=f"run-{len(runs)}")]

        first = accepted_records(engine.append(FULL_REACH, decide, key="k"))
        write_note(engine, "between")
        assert accepted_records(engine.append(FULL_REACH, decide, key="k")) == first
        assert len(runs) == 1

    @requirement("LOG-3")
    def test_of_many_writers_with_one_key_one_writes_and_all_get_its_answer(self, engine: Engine) -> None:
        def write(name: str) -> Outcome:
            return engine.append(FULL_REACH, [make_draft("once", generated_id=name)], key="k")

        outcomes = run_concurrently([partial(write, f"made-by-{name}") for name in range(8)])
        (record,) = read(engine)
        assert [accepted_records(outcome) for outcome in outcomes] == [[record]] * 8
        assert sum(not outcome.repeated for outcome in outcomes if isinstance(outcome, Accepted)) == 1

    @pytest.mark.parametrize("key", ["", "\0", "\ud800", "k" * 10_000, "'; DROP TABLE log; --"])
    def test_any_text_is_a_key(self, engine: Engine, key: str) -> None:
        first = add(engine, make_draft("hello", id="a"), key=key)
        assert add(engine, make_draft("hello", id="a"), key=key) == first

    def test_a_lost_race_does_not_use_up_its_key(self, engine: Engine) -> None:
        write_note(engine, "a")
        assert engine.append(FULL_REACH, [make_draft("mine", id="a", expected=0)], key="k") == Conflict(
            make_key("a"), 0, 1
        )
        delete_note(engine, "a")
        assert add(engine, make_draft("mine", id="a", expected=0), key="k")[0].version == 3

    def test_a_repeated_key_writes_nothing_even_after_its_version_was_compacted_away(self, engine: Engine) -> None:
        add(engine, make_draft("then", id="a"), key="k")
        write_note(engine, "a", "now")
        engine.compact()
        outcome = engine.append(FULL_REACH, [make_draft("then", id="a")], key="k")
        assert isinstance(outcome, Accepted)
        assert outcome.repeated
        assert text_of(engine, "a") == "now"
