"""The exam: looking and writing in one step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from lukasa.engine import Decision, Engine, Erased, Query, Reader
from lukasa.errors import LukasaError
from lukasa.outcome import Accepted, Refused
from lukasa.record import Sealed, digest_of
from lukasa.scope import EVERYTHING, Reach
from lukasa.testing.clock import FrozenClock
from lukasa.testing.contract.examination import (
    Examination,
    at,
    get,
    keeps,
    listed,
    note,
    promptly,
    propose,
    read,
    text_of,
    tip,
    together,
    written,
)


class Decisions(Examination):
    """Looking and writing in one step that nobody can get between."""

    def test_a_decision_sees_what_was_written_before_it(self, engine: Engine) -> None:
        note(engine, "a", "earlier")
        seen: list[str | None] = []

        def decide(reader: Reader) -> Sequence[Sealed]:
            record = reader.get(at("a"))
            seen.append(None if record is None else record.text)
            seen.extend(match.record.id for match in reader.match_text("earlier"))
            return [propose("later", id="a", expected=1)]

        written(engine.append(EVERYTHING, decide))
        assert seen == ["earlier", "a"]
        assert text_of(engine, "a") == "later"

    def test_a_refusing_decision_is_handed_back_and_writes_nothing(self, engine: Engine) -> None:
        refusal = Refused("full", "There is no room.", {"limit": 3})
        assert engine.append(EVERYTHING, lambda _: refusal) == refusal
        assert tip(engine) == 0

    def test_a_failing_decision_fails_alone(self, engine: Engine) -> None:
        class Unwilling(Exception):
            pass

        def fail(_: Reader) -> Sequence[Sealed]:
            raise Unwilling

        def failing() -> str:
            with pytest.raises(Unwilling):
                engine.append(EVERYTHING, fail)
            return "failed"

        def fine(name: str) -> str:
            return note(engine, name).id

        acts: list[Callable[[], str]] = [failing, lambda: fine("a"), failing, lambda: fine("b")]
        assert together(acts) == ["failed", "a", "failed", "b"]
        assert sorted(listed(engine)) == ["a", "b"]
        assert engine.verify().sound

    @keeps("LOG-3")
    def test_many_threads_that_look_and_then_add_add_one(self, engine: Engine) -> None:
        def unless_known(reader: Reader) -> Sequence[Sealed] | Refused:
            if reader.read(Query(labels=("fact=sky",))):
                return Refused("duplicate", "It is known.")
            return [propose("the sky is blue", labels=("fact=sky",), made=f"made-{reader.tip()}")]

        outcomes = together([lambda: engine.append(EVERYTHING, unless_known)] * 8)
        assert sum(isinstance(outcome, Accepted) for outcome in outcomes) == 1
        assert len(read(engine)) == 1

    @keeps("LOG-3")
    def test_decisions_of_two_engines_on_one_store_take_turns(self, engine: Engine, clock: FrozenClock) -> None:
        def count_up(reader: Reader) -> Sequence[Sealed]:
            record = reader.get(at("counter"))
            return [propose(id="counter", body={"count": record.body["count"] + 1 if record else 1})]

        def count_to_ten(own: Engine) -> None:
            for _ in range(10):
                own.append(EVERYTHING, count_up)

        together([partial(count_to_ten, own) for own in (engine, self.alongside(engine, clock))])
        record = get(engine, "counter")
        assert record is not None
        assert (record.body["count"], record.version) == (20, 20)

    @keeps("LOG-4")
    def test_a_decision_looks_and_writes_within_its_reach(self, engine: Engine) -> None:
        note(engine, "secret", scope="closed")
        seen: list[object] = []

        def decide(reader: Reader) -> Sequence[Sealed]:
            seen.extend([reader.get(at("secret", "closed")), reader.read(), reader.tally()])
            return [propose(id="mine"), propose(id="theirs", scope="closed")]

        outcome = engine.append(Reach.of(["shared"]), decide)
        assert isinstance(outcome, Refused)
        assert outcome.code == "scope_closed"
        assert seen == [None, [], []]
        assert listed(engine) == ["secret"]

    @pytest.mark.parametrize("deed", ["append", "decide", "replay", "put_vectors", "reindex", "compact", "erase"])
    def test_a_decision_that_writes_is_told_so_and_nothing_hangs(self, engine: Engine, deed: str) -> None:
        note(engine, "a", "before")

        def erase() -> Erased:
            return engine.erase(lambda _: [at("a")], lambda _: propose(kind="erasure", id="r", scope="_lukasa"))

        inner: Decision = lambda _: [propose(id="b")]  # noqa: E731 - a value of this table
        deeds: dict[str, Callable[[], Any]] = {
            "append": lambda: engine.append(EVERYTHING, [propose(id="b")]),
            "decide": lambda: engine.append(EVERYTHING, inner),
            "replay": lambda: list(engine.replay(EVERYTHING, [(b"{}", digest_of(b"{}"))])),
            "put_vectors": lambda: engine.put_vectors("m", [(1, 0, [1.0])]),
            "reindex": engine.reindex,
            "compact": engine.compact,
            "erase": erase,
        }

        def decide(_: Reader) -> Sequence[Sealed]:
            deeds[deed]()
            return [propose(id="c")]

        with pytest.raises(LukasaError, match="decision"):
            promptly(lambda: engine.append(EVERYTHING, decide))
        assert listed(engine) == ["a"]
        assert note(engine, "d").version == 1
