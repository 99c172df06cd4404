"""Recall from a store: by words and meaning, within the reach, with reasons, while others write."""

from __future__ import annotations

import copy
import json
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lukasa
from lukasa import Draft, Key
from lukasa.errors import FormatError, InvalidInput
from lukasa.models.embedder import HashEmbedder
from lukasa.recall.recall import build_prompt_block
from lukasa.recall.vector_index import EMBEDDER_SETTING_KEY, PREPARATION
from lukasa_bench import recall as benchmark
from support.narrow import present

TALK = [
    ("Anna", "I adopted a puppy called Biscuit last Friday."),
    ("Ben", "Congratulations! What breed is he?"),
    ("Anna", "A beagle. We see the vet on Monday."),
    ("Ben", "My patch for CVE-2025-64439 is in review, it touches foo_bar() only."),
    ("Anna", "The quarterly report is due in April."),
]


@pytest.fixture(scope="module")
def talk():
    with lukasa.open("memory:", embedder="static") as memory:
        for author, text in TALK:
            assert memory.journal.write("turn", text, author=author, labels=("session=s1",))
        yield memory


def texts(recalled):
    return [record.text for record in recalled.records]


@pytest.mark.requirement("RCL-1")
@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What kind of dog does Anna have?", 0),
        ("CVE-2025-64439", 3),
        ("foo_bar()", 3),
        ("When is the report due?", 4),
        ("Who goes to the veterinarian?", 2),
    ],
)
def test_recall_returns_the_right_record_among_the_first(talk, question, answer):
    assert TALK[answer][1] in texts(talk.recall(question, 2, min_relevance=0))


def test_an_answer_is_compared_with_the_question_that_it_follows(talk):
    recalled = talk.recall("Which breed is the dog of Anna?", 5)
    candidates = {hit.text: hit.hit.candidate for hit in recalled.hits}
    asked, answer = candidates[TALK[1][1]], candidates[TALK[2][1]]
    assert answer.asked_cosine == asked.cosine
    assert asked.asked_cosine is None
    assert candidates[TALK[3][1]].asked_cosine is None


@pytest.mark.requirement("RCL-2")
def test_every_hit_says_why_and_its_signals_add_up_to_the_score(talk):
    recalled = talk.recall("Which breed is the dog?", 2)
    for hit in recalled.hits:
        assert hit.why
        assert sum(signal.share for signal in hit.signals) == pytest.approx(hit.score)
    assert len(recalled.dropped) == 3
    assert recalled.hits[-1].score >= recalled.dropped[0].score


@pytest.mark.requirement("RCL-1")
def test_recall_applies_its_filters():
    clock = datetime(2026, 2, 3, tzinfo=UTC)
    with lukasa.open("memory:", embedder="hash") as memory:
        journal = memory.journal
        journal.write("note", "green tea", id="a", labels=("tag=x", "session=s1"), author="ada", happened_at=clock)
        journal.write("fact", "green tea", id="b", scope="ben", author="ben", happened_at=clock + timedelta(days=9))
        then = journal.tip()
        journal.write("note", "black coffee", id="a")

        def found(**filters):
            return [record.id for record in memory.recall("green tea", **filters).records]

        assert found(kinds=("fact",)) == ["b"]
        assert found(scopes=("ben",)) == ["b"]
        assert found(author="ben") == ["b"]
        assert found(labels=("tag=x",)) == []
        assert found(labels=("tag=x",), as_of=then) == ["a"]
        assert found(conversation="s1", as_of=then) == ["a"]
        assert found(since=clock + timedelta(days=5), kinds=("fact",)) == ["b"]
        assert found(until=clock + timedelta(days=5), as_of=then) == ["a"]
        assert found(k=0) == []


@pytest.mark.requirement("RCL-1", "LOG-4")
def test_recall_returns_nothing_from_scopes_out_of_reach(tmp_path):
    store = tmp_path / "x.db"
    with (
        lukasa.open(store, agent="ada", embedder="hash") as ada,
        lukasa.open(store, agent="ben", embedder="hash") as ben,
    ):
        ada.journal.write("note", "the heron nests at dawn", scope="ada")
        ben.journal.write("note", "a shared heron")
        assert texts(ben.recall("heron")) == ["a shared heron"]
        assert sorted(texts(ada.recall("heron"))) == ["a shared heron", "the heron nests at dawn"]


