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
from lukasa.gate import Gate
from lukasa.journal import Journal
from lukasa.outcome import Accepted, Outcome
from lukasa.record import DERIVED_FROM, Draft, Key, Link, Record, ValidatedDraft, entry_bytes
from lukasa.scope import FULL_REACH, SHARED, SYSTEM, Reach
from lukasa.storage.engine import ERASURE, Engine, EraseResult, Match, Neighbour, Query
from lukasa.testing.clock import FrozenClock

_GATE = Gate()
_TIMEOUT_SECONDS = 60.0

T = TypeVar("T")
TestFunctionT = TypeVar("TestFunctionT", bound=Callable[..., None])


class EngineFactory(Protocol):
    """Opens a fresh, empty store."""

    def __call__(self, clock: Clock | None = None) -> Engine: ...


def requirement(*numbers: str) -> Callable[[TestFunctionT], TestFunctionT]:
    """Notes on a test which of Lukasa's numbered requirements it would catch breaking."""

    def attach_numbers(test: TestFunctionT) -> TestFunctionT:
        test.requirements = numbers  # type: ignore[attr-defined]
        return test

    return attach_numbers


class EngineTestBase:
    """What an engine's own test class fills in. See ``EngineContract``."""

    @pytest.fixture
    def make_engine(self) -> EngineFactory:
        """A factory of fresh, empty stores that are closed and gone when the test is over."""
        raise NotImplementedError("give your subclass a fixture make_engine")

    def reopen(self, engine: Engine, clock: Clock | None = None) -> Engine:
        """Closes the engine and opens its store again."""
        raise NotImplementedError

    def open_second(self, engine: Engine, clock: Clock | None = None) -> Engine:
        """A second engine on the store of the first, as another process would open it."""
        raise NotImplementedError

    def open_copy(self, target: Path) -> Engine:
        """Opens the store that ``backup`` wrote to ``target``, or a new store with the log that it wrote."""
        raise NotImplementedError

    def alter_entry(self, engine: Engine, key: Key) -> None:
        """Damages the store: the newest line of ``key`` says something else than was written."""
        raise NotImplementedError

    def lose_entry(self, engine: Engine, key: Key) -> None:
        """Damages the store: the newest line of ``key`` is gone."""
        raise NotImplementedError

    def break_text_index(self, engine: Engine, key: Key) -> None:
        """Damages the store: the text index no longer knows the words of ``key``."""
        raise NotImplementedError

    @pytest.fixture
    def clock(self) -> FrozenClock:
        return FrozenClock()

    @pytest.fixture
    def engine(self, make_engine: EngineFactory, clock: FrozenClock) -> Iterator[Engine]:
        engine = make_engine(clock)
        yield engine
        engine.close()


def make_key(id: str, scope: str = SHARED, kind: str = "note") -> Key:
    return Key(scope, kind, id)


def make_draft(text: str = "", *, kind: str = "note", generated_id: str = "", **fields: Any) -> ValidatedDraft:
    """A draft through the gate; ``made`` is an id made up for it, where it names none."""
    answer = _GATE.validate(Draft(kind, text, **fields), generated_id, allow_reserved=True)
    assert isinstance(answer, ValidatedDraft), answer
    return answer


def accepted_records(outcome: Outcome) -> list[Record]:
    assert isinstance(outcome, Accepted), outcome
    return list(outcome.records)


def add(engine: Engine, *batch: ValidatedDraft, reach: Reach = FULL_REACH, key: str | None = None) -> list[Record]:
    return accepted_records(engine.append(reach, batch, key=key))


def write_note(engine: Engine, id: str, text: str = "", **fields: Any) -> Record:
    """Writes one note."""
    (record,) = add(engine, make_draft(text, id=id, **fields))
    return record


def delete_note(engine: Engine, id: str, **fields: Any) -> Record:
    """Writes a note's tombstone."""
    return write_note(engine, id, deleted=True, **fields)


def derived_links(*sources: str | Key) -> tuple[Link, ...]:
    return tuple(Link(DERIVED_FROM, source if isinstance(source, Key) else make_key(source)) for source in sources)


def get(engine: Engine, id: str | Key, reach: Reach = FULL_REACH, **how: Any) -> Record | None:
    with engine.snapshot(reach) as reader:
        return reader.get(id if isinstance(id, Key) else make_key(id), **how)


def text_of(engine: Engine, id: str | Key, reach: Reach = FULL_REACH, **how: Any) -> str | None:
    record = get(engine, id, reach, **how)
    return None if record is None else record.text


