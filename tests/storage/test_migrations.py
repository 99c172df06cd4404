"""A made-up next migration is applied to a store of today; stores of schemas that are not known are refused."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import apsw
import psycopg
import pytest

from lukasa.errors import StoreForeign, StoreNewer
from lukasa.storage.postgres import PostgresEngine, schema
from lukasa.storage.sqlite import SqliteEngine, store_file
from lukasa.testing import FrozenClock
from lukasa.testing.contract.base import add, make_draft, write_note
from lukasa.testing.contract.example_store import dump_store, fill_example_store

NEXT = """
    CREATE TABLE note (seq bigint PRIMARY KEY, line text NOT NULL);
    INSERT INTO note SELECT seq, line FROM log;
    CREATE INDEX note_by_line ON note (line);
"""
_OPTIONS = "-c search_path=lukasa,public"


@pytest.fixture
def next_migration(monkeypatch):
    """Add a migration after the newest one of both engines."""

    def add_next():
        for migrations in (store_file.MIGRATIONS, schema.MIGRATIONS):
            monkeypatch.setitem(migrations.scripts, migrations.latest + 1, NEXT)

    return add_next


def fill(engine, clock):
    fill_example_store(engine, clock)
    assert add(engine, make_draft("answered once", id="keyed"), key="key")
    return dump_store(engine, positions=False)


def check(engine, before, reported):
    """Compare with the store before, then use it."""
    assert dump_store(engine, positions=False) == before
    assert engine.verify().findings == ()
    assert [record.id for record in add(engine, make_draft("answered once", id="keyed"), key="key")] == ["keyed"]
    write_note(engine, "after", "the build server runs on port 9090 of the new machine")
    engine.reindex()
    assert engine.verify().findings == ()
    assert reported == [(1, 1)]


@pytest.mark.requirement("OPS-2")
def test_a_sqlite_store_is_migrated_after_a_copy_was_made_beside_it(tmp_path, next_migration):
    clock, path, reported = FrozenClock(), tmp_path / "old.db", []
    engine = SqliteEngine(path, clock=clock)
    before = fill(engine, clock)
    engine.close()
    old = store_file.MIGRATIONS.latest
    next_migration()
    engine = SqliteEngine(path, clock=clock, progress=lambda done, total: reported.append((done, total)))
    check(engine, before, reported)
    engine.close()
    SqliteEngine(path, progress=lambda *_: pytest.fail("nothing is left to do")).close()
    copy = apsw.Connection(str(tmp_path / f"old.db.before-schema-{old + 1}"))
    assert copy.pragma("user_version") == old
    assert copy.execute("SELECT count(*) FROM log").get > 0
    copy.close()


@pytest.mark.requirement("OPS-2")
def test_a_postgres_store_is_migrated(fresh_store, next_migration):
    clock, url, reported = FrozenClock(), fresh_store(), []
    engine = PostgresEngine(url, clock=clock)
    before = fill(engine, clock)
    engine.close()
    next_migration()
    engine = PostgresEngine(url, clock=clock, progress=lambda done, total: reported.append((done, total)))
    check(engine, before, reported)
    assert engine.describe()["schema"] == schema.MIGRATIONS.latest
    engine.close()


@pytest.mark.requirement("OPS-2")
def test_a_postgres_migration_that_fails_leaves_the_store_as_it_was(fresh_store, next_migration, monkeypatch):
    clock, url = FrozenClock(), fresh_store()
    engine = PostgresEngine(url, clock=clock)
    before = fill(engine, clock)
    engine.close()
    with monkeypatch.context():
        next_migration()
        schema.MIGRATIONS.scripts[schema.MIGRATIONS.latest] += "SELECT 1 / 0;"
        with pytest.raises(Exception, match="division by zero"):
            PostgresEngine(url)
        del schema.MIGRATIONS.scripts[schema.MIGRATIONS.latest]
    engine = PostgresEngine(url, clock=clock)
    assert dump_store(engine, positions=False) == before
    engine.close()


@pytest.mark.requirement("OPS-2")
def test_an_opener_that_waited_for_another_to_make_the_store_finds_it(postgres):
    with (
        postgres.database() as url,
        psycopg.connect(url, autocommit=True, options=_OPTIONS) as first,
        psycopg.connect(url, autocommit=True, options=_OPTIONS) as second,
        ThreadPoolExecutor() as threads,
    ):
        first.execute("SELECT pg_advisory_lock(19531, 1)")
        waiting = threads.submit(schema.migrate, second)
        while not first.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").fetchone():
            assert not waiting.done()
        first.execute("CREATE SCHEMA lukasa CREATE TABLE meta (name text PRIMARY KEY, value text)")
        first.execute("INSERT INTO meta VALUES ('schema', %s)", (str(schema.MIGRATIONS.latest),))
        first.execute("SELECT pg_advisory_unlock(19531, 1)")
        waiting.result(timeout=60)


@pytest.mark.parametrize(
    ("schema_number", "error", "way_out"),
    [(1, StoreForeign, "Export it"), (7, StoreForeign, "Export it"), (99, StoreNewer, "Upgrade")],
)
def test_a_store_of_a_schema_that_is_not_known_is_refused_and_left_untouched(
    tmp_path, fresh_store, schema_number, error, way_out
):
    path, url = tmp_path / "old.db", fresh_store()
    SqliteEngine(path).close()
    database = apsw.Connection(str(path))
    database.execute(f"PRAGMA user_version = {schema_number}")
    database.close()
    content = path.read_bytes()
    with psycopg.connect(url, options=_OPTIONS) as server:
        server.execute("UPDATE meta SET value = %s WHERE name = 'schema'", (str(schema_number),))
    for open_store in (lambda: SqliteEngine(path), lambda: PostgresEngine(url)):
        with pytest.raises(error, match=f"schema {schema_number}") as refusal:
            open_store()
        assert way_out in (refusal.value.hint or "")
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


OPEN_AND_DIE = """
import os, signal, sys
from pathlib import Path
import apsw
from lukasa.storage.sqlite import SqliteEngine, store_file
store_file.MIGRATIONS.scripts[store_file.MIGRATIONS.latest + 1] = sys.argv[3]
done, last = 0, int(sys.argv[2])
def count_step(*_):
    global done
    done += 1
    if done == last:
        os.kill(os.getpid(), signal.SIGKILL)
    return True
