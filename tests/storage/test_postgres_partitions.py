"""A caller that is limited to one scope touches the partitions of that scope alone, whatever it reads or writes."""

import json

import psycopg
import pytest

from lukasa.record import Key
from lukasa.scope import Reach
from lukasa.storage.engine import Query
from lukasa.storage.postgres import PostgresEngine
from lukasa.storage.postgres.sql import SQL
from lukasa.testing.contract.base import add, make_draft

SCOPES = [f"agent:{number}" for number in range(12)]
OWN = SCOPES[0]


class RecordingSnapshot:
    """Passes statements on and notes them with their values."""

    def __init__(self, snapshot):
        self._snapshot = snapshot
        self.statements = []

    def run(self, statement, values=()):
        self.statements.append((statement, values))
        return self._snapshot.run(statement, values)

    def find_settled_position(self, **options):
        return self._snapshot.find_settled_position(**options)


@pytest.fixture
def filled(fresh_store):
    url = fresh_store()
    engine = PostgresEngine(url, group_label="session", near_duplicate_kinds=frozenset({"memory"}))
    for scope in SCOPES:
        texts = [f"the {word} release of the {scope} heron" for word in ("first", "second", "third", "fourth")]
        drafts = [
            make_draft(text, id=f"n{number}", scope=scope, kind="memory", labels=("session=s", "colour=red"))
            for number, text in enumerate(texts)
        ]
        records = add(engine, *drafts)
        engine.put_vectors("m", [(record.seq, 0, [1.0, float(record.seq)]) for record in records])
    yield engine, url
    engine.close()


def touched_relations(plan):
    """Return the tables that a plan really read."""
    if not plan["Actual Loops"]:
        return set()
    own = {plan["Relation Name"]} if "Relation Name" in plan and plan["Node Type"] != "ModifyTable" else set()
    return own.union(*(touched_relations(part) for part in plan.get("Plans", ())))


def partitions_of(connection, scope):
    rows = connection.execute(
        """SELECT child.relname FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid JOIN pg_class AS parent ON parent.oid = inhparent
        WHERE child.relkind = 'r' AND satisfies_hash_partition(parent.oid, 8, right(child.relname, 1)::integer, %s::text)""",
        (scope,),
    )
    return {name for (name,) in rows}


def check_statements(url, statements):
    unpartitioned = {"tally", "model", "meta", "quarantine", "pg_class", "pg_inherits", "pg_settings"}
    with psycopg.connect(url, options="-c search_path=lukasa,public") as connection:
        allowed = partitions_of(connection, OWN) | unpartitioned
        assert len(allowed) > len(unpartitioned) + 3
        strayed = {}
        for statement, values in statements:
            ((plan,),) = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", values).fetchall()
            found = touched_relations((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"])
            if found - allowed:
                strayed[statement] = found - allowed
        assert strayed == {}


def read_everything(reader):
    key, query = Key(OWN, "memory", "n1"), Query(limit=3)
    (first, *_) = records = reader.read(query)
    assert reader.get(key).id == "n1"
    assert reader.history(key)
    assert reader.read(Query(kinds=("memory",), newest_first=True, limit=2))
    assert reader.read(Query(labels=("session=s",)))
    assert reader.tally()
    assert reader.tip()
    assert reader.authors(10) == []
    assert reader.frequency(["heron"]) == {"heron": 4}
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


@pytest.mark.requirement("OPS-2")
def test_what_a_caller_of_one_scope_reads_is_in_the_partitions_of_that_scope(filled):
    engine, url = filled
    with engine.snapshot(Reach.of((OWN,))) as reader:
        reader._snapshot = snapshot = RecordingSnapshot(reader._snapshot)
        read_everything(reader)
    assert len(snapshot.statements) > 20
    check_statements(url, [row for row in snapshot.statements if not row[0].startswith("SELECT set_config")])


@pytest.mark.requirement("OPS-2")
def test_what_an_append_looks_up_is_in_the_partitions_of_its_scope(filled):
    _, url = filled
    key = [[OWN], ["memory"], ["n1"]]
    statements = {
        "key_states": key,
        "digests_of_versions": [*key, [1]],
        "supersede": [OWN, 1],
        "get_newest": [OWN, "memory", "n1"],
        "get_as_of_seq": [OWN, "memory", "n1", 5],
        "versions_to_erase": [OWN, "memory", "n1"],
        "entries_of_key": [OWN, "memory", "n1"],
        "versions_of_key": [OWN, "memory", "n1"],
        "links_out": [OWN, "memory", "n1"],
    }
    check_statements(url, [(SQL[name], values) for name, values in statements.items()])
