"""The conformance suite on PostgreSQL."""

from __future__ import annotations

import random
from typing import Any

import psycopg
import pytest

from lukasa.core.record import Key, Link
from lukasa.core.scope import FULL_REACH
from lukasa.storage.engine import Query
from lukasa.storage.log_file import parse_log
from lukasa.storage.postgres import PostgresEngine
from lukasa.testing import EngineContract
from lukasa.testing.contract.append import ConcurrencyTests
from lukasa.testing.contract.base import make_key, quarantine, write_note
from lukasa.testing.contract.read import MentionsFilterTests, RecordReadTests
from lukasa.testing.contract.search import AdjacentTurnTests, TextSearchTests

SETTINGS: dict[str, Any] = {"near_duplicate_kinds": frozenset({"memory"}), "group_label": "session"}
_NEWEST = "seq = (SELECT seq FROM lukasa.log WHERE scope = %s AND kind = %s AND id = %s ORDER BY version DESC LIMIT 1)"


def tamper(engine, statement, *values):
    """Change the tables behind the engine's back, as their owner; return the number of changed rows."""
    with psycopg.connect(engine.url, autocommit=True, options="-c search_path=lukasa,public") as database:
        return database.execute(statement, values).rowcount


class PostgresConformance:
    """How the conformance suite opens and damages a PostgreSQL store."""

    locale: str | None = None
    engines: list[PostgresEngine]

    @pytest.fixture(autouse=True)
    def stores(self, fresh_store):
        self.engines = []
        self.new_url = fresh_store
        yield
        for engine in self.engines:
            engine.close()

    @pytest.fixture
    def make_engine(self):
        def make(clock=None):
            return self.open(self.new_url(self.locale), clock)

        return make

    def open(self, url, clock=None):
        self.engines.append(PostgresEngine(url, clock=clock, **SETTINGS))
        return self.engines[-1]

    def reopen(self, engine, clock=None):
        engine.close()
        return self.open_second(engine, clock)

    def open_second(self, engine, clock=None):
        return self.open(engine.url, clock)

    def open_copy(self, target):
        engine = self.open(self.new_url(self.locale))
        with target.open("rb") as file:
            assert all(answer.state == "added" for answer in engine.replay(FULL_REACH, parse_log(file)))
        return engine

    def alter_entry(self, engine, key):
        line = "jsonb_set(line::jsonb, '{text}', '\"a lie\"')::text"
        assert tamper(engine, f"UPDATE log SET line = {line} WHERE {_NEWEST}", key.scope, key.kind, key.id) == 1

    def break_entry(self, engine, key):
        line = "'{\"x' || substr(line, 4)"
        assert tamper(engine, f"UPDATE log SET line = {line} WHERE {_NEWEST}", key.scope, key.kind, key.id) == 1

    def lose_entry(self, engine, key):
        assert tamper(engine, f"DELETE FROM log WHERE {_NEWEST}", key.scope, key.kind, key.id) == 1

    def break_text_index(self, engine, key):
        assert tamper(engine, f"UPDATE log SET words = '' WHERE {_NEWEST}", key.scope, key.kind, key.id) == 1


class TestPostgres(PostgresConformance, EngineContract):
    @pytest.mark.requirement("LOG-5", "RCL-5")
    @pytest.mark.parametrize(
        "damage",
        [
            "UPDATE log SET author = 'another' WHERE id = 'a'",
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
            "DELETE FROM quarantine",
            "UPDATE quarantine SET since = since + 1000000000000000",
            "INSERT INTO quarantine (author, since) VALUES ('ada', 0)",
        ],
    )
    def test_verify_finds_damage_to_any_table(self, engine, damage):
        write_note(engine, "a", "one", author="ada", labels=("l=1",), links=(Link("about", make_key("b")),))
        write_note(engine, "a", "two", author="ada", labels=("l=1",), links=(Link("about", make_key("b")),))
        write_note(engine, "bad", "three", author="mallory")
        quarantine(engine, "mallory")
        assert engine.verify().findings == ()
        assert tamper(engine, damage)
        assert engine.verify().findings

    @pytest.mark.requirement("LOG-1")
    def test_the_longest_names_that_the_gate_accepts_can_be_stored(self, engine):
        """An index entry holds about 2,700 bytes; compressed names may be longer."""
        rng = random.Random(7)

        def name(length=200):
            return "".join(chr(rng.randrange(0x1F300, 0x1FAFF)) for _ in range(length))

        record = write_note(
            engine,
            name(),
            name(1000),
            scope=name(),
            kind=name(),
            author=name(),
            labels=(name(400),),
            links=(Link(name(), Key(name(), name(), name())),),
        )
        with engine.snapshot(FULL_REACH) as reader:
            assert reader.read(Query(labels=record.labels)) == [record]
            assert [neighbour.key for neighbour in reader.neighbours(record.key)] == [record.links[0].to]
        quarantine(engine, record.author)
        assert engine.verify().findings == ()


class TestPostgresInTheCLocale(PostgresConformance, MentionsFilterTests, TextSearchTests):
    """A database that knows only ASCII letters finds words like any other."""

    locale = "C"


class TestPostgresWithoutAnIndexedGroupLabel(PostgresConformance, AdjacentTurnTests):
    """Adjacent records are found by any label; an indexed one is only faster."""

    def open(self, url, clock=None):
        self.engines.append(PostgresEngine(url, clock=clock))
        return self.engines[-1]


class ReadFromAStandby(PostgresConformance):
    """An engine that reads from a standby returns what the primary would."""

    @pytest.fixture(autouse=True)
    def stores(self, fresh_store_and_replica):
        self.engines = []
        self.replica_urls = {}
        self.new_urls = fresh_store_and_replica
        yield
        for engine in self.engines:
            engine.close()

    def new_url(self, locale):
        url, replica = self.new_urls()
        self.replica_urls[url] = replica
        return url

    def open(self, url, clock=None):
        self.engines.append(PostgresEngine(url, clock=clock, read_url=self.replica_urls[url], **SETTINGS))
        return self.engines[-1]


class TestPostgresReadFromAStandby(ReadFromAStandby, ConcurrencyTests, RecordReadTests):
    pass


@pytest.mark.slow
class TestAllOfPostgresReadFromAStandby(ReadFromAStandby, EngineContract):
    pass
