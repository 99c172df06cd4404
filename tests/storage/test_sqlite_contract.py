"""The conformance suite on SQLite, in a file and in memory."""

from __future__ import annotations

from contextlib import contextmanager

import apsw
import pytest

from lukasa.core.scope import FULL_REACH
from lukasa.errors import LukasaError
from lukasa.storage.sqlite import SqliteEngine
from lukasa.testing import EngineContract
from lukasa.testing.contract.base import list_ids, make_key, write_note
from lukasa.testing.contract.example_store import dump_store, fill_example_store

KINDS = frozenset({"memory"})
_NEWEST = "seq = (SELECT seq FROM log WHERE scope = ? AND kind = ? AND id = ? ORDER BY version DESC LIMIT 1)"


class SqliteConformance(EngineContract):
    """How the conformance suite damages a SQLite store."""

    @contextmanager
    def open_directly(self, engine):
        database = apsw.Connection(str(engine.path))
        try:
            yield database
        finally:
            database.close()

    def alter_entry(self, engine, key):
        with self.open_directly(engine) as database:
            line = "json_set(line, '$.text', 'a lie')"
            database.execute(f"UPDATE log SET line = {line} WHERE {_NEWEST}", (key.scope, key.kind, key.id))
            assert database.changes() == 1

    def break_entry(self, engine, key):
        with self.open_directly(engine) as database:
            line = "CAST(x'7b22ff' || substr(CAST(line AS BLOB), 4) AS TEXT)"  # not UTF-8 either
            database.execute(f"UPDATE log SET line = {line} WHERE {_NEWEST}", (key.scope, key.kind, key.id))
            assert database.changes() == 1

    def lose_entry(self, engine, key):
        with self.open_directly(engine) as database:
            database.execute(f"DELETE FROM log WHERE {_NEWEST}", (key.scope, key.kind, key.id))
            assert database.changes() == 1

    def break_text_index(self, engine, key):
        with self.open_directly(engine) as database:
            row = f"SELECT 'delete', seq, line ->> 'text' FROM log WHERE {_NEWEST}"
            database.execute(f"INSERT INTO words (words, rowid, text) {row}", (key.scope, key.kind, key.id))

    def open_copy(self, target):
        return self.close_later(SqliteEngine(target, near_duplicate_kinds=KINDS))

    def close_later(self, engine):
        self.engines.append(engine)
        return engine

    @pytest.fixture(autouse=True)
    def close_engines(self):
        self.engines: list[SqliteEngine] = []
        yield
        for engine in self.engines:
            engine.close()

    @pytest.mark.requirement("LOG-5", "RCL-5")
    @pytest.mark.parametrize(
        "damage",
        [
            "UPDATE log SET author = 'somebody else' WHERE seq = 1",
            "UPDATE log SET at = at + 1 WHERE seq = 1",
            "UPDATE log SET moment = moment - 1 WHERE seq = 1",
            "UPDATE log SET id = 'other' WHERE seq = 1",
            "UPDATE log SET digest = zeroblob(32) WHERE seq = 1",
            "UPDATE log SET line = 'not json', digest = unhex('f2dfafab80e4b1a40b77d3a4d0a5e4b5') WHERE seq = 1",
            "UPDATE tally SET live = live + 1",
            "UPDATE tally SET versions = versions + 1",
            "UPDATE tally SET checksum = checksum + 1",
            "DELETE FROM tally",
            "DELETE FROM not_current",
            "INSERT INTO not_current (seq) SELECT max(seq) FROM log",
            "INSERT INTO not_current (seq) VALUES (99999)",
            "DELETE FROM label",
            "INSERT INTO label (label, scope, seq) VALUES ('l=9', 'shared', 1)",
            "DELETE FROM link",
            "UPDATE link SET relation = 'other'",
            "DELETE FROM hidden",
            "INSERT INTO hidden (seq, author) VALUES (1, 'ada')",
            "DELETE FROM quarantine",
            "UPDATE quarantine SET since = since + 1000000000000000000",
            "INSERT INTO quarantine (author, since) VALUES ('ada', 0)",
            "INSERT INTO past_words (past_words, rowid, text) SELECT 'delete', seq, line ->> 'text' FROM log WHERE seq = 1",
            "INSERT INTO words (rowid, text) VALUES (77777, 'stray words')",
        ],
    )
    def test_verify_finds_damage_to_any_table(self, engine, damage):
        fill_every_table(engine)
        assert engine.verify().findings == ()
        with self.open_directly(engine) as database:
            database.execute(damage)
        assert engine.verify().findings

    @pytest.mark.requirement("LOG-5")
    def test_backup_keeps_positions_and_vectors(self, engine, clock, tmp_path):
        fill_example_store(engine, clock)
        engine.backup(tmp_path / "copy")
        assert dump_store(self.open_copy(tmp_path / "copy")) == dump_store(engine)


def fill_every_table(engine):
    """Write records so that every derived table holds something."""
    from lukasa.core.record import Link
    from lukasa.testing.contract.base import quarantine

    write_note(engine, "a", "one", author="ada", labels=("l=1",), links=(Link("about", make_key("b")),))
    write_note(engine, "a", "two", author="ada", labels=("l=1",), links=(Link("about", make_key("b")),))
    write_note(engine, "bad", "three", author="mallory")
    quarantine(engine, "mallory")


class TestSqliteOnAFile(SqliteConformance):
    @pytest.fixture
    def make_engine(self, tmp_path):
        def make(clock=None):
            return self.close_later(
                SqliteEngine(tmp_path / f"{len(self.engines)}.db", clock=clock, near_duplicate_kinds=KINDS)
            )

        return make

    def reopen(self, engine, clock=None):
        engine.close()
        return self.open_second(engine, clock)

    def open_second(self, engine, clock=None):
        return self.close_later(SqliteEngine(engine.path, clock=clock, near_duplicate_kinds=KINDS))


class TestSqliteInMemory(SqliteConformance):
    """A store in memory has one connection: it ends with its engine, no other engine can open it, and a snapshot excludes writers."""

    @pytest.fixture
    def make_engine(self):
        def make(clock=None):
            return self.close_later(SqliteEngine(None, clock=clock, near_duplicate_kinds=KINDS))

        return make

    @contextmanager
    def open_directly(self, engine):
        with engine._borrow_connection() as database:
            yield database

    def reopen(self, engine, clock=None):
        pytest.skip("a store in memory ends with its engine, by its nature")

    def open_second(self, engine, clock=None):
        pytest.skip("a store in memory belongs to one engine, by its nature")

    def test_a_snapshot_stays_the_same_during_writes(self, engine):
        """A store in memory has one connection, so a write inside a snapshot raises an error."""
        write_note(engine, "a")
        with engine.snapshot(FULL_REACH) as reader:
            before = reader.read()
            with pytest.raises(LukasaError, match="snapshot"):
                write_note(engine, "b")
            assert reader.read() == before
        write_note(engine, "c")
        assert list_ids(engine) == ["a", "c"]
