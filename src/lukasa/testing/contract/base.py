"""Base class of the conformance tests, and helpers that write to and read from an engine."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from lukasa.core.clock import Clock, SystemClock
from lukasa.core.outcome import Accepted, Outcome, Refused
from lukasa.core.record import DERIVED_FROM, Draft, Key, Link, Record, ValidatedDraft, entry_bytes
from lukasa.core.scope import FULL_REACH, SHARED, SYSTEM, Reach
from lukasa.journal import Journal
from lukasa.journal.gate import Gate
from lukasa.storage.engine import ERASURE, Engine, EraseResult, Match, Query
from lukasa.testing.clock import FrozenClock

_GATE = Gate()
_TIMEOUT_SECONDS = 60.0

T = TypeVar("T")
TestFunctionT = TypeVar("TestFunctionT", bound=Callable[..., None])


class EngineFactory(Protocol):
    """Function that creates an empty store and opens it."""

    def __call__(self, clock: Clock | None = None) -> Engine: ...


def requirement(*numbers: str) -> Callable[[TestFunctionT], TestFunctionT]:
    """Note on a test the numbers of the requirements that it checks."""

    def attach_numbers(test: TestFunctionT) -> TestFunctionT:
        test.requirements = numbers  # type: ignore[attr-defined]
        return test

    return attach_numbers


class EngineTestBase:
    """Fixtures, and the methods that the test class of an engine must define. See ``EngineContract``."""

    @pytest.fixture
    def make_engine(self) -> EngineFactory:
        """Return a function that creates empty stores; the subclass closes and removes them after the test."""
        raise NotImplementedError("define a fixture make_engine in your subclass")

    def reopen(self, engine: Engine, clock: Clock | None = None) -> Engine:
        """Close the engine and open its store again."""
        raise NotImplementedError

    def open_second(self, engine: Engine, clock: Clock | None = None) -> Engine:
        """Open a second engine on the same store, as another process would."""
        raise NotImplementedError

    def open_copy(self, target: Path) -> Engine:
        """Open the store that ``backup`` wrote to ``target``, or a new store with the log that it wrote."""
        raise NotImplementedError

    def alter_entry(self, engine: Engine, key: Key) -> None:
        """Damage the store: change the text in the newest log entry of ``key``."""
        raise NotImplementedError

    def break_entry(self, engine: Engine, key: Key) -> None:
        """Damage the store: make the newest log entry of ``key`` something that is not JSON."""
        raise NotImplementedError

    def lose_entry(self, engine: Engine, key: Key) -> None:
        """Damage the store: remove the newest log entry of ``key``."""
        raise NotImplementedError

    def break_text_index(self, engine: Engine, key: Key) -> None:
        """Damage the store: remove the words of ``key`` from the text index."""
        raise NotImplementedError

    @pytest.fixture
    def clock(self) -> FrozenClock:
        return FrozenClock()

    @pytest.fixture
    def engine(self, make_engine: EngineFactory, clock: FrozenClock) -> Iterator[Engine]:
        engine = make_engine(clock)
        yield engine
        engine.close()

    @pytest.fixture
    def other_store(self, make_engine: EngineFactory) -> Engine:
        """Open a second, separate store."""
        return make_engine()


def make_key(id: str | Key, scope: str = SHARED, kind: str = "note") -> Key:
    """Return the key of a note; a key is returned as it is."""
    return id if isinstance(id, Key) else Key(scope, kind, id)


def make_draft(text: str = "", *, kind: str = "note", generated_id: str = "", **fields: Any) -> ValidatedDraft:
    """Return a draft that passed the gate; ``generated_id`` is used when the draft has no id."""
    draft = _GATE.validate(Draft(kind, text, **fields), generated_id, allow_reserved=True)
    assert isinstance(draft, ValidatedDraft), draft
    return draft


def accepted_records(outcome: Outcome) -> list[Record]:
    """Return the records of an outcome that must be an acceptance."""
    assert isinstance(outcome, Accepted), outcome
    return list(outcome.records)


def refusal_code(outcome: Outcome) -> str:
    """Return the code of an outcome that must be a refusal."""
    assert isinstance(outcome, Refused), outcome
    return outcome.code


def add(engine: Engine, *batch: ValidatedDraft, reach: Reach = FULL_REACH, key: str | None = None) -> list[Record]:
    """Append drafts that must be accepted."""
    return accepted_records(engine.append(reach, batch, key=key))


def write_note(engine: Engine, id: str, text: str = "", **fields: Any) -> Record:
    """Append one note."""
    (record,) = add(engine, make_draft(text, id=id, **fields))
    return record


def delete_note(engine: Engine, id: str, **fields: Any) -> Record:
    """Append the tombstone of a note."""
    return write_note(engine, id, deleted=True, **fields)


def derived_links(*sources: str | Key) -> tuple[Link, ...]:
    return tuple(Link(DERIVED_FROM, make_key(source)) for source in sources)


def get(engine: Engine, id: str | Key, reach: Reach = FULL_REACH, **options: Any) -> Record | None:
    with engine.snapshot(reach) as reader:
        return reader.get(make_key(id), **options)


def text_of(engine: Engine, id: str | Key, reach: Reach = FULL_REACH, **options: Any) -> str | None:
    record = get(engine, id, reach, **options)
    return None if record is None else record.text


def read(engine: Engine, reach: Reach = FULL_REACH, **query: Any) -> list[Record]:
    with engine.snapshot(reach) as reader:
        return reader.read(Query(**query))


def ids(records: Iterable[Record]) -> list[str]:
    return [record.id for record in records]


def list_ids(engine: Engine, reach: Reach = FULL_REACH, **query: Any) -> list[str]:
    """Return the ids that a query matches, without system records unless the query names scopes."""
    return ids(record for record in read(engine, reach, **query) if record.scope != SYSTEM or query.get("scopes"))


def history(engine: Engine, id: str | Key, reach: Reach = FULL_REACH) -> list[Record]:
    with engine.snapshot(reach) as reader:
        return reader.history(make_key(id))


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
    """Return relation, direction and id of every linked record, sorted."""
    with engine.snapshot(reach) as reader:
        found = reader.neighbours(make_key(id), relation)
    return sorted((neighbour.relation, neighbour.direction, neighbour.key.id) for neighbour in found)


def descendants(engine: Engine, *sources: str | Key, reach: Reach = FULL_REACH, hidden: bool = False) -> list[str]:
    with engine.snapshot(reach) as reader:
        return sorted(key.id for key in reader.descendants([make_key(id) for id in sources], hidden=hidden))


def tip(engine: Engine, reach: Reach = FULL_REACH) -> int:
    with engine.snapshot(reach) as reader:
        return reader.tip()


def counts(engine: Engine, reach: Reach = FULL_REACH) -> dict[tuple[str, str], tuple[int, int]]:
    """Return (live, versions) by scope and kind, without system records."""
    with engine.snapshot(reach) as reader:
        return {(row.scope, row.kind): (row.live, row.versions) for row in reader.tally() if row.scope != SYSTEM}


def owner_journal(engine: Engine) -> Journal:
    """Return a journal with full access."""
    return Journal(engine, _GATE, FULL_REACH, SystemClock(), lambda: uuid.uuid4().hex)


def quarantine(engine: Engine, author: str, since: datetime | None = None) -> Record:
    (record,) = accepted_records(owner_journal(engine).quarantine(author, since=since))
    return record


def release(engine: Engine, author: str) -> Record:
    (record,) = accepted_records(owner_journal(engine).release(author))
    return record


def receipt_for(erased: EraseResult) -> ValidatedDraft:
    """Return the draft of a minimal erasure receipt."""
    body = {"records": erased.records, "versions": erased.versions, "by_kind": dict(erased.by_kind)}
    return make_draft(kind=ERASURE, id="receipt", scope=SYSTEM, body=body)


def log_entries(engine: Engine) -> list[tuple[bytes, bytes]]:
    """Return every log entry with its digest, in log order."""
    return [(entry_bytes(record), record.digest) for record in read(engine, every_version=True, hidden=True)]


def run_concurrently(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Run all tasks at the same time, each in its own thread, and return their results."""
    start = threading.Barrier(len(tasks))

    def run(task: Callable[[], T]) -> T:
        start.wait(_TIMEOUT_SECONDS)
        return task()

    with ThreadPoolExecutor(len(tasks)) as pool:
        return [future.result(_TIMEOUT_SECONDS) for future in [pool.submit(run, task) for task in tasks]]


def run_with_timeout(task: Callable[[], T]) -> T:
    """Run a task in a daemon thread and fail when it does not end, as in a deadlock."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(task())
        except BaseException as error:  # noqa: BLE001 - raised again by the thread of the test
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future.result(_TIMEOUT_SECONDS)
