"""Recall finds facts deep inside long messages at least as well as plain word search."""

import random

import pytest

import lukasa
from lukasa.core.record import Draft
from lukasa.storage.engine import Query

THINGS = [
    "kettle",
    "ladder",
    "violin",
    "compass",
    "lantern",
    "anchor",
    "saddle",
    "barrel",
    "telescope",
    "loom",
    "easel",
    "anvil",
    "globe",
    "trunk",
]
OWNERS = [
    "alder",
    "birch",
    "cedar",
    "elm",
    "fir",
    "hazel",
    "juniper",
    "larch",
    "maple",
    "oak",
    "pine",
    "rowan",
    "spruce",
    "walnut",
    "willow",
    "yew",
]
PLACES = [
    "attic",
    "barn",
    "cellar",
    "garage",
    "hallway",
    "kitchen",
    "loft",
    "pantry",
    "porch",
    "shed",
    "study",
    "stable",
    "tower",
    "veranda",
]
TALK = [
    "meeting",
    "plan",
    "week",
    "team",
    "project",
    "budget",
    "review",
    "draft",
    "question",
    "answer",
    "report",
    "number",
    "customer",
    "design",
]


@pytest.mark.requirement("RCL-1")
@pytest.mark.parametrize("seed", [1, 2])
def test_recall_finds_facts_deep_in_long_messages_as_well_as_word_search(seed):
    rng = random.Random(seed)

    def chatter(sentences):
        return " ".join(
            " ".join(rng.choices(TALK + THINGS + PLACES, k=12)).capitalize() + "." for _ in range(sentences)
        )

    facts = [(rng.choice(OWNERS), rng.choice(THINGS), rng.choice(PLACES)) for _ in range(100)]
    by_recall = by_words = 0.0
    with lukasa.open("memory:", embedder="static") as memory:
        memory.journal.append(
            Draft(
                "turn",
                f"{chatter(20)} The {thing} of {owner} stands in the {place}. {chatter(rng.randint(0, 20))}",
                id=str(at),
                author=rng.choice(["user", "assistant"]),
                labels=(f"session={at // 10}",),
            )
            for at, (owner, thing, place) in enumerate(facts)
        )
        asked = dict.fromkeys((owner, thing) for owner, thing, _ in facts)
        for owner, thing in asked:
            right = {str(at) for at, fact in enumerate(facts) if fact[:2] == (owner, thing)}
            question = f"Where does the {thing} of {owner} stand?"
            recalled = {record.id for record in memory.recall(question, patience=60).records}
            found = {match.record.id for match in memory.journal.find(question, Query(limit=10))}
            by_recall += len(right & recalled) / len(right) / len(asked)
            by_words += len(right & found) / len(right) / len(asked)
    assert by_recall >= max(0.9, by_words)
