"""PostgreSQL sits the exam that every engine sits."""

from __future__ import annotations

import psycopg
import pytest

from lukasa.engines.postgres import PostgresEngine
from lukasa.record import Link
from lukasa.testing import EngineContract
from lukasa.testing.contract.examination import at, note, quarantine
from lukasa.testing.contract.reading import Mentions
from lukasa.testing.contract.words import Words

_NEWEST = "seq = (SELECT seq FROM lukasa.log WHERE scope = %s AND kind = %s AND id = %s ORDER BY version DESC LIMIT 1)"


def tamper(engine, statement, *values):
    """Changes the tables behind the engine's back, as their owner can; returns how many rows it changed."""
    with psycopg.connect(engine.url, autocommit=True, options="-c search_path=lukasa,public") as database:
        return database.execute(statement, values).rowcount


class PostgresExam:
    """How to open PostgreSQL, and how to damage it."""

    locale = None

    @pytest.fixture(autouse=True)
    def stores(self, fresh_store):
        self.opened = []
        self.fresh = fresh_store
        yield
        for engine in self.opened:
            engine.close()

    @pytest.fixture
    def make_engine(self):
        def make(clock=None):
            return self.keep(PostgresEngine(self.fresh(self.locale), clock=clock))

        return make

    def keep(self, engine):
        self.opened.append(engine)
        return engine

    def reopen(self, engine, clock=None):
        engine.close()
        return self.alongside(engine, clock)

    def alongside(self, engine, clock=None):
        return self.keep(PostgresEngine(engine.url, clock=clock))

    def open_copy(self, target):
        url = self.fresh(self.locale)
        PostgresEngine.restore(url, target)
        return self.keep(PostgresEngine(url))

    def alter_line(self, engine, key):
        line = "jsonb_set(line::jsonb, '{text}', '\"a lie\"')::text"
        assert tamper(engine, f"UPDATE log SET line = {line} WHERE {_NEWEST}", key.scope, key.kind, key.id) == 1

    def lose_line(self, engine, key):
        assert tamper(engine, f"DELETE FROM log WHERE {_NEWEST}", key.scope, key.kind, key.id) == 1

    def break_text_index(self, engine, key):
        assert tamper(engine, f"UPDATE log SET words = '' WHERE {_NEWEST}", key.scope, key.kind, key.id) == 1


class TestPostgres(PostgresExam, EngineContract):
    @pytest.mark.requirement("LOG-5", "RCL-5")
    @pytest.mark.parametrize(
        "damage",
        [
            "UPDATE log SET author = 'somebody else' WHERE id = 'a'",
            "UPDATE log SET at = at + 1 WHERE id = 'a'",
            "UPDATE log SET moment = moment - 1 WHERE id = 'a'",
            "UPDATE log SET id = 'other' WHERE id = 'a' AND version = 1",
            "UPDATE log SET kind = 'other' WHERE id = 'a' AND version = 1",
            "UPDATE log SET scope = 'other' WHERE id = 'a' AND version = 1",
            "UPDATE log SET version = 9 WHERE id = 'a' AND version = 2",
            "UPDATE log SET deleted = true WHERE id = 'a' AND version = 2",
            "UPDATE log SET live = true WHERE id = 'a' AND version = 1",
            "UPDATE log SET live = false WHERE id = 'a' AND version = 2",
            "UPDATE log SET tokens = tokens + 1 WHERE id = 'a'",
            "UPDATE log SET tokens = NULL WHERE id = 'a'",
            "UPDATE log SET labels = '{}' WHERE id = 'a'",
            "UPDATE log SET labels = labels || 'l=9'::text WHERE id = 'a'",
            "UPDATE log SET words = NULL WHERE id = 'a' AND version = 1",
            "UPDATE log SET words = words || 'stray:9'::tsvector WHERE id = 'a' AND version = 2",
            "UPDATE log SET digest = decode(repeat('00', 32), 'hex') WHERE id = 'a'",
            "UPDATE log SET line = 'not json' WHERE id = 'a'",
            "UPDATE log SET line = 'not json', digest = sha256('not json') WHERE id = 'a' AND version = 1",
            "DELETE FROM log WHERE id = 'a' AND version = 1",
            "TRUNCATE log",
            "UPDATE tally SET live = live + 1",
            "UPDATE tally SET versions = versions + 1",
            "UPDATE tally SET checksum = checksum + 1",
            "UPDATE tally SET texts = texts + 1",
            "UPDATE tally SET tokens = tokens + 1",
            "UPDATE tally SET past_texts = past_texts + 1",
            "UPDATE tally SET past_tokens = past_tokens + 1",
            "DELETE FROM tally",
            "INSERT INTO tally SELECT 'made up', kind, slot, 0, 1, 0, 0, 0, 0, 0 FROM tally LIMIT 1",
            "DELETE FROM link",
            "UPDATE link SET relation = 'other'",
            "UPDATE link SET to_id = 'other'",
            "INSERT INTO link VALUES ('shared', 99999, 'about', 'shared', 'note', 'b')",
            "DELETE FROM hidden",
            "INSERT INTO hidden SELECT scope, seq, 'ada' FROM log WHERE id = 'a'",
            "INSERT INTO hidden VALUES ('shared', 99999, 'mallory')",
            "DELETE FROM veil",
            "UPDATE veil SET since = since + 1000000000000000",
            "INSERT INTO veil (author, since) VALUES ('ada', 0)",
        ],
    )
    def test_verify_finds_damage_to_any_table(self, engine, damage):
        note(engine, "a", "one", author="ada", labels=("l=1",), links=(Link("about", at("b")),))
        note(engine, "a", "two", author="ada", labels=("l=1",), links=(Link("about", at("b")),))
        note(engine, "bad", "three", author="mallory")
        quarantine(engine, "mallory")
        assert engine.verify().findings == ()
        assert tamper(engine, damage)
        assert engine.verify().findings


class TestPostgresInAPlainLocale(PostgresExam, Mentions, Words):
    """A database whose own idea of letters ends with ASCII finds words like any other."""

    locale = "C"
