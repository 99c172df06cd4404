"""Vectors follow the log within the time they are given; how they were made is known by their name."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lukasa
from lukasa import Draft
from lukasa.errors import InvalidInput
from lukasa.models.embedders.hashing import HashEmbedder
from lukasa.recall import vector_index as indexing
from lukasa.recall.passages import MAX_WHOLE_LENGTH
from lukasa.recall.vector_index import BATCH_SIZE, EMBEDDER_SETTING_KEY, PREPARATION, next_batch_size, subtract_mean
from lukasa.storage.engine import Query
from support.postgres import shared_server

pytestmark = pytest.mark.requirement("RCL-5")


@pytest.fixture(scope="module")
def server():
    with shared_server() as server:
        yield server


@pytest.fixture(params=["file", "postgresql"])
def store(request, tmp_path):
    if request.param == "file":
        yield str(tmp_path / "x.db")
    else:
        with request.getfixturevalue("server").database() as url:
            yield url


class Slow(HashEmbedder):
    """An embedder whose every text takes as long as the test says, on a clock of its own."""

    name = "slow"

    def __init__(self, monkeypatch, seconds):
        super().__init__()
        self.now = 0.0
        self.seen = []
        self._seconds = seconds
        monkeypatch.setattr(indexing.time, "monotonic", lambda: self.now)

    def embed(self, texts):
        self.seen.append(list(texts))
        self.now += self._seconds * len(texts)
        return super().embed(texts)


@given(made=st.integers(0, 10**6), took=st.floats(0, 1e6), left=st.none() | st.floats(-1e6, 1e6))
def test_a_batch_is_never_empty_nor_larger_than_the_largest(made, took, left):
    assert 1 <= next_batch_size(made, took, left) <= BATCH_SIZE


def test_a_batch_ends_in_the_time_that_is_left():
    assert next_batch_size(0, 0.0, None) == next_batch_size(500, 3.0, None) == BATCH_SIZE
    assert next_batch_size(16, 0.16, 0.1) == 10
    assert next_batch_size(16, 0.001, 1.0) == 32, "one fast batch is no promise; the next is twice as large at most"
    assert next_batch_size(16, 8.0, 0.1) == 1


def test_an_answer_is_held_up_for_hardly_longer_than_its_patience(monkeypatch):
    with lukasa.open("memory:", embedder=(slow := Slow(monkeypatch, 0.01))) as memory:
        memory.journal.append(Draft("note", f"heron number {nr}") for nr in range(1_000))
        recalled = memory.recall("heron", 3, patience=1.0)
        made = sum(map(len, slow.seen)) - 1
        assert 80 <= made <= 110
        assert recalled.unindexed == 1_000 - made
        assert len(recalled.hits) == 3
        assert memory.recall("heron", 3, patience=60).unindexed == 0


def test_how_many_are_missing_is_counted_without_reading_them(store):
    with lukasa.open(store, embedder="hash") as memory:
        memory.journal.append(Draft("note", f"heron {nr}") for nr in range(50))
        memory.journal.append(Draft("mark", body={"nr": nr}) for nr in range(50))
        assert memory.recall("heron", 1, patience=0).unindexed == 50
        assert memory.recall("heron", 1).unindexed == 0
        memory.journal.append(Draft("mark", body={"nr": nr}) for nr in range(50))
        assert memory.recall("heron", 1, patience=0).unindexed == 0


def test_nothing_is_made_anew_when_a_store_is_opened_again(store):
    with lukasa.open(store, embedder="hash") as memory:
        memory.journal.append(Draft("note", f"heron {nr}") for nr in range(20))
        memory.recall("heron")
        tip = memory.journal.tip()
    with lukasa.open(store, embedder=(watched := Watched())) as memory:
        assert memory.recall("a heron").hits
        assert watched.texts == ["a heron"]
        assert memory.journal.tip() == tip


class Watched(HashEmbedder):
    """Remembers what it was given."""

    def __init__(self):
        super().__init__()
        self.texts = []

    def embed(self, texts):
        self.texts += texts
        return super().embed(texts)


def test_the_head_of_a_long_text_is_what_is_embedded_and_the_name_says_so():
    with lukasa.open("memory:", embedder=(watched := Watched())) as memory:
        memory.journal.write("note", "The heron fishes. " * 100)
        memory.recall("heron")
        assert len(watched.texts[0]) <= MAX_WHOLE_LENGTH
        assert memory.journal.get(EMBEDDER_SETTING_KEY).body["model"] == f"hash-64+{PREPARATION}"


def prepared_otherwise(memory):
    """Makes a store look as if another version had made its vectors."""
    setting = memory.journal.get(EMBEDDER_SETTING_KEY)
    model, old = setting.body["model"], "hash-64+tail99"
    with memory.journal.snapshot() as look:
        seqs = [record.seq for record in look.read(Query(kinds=("note",)))]
    vectors = HashEmbedder().embed(["heron"] * len(seqs)).tolist()
    memory.journal.put_vectors(old, [(seq, 0, vector) for seq, vector in zip(seqs, vectors, strict=True)])
    memory.journal.write(
        EMBEDDER_SETTING_KEY.kind,
        body=setting.body | {"model": old},
        id=EMBEDDER_SETTING_KEY.id,
        scope=EMBEDDER_SETTING_KEY.scope,
        origin="recall",
    )
    return model


@pytest.mark.requirement("RCL-3")
def test_a_change_of_preparation_is_noticed_and_the_old_vectors_still_serve(tmp_path):
    store = tmp_path / "x.db"
    with lukasa.open(store, embedder="hash") as memory:
        memory.journal.write("note", "the heron nests")
        memory.recall("heron")
        today = prepared_otherwise(memory)
    for embedder in (None, "hash"):
        with lukasa.open(store, embedder=embedder) as memory:
            recalled = memory.recall("heron")
            assert "hash-64+tail99" in recalled.note
            assert "lukasa reembed" in recalled.note
            assert recalled.hits[0].hit.candidate.cosine == pytest.approx(1.0, abs=1e-3)
            assert recalled.unindexed == 0
    with lukasa.open(store) as memory:
        memory.journal.write("note", "another heron")
        recalled = memory.recall("heron")
        assert recalled.unindexed == 1, "none are added to vectors that were made in another way"
        assert len(recalled.hits) == 2
        assert memory.recall.reembed("hash") == today
        recalled = memory.recall("heron")
        assert (recalled.unindexed, recalled.note) == (0, "")
    with lukasa.open(store, embedder=HashEmbedder(128)) as memory, pytest.raises(InvalidInput, match="reembed"):
        memory.recall("heron")


@pytest.mark.requirement("RCL-1")
def test_who_speaks_is_known_from_the_first_question_on(store):
    with lukasa.open(store, embedder="hash") as memory:
        for nr in range(3):
            memory.journal.write("turn", f"I saw heron {nr} at the lake", author="Anna", labels=("session=s",))
            memory.journal.write("turn", f"I saw heron {nr} at the lake", author="Ben", labels=("session=s",))
        first = memory.recall("What did Anna see?", 1)
        assert first.question.subject == {"Anna"}
        assert first.hits[0].record.author == "Anna"
        memory.journal.write("turn", "I saw an owl", author="Cleo", labels=("session=s",))
        assert memory.recall("What did Cleo see?", 1).question.subject == {"Cleo"}


@pytest.mark.requirement("RCL-1")
def test_common_words_of_a_large_store_are_found_where_they_stand_together(monkeypatch):
    monkeypatch.setattr("lukasa.recall.term_selection.MAX_MATCHED_TEXTS", 50)
    with lukasa.open("memory:", embedder="hash") as memory:
        memory.journal.append(Draft("note", f"green {'heron' if nr % 2 else 'otter'} {nr}") for nr in range(200))
        memory.journal.write("note", "a green heron and an otter in winter, all of them together for once", id="all")
        assert memory.recall("heron otter", 1).records[0].id == "all"


@given(st.integers(0, 40), st.integers(0, 2**32 - 1))
def test_a_vector_seen_from_the_middle_of_others_is_a_unit_vector_that_few_others_move_little(many, seed):
    chance = np.random.default_rng(seed)
    leaning = np.array([3.0, *[0.0] * 7])
    others = chance.normal(size=(many, 8)) + leaning
    others = (others / np.linalg.norm(others, axis=1, keepdims=True)).astype(np.float32)
    asked = (chance.normal(size=8) + leaning).astype(np.float32)
    asked /= np.linalg.norm(asked)
    seen = subtract_mean(asked, others)
    assert np.linalg.norm(seen) == pytest.approx(1.0, abs=1e-5)
    middle = others.mean(axis=0) if many else np.zeros(8, np.float32)
    assert seen @ middle <= asked @ middle + 1e-6
    assert many or np.allclose(seen, asked, atol=1e-6)
