"""The file of a SQLite store: schema, settings, file modes, and files that are refused."""

from __future__ import annotations

import ast
import os
import re
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import apsw.ext
import pytest

import lukasa.storage.sqlite
from lukasa.errors import StoreDamaged, StoreError, StoreForeign, StoreNewer
from lukasa.storage.sqlite import SqliteEngine, store_file
from lukasa.storage.sqlite.sql import SQL
from lukasa.storage.sqlite.writer import insert_rows
from lukasa.testing.contract.base import list_ids, write_note

_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"
_PACKAGE = Path(lukasa.storage.sqlite.__file__).parent


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store.db"


@pytest.fixture
def made(store):
    """Create a store with one note, and close it."""
    engine = SqliteEngine(store)
    write_note(engine, "a", "hello")
    engine.close()
    return store


def query(path, statement):
    database = apsw.Connection(str(path))
    try:
        return list(database.execute(statement))
    finally:
        database.close()


def foreign_database(path, mode="delete"):
    """Open a database of another program."""
    database = apsw.Connection(str(path))
    for statement in (f"PRAGMA journal_mode = {mode}", "CREATE TABLE precious (x)", "INSERT INTO precious VALUES (1)"):
        list(database.execute(statement))
    return database


def read_folder(folder):
    return {file.name: (file.read_bytes(), file.stat().st_mode) for file in sorted(folder.iterdir())}


class TestSchema:
    def test_a_fresh_store_is_the_sum_of_the_migrations(self, made):
        database = apsw.Connection(":memory:")
        for script in store_file.MIGRATIONS.after(0):
            database.execute(script)
        assert query(made, _SCHEMA) == list(database.execute(_SCHEMA))

    def test_migrations_are_numbered_without_gaps_and_the_last_is_the_schemas_version(self, made):
        numbers = list(store_file.MIGRATIONS.scripts)
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert query(made, "PRAGMA user_version") == [(numbers[-1],)]
        assert query(made, "PRAGMA application_id") == [(store_file.APPLICATION_ID,)]

    @pytest.mark.requirement("LOG-3")
    def test_connections_sync_every_commit_and_overwrite_freed_pages(self, store):
        engine = SqliteEngine(store)
        facts = engine.describe()
        assert facts["journal_mode"] == "wal"
        assert facts["synchronous"] == 2, "FULL"
        for connection in (engine._writer.run_exclusively(lambda database: database), engine._connect_reader()):
            assert connection.pragma("journal_mode") == "wal"
            assert connection.pragma("synchronous") == 2
            assert connection.pragma("secure_delete") == 1, "freed pages are overwritten"
            assert connection.pragma("trusted_schema") == 0, "a crafted file runs no functions"
            assert connection.pragma("mmap_size") in (0, None)
        engine.close()

    def test_sqlite_is_free_of_the_wal_reset_bug(self):
        assert apsw.sqlite_lib_version().split(".") > ["3", "51", "2"]


class TestRefusals:
    @pytest.mark.requirement("LOG-9")
    def test_a_process_that_stays_open_does_not_write_to_another_schema(self, made):
        """An older process would leave an index incomplete that a newer one relies on."""
        engine = SqliteEngine(made)
        write_note(engine, "b", "hello")
        database = apsw.Connection(str(made))
        database.execute(f"PRAGMA user_version = {store_file.MIGRATIONS.latest + 1}")
        with pytest.raises(StoreNewer, match=f"changed to schema {store_file.MIGRATIONS.latest + 1}"):
            write_note(engine, "c", "hello")
        database.execute(f"PRAGMA user_version = {store_file.MIGRATIONS.latest}")
        write_note(engine, "d", "hello")
        assert list_ids(engine) == ["a", "b", "d"]
        database.close()
        engine.close()

    @pytest.mark.parametrize("mode", ["delete", "wal"])
    def test_a_database_of_another_program_is_refused_and_left_untouched(self, store, mode):
        foreign_database(store, mode).close()
        before = read_folder(store.parent)
        with pytest.raises(StoreForeign, match="untouched"):
            SqliteEngine(store)
        assert read_folder(store.parent) == before

    def test_a_database_that_another_program_has_open_is_refused_and_left_untouched(self, store):
        database = foreign_database(store, "wal")
        with pytest.raises(StoreForeign, match="untouched"):
            SqliteEngine(store)
        assert list(database.execute("SELECT * FROM precious")) == [(1,)]
        database.close()
        assert query(store, "SELECT name FROM sqlite_schema") == [("precious",)]

    @pytest.mark.parametrize(
        "content",
        [b"hello", b"x" * 10_000, b"\0" * 4096, b"SQLite format 3\0" + b"\xff" * 5000, b"\x1f\x8b" + b"\7" * 50],
        ids=["short text", "long text", "zeros", "false header", "archive"],
    )
    def test_a_file_that_is_no_database_is_refused_and_left_untouched(self, store, content):
        store.write_bytes(content)
        before = read_folder(store.parent)
        with pytest.raises(StoreError):
            SqliteEngine(store)
        assert read_folder(store.parent) == before

    def test_a_folder_is_no_store(self, tmp_path):
        folder = tmp_path / "folder"
        folder.mkdir()
        with pytest.raises(StoreForeign, match="folder"):
            SqliteEngine(folder)
        assert list(folder.iterdir()) == []

    def test_an_emptied_file_is_not_taken_for_a_new_store(self, store):
        store.touch()
        with pytest.raises(StoreDamaged, match="empty"):
            SqliteEngine(store)
        assert store.read_bytes() == b""
        assert [file.name for file in store.parent.iterdir()] == [store.name]

    @pytest.mark.parametrize(
        "name", ["a b.db", "sto?re#1.db", "100%.db", "\u65e5\u672c.db", "file:x.db", "-x", ".hidden"]
    )
    def test_a_store_may_have_any_file_name(self, tmp_path, name):
        path = tmp_path / name
        engine = SqliteEngine(path)
        write_note(engine, "a")
        engine.backup(tmp_path / f"{name}.copy")
        engine.close()
        copy = SqliteEngine(tmp_path / f"{name}.copy")
        assert list_ids(copy) == ["a"]
        copy.close()
        assert {file.name for file in tmp_path.iterdir()} == {name, f"{name}.copy"}


