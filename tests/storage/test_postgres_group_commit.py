"""Single inserts of several threads share a transaction on PostgreSQL, and nothing else."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial

import psycopg
import pytest

from lukasa.core.outcome import Accepted, Conflict
from lukasa.core.record import Key
from lukasa.core.scope import FULL_REACH
from lukasa.storage.engine import Query
from lukasa.storage.postgres import PostgresEngine
from lukasa.storage.postgres.append import InsertSingle
from lukasa.storage.postgres.connection import PostgresClient
from lukasa.storage.postgres.group_commit import GroupCommit, InsertGroup, _ScopeInserts, _WaitingInsert
from lukasa.testing.contract.base import add, make_draft, quarantine, run_concurrently
from support.narrow import present

OPTIONS = "-c search_path=lukasa,public"
NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
TIMEOUT = 20.0


@pytest.fixture
def engine(fresh_store):
    with closing(PostgresEngine(fresh_store(), timeout=TIMEOUT)) as engine:
        yield engine


def wait_until(condition):
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@contextmanager
def blocked(engine, scope="shared"):
    """Keep a scope locked, as a conditional append does, during the block."""
    with psycopg.connect(engine.url, options=OPTIONS) as database:
        ((slot,),) = database.execute("SELECT hashtext(%s) & 7", (scope,)).fetchall()
        database.execute(f"LOCK TABLE write_lock_{slot} IN EXCLUSIVE MODE")
        yield
        database.rollback()


def connections_that_wait(engine):
    """Return the server's processes that wait for a lock in the store's database."""
    with psycopg.connect(engine.url, autocommit=True) as database:
        rows = database.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return [pid for (pid,) in rows]


def start_adds(engine, pool, drafts):
    """Start one add in each thread while the scope is blocked; return once all of them wait."""
    futures = [pool.submit(engine.append, FULL_REACH, [draft]) for draft in drafts[:2]]
    wait_until(lambda: len(connections_that_wait(engine)) == 2)
    futures += [pool.submit(engine.append, FULL_REACH, [draft]) for draft in drafts[2:]]
    wait_until(lambda: _count_waiting(engine) == len(drafts) - 2)
    return futures


def _count_waiting(engine):
    return sum(len(inserts.waiting) for inserts in engine._inserts._scopes.values())


def notes(count, **fields):
    return [make_draft(f"note {number}", generated_id=f"g{number}", **fields) for number in range(count)]


def transactions(engine):
    """Return the ids of the notes by the transaction that wrote them."""
    found: dict[str, set[str]] = {}
    with psycopg.connect(engine.url, options=OPTIONS) as database:
        for number, id in database.execute("SELECT xmin::text, id FROM log WHERE kind = 'note'"):
            found.setdefault(number, set()).add(id)
    return sorted(found.values(), key=len)


def test_threads_that_wait_for_a_transaction_share_the_next_one(engine):
    with ThreadPoolExecutor(8) as pool:
        with blocked(engine):
            futures = start_adds(engine, pool, notes(8))
        outcomes = [future.result(TIMEOUT) for future in futures]
    assert all(isinstance(outcome, Accepted) for outcome in outcomes)
    assert [outcome.record.id for outcome in outcomes] == [f"g{number}" for number in range(8)]
    groups = transactions(engine)
    assert sum(map(len, groups)) == 8
    assert len(groups) <= 4
    assert engine.verify().findings == ()
    with engine.snapshot(FULL_REACH) as reader:
        assert [(row.kind, row.live, row.versions) for row in reader.tally()] == [("note", 8, 8)]
        for outcome in outcomes:
            assert reader.get(outcome.record.key) == outcome.record
        assert len(reader.match_text("note", Query(limit=20))) == 8


def test_a_thread_alone_is_never_made_to_wait_for_others(engine):
    assert [record.id for draft in notes(5) for record in add(engine, draft)] == [f"g{number}" for number in range(5)]
    assert [len(ids) for ids in transactions(engine)] == [1] * 5
    assert engine._inserts._scopes == {}


def test_many_threads_of_several_scopes_and_kinds_lose_nothing(engine):
    scopes = ("shared", "agent:a", "agent:b")

    def write(thread):
        for number in range(25):
            kind = ("note", "event")[number % 2]
            text = "" if number % 5 == 0 else f"text {number} of {thread}"
            add(engine, make_draft(text, kind=kind, scope=scopes[number % 3], generated_id=f"{thread}-{number}"))

    run_concurrently([partial(write, thread) for thread in range(8)])
    with engine.snapshot(FULL_REACH) as reader:
        ids = [record.id for record in reader.read(Query())]
    assert sorted(ids) == sorted(f"{thread}-{number}" for thread in range(8) for number in range(25))
    assert engine.verify().findings == ()


def test_a_record_that_cannot_be_inserted_fails_alone(engine):
    add(engine, make_draft("taken", generated_id="g5"))
    with ThreadPoolExecutor(8) as pool:
        with blocked(engine):
            futures = start_adds(engine, pool, notes(8))
        outcomes = [future.result(TIMEOUT) for future in futures]
    assert isinstance(outcomes[5], Conflict)
    assert all(isinstance(outcome, Accepted) for outcome in outcomes[:5] + outcomes[6:])
    assert engine.verify().findings == ()


def test_threads_whose_transaction_loses_its_connection_write_once(engine):
    with ThreadPoolExecutor(8) as pool:
        with blocked(engine):
            futures = start_adds(engine, pool, notes(8))
            with psycopg.connect(engine.url, autocommit=True) as database:
                for pid in connections_that_wait(engine):
                    database.execute("SELECT pg_terminate_backend(%s)", (pid,))
            wait_until(lambda: len(connections_that_wait(engine)) >= 2)
            with psycopg.connect(engine.url, autocommit=True) as database:
                for pid in connections_that_wait(engine):
                    database.execute("SELECT pg_terminate_backend(%s)", (pid,))
        outcomes = [future.result(TIMEOUT) for future in futures]
    assert [outcome.record.id for outcome in outcomes] == [f"g{number}" for number in range(8)]
    with engine.snapshot(FULL_REACH) as reader:
        assert sorted(record.id for record in reader.read(Query(every_version=True))) == [f"g{n}" for n in range(8)]
    assert engine.verify().findings == ()


def test_a_group_whose_answer_was_lost_is_found_again(engine):
    inserts = [InsertSingle(draft, NOW) for draft in notes(3)]
    client = PostgresClient(engine.url, timeout=TIMEOUT, size=1)
    group = InsertGroup(inserts)
    client.write(group)
    assert len(group.outcomes) == 3
    repeated = InsertGroup(inserts)
    client.write(repeated)  # as after a commit whose answer did not arrive
    assert repeated.outcomes == []
    assert [present(client.write(insert)).unwrap().seq for insert in inserts] == [
        outcome.unwrap().seq for outcome in group.outcomes
    ]
    client.close()
    with engine.snapshot(FULL_REACH) as reader:
        assert len(reader.read(Query(every_version=True))) == 3


def test_records_of_an_author_in_quarantine_are_hidden_also_in_a_group(engine):
    quarantine(engine, "mallory")
    with ThreadPoolExecutor(8) as pool:
        with blocked(engine):
            drafts = [*notes(7), make_draft("bad", generated_id="bad", author="mallory")]
            futures = start_adds(engine, pool, drafts)
        assert all(isinstance(future.result(TIMEOUT), Accepted) for future in futures)
    with engine.snapshot(FULL_REACH) as reader:
        assert reader.get(Key("shared", "note", "bad")) is None
        assert reader.get(Key("shared", "note", "g6")) is not None
    assert engine.verify().findings == ()


def test_threads_of_another_scope_do_not_wait(engine):
    with psycopg.connect(engine.url) as database:
        slots = database.execute("SELECT hashtext('shared') & 7, hashtext('agent:a') & 7").fetchone()
    assert slots is not None
    assert slots[0] != slots[1]
    with ThreadPoolExecutor(4) as pool:
        with blocked(engine):
            futures = start_adds(engine, pool, notes(4))
            assert add(engine, make_draft("free", generated_id="free", scope="agent:a"))
            assert not any(future.done() for future in futures)
        assert all(isinstance(future.result(TIMEOUT), Accepted) for future in futures)


def test_the_error_of_a_group_reaches_every_thread_of_it_and_the_next_insert_works(engine):
    client = PostgresClient(engine.url, timeout=TIMEOUT, size=4)
    fails, entered = threading.Event(), threading.Semaphore(0)

    def write(work):
        entered.release()
        fails.wait(TIMEOUT)
        if isinstance(work, InsertGroup):
            raise OSError("no disk")
        return client.write(work)

    inserts = GroupCommit(write)
    with ThreadPoolExecutor(6) as pool:
        futures = [pool.submit(inserts.insert, InsertSingle(draft, NOW)) for draft in notes(6)]
        for _ in range(2):
            entered.acquire(timeout=TIMEOUT)
        wait_until(lambda: sum(len(waiting.waiting) for waiting in inserts._scopes.values()) == 4)
        fails.set()
        errors = [future.exception(TIMEOUT) for future in futures]
    assert sum(error is None for error in errors) >= 2
    assert sum(isinstance(error, OSError) for error in errors) >= 2
    assert inserts._scopes == {}
    assert inserts.insert(InsertSingle(make_draft("later", generated_id="later"), NOW))
    client.close()


@pytest.mark.parametrize(
    ("waiting", "in_flight", "begins", "taken"),
    [(0, 0, True, 0), (0, 1, True, 0), (0, 4, False, 0), (3, 4, True, 3), (7, 1, True, 4), (7, 0, True, 7), (200, 9, True, 64)],
)  # fmt: skip
def test_transactions_under_way_are_alike_in_size(waiting, in_flight, begins, taken):
    inserts = _ScopeInserts()
    inserts.waiting = [_WaitingInsert(InsertSingle(draft, NOW)) for draft in notes(waiting)]
    first = inserts.waiting[:taken]
    inserts.transactions, inserts.in_flight = min(in_flight, 1), in_flight
    assert inserts.may_begin() == begins
    assert inserts.take_group() == first
    assert len(inserts.waiting) == waiting - taken
    assert inserts.in_flight == in_flight + 1 + taken


def test_no_third_transaction_begins():
    inserts = _ScopeInserts()
    inserts.transactions, inserts.in_flight = 2, 2
    inserts.waiting = [_WaitingInsert(InsertSingle(draft, NOW)) for draft in notes(5)]
    assert not inserts.may_begin()
