"""A store of an older schema opens under the newest schema with every record, and verifies sound."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import apsw
import psycopg
import pytest

from lukasa.core.scope import FULL_REACH
from lukasa.storage.engine import Query
from lukasa.storage.postgres import PostgresEngine, schema
from lukasa.storage.sqlite import SqliteEngine, store_file
from lukasa.testing import FrozenClock
from lukasa.testing.contract.base import add, make_draft, make_key, write_note
from lukasa.testing.contract.example_store import dump_store, fill_example_store

KINDS = frozenset({"memory"})
OLD_SCHEMA = 2
OLD_TABLE_NAMES = {
    "not_current": "past",
    "quarantine": "veil",
    "duplicate_key": "near",
    "idempotency": "answered",
    "meta": "fact",
}
NEW_COLUMNS = {("vector_1", "checksum")}
OLD_COLUMN_NAMES = {"pair_key": "mark", "pair_keys": "marks", "group_label": "session"}


def fill(engine, clock) -> None:
    """Fill every table: the example store, a text with near-duplicate keys, and an answered idempotency key."""
    fill_example_store(engine, clock)
    write_note(engine, "fact", "the build server runs on port 8080 of the old machine", kind="memory")
    write_note(engine, "turn", "one", labels=("session=s",))
    write_note(engine, "turn 2", "two", labels=("session=s",))
    assert add(engine, make_draft("answered once", id="keyed"), key="key")


def check_migrated(engine, before) -> None:
    """Compare with the store before, then use what the migration renamed."""
    assert dump_store(engine, positions=False) == before
    assert engine.verify().findings == ()
    assert [record.id for record in add(engine, make_draft("answered once", id="keyed"), key="key")] == ["keyed"]
    assert len(history(engine, "keyed")) == 1
    write_note(engine, "fact", "the build server runs on port 9090 of the new machine", kind="memory")
    engine.reindex()
    assert engine.verify().findings == ()


def copy_vectors(old) -> None:
    """Copy the vectors of the attached store as schema 4 had them, each with the name of its model and a sketch."""
    old.execute(
        "INSERT INTO main.vector SELECT name, seq, chunk, zeroblob(8), vector FROM source.vector JOIN source.model ON model = number"
    )


def history(engine, id):
    with engine.snapshot(FULL_REACH) as reader:
        return reader.history(make_key(id))


@pytest.mark.requirement("OPS-2")
def test_a_sqlite_store_of_schema_2_is_migrated(tmp_path) -> None:
    clock, source, path = FrozenClock(), tmp_path / "source.db", tmp_path / "old.db"
    engine = SqliteEngine(source, clock=clock, near_duplicate_kinds=KINDS)
    fill(engine, clock)
    before = dump_store(engine, positions=False)
    engine.close()
    old = apsw.Connection(str(path))
    for number, script in store_file.load_migrations():
        if number <= OLD_SCHEMA:
            old.execute(script)
    old.execute(f"PRAGMA application_id = {store_file.APPLICATION_ID}; PRAGMA user_version = {OLD_SCHEMA}")
    old.execute("ATTACH ? AS source", (str(source),))
    copy_vectors(old)
    for table in ("log", "not_current", "quarantine", "hidden", "label", "link", "tally", *OLD_TABLE_NAMES):
        name = OLD_TABLE_NAMES.get(table, table)
        old.execute(f"INSERT OR IGNORE INTO main.{name} SELECT * FROM source.{table}")
        assert old.execute(f"SELECT EXISTS (SELECT 1 FROM main.{name})").get, table
    for index in ("words", "past_words"):
        old.execute(f"INSERT INTO {index} ({index}) VALUES ('rebuild')")
    old.close()
    engine = SqliteEngine(path, clock=clock, near_duplicate_kinds=KINDS)
    check_migrated(engine, before)
    engine.close()
    copy = apsw.Connection(str(tmp_path / f"old.db.before-schema-{store_file.SCHEMA_VERSION}"))
    assert copy.pragma("user_version") == OLD_SCHEMA
    assert copy.execute("SELECT count(*) FROM past").get > 0
    copy.close()


@pytest.mark.requirement("OPS-2")
def test_the_vectors_of_a_sqlite_store_of_schema_4_are_found_by_their_sketches(tmp_path) -> None:
    source, path = tmp_path / "source.db", tmp_path / "old.db"
    engine = SqliteEngine(source)
    seqs = [write_note(engine, "first", "first").seq]
    add(engine, *(make_draft(f"text {number}", id=f"n{number}") for number in range(4_500)))
    seqs += range(seqs[0] + 1, seqs[0] + 4_501)
    vectors = [[float((seq * prime) % 101) - 50.0 for prime in range(1, 65)] for seq in seqs]
    engine.put_vectors("m", [(seq, 0, vector) for seq, vector in zip(seqs, vectors, strict=True)])
    engine.close()
    old = apsw.Connection(str(path))
    for number, script in store_file.load_migrations():
        if number <= 4:
            store_file.register_functions(old)
            old.execute(script)
    old.execute(f"PRAGMA application_id = {store_file.APPLICATION_ID}; PRAGMA user_version = 4")
    old.execute("ATTACH ? AS source", (str(source),))
    copy_vectors(old)
    for table in ("log", "not_current", "label", "tally", "meta"):
        old.execute(f"INSERT OR IGNORE INTO main.{table} SELECT * FROM source.{table}")
    for index in ("words", "past_words"):
        old.execute(f"INSERT INTO {index} ({index}) VALUES ('rebuild')")
    old.close()
    engine = SqliteEngine(path)
    assert engine.verify().findings == ()
    with engine._borrow_connection() as database:
        assert database.execute("SELECT count(*), sum(length(seqs)) / 8 FROM sketch_block").fetchall() == [(1, 4_501)]
    with engine.snapshot(FULL_REACH) as reader:
        (match,) = reader.match_vector("m", vectors[4_000], Query(limit=1))
    assert match.score == pytest.approx(1.0, abs=1e-3)
    engine.close()


@pytest.mark.requirement("OPS-2")
def test_the_vectors_of_a_sqlite_store_of_schema_6_are_all_kept(tmp_path) -> None:
    source, path = tmp_path / "source.db", tmp_path / "old.db"
    engine = SqliteEngine(source)
    seqs = [write_note(engine, f"n{number}", f"text {number}").seq for number in range(20)]
    rows = [(seq, chunk, [1.0, seq, chunk]) for seq in seqs for chunk in (0, 1, 4_095)]
    for model in ("m", "other"):
        engine.put_vectors(model, rows)
    engine.close()
    old = apsw.Connection(str(path))
    store_file.register_functions(old)
    for number, script in store_file.load_migrations():
        if number <= 6:
            old.execute(script)
    old.execute(f"PRAGMA application_id = {store_file.APPLICATION_ID}; PRAGMA user_version = 6")
    old.execute("ATTACH ? AS source", (str(source),))
    old.execute("INSERT INTO main.model SELECT number, name FROM source.model")
    old.execute("INSERT INTO main.vector SELECT model, seq, chunk, vector FROM source.vector ORDER BY random()")
    for table in ("log", "not_current", "label", "tally", "meta"):
        old.execute(f"INSERT OR IGNORE INTO main.{table} SELECT * FROM source.{table}")
    for index in ("words", "past_words"):
        old.execute(f"INSERT INTO {index} ({index}) VALUES ('rebuild')")
    content = "SELECT name, seq, chunk, vector FROM vector JOIN model ON model.number = vector.model ORDER BY 1, 2, 3"
    before = old.execute(content).fetchall()
    old.close()
    engine = SqliteEngine(path)
    assert engine.verify().findings == ()
    with engine._borrow_connection() as database:
        assert len(before) == 2 * len(rows)
        assert database.execute(content).fetchall() == before
    engine.close()


@pytest.mark.requirement("OPS-2")
def test_an_opener_that_waited_for_the_migration_of_another_finds_its_store(postgres) -> None:
    options = "-c search_path=lukasa,public"
    with (
        postgres.database() as url,
        psycopg.connect(url, autocommit=True, options=options) as first,
        psycopg.connect(url, autocommit=True, options=options) as second,
        ThreadPoolExecutor() as threads,
    ):
        first.execute("SELECT pg_advisory_lock(19531, 1)")
        waiting = threads.submit(schema.migrate, second)
        while not first.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").fetchone():
            assert not waiting.done()
        first.execute("CREATE SCHEMA lukasa CREATE TABLE meta (name text PRIMARY KEY, value text)")
        first.execute("INSERT INTO meta VALUES ('schema', %s)", (str(schema.latest_version()),))
        first.execute("SELECT pg_advisory_unlock(19531, 1)")
        waiting.result(timeout=60)


@pytest.mark.requirement("OPS-2")
def test_a_postgres_store_of_schema_2_is_migrated(postgres, fresh_store) -> None:
    clock = FrozenClock()
    with postgres.database() as old_url:
        source_url = fresh_store()
        engine = PostgresEngine(source_url, clock=clock, near_duplicate_kinds=KINDS, group_label="session")
        fill(engine, clock)
        before = dump_store(engine, positions=False)
        engine.close()
        options = "-c search_path=lukasa,public"
        with (
            psycopg.connect(old_url, autocommit=True, options=options) as old,
            psycopg.connect(source_url, autocommit=True, options=options) as source,
        ):
            old.execute("CREATE SCHEMA lukasa; CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
            for number, script in schema.load_migrations():
                if number <= OLD_SCHEMA:
                    old.execute(script)
            old.execute("CREATE TABLE vector_1 (scope text, seq bigint, chunk integer, vector halfvec(2))")
            for table in ("log", "link", "hidden", "quarantine", "tally", "idempotency", "meta", "model", "vector_1"):
                assert copy_table(source, old, table)
            old.execute("UPDATE fact SET value = %s WHERE name = 'schema'", (str(OLD_SCHEMA),))
            ((position,),) = source.execute("SELECT newest_position()").fetchall()
            old.execute("SELECT setval('position', %s)", (position,))
        engine = PostgresEngine(old_url, clock=clock, near_duplicate_kinds=KINDS, group_label="session")
        with psycopg.connect(old_url) as migrated:  # a single insert looks for the quarantine that there was
            assert migrated.execute("SELECT pg_sequence_last_value('lukasa.exception') > 0").fetchall() == [(True,)]
        check_migrated(engine, before)
        engine.close()
        with psycopg.connect(old_url, autocommit=True) as migrated, psycopg.connect(source_url) as fresh:
            names = (
                "SELECT relname FROM pg_class WHERE relnamespace = 'lukasa'::regnamespace AND relname !~ '^vector_1'"
            )
            assert set(migrated.execute(names)) == set(fresh.execute(names))


def copy_table(source, old, table) -> int:
    """Copy a table's rows into the old schema; return how many."""
    columns = [
        name
        for (name,) in source.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND attgenerated = ''",
            (table,),
        )
        if (table, name) not in NEW_COLUMNS
    ]
    old_columns = [OLD_COLUMN_NAMES.get(name, name) for name in columns]
    rows = source.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()
    if table == "model":
        old.execute("INSERT INTO model (name, length) SELECT 'm', 2")
        return len(rows)
    with old.cursor() as cursor:
        target = f"{OLD_TABLE_NAMES.get(table, table)} ({', '.join(old_columns)})"
        cursor.executemany(f"INSERT INTO {target} VALUES ({', '.join('%s' for _ in columns)})", rows)
    return len(rows)


