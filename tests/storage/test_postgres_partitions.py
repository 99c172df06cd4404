"""A caller that is limited to one scope touches the partitions of that scope alone, whatever it reads or writes.

Every statement is recorded while agents work, and run again under EXPLAIN: a new statement cannot escape the check.
"""

import hashlib
import json
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import psycopg
import pytest

import lukasa
from lukasa.core.record import Draft, Key, Link
from lukasa.core.scope import SYSTEM, Reach
from lukasa.network.hub import acknowledgement_draft
from lukasa.storage.engine import Query
from lukasa.storage.postgres import PostgresEngine, append, group_commit, sql
from lukasa.storage.postgres.append import InsertSingle
from lukasa.storage.postgres.connection import PostgresClient
from lukasa.storage.postgres.group_commit import InsertGroup
from lukasa.storage.postgres.prepared import convert_placeholders, execute_prepared
from lukasa.storage.postgres.sql import SQL
from lukasa.testing.contract.base import add, log_entries, make_draft
from lukasa.transfer.copy import copy_log

SCOPES = ["shared", *(f"agent:{number}" for number in range(11))]
OWN = SCOPES[0]
OWN_REACH = Reach.of((OWN,))
_OPTIONS = "-c search_path=lukasa,public"
_STATISTICS = """SELECT relname, coalesce(seq_scan, 0) + coalesce(idx_scan, 0) + n_tup_ins + n_tup_upd + n_tup_del
    FROM pg_stat_xact_user_tables WHERE schemaname = 'lukasa'"""
_NOT_EXPLAINED = (
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SELECT set_config",
    "SET LOCAL",
    "SHOW",
    "COPY",
    "LOCK",
    "SELECT create_vector_table",
)
_CATCH_UP = (SQL["scopes_at"], "FROM (SELECT DISTINCT scope FROM tally) AS present")
"""Parts of the statements by which a recall computes the missing vectors of the whole store, whoever asks."""
_NOT_RUN = {
    "tip", "whole_history", "model_numbers", "insert_model", "has_pgvector",  # of callers of every scope
    "begin_role_write", "append_entries", "roles_at_work",  # of database roles
    "position_of_version",  # of a write whose answer was lost
    "copy_entries", "copy_links",  # rows go to the partition of their scope; EXPLAIN knows no COPY
}  # fmt: skip
"""Named statements of logs, links, searches and vectors that the agents below do not run."""


class RecordingCursor(psycopg.Cursor):
    """Passes statements on and notes them with their values."""

    statements: ClassVar[dict] = {}

    def execute(self, query, params=None, **options):
        self.statements.setdefault(query, params)
        return super().execute(query, params, **options)

    def executemany(self, query, params_seq, **options):
        rows = list(params_seq)
        for row in rows[:1]:
            self.statements.setdefault(query, row)
        return super().executemany(query, rows, **options)


@pytest.fixture
def filled(fresh_store):
    url = fresh_store()
    with closing(PostgresEngine(url, group_label="session", near_duplicate_kinds=frozenset({"memory"}))) as engine:
        for scope in SCOPES:
            texts = [f"the {word} release of the {scope} heron" for word in ("first", "second", "third", "fourth")]
            drafts = [
                make_draft(text, id=f"n{number}", scope=scope, kind="memory", labels=("session=s", "colour=red"))
                for number, text in enumerate(texts)
            ]
            records = add(engine, *drafts)
            engine.put_vectors("m", [(record.seq, 0, [1.0, float(record.seq)]) for record in records])
    return url


@pytest.fixture
def recorded(monkeypatch):
    """Record the statements of all connections that are opened from now on."""
    monkeypatch.setattr(psycopg, "connect", partial(psycopg.connect, cursor_factory=RecordingCursor))
    monkeypatch.setattr(RecordingCursor, "statements", {})
    for module in (append, group_commit):
        monkeypatch.setattr(module, "execute_prepared", record_prepared)
    return RecordingCursor.statements


def record_prepared(database, name, parameters):
    """Run a statement without a cursor and note it with its parameters."""
    RecordingCursor.statements.setdefault(SQL[name], EncodedParameters(name, parameters))
    return execute_prepared(database, name, parameters)


class EncodedParameters(NamedTuple):
    """The parameters of a statement that runs without a cursor."""

    name: str
    parameters: Sequence[bytes | None]