class TestFileModes:
    def test_only_the_owner_can_read_created_files_and_folders(self, tmp_path):
        before = os.umask(0)
        try:
            path = tmp_path / "deep" / "deeper" / "store.db"
            engine = SqliteEngine(path)
            write_note(engine, "a")
            engine.backup(path.with_name("copy.db"))
            made = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
            engine.close()
        finally:
            os.umask(before)
        assert made == dict.fromkeys(["store.db", "store.db-wal", "store.db-shm", "store.db-head", "copy.db"], 0o600)
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700


_OPENER = """
import sys
from pathlib import Path
from lukasa.storage.sqlite import SqliteEngine
from lukasa.testing.contract.base import write_note
engine = SqliteEngine(Path(sys.argv[1]))
write_note(engine, sys.argv[2])
engine.close()
"""

_FORK = """
import os, sys
from pathlib import Path
from lukasa.storage.sqlite import SqliteEngine
from lukasa.testing.contract.base import list_ids, write_note

engine = SqliteEngine(Path(sys.argv[1]))
write_note(engine, "parent before")
child = os.fork()
if child == 0:
    code = 1
    try:
        assert list_ids(engine)[0] == "parent before"
        write_note(engine, "child")
        assert engine.verify().sound
        engine.close()
        code = 0
    finally:
        os._exit(code)
for number in range(20):
    write_note(engine, f"parent {number}")
_, status = os.waitpid(child, 0)
assert status == 0, status
write_note(engine, "parent after")
assert "child" in list_ids(engine)
assert len(list_ids(engine)) == 23
assert engine.verify().sound
engine.close()
engine.close()
again = SqliteEngine(Path(sys.argv[1]))
assert len(list_ids(again)) == 23
again.close()
"""


def run(script, *arguments):
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True, timeout=120
    )


class TestProcesses:
    @pytest.mark.requirement("LOG-3")
    def test_ten_processes_may_create_one_store_at_once(self, store):
        with ThreadPoolExecutor(10) as pool:
            results = list(pool.map(lambda number: run(_OPENER, store, f"n{number}"), range(10)))
        assert [(result.returncode, result.stderr) for result in results] == [(0, "")] * 10
        engine = SqliteEngine(store)
        assert sorted(list_ids(engine)) == [f"n{number}" for number in range(10)]
        assert engine.verify().sound
        engine.close()
        assert [file.name for file in store.parent.iterdir()] == [store.name]

    @pytest.mark.requirement("LOG-3")
    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
    def test_a_forked_process_uses_the_store_without_harm_to_its_parent(self, store):
        result = run(_FORK, store)
        assert (result.returncode, result.stderr) == (0, "")


def statements_named_in_code():
    """Return the names used as ``SQL["x"]``, ``SQL[f"x_{y}"]`` or handed over as text, with f-strings as patterns."""
    used, strings = set(), set()
    for file in (*_PACKAGE.rglob("*.py"), *_PACKAGE.parent.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "SQL":
                used |= patterns(node.slice)
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                strings.add(re.escape(node.value))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_query_rows":
                used |= patterns(node.args[1])
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("fetch_rows", "execute_many", "check_count", "_fetch_row", "_fetch_rows")
            ):
                used |= patterns(node.args[0])
    return used, strings | used


def patterns(node):
    if isinstance(node, ast.Constant):
        return {re.escape(str(node.value))}
    if isinstance(node, ast.IfExp):
        return patterns(node.body) | patterns(node.orelse)
    if isinstance(node, ast.JoinedStr):
        return {
            "".join(re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"\w+" for part in node.values)
        }
    return set()