SCRIPTS = {
    "zh": "明天确定部署方案",
    "ja": "会議は三時",
    "ko": "배포를 시작",
    "th": "การประชุม",
    "hi": "दिल्ली में",
    "ru": "Новый ёж",
}
ASKED = {"zh": "部署", "ja": "会議", "ko": "배포", "th": "ประชุม", "hi": "दिल्ली", "ru": "новый"}
OLD_TOKENIZER = ["unicode61", "remove_diacritics", "2"]


def fill_scripts(engine) -> None:
    write_note(engine, "plain", "the build server is green")
    for id, text in SCRIPTS.items():
        write_note(engine, id, "an earlier text 以前の文")
        write_note(engine, id, text)


def find_scripts(engine) -> dict[str, list[str]]:
    with engine.snapshot(FULL_REACH) as reader:
        return {id: [match.record.id for match in reader.match_text(word)] for id, word in ASKED.items()}


@pytest.fixture
def sqlite_store_of_schema_3(tmp_path):
    """Make the file that Lukasa wrote before its text index knew every script."""
    clock, source, path = FrozenClock(), tmp_path / "source.db", tmp_path / "old.db"
    engine = SqliteEngine(source, clock=clock)
    fill_scripts(engine)
    engine.close()
    old = apsw.Connection(str(path))
    for number, script in store_file.load_migrations():
        if number <= 3:
            old.execute(script)
    old.execute("PRAGMA journal_mode = WAL").fetchall()
    old.execute(f"PRAGMA application_id = {store_file.APPLICATION_ID}; PRAGMA user_version = 3")
    old.execute("ATTACH ? AS source", (str(source),))
    copy_vectors(old)
    for table in ("log", "not_current", "quarantine", "hidden", "label", "link", "tally", "meta"):
        old.execute(f"INSERT OR IGNORE INTO main.{table} SELECT * FROM source.{table}")
    for index in ("words", "past_words"):
        old.execute(f"INSERT INTO {index} ({index}) VALUES ('rebuild')")
    assert old.execute("SELECT count(*) FROM words WHERE words MATCH '会議'").get == 0, "the old index misses it"
    old.close()
    return path