def explain(connection, statement, values):
    """Run a statement under EXPLAIN and return its plan."""
    if not isinstance(values, EncodedParameters):
        ((plan,),) = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", values).fetchall()
        return plan
    numbered, formats = convert_placeholders(values.name)
    command = b"EXPLAIN (ANALYZE, FORMAT JSON) " + numbered
    result = connection.pgconn.exec_params(command, values.parameters, None, formats)
    if result.status != psycopg.pq.ExecStatus.TUPLES_OK:
        raise psycopg.errors.error_from_result(result)
    return result.get_value(0, 0).decode()


def touched_relations(plan):
    """Return the tables that a plan really read."""
    if not plan["Actual Loops"]:
        return set()
    own = {plan["Relation Name"]} if "Relation Name" in plan and plan["Node Type"] != "ModifyTable" else set()
    return own.union(*(touched_relations(part) for part in plan.get("Plans", ())))


def read_partitions(connection):
    """Return for each partition of each table whether it can hold a scope: the own one, or that of the system."""
    rows = connection.execute(
        """SELECT child.relname, satisfies_hash_partition(parent.oid, 8, right(child.relname, 1)::integer, %s::text),
            satisfies_hash_partition(parent.oid, 8, right(child.relname, 1)::integer, %s::text)
        FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid JOIN pg_class AS parent ON parent.oid = inhparent
        WHERE child.relkind = 'r'""",
        (OWN, SYSTEM),
    )
    return {name: (own, system) for name, own, system in rows}


