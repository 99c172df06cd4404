"""The search by sketches finds what an exact search finds, also when several processes or threads add vectors."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lukasa
from lukasa import Draft
from lukasa.core.scope import FULL_REACH
from lukasa.errors import InvalidInput
from lukasa.storage.engine import Query
from lukasa.storage.sqlite import SqliteEngine
from lukasa.storage.sqlite import vectors as vector_module
from lukasa.storage.sqlite.sql import SQL
from lukasa.storage.sqlite.vectors import (
    ModelSketches,
    SketchArray,
    SketchBlock,
    compute_cosines,
    encode_vector,
    encode_vectors,
    rank_nearest,
    rerank_size,
    scan_size,
)

LENGTH = 128
MANY = 6_000


def clustered_vectors(seed, count, length=LENGTH):
    """Return unit vectors in clusters, like those of real texts."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((count // 50 + 1, length))
    vectors = centres[rng.integers(0, len(centres), count)] + 0.7 * rng.standard_normal((count, length))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def sketch_array(vectors, first=1):
    words = vector_module._compute_sketches(vectors > 0)
    return SketchArray(np.arange(first, first + len(vectors)), np.ascontiguousarray(words.T))


def test_sketches_find_nearly_all_of_the_nearest_vectors():
    vectors = clustered_vectors(1, 30_000, 384)
    sketches, found = sketch_array(vectors), 0
    for asked in 0.5 * clustered_vectors(2, 20, 384) + vectors[:20]:
        exact_nearest = set((np.argsort(-(vectors @ asked))[:10] + 1).tolist())
        found += len(exact_nearest & set(sketches.find_nearest(asked, scan_size(len(vectors)))[: rerank_size(10, 384)]))
    assert found >= 0.97 * 200


def test_sketches_rank_by_signs_then_by_the_values_of_the_question():
    vectors = np.array([[1, 1, 1], [1, 1, -1], [-1, 1, 1], [-1, -1, -1]], dtype=np.float32)
    assert sketch_array(vectors).find_nearest([0.9, 0.3, 0.1], 4) == [1, 2, 3, 4]
    assert sketch_array(vectors).find_nearest([0.1, 0.3, 0.9], 4) == [1, 3, 2, 4]
    assert sketch_array(vectors).find_nearest([0.1, 0.3, 0.9], 1) == [1]


@settings(max_examples=30)
@given(length=st.integers(1, 200), count=st.integers(1, 300), wanted=st.integers(1, 400), seed=st.integers(0, 9))
def test_sketches_of_any_length_count_every_differing_sign(length, count, wanted, seed):
    vectors = np.random.default_rng(seed).standard_normal((count, length)).astype(np.float32)
    sketches = sketch_array(vectors)
    apart = ((vectors > 0) != (vectors[0] > 0)).sum(axis=1)
    assert (
        sketches._count_differing_signs(vector_module._compute_sketches(vectors[:1] > 0)[0]).tolist() == apart.tolist()
    )
    near = sketches.find_nearest(vectors[0], wanted)
    assert len(near) == min(wanted, count)
    assert len(set(near)) == len(near)
    assert near[0] == 1


def test_a_search_scans_all_blocks():
    vectors = np.random.default_rng(5).standard_normal((vector_module._BLOCK_SIZE * 2 + 3, 64)).astype(np.float32)
    sketches = sketch_array(vectors)
    for at in (0, vector_module._BLOCK_SIZE - 1, vector_module._BLOCK_SIZE, len(vectors) - 1):
        assert sketches.find_nearest(vectors[at], 1) == [at + 1]


def test_a_question_vector_of_another_length_finds_nothing():
    assert sketch_array(clustered_vectors(1, 10, 64)).find_nearest([1.0] * 65, 3) == []


def test_encode_vectors_gives_the_same_bytes_as_encode_vector():
    vectors = [*clustered_vectors(3, 5).tolist(), [0.0] * LENGTH, [3.0, 4.0], []]
    assert list(encode_vectors(vectors)) == [encode_vector(vector) for vector in vectors]
    assert np.frombuffer(encode_vector([3.0, 4.0]), "<f2")[:2].tolist() == pytest.approx([0.6, 0.8], abs=1e-3)


