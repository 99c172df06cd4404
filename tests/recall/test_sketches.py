"""The search by sketches finds what an exact search finds, in a fraction of the work; whoever put the vectors there."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lukasa
from lukasa import Draft
from lukasa.scope import FULL_REACH
from lukasa.storage.engine import Query
from lukasa.storage.sqlite import SqliteEngine
from lukasa.storage.sqlite import vectors as kept
from lukasa.storage.sqlite.sql import SQL
from lukasa.storage.sqlite.vectors import (
    ModelSketches,
    SketchArray,
    compute_cosines,
    encode_vector,
    encode_vectors,
    rank_nearest,
    rerank_size,
    scan_size,
)

LENGTH = 128
MANY = 6_000


def bundles(seed, count, length=LENGTH):
    """Unit vectors in bundles, as those of real texts are."""
    chance = np.random.default_rng(seed)
    centres = chance.standard_normal((count // 50 + 1, length))
    vectors = centres[chance.integers(0, len(centres), count)] + 0.7 * chance.standard_normal((count, length))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def sketched(vectors, first=1):
    words = kept._compute_sketches(vectors)
    return SketchArray(np.arange(first, first + len(vectors)), np.ascontiguousarray(words.T))


def test_of_the_truly_nearest_hardly_any_is_missed():
    vectors = bundles(1, 30_000, 384)
    sketches, found = sketched(vectors), 0
    for asked in 0.5 * bundles(2, 20, 384) + vectors[:20]:
        truly = set((np.argsort(-(vectors @ asked))[:10] + 1).tolist())
        found += len(truly & set(sketches.find_nearest(asked, scan_size(len(vectors)))[: rerank_size(10, 384)]))
    assert found >= 0.97 * 200


def test_sketches_are_compared_by_their_signs_then_by_the_questions_numbers():
    vectors = np.array([[1, 1, 1], [1, 1, -1], [-1, 1, 1], [-1, -1, -1]], dtype=np.float32)
    assert sketched(vectors).find_nearest([0.9, 0.3, 0.1], 4) == [1, 2, 3, 4]
    assert sketched(vectors).find_nearest([0.1, 0.3, 0.9], 4) == [1, 3, 2, 4]
    assert sketched(vectors).find_nearest([0.1, 0.3, 0.9], 1) == [1]


@settings(max_examples=30)
@given(length=st.integers(1, 200), count=st.integers(1, 300), wanted=st.integers(1, 400), seed=st.integers(0, 9))
def test_vectors_of_any_length_have_sketches_that_count_every_sign(length, count, wanted, seed):
    vectors = np.random.default_rng(seed).standard_normal((count, length)).astype(np.float32)
    sketches = sketched(vectors)
    apart = ((vectors > 0) != (vectors[0] > 0)).sum(axis=1)
    assert sketches._count_differing_signs(kept._compute_sketches(vectors[:1])[0]).tolist() == apart.tolist()
    near = sketches.find_nearest(vectors[0], wanted)
    assert len(near) == min(wanted, count)
    assert len(set(near)) == len(near)
    assert near[0] == 1


def test_a_block_more_than_one_block_is_scanned_whole():
    vectors = np.random.default_rng(5).standard_normal((kept._BLOCK_SIZE * 2 + 3, 64)).astype(np.float32)
    sketches = sketched(vectors)
    for at in (0, kept._BLOCK_SIZE - 1, kept._BLOCK_SIZE, len(vectors) - 1):
        assert sketches.find_nearest(vectors[at], 1) == [at + 1]


def test_a_question_of_another_length_finds_nothing():
    assert sketched(bundles(1, 10, 64)).find_nearest([1.0] * 65, 3) == []


def test_many_vectors_are_packed_as_one_by_one():
    vectors = [*bundles(3, 5).tolist(), [0.0] * LENGTH, [3.0, 4.0], []]
    assert list(encode_vectors(vectors)) == [encode_vector(vector) for vector in vectors]
    assert np.frombuffer(encode_vector([3.0, 4.0])[1], "<f2").tolist() == pytest.approx([0.6, 0.8], abs=1e-3)


def test_cosines_leave_out_vectors_of_another_length():
    rows = [(1, encode_vector([1.0, 0.0])[1]), (2, encode_vector([1.0])[1]), (3, encode_vector([0.0, 2.0])[1])]
    seqs, scores = compute_cosines([5.0, 0.0], rows)
    assert (seqs, scores.tolist()) == ([1, 3], [1.0, 0.0])
    assert rank_nearest([0.0, 1.0], rows, 1) == [(3, 1.0)]
    assert rank_nearest([0.0, 1.0], [], 1) == []


@pytest.fixture
def engine(tmp_path):
    engine = SqliteEngine(tmp_path / "x.db")
    yield engine
    engine.close()


def filled(engine, count=MANY, **fields):
    """A store with that many texts, and their positions."""
    memory = lukasa.open(engine.path, embedder="hash")
    memory.journal.append(Draft("note", f"text {nr}", **fields) for nr in range(count))
    memory.close()
    with engine.snapshot(FULL_REACH) as look:
        return [record.seq for record in look.read(Query(kinds=("note",)))]


def found(engine, vector, limit=3, **filters):
    with engine.snapshot(FULL_REACH) as look:
        return [match.record.seq for match in look.match_vector("m", vector, Query(limit=limit, **filters))]


@pytest.mark.requirement("RCL-1")
def test_a_large_store_answers_as_an_exact_search_would(engine):
    seqs, vectors = filled(engine), bundles(7, MANY)
    engine.put_vectors("m", [(seq, 0, vector) for seq, vector in zip(seqs, vectors.tolist(), strict=True)])
    for asked in vectors[:10] + 0.3 * vectors[10:20]:
        exact = [seqs[at] for at in np.argsort(-(vectors @ asked))[:3]]
        assert found(engine, asked.tolist()) == exact


def test_what_is_narrowed_down_to_few_is_compared_exactly(engine):
    seqs = filled(engine)
    rare = filled(engine, 30, labels=("session=x",))[-30:]
    far = [-1.0] + [0.0] * (LENGTH - 1)
    engine.put_vectors("m", [(seq, 0, [1.0] + [0.1] * (LENGTH - 1)) for seq in seqs])
    engine.put_vectors("m", [(seq, 0, far) for seq in rare])
    ahead = [1.0] + [0.0] * (LENGTH - 1)
    assert sorted(found(engine, ahead, 40, labels=("session=x",))) == rare
    assert len(found(engine, ahead, 40)) == 40
    assert set(found(engine, ahead, 40)).isdisjoint(rare)


def test_a_filter_that_leaves_little_still_finds_it_among_the_farthest(engine):
    seqs = filled(engine, author="ada")
    last = filled(engine, 1, author="ben")[-1]
    engine.put_vectors("m", [(seq, 0, [1.0] * LENGTH) for seq in seqs])
    engine.put_vectors("m", [(last, 0, [-1.0] * LENGTH)])
    assert found(engine, [1.0] * LENGTH, author="ben") == [last]


def test_sketches_are_read_once_and_then_only_what_is_new(engine):
    seqs = filled(engine)
    engine.put_vectors("m", [(seq, 0, vector) for seq, vector in zip(seqs[:-1], bundles(7, MANY - 1), strict=True)])
    shelf, read = ModelSketches(), []

    with engine._borrow_connection() as database:
        database.trace_v2(1, lambda event: read.append(event["sql"]))
        assert len(shelf.refresh(database, "m").seqs) == MANY - 1
        before = shelf.refresh(database, "m")
        engine.put_vectors("m", [(seqs[-1], 0, [1.0] * LENGTH)])
        after = shelf.refresh(database, "m")
        database.trace_v2(0)
    assert (len(before.seqs), len(after.seqs)) == (MANY - 1, MANY)
    assert after.seqs[-1] == seqs[-1]
    assert read


def test_the_same_vectors_put_by_another_process_change_nothing(engine):
    def edition():
        with engine._borrow_connection() as database:
            return database.execute(SQL["edition"], ("m",)).get

    seqs = filled(engine, 5)
    vectors = [(seq, 0, vector) for seq, vector in zip(seqs, bundles(7, 5).tolist(), strict=True)]
    engine.put_vectors("m", vectors)
    engine.put_vectors("m", vectors)
    engine.put_vectors("m", vectors[2:])
    assert edition() is None
    engine.put_vectors("m", [(seqs[2], 0, [1.0] * LENGTH)])
    assert edition() == 1
    engine.put_vectors("m", [(seqs[2], 0, [1.0] * LENGTH), (seqs[2], 1, [0.5] * LENGTH)])
    assert edition() == 2, "another chunk is another record"


def test_vectors_of_two_lengths_under_one_name_do_not_hide_each_other(engine, monkeypatch):
    monkeypatch.setattr(kept, "_LOAD_BATCH_SIZE", 1_000)
    seqs = filled(engine)
    short, long = [1.0] * 64, [1.0] * LENGTH
    engine.put_vectors("m", [(seq, 0, short if nr % 1_000 == 0 else long) for nr, seq in enumerate(seqs)])
    assert len(found(engine, long, 50)) == 50
    assert sorted(found(engine, short, 50)) == seqs[::1_000]


def test_threads_may_search_while_vectors_come_in(engine):
    seqs, vectors = filled(engine), bundles(7, MANY)
    rows = [(seq, 0, vector) for seq, vector in zip(seqs, vectors.tolist(), strict=True)]
    engine.put_vectors("m", rows[:5_000])
    wrong = []

    def search():
        wrong.extend(at for at in range(0, 200, 10) if found(engine, rows[at][2], 1) != [seqs[at]])

    crew = [threading.Thread(target=search) for _ in range(3)]
    for thread in crew:
        thread.start()
    for start in range(5_000, MANY, 100):
        engine.put_vectors("m", rows[start : start + 100])
    for thread in crew:
        thread.join()
    assert wrong == []
    assert found(engine, rows[-1][2], 1) == [seqs[-1]]


@pytest.mark.requirement("RCL-1", "RCL-5")
def test_what_one_process_adds_to_a_large_store_is_found_by_the_next_recall_of_another(tmp_path):
    store = tmp_path / "x.db"
    with lukasa.open(store, embedder="hash") as memory:
        memory.journal.append(Draft("note", f"text number {nr} of many") for nr in range(MANY))
        memory.recall.index.catch_up()
        assert memory.recall("the kingfisher", 1).unindexed == 0
        code = "import sys, lukasa; lukasa.open(sys.argv[1]).journal.write('note', 'a kingfisher dives')"
        subprocess.run([sys.executable, "-c", code, str(store)], check=True)
        (hit,) = memory.recall("Where is the kingfisher?", 1).hits
        assert hit.record.text == "a kingfisher dives"
        assert {signal.name: signal.value for signal in hit.signals}["meaning"] > 0