class TestStatements:
    def test_every_statement_in_the_files_is_used(self):
        _, strings = statements_named_in_code()
        unused = [name for name in SQL if not any(re.fullmatch(pattern, name) for pattern in strings)]
        assert unused == []

    def test_every_statement_in_use_is_in_the_files(self):
        used, _ = statements_named_in_code()
        assert len(used) > 20
        missing = [pattern for pattern in used if not any(re.fullmatch(pattern, name) for name in SQL)]
        assert missing == []

    def test_every_statement_fits_the_schema(self):
        database = apsw.Connection(":memory:")
        store_file.register_functions(database)
        for script in store_file.MIGRATIONS.after(0):
            database.execute(script)
        shadows = [name for name in SQL if name.startswith("shadow_")]
        composed = [name for name in SQL if "{" in SQL[name]]
        for name in (*shadows, *(name for name in SQL if name not in shadows and name not in composed)):
            assert apsw.ext.query_info(database, SQL[name]).query == SQL[name]
            if name in shadows:
                database.execute(SQL[name])


def test_reading_by_label_starts_at_the_requested_position_of_the_index(tmp_path):
    """The position limits are repeated on the label; otherwise every earlier record of the label would be read."""
    from lukasa.core.record import Draft
    from lukasa.core.scope import FULL_REACH
    from lukasa.memory import open_memory
    from lukasa.storage.engine import Query
    from lukasa.storage.sqlite.reader import SqliteReader

    with open_memory(tmp_path / "labels.db") as memory:
        memory.journal.append(Draft("turn", f"turn {number}", labels=("session=s",)) for number in range(20))
        asked: dict[str, Any] = {"after": 5, "before": 15, "as_of": 12}
        query = Query(kinds=("turn",), labels=("session=s",), **asked)
        assert [record.seq for record in memory.journal.read(query)] == list(range(6, 13))
        database = apsw.Connection(str(tmp_path / "labels.db"))
        statement, values = SqliteReader(database, FULL_REACH)._build_selection(query)
        plan = " ".join(row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {statement}", values))
        database.close()
    assert "label=? AND scope=? AND seq>? AND seq<?" in plan


@pytest.mark.requirement("LOG-4")
def test_labels_of_one_scope_are_joined_before_any_entry_is_read(tmp_path):
    """A filter by two labels must not read the entries that have only one of them; any number of labels is allowed."""
    from lukasa.core.record import Draft
    from lukasa.core.scope import FULL_REACH, Reach
    from lukasa.memory import open_memory
    from lukasa.storage.engine import Query
    from lukasa.storage.sqlite.reader import SqliteReader

    many = tuple(f"tag={number}" for number in range(90))
    with open_memory(tmp_path / "labels.db") as memory:
        memory.journal.append(Draft("turn", labels=("session=s", f"half={number % 2}")) for number in range(6))
        memory.journal.append(Draft("turn", labels=many))
        query = Query(kinds=("turn",), scopes=("shared",), labels=("session=s", "half=1"), newest_first=True, limit=2)
        assert [record.seq for record in memory.journal.read(query)] == [6, 4]
        assert [record.seq for record in memory.journal.read(Query(scopes=("shared",), labels=many))] == [7]
        database = apsw.Connection(str(tmp_path / "labels.db"))
        reader = SqliteReader(database, FULL_REACH)
        statement, values = reader._build_statement(query, "log.seq")
        plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
        outside = SqliteReader(database, Reach.of(["ada"]))
        assert outside.read(query) == []
        assert [record.seq for record in SqliteReader(database, Reach.of(["shared", "ada"])).read(query)] == [6, 4]
        database.close()
    assert [line.split()[1] for line in plan[:3]] == ["label", "other_0", "log"]
    assert not any("TEMP B-TREE" in line for line in plan), "the index has the order already"


def test_no_statement_is_prepared_again_when_its_values_change(made):
    """SQLite with ``STAT4`` would prepare a statement again at each execution, which takes longer than a read by key."""
    for database in (store_file.connect(made, timeout=1), store_file.connect_immutable(made)):
        asked: list[int] = []  # SQLite asks the authorizer while it prepares a statement

        def allow(operation: int, *_: object, asked: list[int] = asked) -> int:
            asked.append(operation)
            return apsw.SQLITE_OK

        database.authorizer = allow
        counts = []
        for id in ("a", "b", "c"):
            for name in ("newest_of_key", "get_newest", "history"):
                database.execute(SQL[name], ("shared", "note", id)).fetchall()
            counts.append(len(asked))
        database.close()
        assert counts[0] > 0
        assert counts[1:] == counts[:1] * 2


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 50])
def test_rows_that_are_inserted_together_are_all_there_and_leave_the_text_index_to_the_commit(made, count):
    labels, keys = [(f"n={number}", "shared", number) for number in range(count)], [(nr % 3, nr) for nr in range(count)]
    database = store_file.connect(made, timeout=1)
    database.execute("BEGIN")
    before = database.execute("SELECT count(*) FROM words_data").get
    database.execute(SQL["index_text"], (100, "gathered until the commit"))
    insert_rows(database, "insert_label", labels)
    insert_rows(database, "insert_duplicate_key", keys)
    assert database.execute("SELECT count(*) FROM words_data").get == before
    assert database.execute("SELECT * FROM label ORDER BY seq").fetchall() == labels
    assert database.execute("SELECT * FROM duplicate_key ORDER BY seq").fetchall() == keys
    database.execute("COMMIT")
    assert database.execute("SELECT count(*) FROM words_data").get > before
    database.close()
