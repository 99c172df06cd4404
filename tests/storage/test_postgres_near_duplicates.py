"""Near-duplicate keys on PostgreSQL: the cost of a search does not grow with the log, and the table follows the log."""

from __future__ import annotations

import json

import psycopg
import pytest

from lukasa.core.scope import FULL_REACH, SHARED
from lukasa.storage.postgres import PostgresEngine
from lukasa.storage.postgres.sql import SQL
from lukasa.testing.contract.base import add, delete_note, make_draft, make_key, receipt_for, write_note
from lukasa.text.terms import text_pair_keys

KIND = "memory"


@pytest.fixture
def url(fresh_store):
    return fresh_store()


@pytest.fixture
def engine(url):
    engine = PostgresEngine(url, near_duplicate_kinds=frozenset({KIND}))
    yield engine
    engine.close()


@pytest.fixture
def database(url):
    with psycopg.connect(url, autocommit=True, options="-c search_path=lukasa,public") as database:
        yield database


def add_texts(engine, texts) -> None:
    add(engine, *(make_draft(text, kind=KIND, generated_id=f"m{number}") for number, text in enumerate(texts)))


def list_scans(node):
    """Yield type, table and rows read of every scan of a plan."""
    if "Relation Name" in node:
        rows = node["Actual Rows"] * node["Actual Loops"] + node.get("Rows Removed by Filter", 0) * node["Actual Loops"]
        yield node["Node Type"], node["Relation Name"], rows
    for child in node.get("Plans", ()):
        yield from list_scans(child)


def explain(database, texts):
    keys = sorted({key for text in texts for key in text_pair_keys(text, SHARED, KIND)})
    statement = "EXPLAIN (ANALYZE, FORMAT JSON) " + SQL["near_duplicates"]
    ((plan,),) = database.execute(statement, (keys, SHARED, 8, 8, SHARED, KIND)).fetchall()
    plan = json.loads(plan) if isinstance(plan, str) else plan
    return len(keys), list(list_scans(plan[0]["Plan"]))


@pytest.mark.requirement("VLT-3")
def test_the_keys_of_many_texts_are_looked_up_one_by_one(engine, database) -> None:
    words = [f"{first}{second}" for first in ("harbour", "meadow", "kettle", "violin") for second in range(60)]
    texts = [" ".join(words[(number * step) % 240] for step in (1, 7, 11, 13, 17, 19, 23)) for number in range(1, 900)]
    add_texts(engine, texts[:700])
    _, scans = explain(database, texts[700:])
    assert scans
    assert not [scan for scan in scans if scan[0] == "Seq Scan"], scans


@pytest.mark.requirement("VLT-3")
def test_among_texts_that_are_all_alike_the_newest_few_of_each_key_are_read(engine, database) -> None:
    texts = [
        f"Server web-{number:05d} has its address in rack {number % 40} of the northern hall" for number in range(800)
    ]
    add_texts(engine, texts)
    keys, scans = explain(database, ["Server web-90000 has its address in rack 7 of the northern hall"])
    assert sum(rows for _, _, rows in scans) <= 2 * 64 * keys, scans
    with engine.snapshot(FULL_REACH) as reader:
        found = reader.near_duplicates([text_pair_keys(texts[3], SHARED, KIND)], SHARED, kind=KIND, limit_per_key=8)
        assert "m799" in {match.id for match in found}


@pytest.mark.requirement("VLT-3", "LOG-5")
def test_the_keys_follow_every_change_of_the_log(engine, database) -> None:
    texts = [f"the {name} keeps its boats in the harbour of Kinshasa" for name in ("heron", "osprey", "kestrel")]
    for number, text in enumerate(texts):
        write_note(engine, f"n{number}", text, kind=KIND)
    write_note(engine, "n0", "the heron keeps its boats in the harbour of Matadi", kind=KIND)
    delete_note(engine, "n1", kind=KIND)
    engine.erase(lambda _: [make_key("n2", kind=KIND)], receipt_for)
    positions = {seq for (seq,) in database.execute("SELECT seq FROM duplicate_key")}
    assert positions == {seq for (seq,) in database.execute("SELECT seq FROM log WHERE live AND pair_keys <> '{}'")}
    assert len(positions) == 1
    assert engine.verify().findings == ()
    database.execute("DELETE FROM duplicate_key WHERE pair_key = (SELECT min(pair_key) FROM duplicate_key)")
    (finding,) = engine.verify().findings
    assert (finding.where, finding.repairable) == ("near-duplicates", True)
    engine.reindex()
    assert engine.verify().findings == ()


@pytest.mark.requirement("VLT-3", "LOG-5")
def test_a_batch_that_is_copied_has_the_keys_of_its_current_texts(engine, database) -> None:
    drafts = [
        make_draft(
            f"the heron {number} keeps boat {number * 3} in the harbour", kind=KIND, scope=scope, id=f"n{number}"
        )
        for number in range(40)
        for scope in (SHARED, "agent:ada")
    ]
    again = make_draft("the osprey has left the harbour of Matadi", kind=KIND, id="n7")
    add(engine, *drafts, again)
    assert engine.verify().findings == ()
    keys = database.execute("SELECT scope, seq, array_agg(pair_key ORDER BY pair_key) FROM duplicate_key GROUP BY 1, 2")
    rows = database.execute("SELECT scope, seq, pair_keys FROM log WHERE live AND kind = %s", (KIND,)).fetchall()
    assert sorted(keys.fetchall()) == sorted(rows)
    assert len(rows) == 80
    write_note(engine, "alone", "the kestrel keeps no boats at all", kind=KIND)
    assert engine.verify().findings == ()
