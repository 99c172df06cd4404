"""Relevance: a number that means the same in every store, and "nothing relevant" as an answer."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lukasa
from lukasa.core.record import Draft
from lukasa.errors import InvalidInput
from lukasa.models.embedders import open_embedder
from lukasa.recall.query import parse_question
from lukasa.recall.ranking import compute_relevance
from lukasa.recall.relevance import DEFAULT_CUTOFF, USUAL_COSINES, measure_cosines
from lukasa.recall.signals import CorpusStatistics, RankingEvidence, RecallCandidate
from lukasa_bench.conversations import ConversationCorpus

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
    assert answer.note.startswith("No memory is relevant enough (all below 0.15).")
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


SPEAKERS = ("Anna", "Ben", "Carla")
WORDS = ("dog", "shelter", "greyhound", "adopt")
QUESTION = parse_question("Which greyhound dog did Anna adopt from the shelter?", speakers=SPEAKERS)
said = st.builds(
    lambda speaker, start, words, cosine: (speaker, " ".join((start, *words)), cosine),
    st.sampled_from(SPEAKERS),
    st.sampled_from(("I said", "You said", "Anna said", "They said")),
    st.lists(st.sampled_from(WORDS), max_size=4),
    st.floats(-1, 1) | st.none(),
)


def judge(talk):
    """Return the relevance of each text; the corpus is the same for all talks."""
    corpus = CorpusStatistics(100, dict.fromkeys(WORDS, 5))
    candidates = [
        RecallCandidate(seq, text, author=speaker, cosine=cosine) for seq, (speaker, text, cosine) in enumerate(talk)
    ]
    return compute_relevance(RankingEvidence(QUESTION, candidates, corpus), USUAL_COSINES)


@pytest.mark.requirement("RCL-8")
@settings(max_examples=150, deadline=None)
@given(st.lists(said, min_size=1, max_size=9), st.data())
def test_a_text_that_matches_better_is_never_less_relevant(talk, data):
    index = data.draw(st.integers(0, len(talk) - 1))
    speaker, text, cosine = talk[index]
    nearer = None if cosine is None else data.draw(st.floats(cosine, 1))
    added = data.draw(st.lists(st.sampled_from(WORDS), max_size=2))
    better = [*talk[:index], (speaker, " ".join((text, *added)), nearer), *talk[index + 1 :]]
    before, after = judge(talk), judge(better)
    assert ((before >= 0) & (before <= 1)).all()
    assert after[index] >= before[index] - 1e-9


@pytest.mark.requirement("RCL-8")
@pytest.mark.parametrize(
    ("others", "expected"), [((), 0.999), (("You said",), 0.999), (("I said",) * 2, 0.769), (("I said",) * 8, 0.5)]
)
def test_a_full_match_about_a_person_counts_less_the_more_only_others_say_about_it(others, expected):
    words = "greyhound dog adopt shelter"
    talk = [("Anna", f"I said {words}", 0.6), *(("Ben", f"{start} {words}", 0.6) for start in others)]
    assert judge(talk)[0] == pytest.approx(expected, abs=0.001)


@pytest.mark.requirement("RCL-8")
def test_a_good_match_of_few_words_does_not_make_up_for_what_only_others_said():
    talk = [("Anna", "I said dog shelter", 0.6), *[("Ben", "I said greyhound dog adopt shelter", 0.6)] * 8]
    assert judge(talk)[0] < DEFAULT_CUTOFF


@pytest.mark.requirement("RCL-8")
@pytest.mark.parametrize(("embedder", "notes"), [("static", 1_000), ("minilm", 30)])
def test_the_relevance_holds_in_stores_of_every_size(embedder, notes):
    with lukasa.open("memory:", embedder=embedder) as memory:
        memory.remember("I prefer tea to coffee in the morning.")
        assert memory.recall("What do I drink in the morning?").hits
        memory.remember("I like window seats on trains.")
        memory.remember("I prefer short answers without lists.")
        assert memory.recall("What is the capital of France?").nothing_relevant
        turns = ConversationCorpus(7).take(notes)
        memory.journal.append(Draft("note", turn.text, author=turn.author) for turn in turns)
        memory.recall.index.catch_up()
        found = memory.recall("What do I drink in the morning?").hits
        assert found[0].text.startswith("I prefer tea")
        assert found[0].relevance > 0.5
        assert memory.recall("What is the capital of France?").nothing_relevant
