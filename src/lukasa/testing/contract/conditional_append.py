"""The exam: looking and writing in one step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from lukasa.errors import LukasaError
from lukasa.outcome import Accepted, Refused
from lukasa.record import ValidatedDraft, digest_of
from lukasa.scope import FULL_REACH, Reach
from lukasa.storage.engine import ConditionalBatch, Engine, EraseResult, Query, Reader
from lukasa.testing.clock import FrozenClock
from lukasa.testing.contract.base import (
    EngineTestBase,
    accepted_records,
    get,
    list_ids,
    make_draft,
    make_key,
    read,
    requirement,
    run_concurrently,
    run_with_timeout,
    text_of,
    tip,
    write_note,
)


class ConditionalAppendTests(EngineTestBase):
    """Looking and writing in one step that nobody can get between."""

    def test_a_decision_sees_what_was_written_before_it(self, engine: Engine) -> None:
        write_note(engine, "a", "earlier")
        seen: list[str | None] = []

        def decide(reader: Reader) -> Sequence[ValidatedDraft]:
            record = reader.get(make_key("a"))
            seen.append(None if record is None else record.text)
            seen.extend(match.record.id for match in reader.match_text("earlier"))
            return [make_draft("later", id="a", expected=1)]

        accepted_records(engine.append(FULL_REACH, decide))
        assert seen == ["earlier", "a"]
        assert text_of(engine, "a") == "later"

    def test_a_refusing_decision_is_handed_back_and_writes_nothing(self, engine: Engine) -> None:
        refusal = Refused("full", "There is no room.", {"limit": 3})
        assert engine.append(FULL_REACH, lambda _: refusal) == refusal
        assert tip(engine) == 0

    def test_a_failing_decision_fails_alone(self, engine: Engine) -> None:
        class ConditionFailed(Exception):
            pass

        def fail(_: Reader) -> Sequence[ValidatedDraft]:
            raise ConditionFailed

        def failing() -> str:
            with pytest.raises(ConditionFailed):
                engine.append(FULL_REACH, fail)
            return "failed"

        def fine(name: str) -> str:
            return write_note(engine, name).id

        acts: list[Callable[[], str]] = [failing, lambda: fine("a"), failing, lambda: fine("b")]
        assert run_concurrently(acts) == ["failed", "a", "failed", "b"]
        assert sorted(list_ids(engine)) == ["a", "b"]
        assert engine.verify().sound

    @requirement("LOG-3")
    def test_many_threads_that_look_and_then_add_add_one(self, engine: Engine) -> None:
        def unless_known(reader: Reader) -> Sequence[ValidatedDraft] | Refused:
            if reader.read(Query(labels=("fact=sky",))):
                return Refused("duplicate", "It is known.")
            return [make_draft("the sky is blue", labels=("fact=sky",), generated_id=f"made-{reader.tip()}")]

        outcomes = run_concurrently([lambda: engine.append(FULL_REACH, unless_known)] * 8)
        assert sum(isinstance(outcome, Accepted) for outcome in outcomes) == 1
        assert len(read(engine)) == 1

    @requirement("LOG-3")
    def test_decisions_of_two_engines_on_one_store_take_turns(self, engine: Engine, clock: FrozenClock) -> None:
        def count_up(reader: Reader) -> Sequence[ValidatedDraft]:
            record = reader.get(make_key("counter"))
            return [make_draft(id="counter", body={"count": record.body["count"] + 1 if record else 1})]

        def count_to_ten(own: Engine) -> None:
            for _ in range(10):
                own.append(FULL_REACH, count_up)

        run_concurrently([partial(count_to_ten, own) for own in (engine, self.open_second(engine, clock))])
        record = get(engine, "counter")
        assert record is not None
        assert (record.body["count"], record.version) == (20, 20)

    @requirement("LOG-4")
    def test_a_decision_looks_and_writes_within_its_reach(self, engine: Engine) -> None:
        write_note(engine, "secret", scope="closed")
        seen: list[object] = []

        def decide(reader: Reader) -> Sequence[ValidatedDraft]:
            seen.extend([reader.get(make_key("secret", "closed")), reader.read(), reader.tally()])
            return [make_draft(id="mine"), make_draft(id="theirs", scope="closed")]

        outcome = engine.append(Reach.of(["shared"]), decide)
        assert isinstance(outcome, Refused)
        assert outcome.code == "scope_closed"
        assert seen == [None, [], []]
        assert list_ids(engine) == ["secret"]

    @pytest.mark.parametrize("deed", ["append", "decide", "replay", "put_vectors", "reindex", "compact", "erase"])
    def test_a_decision_that_writes_is_told_so_and_nothing_hangs(self, engine: Engine, deed: str) -> None:
        write_note(engine, "a", "before")

        def erase() -> EraseResult:
            return engine.erase(
                lambda _: [make_key("a")], lambda _: make_draft(kind="erasure", id="r", scope="_lukasa")
            )

        inner: ConditionalBatch = lambda _: [make_draft(id="b")]  # noqa: E731 - a value of this table
        deeds: dict[str, Callable[[], Any]] = {
            "append": lambda: engine.append(FULL_REACH, [make_draft(id="b")]),
            "decide": lambda: engine.append(FULL_REACH, inner),
            "replay": lambda: list(engine.replay(FULL_REACH, [(b"{}", digest_of(b"{}"))])),
            "put_vectors": lambda: engine.put_vectors("m", [(1, 0, [1.0])]),
            "reindex": engine.reindex,
            "compact": engine.compact,
            "erase": erase,
        }

        def decide(_: Reader) -> Sequence[ValidatedDraft]:
            deeds[deed]()
            return [make_draft(id="c")]

        with pytest.raises(LukasaError, match="conditional append"):
            run_with_timeout(lambda: engine.append(FULL_REACH, decide))
        assert list_ids(engine) == ["a"]
        assert write_note(engine, "d").version == 1