@pytest.mark.parametrize("length", [3, 64, 255, 256, 384])
def test_vectors_in_arrays_are_encoded_as_lists_of_numbers_are(length):
    vectors = clustered_vectors(3, 8, length)
    vectors[0], vectors[1, 0], vectors[2, 0] = 0.0, np.nan, np.inf
    with np.errstate(invalid="ignore"):
        encoded = encode_vectors(list(vectors))
        assert encoded == encode_vectors(vectors.tolist()) == [encode_vector(vector) for vector in vectors.tolist()]
        assert encoded == encode_vectors(list(vectors.astype(np.float64)))
    assert vector_module.find_damaged_vectors(list(enumerate(encoded))) == []


@pytest.mark.parametrize("length", [256, 384, 1024])
def test_long_vectors_take_a_byte_a_number_and_keep_their_cosines(length):
    vectors = clustered_vectors(3, 50, length)
    rows = [(number, encode_vector(vector)) for number, vector in enumerate(vectors.tolist())]
    assert {len(data) for _, data in rows} == {length + 11}
    seqs, cosines = compute_cosines(vectors[0].tolist(), rows)
    assert (seqs, cosines.tolist()) == (list(range(50)), pytest.approx((vectors @ vectors[0]).tolist(), abs=0.004))
    assert vector_module.find_damaged_vectors([*rows, (50, rows[0][1][:-3] + b"xyz")]) == [50]
    damaged: set[int] = set()
    assert compute_cosines(vectors[0].tolist(), [(7, b"x" + rows[0][1][1:])], damaged)[0] == []
    assert damaged == {7}


def test_vectors_in_bytes_and_in_half_precision_share_a_block(monkeypatch):
    vectors = clustered_vectors(3, 20, 384).tolist()
    in_bytes = [(number, encode_vector(vector)) for number, vector in enumerate(vectors)]
    monkeypatch.setattr(vector_module, "_MIN_LENGTH_OF_BYTES", 1_000)
    in_halves = [(number, encode_vector(vector)) for number, vector in enumerate(vectors)]
    mixed = SketchBlock.from_vectors([*in_halves[:5], *in_bytes[5:15], *in_halves[15:]])
    assert mixed.seqs.tolist() == list(range(20))
    differing = mixed.words ^ SketchBlock.from_vectors(in_halves).words
    assert np.bitwise_count(differing).sum() <= 20 * 384 // 50, "a number that a byte rounds to zero has no sign"
    assert len(compute_cosines(vectors[0], [*in_halves[:5], *in_bytes[5:]])[0]) == 20


def test_cosines_skip_vectors_of_another_length():
    rows = [(1, encode_vector([1.0, 0.0])), (2, encode_vector([1.0])), (3, encode_vector([0.0, 2.0]))]
    seqs, scores = compute_cosines([5.0, 0.0], rows)
    assert (seqs, scores.tolist()) == ([1, 3], [1.0, 0.0])
    assert rank_nearest([0.0, 1.0], rows, 1) == [(3, 1.0)]
    assert rank_nearest([0.0, 1.0], [], 1) == []


@pytest.fixture
def engine(tmp_path):
    engine = SqliteEngine(tmp_path / "x.db")
    yield engine
    engine.close()


def write_texts(engine, count=MANY, **fields):
    """Write that many texts and return the positions of all."""
    memory = lukasa.open(engine.path, embedder="hash")
    memory.journal.append(Draft("note", f"text {number}", **fields) for number in range(count))
    memory.close()
    with engine.snapshot(FULL_REACH) as reader:
        return [record.seq for record in reader.read(Query(kinds=("note",)))]


def search(engine, vector, limit=3, **filters):
    with engine.snapshot(FULL_REACH) as reader:
        return [match.record.seq for match in reader.match_vector("m", vector, Query(limit=limit, **filters))]


@pytest.mark.requirement("RCL-1")
def test_a_large_store_returns_what_an_exact_search_returns(engine):
    seqs, vectors = write_texts(engine), clustered_vectors(7, MANY)
    engine.put_vectors("m", [(seq, 0, vector) for seq, vector in zip(seqs, vectors.tolist(), strict=True)])
    for asked in vectors[:10] + 0.3 * vectors[10:20]:
        exact = [seqs[at] for at in np.argsort(-(vectors @ asked))[:3]]
        assert search(engine, asked.tolist()) == exact


