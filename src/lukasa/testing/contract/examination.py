"""What every part of the exam stands on: a fresh store, a clock that obeys, and short words for writing and looking."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from lukasa.clock import Clock, SystemClock
from lukasa.engine import ERASURE, Engine, Erased, Match, Neighbour, Query
from lukasa.gate import Gate
from lukasa.journal import Journal
from lukasa.outcome import Accepted, Outcome
from lukasa.record import DERIVED_FROM, Draft, Key, Link, Record, Sealed, line_of
from lukasa.scope import EVERYTHING, SHARED, SYSTEM, Reach
from lukasa.testing.clock import FrozenClock

_GATE = Gate()
_LONG_ENOUGH = 60.0

T = TypeVar("T")
Test = TypeVar("Test", bound=Callable[..., None])


class MakeEngine(Protocol):
    """Opens a fresh, empty store."""

    def __call__(self, clock: Clock | None = None) -> Engine: ...


def keeps(*numbers: str) -> Callable[[Test], Test]:
    """Notes on a test which of Lukasa's numbered requirements it would catch breaking."""

    def note_on(test: Test) -> Test:
        test.requirements = numbers  # type: ignore[attr-defined]
        return test

    return note_on


class Examination:
    """What an engine's own test class fills in. See ``EngineContract``."""

    @pytest.fixture
    def make_engine(self) -> MakeEngine:
        """A factory of fresh, empty stores that are closed and gone when the test is over."""
        raise NotImplementedError("give your subclass a fixture make_engine")

    def reopen(self, engine: Engine, clock: Clock | None = None) -> Engine:
        """Closes the engine and opens its store again."""
        raise NotImplementedError

    def alongside(self, engine: Engine, clock: Clock | None = None) -> Engine:
        """A second engine on the store of the first, as another process would open it."""
        raise NotImplementedError

    def open_copy(self, target: Path) -> Engine:
        """Opens what ``backup`` wrote to ``target``."""
        raise NotImplementedError

    def alter_line(self, engine: Engine, key: Key) -> None:
        """Damages the store: the newest line of ``key`` says something else than was written."""
        raise NotImplementedError

    def lose_line(self, engine: Engine, key: Key) -> None:
        """Damages the store: the newest line of ``key`` is gone."""
        raise NotImplementedError

    def break_text_index(self, engine: Engine, key: Key) -> None:
        """Damages the store: the text index no longer knows the words of ``key``."""
        raise NotImplementedError

    @pytest.fixture
    def clock(self) -> FrozenClock:
        return FrozenClock()

    @pytest.fixture
    def engine(self, make_engine: MakeEngine, clock: FrozenClock) -> Iterator[Engine]:
        engine = make_engine(clock)
        yield engine
        engine.close()


def at(id: str, scope: str = SHARED, kind: str = "note") -> Key:
    return Key(scope, kind, id)


def propose(text: str = "", *, kind: str = "note", made: str = "", **fields: Any) -> Sealed:
    """A draft through the gate; ``made`` is an id made up for it, where it names none."""
    answer = _GATE.admit(Draft(kind, text, **fields), made, reserved=True)
    assert isinstance(answer, Sealed), answer
    return answer


def written(outcome: Outcome) -> list[Record]:
    assert isinstance(outcome, Accepted), outcome
    return list(outcome.records)


def add(engine: Engine, *batch: Sealed, reach: Reach = EVERYTHING, key: str | None = None) -> list[Record]:
    return written(engine.append(reach, batch, key=key))


def note(engine: Engine, id: str, text: str = "", **fields: Any) -> Record:
    """Writes one note."""
    (record,) = add(engine, propose(text, id=id, **fields))
    return record


def drop(engine: Engine, id: str, **fields: Any) -> Record:
    """Writes a note's tombstone."""
    return note(engine, id, deleted=True, **fields)


def derived(*sources: str | Key) -> tuple[Link, ...]:
    return tuple(Link(DERIVED_FROM, source if isinstance(source, Key) else at(source)) for source in sources)


def get(engine: Engine, id: str | Key, reach: Reach = EVERYTHING, **how: Any) -> Record | None:
    with engine.reading(reach) as reader:
        return reader.get(id if isinstance(id, Key) else at(id), **how)


def text_of(engine: Engine, id: str | Key, reach: Reach = EVERYTHING, **how: Any) -> str | None:
    record = get(engine, id, reach, **how)
    return None if record is None else record.text


