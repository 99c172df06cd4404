"""What a recall examines is bounded: a huge text costs little more than a long one, and the answer says what was compared."""

import time

import pytest

import lukasa
from lukasa import Draft
from lukasa.recall import build_prompt_block
from lukasa.recall.recall import MAX_COMPARED_LENGTH

pytestmark = pytest.mark.requirement("RCL-5")
QUESTIONS = ("Where does the heron fish?", 'Who said "the heron prefers"?', "heron pond Tuesday 4711")
SENTENCE = "I prefer that the heron fishes in pond 4711 on Tuesday. "


@pytest.mark.parametrize(("kind", "count", "length"), [("turn", 1, 30_000_000), ("note", 20, 990_000)])
def test_a_recall_that_matches_huge_texts_takes_little_time(kind, count, length):
    with lukasa.open("memory:", embedder="hash") as memory:
        huge = (SENTENCE * (length // len(SENTENCE) + 1))[:length]
        memory.journal.append(
            [Draft(kind, f"{number} {huge}"[:length], labels=("session=s",)) for number in range(count)]
        )
        memory.journal.write(kind, "The heron fishes at dawn.", labels=("session=s",))
        for question in QUESTIONS:
            began = time.process_time()
            answer = memory.recall(question, min_relevance=0)
            block = build_prompt_block(answer)
            assert time.process_time() - began < 3
            assert len(answer.hits) == min(count + 1, 10)
            assert 0 < block.tokens <= 1_000
        longest = max(answer.hits, key=lambda hit: len(hit.text))
        assert len(longest.text) == length, "the whole text is kept"
        assert f"of {length:,} characters" in longest.why
        assert len(longest.hit.candidate.text) <= MAX_COMPARED_LENGTH


def test_a_word_deep_in_a_huge_text_is_found():
    with lukasa.open("memory:", embedder="hash") as memory:
        memory.journal.write("turn", SENTENCE * 50_000 + "The kingfisher dives.")
        memory.journal.append([Draft("note", f"Something else, number {number}.") for number in range(20)])
        assert memory.recall("kingfisher", 1).hits[0].record.kind == "turn"


def test_hundreds_of_long_texts_share_a_limit():
    with lukasa.open("memory:", embedder="hash") as memory:
        memory.journal.append([Draft("note", f"{number} " + SENTENCE * 800) for number in range(200)])
        began = time.process_time()
        answer = memory.recall("Where does the heron fish?")
        assert time.process_time() - began < 6
        assert len(answer.hits) == 10
        assert "characters" in answer.hits[0].why