def test_a_filter_that_leaves_few_records_compares_them_exactly(engine):
    seqs = write_texts(engine)
    rare = write_texts(engine, 30, labels=("session=x",))[-30:]
    far = [-1.0] + [0.0] * (LENGTH - 1)
    engine.put_vectors("m", [(seq, 0, [1.0] + [0.1] * (LENGTH - 1)) for seq in seqs])
    engine.put_vectors("m", [(seq, 0, far) for seq in rare])
    ahead = [1.0] + [0.0] * (LENGTH - 1)
    assert sorted(search(engine, ahead, 40, labels=("session=x",))) == rare
    assert len(search(engine, ahead, 40)) == 40
    assert set(search(engine, ahead, 40)).isdisjoint(rare)


def test_a_filtered_search_finds_the_farthest_vector(engine):
    seqs = write_texts(engine, author="ada")
    last = write_texts(engine, 1, author="ben")[-1]
    engine.put_vectors("m", [(seq, 0, [1.0] * LENGTH) for seq in seqs])
    engine.put_vectors("m", [(last, 0, [-1.0] * LENGTH)])
    assert search(engine, [1.0] * LENGTH, author="ben") == [last]


def test_refresh_reads_all_sketches_once_and_then_only_new_ones(engine):
    seqs = write_texts(engine)
    engine.put_vectors(
        "m", [(seq, 0, vector) for seq, vector in zip(seqs[:-1], clustered_vectors(7, MANY - 1), strict=True)]
    )
    cache, read = ModelSketches(), []

    with engine._borrow_connection() as database:
        database.trace_v2(1, lambda event: read.append(event["sql"]))
        assert len(cache.refresh(database, "m").seqs) == MANY - 1
        before = cache.refresh(database, "m")
        engine.put_vectors("m", [(seqs[-1], 0, [1.0] * LENGTH)])
        after = cache.refresh(database, "m")
        database.trace_v2(0)
    assert (len(before.seqs), len(after.seqs)) == (MANY - 1, MANY)
    assert after.seqs[-1] == seqs[-1]
    assert read


def read_sketches(engine):
    """Return the sketches that a new process reads, by position."""
    with engine._borrow_connection() as database:
        found = ModelSketches().refresh(database, "m")
    return dict(zip(found.seqs.tolist(), found.words.T.tolist(), strict=True))


def count_blocks(engine):
    with engine._borrow_connection() as database:
        return database.execute("SELECT count(*) FROM sketch_block").get


def test_blocks_hold_the_sketches_of_vectors_that_came_one_by_one_in_any_order(engine, monkeypatch):
    monkeypatch.setattr(vector_module, "_POSITIONS_IN_BLOCK", 10)
    monkeypatch.setattr(vector_module, "_MAX_POSITIONS_IN_BLOCK", 20)
    seqs, vectors = write_texts(engine, 100), clustered_vectors(7, 100)
    stored = [(seq, encode_vector(vector)) for seq, vector in zip(seqs, vectors.tolist(), strict=True)]
    expected = dict(zip(seqs, SketchBlock.from_vectors(stored).words.T.tolist(), strict=True))
    rows = [(seq, 0, vector) for seq, vector in zip(seqs, vectors.tolist(), strict=True)]
    for row in (*rows[:30], *rows[35:40]):
        engine.put_vectors("m", [row])
    engine.put_vectors("m", rows[40:95])
    engine.put_vectors("m", [*rows[30:35], (seqs[3], 0, vectors[99].tolist())])
    assert count_blocks(engine) > 5
    expected[seqs[3]] = expected[seqs[99]]
    assert read_sketches(engine) == {seq: expected[seq] for seq in seqs[:95]}
    assert engine.verify().sound


@pytest.mark.requirement("LOG-5")
@pytest.mark.parametrize(
    "change", ["seqs = ''", "seqs = 17", "seqs = substr(seqs, 9)", "sketches = 'x'", "sketches = substr(sketches, 9)"]
)
def test_a_block_whose_parts_do_not_fit_is_computed_from_its_vectors(engine, monkeypatch, change):
    monkeypatch.setattr(vector_module, "_POSITIONS_IN_BLOCK", 10)
    seqs, vectors = write_texts(engine, 30), clustered_vectors(7, 30).tolist()
    for start in (0, 10, 20):
        engine.put_vectors("m", [(seqs[at], 0, vectors[at]) for at in range(start, start + 10)])
    expected = read_sketches(engine)
    with engine._borrow_connection() as database:
        database.execute(f"UPDATE sketch_block SET {change} WHERE last_seq = (SELECT min(last_seq) FROM sketch_block)")
        assert database.changes() == 1
    assert read_sketches(engine) == expected
    assert not engine.verify().sound
    engine.reindex()
    assert engine.verify().sound
    assert read_sketches(engine) == expected