def find_strayed(url, statements):
    """Run statements under EXPLAIN, each in a transaction that is undone; return those that touched other partitions.

    A plan does not show what functions do. The server's counts of the transaction do.
    """
    strayed = {}
    with psycopg.Connection.connect(url, autocommit=True, options=_OPTIONS) as connection:
        partitions = read_partitions(connection)
        assert sum(own for own, _ in partitions.values()) >= 5
        assert {name for name, (own, system) in partitions.items() if own and system} == set()
        for statement, values in statements.items():
            connection.execute("BEGIN")
            before: dict = dict(connection.execute(_STATISTICS))
            try:
                plan = explain(connection, statement, values)
            except psycopg.errors.UniqueViolation as error:  # an insert that was made before says where
                found = {error.diag.table_name}
            else:
                found = touched_relations((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"])
                found |= {name for name, count in connection.execute(_STATISTICS) if count > before.get(name, 0)}
            connection.execute("ROLLBACK")
            touched = found & set(partitions)
            if not any(all(partitions[name][whose] for name in touched) for whose in (0, 1)):
                strayed[statement] = touched
    return strayed


def read_everything(reader):
    key, query = Key(OWN, "memory", "n1"), Query(limit=3)
    (first, *_) = records = reader.read(query)
    assert reader.get(key).id == "n1"
    assert reader.get(key, version=1)
    assert reader.get(key, as_of=reader.tip())
    assert reader.get(key, as_of=datetime(2099, 1, 1, tzinfo=UTC))
    assert reader.history(key)
    assert reader.read(Query(kinds=("memory",), newest_first=True, limit=2))
    assert reader.read(Query(labels=("session=s",), after=0))
    assert reader.read(Query(as_of=reader.tip(), limit=2))
    assert reader.read(Query(mentions="heron", every_version=True))
    assert reader.names_at([first.seq])
    assert reader.tally()
    assert reader.neighbours(key) == []
    assert reader.descendants([key]) == []
    assert reader.frequency(["heron"]) == {"heron": 4}
    assert reader.match_text("heron release", query)
    reader._snapshot.note_position(10**6)  # a large store has another statement
    assert reader.match_text("heron release", query)
    assert reader.match_text("heron", Query(kinds=("memory",), limit=3), together="first release")
    assert reader.match_text('"first-release" heron', Query(every_version=True, limit=3))
    assert reader.match_vector("m", [1.0, 2.0], query)
    assert reader.cosines("m", [1.0, 2.0], [record.seq for record in records])
    assert reader.without_vectors("other", 3)
    assert reader.count_without_vectors("m") == 0
    assert reader.texts_at([first.seq])
    assert reader.adjacent_turns(records, "session")
    assert reader.adjacent_turns(records, "colour")
    assert reader.near_duplicates([[1, 2]], OWN, kind="memory", limit_per_key=3) == []
    assert reader.authors(10) == []


def work(memory):
    """Write and read as agents do: records, memories, a conversation, the state of a session, news."""
    journal = memory.journal
    assert journal.write("note", "a single one")
    first = journal.write("note", "one", id="x").record
    assert journal.write("note", "two", id="x", expected=1)
    source = Link("derived_from", first.key)
    assert journal.append([Draft("note", f"many {number}", links=(source,)) for number in range(60)], key="k")
    assert journal.append([Draft("note", "few", links=(source,)), Draft("note", "more", labels=("tag=a",))])
    assert journal.append([Draft("note", "again", id=id) for id in ("y", "z")])
    assert journal.delete(first.key)
    assert journal.neighbours(first.key)
    assert memory.remember("Deploys run on Tuesdays.")
    assert not memory.remember("Deploys run on Tuesdays.")
    assert all(memory.vault.bulk_add([f"Crane {number} lifts crate {number * 7}" for number in range(60)]))
    assert memory.recall("When do the deploys run?").hits
    assert memory.recall("heron release").hits
    memory.context.append("c", "user", "Which day is the release?")
    memory.context.append("c", "assistant", "On Tuesday.")
    assert memory.context.load("c").turns
    with memory.sessions.start("s", scope=OWN) as session:
        assert session.update("/learning_state/step", 7)
        assert session.checkpoint()
    assert memory.sessions.state("s", scope=OWN)
    memory.hub.broadcast("ada", "signal", {"signal_id": "s-1"})
    assert memory.hub.inbox("ben")
    assert memory.hub.fetch_state("ada").signal_history
    assert not memory.hub.acknowledged("ada", "s-1")


@pytest.mark.requirement("OPS-2")
def test_what_a_caller_of_one_scope_does_is_in_the_partitions_of_that_scope(filled, recorded):
    with lukasa.open(filled, embedder="hash") as owner:
        assert owner.recall("heron").hits
    with closing(PostgresEngine(filled, group_label="session")) as engine, engine.snapshot(OWN_REACH) as reader:
        (entry, *_) = log_entries(engine)
        recorded.clear()
        read_everything(reader)
        assert [result.state for result in engine.replay(OWN_REACH, [entry])] == ["present"]
    with closing(PostgresClient(filled, timeout=10, size=1)) as client:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        client.write(InsertGroup([InsertSingle(make_draft("new", generated_id=id), now) for id in ("g1", "g2")]))
    with lukasa.open(filled, agent="ada", scopes=(OWN,), embedder="hash") as memory:
        work(memory)
    statements = {
        statement: values for statement, values in recorded.items() if not statement.lstrip().startswith(_NOT_EXPLAINED)
    }
    strayed = find_strayed(filled, statements)
    assert {statement for statement in strayed if not any(part in statement for part in _CATCH_UP)} == set()
    files = [Path(sql.__file__).parent / f"{name}.sql" for name in ("log", "links", "search", "vectors")]
    names = {part.partition("\n")[0] for file in files for part in file.read_text().split("-- name: ")[1:]}
    beginnings = tuple(statements)
    seen = {
        name for name in names if any(text.startswith(SQL[name].partition("WITHIN_REACH(")[0]) for text in beginnings)
    }
    assert names - seen == _NOT_RUN


@pytest.mark.requirement("OPS-2")
@pytest.mark.parametrize("wanted", [0, 3])
def test_a_store_is_created_with_the_number_of_partitions_that_its_database_sets(postgres, filled, wanted):
    role = f"reader_of_{wanted}"
    with postgres.database() as url:
        name = url.partition("@/")[2].partition("?")[0]
        postgres.execute(f'ALTER DATABASE "{name}" SET lukasa.partitions = {wanted}')
        with lukasa.open(filled) as source, lukasa.open(url) as target:
            assert copy_log(source.journal, target.journal).proof.holds
        with lukasa.open(url, agent="ada", scopes=(OWN,), embedder="hash") as memory:
            work(memory)
        postgres.execute(f"CREATE ROLE {role} LOGIN")
        with lukasa.open(url) as owner:
            assert owner.verify().findings == ()
        with closing(PostgresEngine(url)) as engine:
            engine.grant(role, read=[SCOPES[1]])
        with lukasa.open(postgres.url(name, user=role), agent="eve", scopes=(SCOPES[1],), embedder="hash") as memory:
            assert len(memory.recall("heron").hits) == 4
        with psycopg.connect(postgres.url(name, user=role), options=_OPTIONS) as connection:
            assert set(connection.execute("SELECT scope FROM log WHERE kind = 'memory'")) == {(SCOPES[1],)}
        tables = "SELECT count(*) FROM pg_inherits JOIN pg_class ON oid = inhparent WHERE relkind = 'p' AND relname = ANY(%s)"
        by_scope = ["log", "link", "hidden", "duplicate_key", "vector_1"]
        assert postgres.execute(tables, by_scope, database=name) == [(wanted * len(by_scope),)]
    postgres.drop(name)
    postgres.execute(f"DROP ROLE {role}")


def test_a_lookup_of_keys_reads_their_versions_alone_even_if_the_planner_prefers_to_read_all(fresh_store):
    url = fresh_store()
    with closing(PostgresEngine(url)) as engine:
        for start in range(0, 3_000, 1_000):
            add(engine, *(make_draft(f"note {number}", id=f"n{number}") for number in range(start, start + 1_000)))
    read = "SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_xact_user_tables WHERE relname ~ '^log'"
    with psycopg.connect(url, options=_OPTIONS + " -c random_page_cost=1000") as connection:
        values = {"scope": OWN, "kinds": ["note"] * 3, "ids": ["n1", "n700", "n2999"]}
        found = connection.execute(SQL["key_states"], values).fetchall()
        ((touched,),) = connection.execute(read).fetchall()
    assert {row[2] for row in found} == {"n1", "n700", "n2999"}
    assert touched <= 6


_ROWS_READ = (
    "SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0) FROM pg_stat_xact_user_tables WHERE relname ~ '^log'"
)
_PLAN_MODES = ("auto", "force_custom_plan", "force_generic_plan")


def count_rows_read(url, statement, values, mode):
    """Return how many rows of the log a statement reads when its plan is chosen in some way."""
    options = f"{_OPTIONS} -c plan_cache_mode={mode} -c random_page_cost=1.1"
    with psycopg.Connection.connect(url, options=options) as connection:
        connection.execute(statement, values, prepare=True).fetchall()
        ((touched,),) = connection.execute(_ROWS_READ).fetchall()
        return touched


def has_statistics(url):
    with psycopg.Connection.connect(url) as connection:
        return connection.execute("SELECT 1 FROM pg_stats WHERE schemaname = 'lukasa'").fetchone() is not None


@pytest.mark.parametrize("mode", _PLAN_MODES)
def test_a_read_by_key_reads_its_versions_alone_in_a_store_without_statistics(fresh_store, mode):
    url = fresh_store()
    with closing(PostgresEngine(url)) as engine:
        for start in range(0, 3_000, 1_000):
            ids = [f"{number:032}" for number in range(start, start + 1_000)]
            (first, *_) = add(engine, *(make_draft(id=id) for id in ids))
    assert not has_statistics(url)
    key = {"scope": OWN, "kind": "note", "id": first.id}
    bounds = {"get_newest": None, "get_version": 1, "position_of_version": 1, "key_state": None}
    touched = {name: count_rows_read(url, SQL[name], {**key, "bound": bound}, mode) for name, bound in bounds.items()}
    assert touched == {**dict.fromkeys(bounds, 1), "key_state": 2}


@pytest.mark.parametrize("mode", _PLAN_MODES)
def test_a_look_into_an_inbox_reads_what_is_new_in_a_store_without_statistics(fresh_store, recorded, mode):
    url = fresh_store()
    with lukasa.open(url) as memory:
        for start in range(0, 3_000, 1_000):
            numbers = range(start, start + 1_000)
            assert memory.valid_journal.append([signal_draft(f"s{number}") for number in numbers])
            assert memory.valid_journal.append(
                [acknowledgement_draft("ben", f"s{number}", "ada", OWN) for number in numbers if number < 2_990]
            )
        assert len(memory.hub.inbox("ben")) == 10  # writes the cursor
        recorded.clear()
        assert len(memory.hub.inbox("ben")) == 10
    assert not has_statistics(url)
    touched = {
        statement: count_rows_read(url, statement, values, mode)
        for statement, values in recorded.items()
        if "FROM log" in statement
    }
    assert len(touched) >= 2
    (since_cursor,) = [statement for statement in touched if " ORDER BY seq " in statement]
    assert touched.pop(since_cursor) <= 1_000  # the acknowledgements that follow the last signal
    assert max(touched.values()) <= 2


def signal_draft(signal_id):
    """Return the record of a signal of the agent ada, as the hub writes it."""
    id = hashlib.sha256("\0".join(("ada", "signal", signal_id)).encode()).hexdigest()[:32]
    body = {"agent_id": "ada", "sort": "signal", "news": {"signal_id": signal_id}}
    return Draft("network_signal", body=body, id=id, labels=("from=ada", "sort=signal"), origin="network")