@pytest.mark.requirement("RCL-5", "RCL-10")
def test_the_text_index_of_an_older_sqlite_store_is_rebuilt_on_opening(sqlite_store_of_schema_3) -> None:
    reported: list[tuple[int, int]] = []
    engine = SqliteEngine(sqlite_store_of_schema_3, progress=lambda done, total: reported.append((done, total)))
    assert find_scripts(engine) == {id: [id] for id in SCRIPTS}
    assert engine.verify().findings == ()
    assert reported[-1][0] == reported[-1][1] > len(SCRIPTS)
    engine.close()
    engine = SqliteEngine(sqlite_store_of_schema_3, progress=lambda done, total: pytest.fail("nothing is left to do"))
    engine.close()


@pytest.mark.requirement("RCL-5", "RCL-10")
@pytest.mark.parametrize("moment", ["before", "while indexing", "after"])
def test_a_migration_that_is_killed_leaves_a_store_that_opens(sqlite_store_of_schema_3, moment) -> None:
    script = f"""
import os, signal, sys
from pathlib import Path
from lukasa.storage.sqlite import SqliteEngine, store_file
def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)
store_file._PAGE_SIZE = 3
if {moment!r} == "before":
    store_file.load_migrations = kill
    store_file.migrate.__globals__["load_migrations"] = kill
engine = SqliteEngine(Path(sys.argv[1]), progress=kill if {moment!r} == "while indexing" else None)
kill()
"""
    run = subprocess.run(
        [sys.executable, "-c", script, str(sqlite_store_of_schema_3)], timeout=60, env=os.environ, check=False
    )
    assert run.returncode == -signal.SIGKILL
    copy = sqlite_store_of_schema_3.with_name(f"old.db.before-schema-{store_file.SCHEMA_VERSION}")
    assert copy.exists()
    engine = SqliteEngine(sqlite_store_of_schema_3)
    assert find_scripts(engine) == {id: [id] for id in SCRIPTS}
    assert engine.verify().findings == ()
    engine.close()


