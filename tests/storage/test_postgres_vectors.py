"""Vectors in PostgreSQL: the server selects the nearest, and finds out without reading the log what has no vector."""

import random
from contextlib import closing

import psycopg
import pytest

from lukasa.core.scope import FULL_REACH, Reach
from lukasa.storage.engine import Query
from lukasa.storage.postgres import PostgresEngine
from lukasa.storage.postgres.connection import WriterSnapshot
from lukasa.storage.postgres.reader import PostgresReader
from lukasa.testing.contract.base import add, make_draft

OPTIONS = "-c search_path=lukasa,public"
SCOPES = ("shared", "agent:a", "agent:b")


@pytest.fixture
def engine(fresh_store):
    with closing(PostgresEngine(fresh_store())) as engine:
        yield engine


@pytest.mark.parametrize("seed", range(3))
def test_the_server_selects_the_nearest_that_a_comparison_with_all_vectors_finds(engine, seed):
    rng = random.Random(seed)
    records = [
        record
        for scope in SCOPES
        for record in add(engine, *(make_draft(f"note {n}", id=f"n{n}", scope=scope) for n in range(40)))
    ]
    vectors = [
        (record.seq, chunk, [float(rng.choice((-1, 0, 0, 1))) for _ in range(3)])  # many are equal, some are zero
        for record in records
        for chunk in range(rng.randint(1, 3))
    ]
    engine.put_vectors("m", vectors)
    add(engine, make_draft("gone", id="n3"), make_draft("gone", id="n4", deleted=True))
    seqs = [record.seq for record in records]
    for reach in (FULL_REACH, Reach.of(SCOPES[:2])):
        with engine.snapshot(reach) as reader:
            for question in ([1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.3, -0.2, 0.9]):
                live = {record.seq for record in reader.read(Query())}
                cosines = {seq: score for seq, score in reader.cosines("m", question, seqs).items() if seq in live}
                expected = sorted(cosines.items(), key=lambda item: (-item[1], item[0]))
                for limit in (1, 7, 30, 1_000, 2**70):
                    found = reader.match_vector("m", question, Query(limit=limit))
                    assert [(match.record.seq, match.score) for match in found] == expected[:limit]


def count_rows_read(url, look):
    """Return how many rows of the log a look by a reader reads."""
    with psycopg.connect(url, options=OPTIONS) as database:
        look(PostgresReader(WriterSnapshot(database), FULL_REACH))
        ((touched,),) = database.execute(
            "SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0) FROM pg_stat_xact_user_tables WHERE relname ~ '^log'"
        ).fetchall()
        return touched


@pytest.mark.parametrize("is_analyzed", [False, True])
def test_what_has_no_vector_is_found_without_a_look_at_the_rest(engine, is_analyzed):
    for start in range(0, 3_000, 1_000):
        records = add(engine, *(make_draft(f"note {n}", id=f"n{n}") for n in range(start, start + 1_000)))
        engine.put_vectors("m", [(record.seq, 0, [1.0, 2.0]) for record in records])
    if is_analyzed:
        with psycopg.connect(engine.url, options=OPTIONS, autocommit=True) as database:
            database.execute("ANALYZE")

    def check(missing):
        def look(reader):
            assert reader.count_without_vectors("m") == missing
            assert len(reader.without_vectors("m", 5)) == missing

        return look

    assert count_rows_read(engine.url, check(0)) <= 10
    add(engine, *(make_draft(f"new {n}", id=f"new{n}", scope=SCOPES[n % 3]) for n in range(4)))
    add(engine, make_draft("", id="without a text"))
    assert count_rows_read(engine.url, check(4)) <= 20
    with engine.snapshot(FULL_REACH) as reader:
        assert reader.count_without_vectors("other") == 3_004
        assert [record.id for record in reader.without_vectors("m", 3)] == ["new0", "new1", "new2"]