@pytest.mark.requirement("LOG-5")
def test_erased_vectors_leave_no_sketch_in_a_block(engine, monkeypatch):
    monkeypatch.setattr(vector_module, "_POSITIONS_IN_BLOCK", 10)
    seqs, vectors = write_texts(engine, 30), clustered_vectors(7, 30).tolist()
    engine.put_vectors("m", [(seq, 0, vector) for seq, vector in zip(seqs, vectors, strict=True)])
    kept = read_sketches(engine)
    with lukasa.open(engine.path, embedder="hash") as memory:
        memory.journal.erase(next(iter(memory.journal.read(Query(kinds=("note",), limit=1)))).key)
    del kept[seqs[0]]
    assert (read_sketches(engine), engine.verify().sound) == (kept, True)


def test_putting_the_same_vectors_again_changes_nothing(engine):
    def edition():
        with engine._borrow_connection() as database:
            return database.execute(SQL["vector_edition"], ("m",)).get

    seqs = write_texts(engine, 5)
    vectors = [(seq, 0, vector) for seq, vector in zip(seqs, clustered_vectors(7, 5).tolist(), strict=True)]
    engine.put_vectors("m", vectors)
    engine.put_vectors("m", vectors)
    engine.put_vectors("m", vectors[2:])
    assert edition() is None
    engine.put_vectors("m", [(seqs[2], 0, [1.0] * LENGTH)])
    assert edition() == 1
    engine.put_vectors("m", [(seqs[2], 0, [1.0] * LENGTH), (seqs[2], 1, [0.5] * LENGTH)])
    assert edition() == 2, "another chunk is another record"


def test_the_vectors_of_neighbouring_positions_and_chunks_and_models_are_kept_apart(engine):
    seqs = write_texts(engine, 3)
    vectors = dict(zip([(seq, chunk) for seq in seqs for chunk in (0, 1, 4_095)], clustered_vectors(7, 9), strict=True))
    for model, sign in (("m", 1.0), ("other", -1.0)):
        engine.put_vectors(model, [(*place, sign * vector) for place, vector in vectors.items()])
    engine.put_vectors("m", [(seqs[1], 0, -vectors[seqs[1], 0])])
    with engine._borrow_connection() as database:
        for model, sign in (("m", 1.0), ("other", -1.0)):
            for seq in seqs:
                expected = [(seq, chunk, encode_vector(sign * vectors[seq, chunk])) for chunk in (0, 1, 4_095)]
                if (model, seq) == ("m", seqs[1]):
                    expected = [(seq, 0, encode_vector(-vectors[seq, 0]))]
                assert database.execute(SQL["vectors_at"], (model, seq)).fetchall() == expected
            assert database.execute(SQL["newest_vector"], (model,)).get == seqs[-1]
    for chunk in (-1, 4_096):
        with pytest.raises(InvalidInput, match="chunk"):
            engine.put_vectors("m", [(seqs[0], chunk, vectors[seqs[0], 0])])


def test_vectors_of_two_lengths_under_one_model_are_both_found(engine):
    seqs = write_texts(engine)
    short, long = [1.0] * 64, [1.0] * LENGTH
    engine.put_vectors("m", [(seq, 0, short if number % 1_000 == 0 else long) for number, seq in enumerate(seqs)])
    assert len(search(engine, long, 50)) == 50
    assert sorted(search(engine, short, 50)) == seqs[::1_000]


def test_threads_search_while_vectors_are_added(engine):
    seqs, vectors = write_texts(engine), clustered_vectors(7, MANY)
    rows = [(seq, 0, vector) for seq, vector in zip(seqs, vectors.tolist(), strict=True)]
    engine.put_vectors("m", rows[:5_000])
    wrong: list[Any] = []

    def search_repeatedly():
        wrong.extend(at for at in range(0, 200, 10) if search(engine, rows[at][2], 1) != [seqs[at]])

    threads = [threading.Thread(target=search_repeatedly) for _ in range(3)]
    for thread in threads:
        thread.start()
    for start in range(5_000, MANY, 100):
        engine.put_vectors("m", rows[start : start + 100])
    for thread in threads:
        thread.join()
    assert wrong == []
    assert search(engine, rows[-1][2], 1) == [seqs[-1]]