@pytest.mark.requirement("RCL-1", "RCL-5")
def test_recall_finds_what_another_process_has_added(tmp_path):
    store = tmp_path / "x.db"
    with lukasa.open(store, embedder="hash") as one, lukasa.open(store) as other:
        one.journal.write("note", "first light")
        assert texts(other.recall("light")) == ["first light"]
        one.journal.write("note", "second light")
        assert sorted(texts(other.recall("light"))) == ["first light", "second light"]


@pytest.mark.requirement("RCL-5")
def test_recall_reports_unindexed_texts_and_finds_them_by_words():
    with lukasa.open("memory:", embedder="hash") as memory:
        memory.journal.append(Draft("note", f"heron number {number}") for number in range(20))
        recalled = memory.recall("heron", 5, patience=0)
        assert recalled.unindexed == 20
        assert len(recalled.hits) == 5
        assert memory.recall("heron", 5).unindexed == 0


@pytest.mark.requirement("RCL-3")
def test_a_store_records_its_embedder_and_refuses_another(tmp_path):
    store = tmp_path / "x.db"
    with lukasa.open(store, embedder="hash") as memory:
        memory.journal.write("note", "hello")
        memory.recall("hello")
        assert present(memory.journal.get(EMBEDDER_SETTING_KEY)).body == {
            "embedder": "hash",
            "model": f"hash-64+{PREPARATION}",
            "length": 64,
        }
    with lukasa.open(store) as memory:
        assert memory.recall.index.embedder.name == f"hash-64+{PREPARATION}"
    with lukasa.open(store, embedder="static") as memory, pytest.raises(InvalidInput, match="reembed"):
        memory.recall("hello")


class ObservedEmbedder(HashEmbedder):
    """An embedder that calls back for every batch."""

    name = "watching"

    def __init__(self, observe):
        super().__init__()
        self._observe = observe

    def embed(self, texts):
        if len(texts) > 1:
            self._observe()
        return super().embed(texts)


@pytest.mark.requirement("RCL-3")
def test_reembed_serves_old_vectors_meanwhile_and_continues_after_an_interruption(tmp_path, monkeypatch):
    with lukasa.open(tmp_path / "x.db", embedder="hash") as memory:
        memory.journal.append(Draft("note", f"heron {number}") for number in range(600))
        memory.recall("heron", patience=60)
        seen, calls = [], 0

        def observe():
            nonlocal calls
            calls += 1
            seen.append((memory.recall.index.embedder.name, len(memory.recall("heron", 3).hits)))
            if calls == 2:
                raise KeyboardInterrupt

        monkeypatch.setattr("lukasa.recall.vector_index.open_embedder", lambda _, **__: ObservedEmbedder(observe))
        with pytest.raises(KeyboardInterrupt):
            memory.recall.reembed("new")
        assert memory.recall.reembed("new") == f"watching+{PREPARATION}"
        assert set(seen) == {(f"hash-64+{PREPARATION}", 3)}
        assert calls == 4, "600 texts take three batches, one of which failed and was computed again"
        assert memory.recall.index.embedder.name == f"watching+{PREPARATION}"
        assert len(memory.recall("heron", 3).hits) == 3


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(question=st.text(max_size=60))
def test_recall_accepts_any_string(talk, question):
    assert len(talk.recall(question, 3).hits) <= 3


@pytest.mark.parametrize(
    "question", ["", " ", "\0", "\ud800", '"', "OR", "x" * 100_000, "word " * 5_000, "\u202e", "NEAR("]
)
def test_recall_accepts_odd_questions(talk, question):
    assert len(talk.recall(question, 3).hits) <= 3


@pytest.mark.requirement("RCL-4")
def test_the_prompt_block_of_hits_stays_within_its_budget(talk):
    block = build_prompt_block(talk.recall("Which breed is the dog?", 5), budget=200)
    assert block.tokens <= 200
    assert block.told >= 1
    assert "by Anna" in block.text


def test_recall_does_not_return_an_erased_record(tmp_path):
    with lukasa.open(tmp_path / "x.db", embedder="hash") as memory:
        memory.journal.write("note", "the secret heron", id="s")
        assert texts(memory.recall("heron")) == ["the secret heron"]
        memory.journal.erase(Key("shared", "note", "s"))
        assert texts(memory.recall("heron")) == []