OPEN_AND_DIE = """
import os, signal, sys
from pathlib import Path
import apsw
from lukasa.storage.sqlite import SqliteEngine
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


def kill_at_steps(store, tmp_path, steps, openers) -> None:
    """Kill the migration at some of its statements, each in a fresh copy; then let many open the store at once."""
    command = [sys.executable, "-c", OPEN_AND_DIE]
    whole = tmp_path / "whole.db"
    shutil.copy(store, whole)
    counted = subprocess.run([*command, whole, "0"], check=True, capture_output=True, text=True)
    total = int(counted.stdout)
    assert total > 20
    for step in steps(total):
        path = tmp_path / f"killed-{step}.db"
        shutil.copy(store, path)
        killed = subprocess.run([*command, path, str(step)], check=False)
        assert killed.returncode == -signal.SIGKILL, step
        running = [subprocess.Popen([*command, path, "0"], stderr=subprocess.PIPE) for _ in range(openers)]
        for opener in running:
            _, said = opener.communicate(timeout=300)
            assert opener.returncode == 0, (step, said.decode())
        engine = SqliteEngine(path)
        assert find_scripts(engine) == {id: [id] for id in SCRIPTS}
        assert engine.verify().findings == ()
        engine.close()
        assert not [file for file in tmp_path.iterdir() if file.name.endswith((".part", "-journal"))]


@pytest.mark.requirement("OPS-2")
def test_a_store_whose_migration_was_killed_is_opened_by_two_at_once(sqlite_store_of_schema_3, tmp_path) -> None:
    kill_at_steps(sqlite_store_of_schema_3, tmp_path, lambda total: [total // 2], openers=2)


@pytest.mark.slow
@pytest.mark.requirement("OPS-2")
def test_a_store_whose_migration_was_killed_at_any_of_ten_steps_is_opened_by_ten(
    sqlite_store_of_schema_3, tmp_path
) -> None:
    def ten_steps(total: int) -> list[int]:
        return sorted({1 + number * (total - 1) // 9 for number in range(10)})

    kill_at_steps(sqlite_store_of_schema_3, tmp_path, ten_steps, openers=10)


@pytest.mark.requirement("RCL-5", "RCL-10")
def test_the_text_index_of_an_older_postgres_store_is_rebuilt_on_opening(postgres, fresh_store) -> None:
    clock, source_url = FrozenClock(), fresh_store()
    engine = PostgresEngine(source_url, clock=clock)
    fill_scripts(engine)
    before = engine.verify().versions
    engine.close()
    with postgres.database() as url:
        create_store_of_schema_3(source_url, url)
        check_rebuilt_text_index(clock, url, before)


def create_store_of_schema_3(source_url, url) -> None:
    """Copy the log and the counts of a store into one of schema 3."""
    options = "-c search_path=lukasa,public"
    with (
        psycopg.connect(source_url, options=options) as source,
        psycopg.connect(url, autocommit=True, options=options) as old,
    ):
        old.execute("CREATE SCHEMA lukasa")
        for number, script in schema.load_migrations():
            if number <= 3:
                old.execute(script)
        for table in ("log", "tally", "meta"):
            rows = source.execute(f"SELECT * FROM {table}")
            columns = [column.name for column in rows.description or ()]
            names, values = ", ".join(columns), ", ".join(["%s"] * len(columns))
            with old.cursor() as cursor:
                cursor.executemany(f"INSERT INTO {table} ({names}) VALUES ({values})", rows.fetchall())
        old.execute("SELECT setval('position', (SELECT max(seq) FROM log))")


def check_rebuilt_text_index(clock, url, before) -> None:
    words = apsw.Connection(":memory:")
    words.execute("CREATE VIRTUAL TABLE words USING fts5 (text)")
    tokenize = words.fts5_tokenizer("porter", OLD_TOKENIZER)
    with psycopg.connect(url, options="-c search_path=lukasa,public") as old:
        for seq, text in old.execute("SELECT seq, line::json ->> 'text' FROM log WHERE tokens IS NOT NULL").fetchall():
            tokens = tokenize(text.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False)
            names = [token[0] if isinstance(token, tuple) else token for token in tokens]
            vector = " ".join(f"{name}:{place}" for place, name in enumerate(names, 1))
            old.execute("UPDATE log SET tokens = %s, words = %s::tsvector WHERE seq = %s", (len(names), vector, seq))
        old.execute("UPDATE meta SET value = '3' WHERE name = 'schema'")
    reported: list[tuple[int, int]] = []
    engine = PostgresEngine(url, clock=clock, progress=lambda done, total: reported.append((done, total)))
    assert find_scripts(engine) == {id: [id] for id in SCRIPTS}
    report = engine.verify()
    assert (report.findings, report.versions) == ((), before)
    assert reported[-1][0] == reported[-1][1] >= 2 * len(SCRIPTS)
    engine.close()