@pytest.mark.requirement("RCL-1", "RCL-5")
def test_recall_in_a_large_store_finds_what_another_process_has_added(tmp_path):
    store = tmp_path / "x.db"
    with lukasa.open(store, embedder="hash") as memory:
        memory.journal.append(Draft("note", f"text number {number} of many") for number in range(MANY))
        memory.recall.index.catch_up()
        assert memory.recall("the kingfisher", 1).unindexed == 0
        code = "import sys, lukasa; lukasa.open(sys.argv[1]).journal.write('note', 'a kingfisher dives')"
        subprocess.run([sys.executable, "-c", code, str(store)], check=True)
        (hit,) = memory.recall("Where is the kingfisher?", 1).hits
        assert hit.record.text == "a kingfisher dives"
        assert {signal.name: signal.value for signal in hit.signals}["meaning"] > 0


@pytest.mark.requirement("RCL-1")
def test_vectors_that_were_read_before_are_found_while_their_texts_are_current(engine):
    seqs, vectors = write_texts(engine), clustered_vectors(7, MANY)
    engine.put_vectors("m", [(seq, 0, vector) for seq, vector in zip(seqs, vectors.tolist(), strict=True)])
    asked = vectors[100]
    by_nearness = [seqs[at] for at in np.argsort(-(vectors @ asked))]
    read: list[str] = []
    with engine.snapshot(FULL_REACH) as reader:
        query = Query(limit=3)
        reader._db.trace_v2(1, lambda event: read.append(event["sql"]))
        found = [match.record.seq for match in reader.match_vector("m", asked.tolist(), query)]
        assert SQL["current_vectors"] in read
        read.clear()
        again = [match.record.seq for match in reader.match_vector("m", asked.tolist(), query)]
        reader._db.trace_v2(0)
    assert found == again == by_nearness[:3]
    assert read
    assert SQL["current_vectors"] not in read
    with lukasa.open(engine.path, embedder="hash") as memory:
        key = next(record.key for record in memory.journal.read(Query(kinds=("note",))) if record.seq == found[0])
        memory.journal.delete(key)
    assert search(engine, asked.tolist()) == by_nearness[1:4]
    engine.put_vectors("m", [(found[1], 0, (-asked).tolist())])
    assert search(engine, asked.tolist()) == by_nearness[2:5]


@pytest.mark.requirement("RCL-1")
@pytest.mark.parametrize("count", [300, MANY])
def test_the_store_is_asked_again_which_positions_are_current_once_it_has_changed(engine, count):
    seqs, vectors = write_texts(engine, count), clustered_vectors(7, count)
    engine.put_vectors("m", [(seq, 0, vector) for seq, vector in zip(seqs, vectors.tolist(), strict=True)])
    asked = vectors[100]
    by_nearness = [seqs[at] for at in np.argsort(-(vectors @ asked))]
    statements: list[str] = []

    def search_sharing():
        statements.clear()
        with engine.snapshot(FULL_REACH) as reader:
            reader.shares_records = True
            reader.tally()
            reader._db.trace_v2(1, lambda event: statements.append(event["sql"]))
            found = [match.record for match in reader.match_vector("m", asked.tolist(), Query(limit=3))]
            cosines = reader.cosines("m", asked.tolist(), [record.seq for record in found])
            reader._db.trace_v2(0)
        assert cosines == pytest.approx(
            {record.seq: vectors[seqs.index(record.seq)] @ asked for record in found}, abs=0.01
        )
        return found

    search_sharing()  # reads the vectors
    search_sharing()  # asks which of them are current
    first, *_ = found = search_sharing()
    assert [record.seq for record in found] == by_nearness[:3]
    assert not [statement for statement in statements if "log" in statement or "words_docsize" in statement]
    with lukasa.open(engine.path, embedder="hash") as memory:
        memory.journal.delete(first.key)
    assert [record.seq for record in search_sharing()] == by_nearness[1:4]