def watch(database):
    database.exec_trace = count_step
apsw.connection_hooks.append(watch)
engine = SqliteEngine(Path(sys.argv[1]))
assert engine.verify().findings == ()
print(done)
engine.close()
"""


def kill_at_steps(tmp_path, next_migration, steps, openers):
    """Kill the migration at some of its statements, each in a fresh copy; then let many open the store at once."""
    clock, store = FrozenClock(), tmp_path / "store.db"
    engine = SqliteEngine(store, clock=clock)
    before = fill(engine, clock)
    engine.close()

    def command(path, step):
        return [sys.executable, "-c", OPEN_AND_DIE, path, str(step), NEXT]

    whole = tmp_path / "whole.db"
    shutil.copy(store, whole)
    total = int(subprocess.run(command(whole, 0), check=True, capture_output=True, text=True).stdout)
    assert total > 20
    next_migration()
    for step in steps(total):
        path = tmp_path / f"killed-{step}.db"
        shutil.copy(store, path)
        killed = subprocess.run(command(path, step), check=False)
        assert killed.returncode == -signal.SIGKILL, step
        running = [subprocess.Popen(command(path, 0), stderr=subprocess.PIPE) for _ in range(openers)]
        for opener in running:
            _, said = opener.communicate(timeout=300)
            assert opener.returncode == 0, (step, said.decode())
        engine = SqliteEngine(path, clock=clock)
        assert dump_store(engine, positions=False) == before
        assert engine.verify().findings == ()
        engine.close()
        assert not [file for file in tmp_path.iterdir() if file.name.endswith((".part", "-journal"))]


@pytest.mark.requirement("OPS-2")
def test_a_store_whose_migration_was_killed_is_opened_by_two_at_once(tmp_path, next_migration):
    kill_at_steps(tmp_path, next_migration, lambda total: [total // 2], openers=2)


@pytest.mark.slow
@pytest.mark.requirement("OPS-2")
def test_a_store_whose_migration_was_killed_at_any_of_ten_steps_is_opened_by_ten(tmp_path, next_migration):
    def ten_steps(total):
        return sorted({1 + number * (total - 1) // 9 for number in range(10)})

    kill_at_steps(tmp_path, next_migration, ten_steps, openers=10)
