"""The vector index follows the log within its time limit and names how its vectors were computed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lukasa
from lukasa import Draft
from lukasa.errors import InvalidInput
from lukasa.models.embedder import HashEmbedder
from lukasa.recall import vector_index
from lukasa.recall.signals import MAX_WHOLE_LENGTH
from lukasa.recall.vector_index import BATCH_SIZE, EMBEDDER_SETTING_KEY, PREPARATION, next_batch_size
from lukasa.storage.engine import Query
from support.narrow import present
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


class SlowEmbedder(HashEmbedder):
    """An embedder that takes a given time per text on a simulated clock."""

    name = "slow"

    def __init__(self, monkeypatch, seconds):
        super().__init__()
        self.now = 0.0
        self.batches = []
        self._seconds = seconds
        monkeypatch.setattr(vector_index.time, "monotonic", lambda: self.now)

    def embed(self, texts):
        self.batches.append(list(texts))
        self.now += self._seconds * len(texts)
        return super().embed(texts)


@given(made=st.integers(0, 10**6), took=st.floats(0, 1e6), left=st.none() | st.floats(-1e6, 1e6))
def test_next_batch_size_stays_within_its_limits(made, took, left):
    assert 1 <= next_batch_size(made, took, left) <= BATCH_SIZE


def test_next_batch_size_fits_the_remaining_time():
    assert next_batch_size(0, 0.0, None) == next_batch_size(500, 3.0, None) == BATCH_SIZE
    assert next_batch_size(16, 0.16, 0.1) == 10
    assert next_batch_size(16, 0.001, 1.0) == 32, "a batch is at most twice as large as all before it"
    assert next_batch_size(16, 8.0, 0.1) == 1


def test_recall_spends_hardly_more_than_its_patience_on_vectors(monkeypatch):
    with lukasa.open("memory:", embedder=(embedder := SlowEmbedder(monkeypatch, 0.01))) as memory:
        memory.journal.append(Draft("note", f"heron number {number}") for number in range(1_000))
        recalled = memory.recall("heron", 3, patience=1.0)
        made = sum(map(len, embedder.batches)) - 1
        assert 80 <= made <= 110
        assert recalled.unindexed == 1_000 - made
        assert len(recalled.hits) == 3
        assert memory.recall("heron", 3, patience=60).unindexed == 0


def test_recall_counts_the_texts_that_have_no_vector_yet(store):
    with lukasa.open(store, embedder="hash") as memory:
        memory.journal.append(Draft("note", f"heron {number}") for number in range(50))
        memory.journal.append(Draft("mark", body={"number": number}) for number in range(50))
        assert memory.recall("heron", 1, patience=0).unindexed == 50
        assert memory.recall("heron", 1).unindexed == 0
        memory.journal.append(Draft("mark", body={"number": number}) for number in range(50))
        assert memory.recall("heron", 1, patience=0).unindexed == 0


def test_a_reopened_store_computes_no_vectors_again(store):
    with lukasa.open(store, embedder="hash") as memory:
        memory.journal.append(Draft("note", f"heron {number}") for number in range(20))
        memory.recall("heron")
        tip = memory.journal.tip()
    with lukasa.open(store, embedder=(recording := RecordingEmbedder())) as memory:
        assert memory.recall("a heron").hits
        assert recording.texts == ["a heron"]
        assert memory.journal.tip() == tip


class RecordingEmbedder(HashEmbedder):
    """An embedder that records the texts it was given."""

    def __init__(self):
        super().__init__()
        self.texts = []

    def embed(self, texts):
        self.texts += texts
        return super().embed(texts)


def test_the_lead_passage_of_a_long_text_is_embedded_and_the_model_name_says_so():
    with lukasa.open("memory:", embedder=(recording := RecordingEmbedder())) as memory:
        memory.journal.write("note", "The heron fishes. " * 100)
        memory.recall("heron")
        assert len(recording.texts[0]) <= MAX_WHOLE_LENGTH
        assert present(memory.journal.get(EMBEDDER_SETTING_KEY)).body["model"] == f"hash-64+{PREPARATION}"


def pretend_other_vectors(memory, old):
    """Make a store look as if another version had computed its vectors; return the current model name."""
    setting = memory.journal.get(EMBEDDER_SETTING_KEY)
    model = setting.body["model"]
    with memory.journal.snapshot() as reader:
        seqs = [record.seq for record in reader.read(Query(kinds=("note",)))]
    vectors = HashEmbedder().embed(["heron"] * len(seqs)).tolist()
    memory.journal.put_vectors(old, [(seq, 0, vector) for seq, vector in zip(seqs, vectors, strict=True)])
    memory.valid_journal.write(
        EMBEDDER_SETTING_KEY.kind,
        body=setting.body | {"model": old},
        id=EMBEDDER_SETTING_KEY.id,
        scope=EMBEDDER_SETTING_KEY.scope,
        origin="recall",
    )
    return model


@pytest.mark.requirement("RCL-3")
def test_recall_notes_another_preparation_and_still_uses_the_old_vectors(tmp_path):
    store = tmp_path / "x.db"
    with lukasa.open(store, embedder="hash") as memory:
        memory.journal.write("note", "the heron nests")
        memory.recall("heron")
        today = pretend_other_vectors(memory, "hash-64+tail99")
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
        assert recalled.unindexed == 1, "no vectors are added to those of another preparation"
        assert len(recalled.hits) == 2
        assert memory.recall.reembed("hash") == today
        recalled = memory.recall("heron")
        assert (recalled.unindexed, recalled.note) == (0, "")
    with lukasa.open(store, embedder=HashEmbedder(128)) as memory, pytest.raises(InvalidInput, match="reembed"):
        memory.recall("heron")


@pytest.mark.requirement("RCL-3")
def test_vectors_of_an_earlier_model_of_the_same_name_are_not_compared_with_new_ones(tmp_path):
    store = tmp_path / "x.db"
    with lukasa.open(store, embedder="hash") as memory:
        memory.journal.write("note", "the heron nests")
        memory.recall("heron")
        today = pretend_other_vectors(memory, "hash-1+tail99")
    with lukasa.open(store) as memory:
        recalled = memory.recall("heron")
        assert "hash-1+tail99" in recalled.note
        assert "lukasa reembed --embedder hash" in recalled.note
        assert [hit.hit.candidate.cosine for hit in recalled.hits] == [None]
        assert memory.recall.reembed("hash") == today
        recalled = memory.recall("heron")
        assert recalled.note == ""
        assert recalled.hits[0].hit.candidate.cosine is not None
    with lukasa.open(store) as memory:
        assert memory.recall("heron").note == ""


@pytest.mark.requirement("RCL-1")
def test_recall_knows_the_speakers_from_the_first_question_on(store):
    with lukasa.open(store, embedder="hash") as memory:
        for number in range(3):
            memory.journal.write("turn", f"I saw heron {number} at the lake", author="Anna", labels=("session=s",))
            memory.journal.write("turn", f"I saw heron {number} at the lake", author="Ben", labels=("session=s",))
        first = memory.recall("What did Anna see?", 1)
        assert first.query.subject == {"Anna"}
        assert first.hits[0].record.author == "Anna"
        memory.journal.write("turn", "I saw an owl", author="Cleo", labels=("session=s",))
        assert memory.recall("What did Cleo see?", 1).query.subject == {"Cleo"}


@pytest.mark.requirement("RCL-1")
def test_recall_finds_common_words_of_a_large_store_where_they_occur_together(monkeypatch):
    monkeypatch.setattr("lukasa.recall.query.MAX_MATCHED_TEXTS", 50)
    with lukasa.open("memory:", embedder="hash") as memory:
        memory.journal.append(
            Draft("note", f"green {'heron' if number % 2 else 'otter'} {number}") for number in range(200)
        )
        memory.journal.write("note", "a green heron and an otter in winter, all of them together for once", id="all")
        assert memory.recall("heron otter", 1).records[0].id == "all"