def read(engine: Engine, reach: Reach = FULL_REACH, **query: Any) -> list[Record]:
    with engine.snapshot(reach) as reader:
        return reader.read(Query(**query))


def ids(records: Iterable[Record]) -> list[str]:
    return [record.id for record in records]


def list_ids(engine: Engine, reach: Reach = FULL_REACH, **query: Any) -> list[str]:
    """The ids that a query lists; of the store's own books nothing unless they are asked for."""
    return ids(record for record in read(engine, reach, **query) if record.scope != SYSTEM or query.get("scopes"))


def history(engine: Engine, id: str | Key, reach: Reach = FULL_REACH) -> list[Record]:
    with engine.snapshot(reach) as reader:
        return reader.history(id if isinstance(id, Key) else make_key(id))


def matches(engine: Engine, words: str, reach: Reach = FULL_REACH, **query: Any) -> list[Match]:
    with engine.snapshot(reach) as reader:
        return reader.match_text(words, Query(**query))


def find_ids(engine: Engine, words: str, reach: Reach = FULL_REACH, **query: Any) -> list[str]:
    return [match.record.id for match in matches(engine, words, reach, **query)]


def nearest_ids(
    engine: Engine, vector: Sequence[float], reach: Reach = FULL_REACH, model: str = "m", **query: Any
) -> list[str]:
    with engine.snapshot(reach) as reader:
        return [match.record.id for match in reader.match_vector(model, vector, Query(**query))]


def neighbours(
    engine: Engine, id: str | Key, relation: str | None = None, reach: Reach = FULL_REACH
) -> list[tuple[str, str, str]]:
    """(relation, direction, id at the other end), sorted."""
    with engine.snapshot(reach) as reader:
        around: list[Neighbour] = reader.neighbours(id if isinstance(id, Key) else make_key(id), relation)
    return sorted((each.relation, each.direction, each.key.id) for each in around)


def descendants(engine: Engine, *of: str | Key, reach: Reach = FULL_REACH, hidden: bool = False) -> list[str]:
    keys = [id if isinstance(id, Key) else make_key(id) for id in of]
    with engine.snapshot(reach) as reader:
        return sorted(key.id for key in reader.descendants(keys, hidden=hidden))


def tip(engine: Engine, reach: Reach = FULL_REACH) -> int:
    with engine.snapshot(reach) as reader:
        return reader.tip()


def counts(engine: Engine, reach: Reach = FULL_REACH) -> dict[tuple[str, str], tuple[int, int]]:
    """(live, versions) by scope and kind, the store's own books left out."""
    with engine.snapshot(reach) as reader:
        return {(row.scope, row.kind): (row.live, row.versions) for row in reader.tally() if row.scope != SYSTEM}


def owner_journal(engine: Engine) -> Journal:
    """The journal of whoever owns the store."""
    return Journal(engine, _GATE, FULL_REACH, SystemClock(), lambda: uuid.uuid4().hex)


def quarantine(engine: Engine, author: str, since: datetime | None = None) -> Record:
    (record,) = accepted_records(owner_journal(engine).quarantine(author, since=since))
    return record


def release(engine: Engine, author: str) -> Record:
    (record,) = accepted_records(owner_journal(engine).release(author))
    return record


def receipt_for(erased: EraseResult) -> ValidatedDraft:
    """The plainest receipt of an erasure."""
    body = {"records": erased.records, "versions": erased.versions, "by_kind": dict(erased.by_kind)}
    return make_draft(kind=ERASURE, id="receipt", scope=SYSTEM, body=body)


def log_entries(engine: Engine) -> list[tuple[bytes, bytes]]:
    """Every line of the log with its digest, in log order."""
    return [(entry_bytes(record), record.digest) for record in read(engine, every_version=True, hidden=True)]


def run_concurrently(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Does all of them at once, each in a thread of its own, and returns what they returned."""
    start = threading.Barrier(len(tasks))

    def run_task(own: Callable[[], T]) -> T:
        start.wait(_TIMEOUT_SECONDS)
        return own()

    with ThreadPoolExecutor(len(tasks)) as pool:
        return [future.result(_TIMEOUT_SECONDS) for future in [pool.submit(run_task, own) for own in tasks]]


def run_with_timeout(task: Callable[[], T]) -> T:
    """Does it in a thread of its own and fails when it hangs, as a deadlock would."""
    answers: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(task())
        except BaseException as error:  # noqa: BLE001 - raised again below, in the thread of the test
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(_TIMEOUT_SECONDS)
    assert not thread.is_alive(), "it hangs"
    if errors:
        raise errors[0]
    return answers[0]
