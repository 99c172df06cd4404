"""Relevance: a number that means the same in every store, and "nothing relevant" as an answer."""

import numpy as np
import pytest

import lukasa
from lukasa.errors import InvalidInput
from lukasa.models.embedders import open_embedder
from lukasa.recall.relevance import DEFAULT_CUTOFF, measure_cosines

FACTS = (
    "We deploy on Fridays after the standup.",
    "Anna's dog is a poodle called Rex.",
    "The database password is in the safe.",
    "Das Treffen ist am Montag um zehn Uhr.",
)
FOREIGN = ("What is the capital of France?", "capital of France", "How do I cook pasta?", "Who won the cup in 1998?")


@pytest.fixture(params=["static", "minilm", "hash"])
def memory(request):
    with lukasa.open("memory:", embedder=request.param) as opened:
        for fact in FACTS:
            opened.journal.write("note", fact)
        yield opened


@pytest.mark.requirement("RCL-8")
@pytest.mark.parametrize("question", FOREIGN)
def test_a_question_about_something_else_is_answered_with_nothing_relevant(memory, question):
    answer = memory.recall(question)
    assert answer.nothing_relevant
    assert not answer.hits
    assert answer.note.startswith("Nothing relevant was found")
    assert len(answer.dropped) == len(FACTS)
    assert max(hit.relevance for hit in answer.dropped) < DEFAULT_CUTOFF


@pytest.mark.requirement("RCL-8")
@pytest.mark.parametrize(
    ("question", "fact"), [("When do we deploy?", 0), ("What is Anna's dog called?", 1), ("Wann ist das Treffen?", 3)]
)
def test_the_answer_has_a_high_relevance_and_the_others_a_low_one(memory, question, fact):
    first, *others = memory.recall(question).hits
    assert first.text == FACTS[fact]
    assert first.relevance > 0.7
    assert all(hit.relevance < 0.3 for hit in others)


@pytest.mark.requirement("RCL-8")
def test_the_relevance_does_not_depend_on_the_other_records(memory):
    before = memory.recall("What is Anna's dog called?", 1).hits[0]
    for number in range(60):
        memory.journal.write("note", f"Invoice {number} was paid by bank transfer.")
    after = memory.recall("What is Anna's dog called?", 1).hits[0]
    assert after.record == before.record
    assert after.relevance == pytest.approx(before.relevance, abs=0.1)


@pytest.mark.requirement("RCL-8")
def test_min_relevance_limits_every_hit_and_zero_none(memory):
    question = "When do we deploy?"
    assert [hit.text for hit in memory.recall(question, min_relevance=0.5).hits] == [FACTS[0]]
    assert len(memory.recall(question, min_relevance=0).hits) == len(FACTS)
    assert len(memory.recall(FOREIGN[0], min_relevance=0).hits) == len(FACTS)
    nothing = memory.recall(FOREIGN[0], min_relevance=0.9)
    assert nothing.nothing_relevant
    assert "0.9" in nothing.note
    with pytest.raises(InvalidInput):
        memory.recall(question, min_relevance=1.5)


@pytest.mark.requirement("RCL-8")
def test_an_empty_store_has_nothing_and_does_not_call_it_irrelevant():
    with lukasa.open("memory:", embedder="hash") as memory:
        answer = memory.recall("When do we deploy?")
    assert not answer.hits
    assert not answer.nothing_relevant
    assert not answer.note


@pytest.mark.requirement("RCL-8")
@pytest.mark.parametrize("embedder", ["static", "minilm"])
def test_what_only_another_person_said_is_less_relevant(embedder):
    with lukasa.open("memory:", embedder=embedder) as memory:
        said = {
            "Ben": (
                "I adopted a greyhound from the shelter.",
                "My greyhound loves the beach.",
                "The shelter was full.",
            ),
            "Anna": ("I painted the fence.", "My bike has a flat tyre.", "I am reading a long novel."),
        }
        for texts in zip(*said.values(), strict=True):
            for author, text in zip(said, texts, strict=True):
                memory.journal.write("turn", text, author=author, labels=("session=s",))
        ben = memory.recall("Which dog did Ben adopt from the shelter?", min_relevance=0).hits
        anna = memory.recall("Which dog did Anna adopt from the shelter?", min_relevance=0).hits
    assert max(hit.relevance for hit in ben) > 0.9
    assert max(hit.relevance for hit in anna) < max(hit.relevance for hit in ben) - 0.3


@pytest.mark.requirement("RCL-8")
@pytest.mark.parametrize("embedder", ["static", "minilm"])
def test_what_is_said_to_a_person_is_about_that_person(embedder):
    talk = (
        ("Ben", "I adopted a greyhound from the shelter, my greyhound loves the beach."),
        ("Anna", "You have a dog from the shelter! How is your greyhound?"),
        ("Ben", "My dog sleeps on the sofa all day, I could not be happier."),
        ("Anna", "Your dog from the shelter is lucky to have you."),
        ("Anna", "I painted the fence, and my bike has a flat tyre."),
    )
    with lukasa.open("memory:", embedder=embedder) as memory:
        for author, text in talk:
            memory.journal.write("turn", text, author=author, labels=("session=s",))
        ben = memory.recall("Which dog did Ben adopt from the shelter?", min_relevance=0).hits
        anna = memory.recall("Which dog did Anna adopt from the shelter?", min_relevance=0).hits
    assert max(hit.relevance for hit in ben) > 0.9
    assert max(hit.relevance for hit in anna) < 0.85


@pytest.mark.requirement("RCL-8")
@pytest.mark.parametrize("embedder", ["static", "minilm"])
def test_one_answer_of_a_person_is_relevant_however_much_others_say_about_it(embedder):
    with lukasa.open("memory:", embedder=embedder) as memory:
        memory.journal.write("turn", "I think the deployment on Friday is too risky.", author="Ben")
        for number in range(8):
            text = f"I am preparing the deployment on Friday, my step {number} of it is done."
            memory.journal.write("turn", text, author="Anna")
        answer = memory.recall("What does Ben think about the deployment on Friday?")
    assert answer.hits[0].record.author == "Ben"
    assert answer.hits[0].relevance > 0.3


class OffsetEmbedder:
    """An embedder whose cosines are all high, as those of some endpoints are."""

    name, length = "offset", 385

    def __init__(self):
        self._embedder = open_embedder("minilm")

    def embed(self, texts):
        plain = self._embedder.embed(texts)
        shifted = np.concatenate((plain, np.full((len(texts), 1), 2.0, dtype=np.float32)), axis=1)
        return shifted / np.linalg.norm(shifted, axis=1, keepdims=True)


@pytest.mark.requirement("RCL-8")
def test_the_cosines_of_an_unknown_embedder_are_measured():
    embedder = OffsetEmbedder()
    unrelated, related = measure_cosines(embedder)
    assert 0.8 < unrelated < related < 1
    with lukasa.open("memory:", embedder=embedder) as memory:
        for fact in FACTS:
            memory.journal.write("note", fact)
        assert memory.recall("Which pet belongs to Anna?").hits[0].relevance > 0.5
        assert memory.recall("Which pet belongs to Anna?").hits[0].text == FACTS[1]
        assert memory.recall(FOREIGN[0]).nothing_relevant