def read(engine: Engine, reach: Reach = EVERYTHING, **query: Any) -> list[Record]:
    with engine.reading(reach) as reader:
        return reader.read(Query(**query))


def ids(records: Iterable[Record]) -> list[str]:
    return [record.id for record in records]


def listed(engine: Engine, reach: Reach = EVERYTHING, **query: Any) -> list[str]:
    """The ids that a query lists; of the store's own books nothing unless they are asked for."""
    return ids(record for record in read(engine, reach, **query) if record.scope != SYSTEM or query.get("scopes"))


def history(engine: Engine, id: str | Key, reach: Reach = EVERYTHING) -> list[Record]:
    with engine.reading(reach) as reader:
        return reader.history(id if isinstance(id, Key) else at(id))


def matches(engine: Engine, words: str, reach: Reach = EVERYTHING, **query: Any) -> list[Match]:
    with engine.reading(reach) as reader:
        return reader.match_text(words, Query(**query))


def found(engine: Engine, words: str, reach: Reach = EVERYTHING, **query: Any) -> list[str]:
    return [match.record.id for match in matches(engine, words, reach, **query)]


def nearest(
    engine: Engine, vector: Sequence[float], reach: Reach = EVERYTHING, model: str = "m", **query: Any
) -> list[str]:
    with engine.reading(reach) as reader:
        return [match.record.id for match in reader.match_vector(model, vector, Query(**query))]


def neighbours(
    engine: Engine, id: str | Key, relation: str | None = None, reach: Reach = EVERYTHING
) -> list[tuple[str, str, str]]:
    """(relation, direction, id at the other end), sorted."""
    with engine.reading(reach) as reader:
        around: list[Neighbour] = reader.neighbours(id if isinstance(id, Key) else at(id), relation)
    return sorted((each.relation, each.direction, each.key.id) for each in around)


def descendants(engine: Engine, *of: str | Key, reach: Reach = EVERYTHING, hidden: bool = False) -> list[str]:
    keys = [id if isinstance(id, Key) else at(id) for id in of]
    with engine.reading(reach) as reader:
        return sorted(key.id for key in reader.descendants(keys, hidden=hidden))


def tip(engine: Engine, reach: Reach = EVERYTHING) -> int:
    with engine.reading(reach) as reader:
        return reader.tip()


def counts(engine: Engine, reach: Reach = EVERYTHING) -> dict[tuple[str, str], tuple[int, int]]:
    """(live, versions) by scope and kind, the store's own books left out."""
    with engine.reading(reach) as reader:
        return {(row.scope, row.kind): (row.live, row.versions) for row in reader.tally() if row.scope != SYSTEM}


def owner(engine: Engine) -> Journal:
    """The journal of whoever owns the store."""
    return Journal(engine, _GATE, EVERYTHING, SystemClock(), lambda: uuid.uuid4().hex)


def quarantine(engine: Engine, author: str, since: datetime | None = None) -> Record:
    (record,) = written(owner(engine).quarantine(author, since=since))
    return record


def release(engine: Engine, author: str) -> Record:
    (record,) = written(owner(engine).release(author))
    return record


def receipt_for(erased: Erased) -> Sealed:
    """The plainest receipt of an erasure."""
    body = {"records": erased.records, "versions": erased.versions, "by_kind": dict(erased.by_kind)}
    return propose(kind=ERASURE, id="receipt", scope=SYSTEM, body=body)


def lines(engine: Engine) -> list[tuple[bytes, bytes]]:
    """Every line of the log with its digest, in log order."""
    return [(line_of(record), record.digest) for record in read(engine, every_version=True, hidden=True)]


def together(acts: Sequence[Callable[[], T]]) -> list[T]:
    """Does all of them at once, each in a thread of its own, and returns what they returned."""
    start = threading.Barrier(len(acts))

    def act(own: Callable[[], T]) -> T:
        start.wait(_LONG_ENOUGH)
        return own()

    with ThreadPoolExecutor(len(acts)) as pool:
        return [future.result(_LONG_ENOUGH) for future in [pool.submit(act, own) for own in acts]]


def promptly(act: Callable[[], T]) -> T:
    """Does it in a thread of its own and fails when it hangs, as a deadlock would."""
    answers: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(act())
        except BaseException as error:  # noqa: BLE001 - raised again below, in the thread of the test
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(_LONG_ENOUGH)
    assert not thread.is_alive(), "it hangs"
    if errors:
        raise errors[0]
    return answers[0]