@pytest.mark.requirement("RCL-6")
def test_the_benchmark_measures_recall_and_its_baselines(tmp_path):
    turns = [
        {"id": f"t{at}", "session": "s", "time": "1:56 pm on 8 May, 2023", "speaker": who, "text": text}
        for at, (who, text) in enumerate(TALK)
    ]
    questions = [
        {"id": "q1", "question": "What breed is the dog?", "category": "easy", "evidence": ["t2"]},
        {"id": "q2", "question": "Who flew to the moon?", "category": "adversarial", "evidence": ["t1"]},
    ]
    file = tmp_path / "set.json"
    file.write_text(
        json.dumps({"set": "made up", "conversations": [{"id": "c", "turns": turns, "questions": questions}]})
    )
    (report,) = benchmark.run([file], embedder="hash", baselines=benchmark.BASELINES)
    assert [way.way for way in report.ways] == ["lukasa", "vector", "bm25", "rrf"]
    assert (report.turns, report.questions, report.ways[0].figures.questions) == (5, 2, 1)
    assert report.ways[0].figures.recall_10 == 1.0
    with pytest.raises(InvalidInput):
        benchmark.run([file], baselines=["nonsense"])
    file.write_text("{}")
    with pytest.raises(FormatError):
        benchmark.load_question_set(file)


@pytest.mark.requirement("RCL-1")
def test_a_recall_names_the_embedder_whose_vectors_it_compared():
    with lukasa.open("memory:", embedder="hash") as memory:
        memory.remember("We deploy on Tuesdays.")
        assert memory.recall("When do we deploy?").embedder == memory.recall.index.describe()["model"] != ""
        assert memory.describe()["embedder"] == f"hash ({memory.recall('deploy').embedder})"


@pytest.mark.requirement("RCL-1")
def test_a_recall_reads_no_entry_again_and_gives_out_its_own_copies(tmp_path):
    with lukasa.open(tmp_path / "store.db", embedder="hash") as memory:
        for day in ("Monday", "Friday"):
            memory.journal.write("note", f"The release is on {day}.", {"tags": ["plan"]}, id=day)
        memory.recall("When is the release?").hits[0].record.body["tags"].append("changed by the caller")
        engine: Any = memory._parts.engine
        read: list[str] = []
        with engine._borrow_connection() as database:
            database.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: read.append(event["sql"]))
        again = memory.recall("When is the release?", 1)
        assert [hit.record.body for hit in (*again.hits, *again.dropped[:1])] == [{"tags": ["plan"]}] * 2
        assert read
        assert not [statement for statement in read if "line" in statement]
        assert memory.journal.erase(Key("shared", "note", "Monday")).records == 1
        assert texts(memory.recall("When is the release?")) == ["The release is on Friday."]


@pytest.mark.requirement("RCL-1")
@pytest.mark.parametrize("store", ["store.db", "memory:"])
def test_adjacent_turns_are_those_of_now(tmp_path, store):
    def write(memory, id, text):
        assert memory.journal.write("turn", text, id=id, author="anna", labels=("session=s",))

    def adjacent(memory):
        hits = memory.recall("beagle", min_relevance=0).hits
        return next((hit.hit.candidate.before, hit.hit.candidate.after) for hit in hits if hit.record.id == "b")

    place = store if store == "memory:" else tmp_path / store
    with lukasa.open(place, embedder="hash") as memory, lukasa.open(place, embedder="hash") as second:
        other = memory if store == "memory:" else second  # another process
        write(memory, "a", "Which breed?")
        write(memory, "b", "A beagle.")
        assert adjacent(memory) == ("Which breed?", None)
        write(other, "c", "Lovely!")
        assert adjacent(memory) == ("Which breed?", "Lovely!")
        write(memory, "a", "Which one?")
        assert adjacent(memory) == (None, "Lovely!")
        other.journal.delete(Key("shared", "turn", "c"))
        assert adjacent(memory) == (None, "Which one?")


@pytest.mark.requirement("DOO-1")
def test_a_result_is_a_sequence_of_its_hits_that_can_be_pickled_and_copied():
    with lukasa.open("memory:", embedder="hash") as memory:
        for text in ("We deploy on Tuesdays.", "The deploy takes an hour.", "Anna reviews each deploy."):
            memory.journal.write("note", text, body={"tags": ["ops"]})
        found, nothing = memory.recall("When do we deploy?", k=2), memory.recall("")
    assert found
    assert not nothing
    assert (len(found), len(nothing)) == (2, 0)
    assert [hit.text for hit in found] == [hit.text for hit in found.hits]
    assert found[0] is found.hits[0]
    assert found[-1:] == found.hits[1:]
    for copied in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert copied == found
        assert [hit.why for hit in (*copied, *copied.dropped)] == [hit.why for hit in (*found, *found.dropped)]
    for part in (found[0], found[0].record, found.dropped[0]):
        assert pickle.loads(pickle.dumps(part)) == copy.deepcopy(part) == part
