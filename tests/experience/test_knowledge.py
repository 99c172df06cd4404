"""Knowledge: patterns, anti-patterns and facts, their links, contradictions and duplicates."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lukasa
from lukasa import Key, Refused
from lukasa.core.choices import RELATIONS
from lukasa.experience.knowledge import KnowledgeItem
from support.narrow import present


@pytest.mark.requirement("EXP-2")
def test_a_pattern_document_round_trips(memory, loki_tree):
    (document,) = json.loads((loki_tree / "semantic/patterns.json").read_text())
    record = memory.knowledge.add("pattern", document, id=document["id"]).record
    assert KnowledgeItem(record).as_json() == document
    assert [link.to.id for link in record.links if link.relation == "derived_from"] == document["source_episodes"]


@pytest.mark.requirement("EXP-2")
def test_a_use_is_counted_with_its_time(memory, clock):
    id = memory.knowledge.add_pattern("Return types are explicit", confidence=0.9).record.id
    clock.advance(60)
    memory.knowledge.use(id)
    memory.knowledge.use(id)
    item = memory.knowledge.get(id)
    assert (id, item.usage_count, item.last_used) == ("sem-001", 2, clock.now())
    assert memory.knowledge.use("sem-404").code == "not_found"


@pytest.mark.requirement("EXP-2")
def test_facts_and_antipatterns_are_stored_and_listed(memory):
    memory.knowledge.add_fact("The database is SQLite", category="stack")
    memory.knowledge.add_antipattern("Deploying on Friday", why="nobody is there", prevention="Deploy on Tuesday")
    (fact,), (anti,) = memory.knowledge.facts(), memory.knowledge.antipatterns()
    assert (fact.id, fact.says) == ("fact-001", "The database is SQLite")
    assert (anti.says, anti.approach) == ("Deploying on Friday: nobody is there", "Deploy on Tuesday")


@pytest.mark.requirement("EXP-2")
@pytest.mark.parametrize(
    "document",
    [
        {},
        {"pattern": " "},
        {"pattern": 5},
        {"pattern": "x", "confidence": 1.5},
        {"pattern": "x", "confidence": "high"},
        {"pattern": "x", "conditions": "always"},
        {"pattern": "x", "usage_count": -1},
        {"pattern": "x", "source_episodes": [5]},
        {"pattern": "x", "links": [{"to": "sem-2", "relation": "hates"}]},
        {"pattern": "x", "links": "sem-2"},
    ],
)
def test_an_invalid_pattern_is_refused(local, document):
    assert isinstance(local.knowledge.add("pattern", document), Refused)
    assert local.knowledge.add("opinion", {"pattern": "x"}).code == "bad_kind"


@pytest.fixture
def pattern_ids(memory):
    return [memory.knowledge.add_pattern(text).record.id for text in ("One", "Two", "Three")]


def links(memory, id):
    return {(link.relation, link.to.id) for link in memory.knowledge.get(id).record.links}


@pytest.mark.requirement("EXP-4")
@pytest.mark.parametrize(
    ("relation", "inverse"),
    [
        ("supersedes", "superseded_by"),
        ("superseded_by", "supersedes"),
        ("related_to", "related_to"),
        ("contradicts", "contradicts"),
        ("elaborates", None),
        ("example_of", None),
        ("derived_from", None),
    ],
)
def test_a_link_and_its_inverse_are_added_and_removed_together(memory, pattern_ids, relation, inverse):
    a, b, _ = pattern_ids
    assert memory.knowledge.link(a, relation, b)
    assert links(memory, a) == {(relation, b)}
    assert links(memory, b) == ({(inverse, a)} if inverse else set())
    assert not memory.knowledge.link(a, relation, b).records
    memory.knowledge.unlink(a, relation, b)
    assert links(memory, a) == links(memory, b) == set()


@pytest.mark.requirement("EXP-4")
def test_invalid_links_are_refused(memory, pattern_ids):
    a, b, _ = pattern_ids
    assert memory.knowledge.link(a, "hates", b).code == "bad_relation"
    assert memory.knowledge.link(a, "related_to", a).code == "bad_link"
    assert memory.knowledge.link(a, "related_to", "sem-404").code == "not_found"
    memory.knowledge.link(a, "supersedes", b)
    assert memory.knowledge.link(b, "supersedes", a).code == "contradictory_link"


@pytest.mark.requirement("EXP-4")
def test_links_are_followed_in_both_directions(memory, pattern_ids):
    a, b, c = pattern_ids
    episode = memory.episodes.record("See it").record.id
    memory.knowledge.link(a, "elaborates", b)
    memory.knowledge.link(c, "example_of", b)
    memory.knowledge.link(c, "derived_from", episode)
    assert {(item.relation, item.key.id, item.direction) for item in memory.knowledge.neighbours(b)} == {
        ("elaborates", a, "in"),
        ("example_of", c, "in"),
    }
    assert [key.id for key in memory.knowledge.path(a, episode)] == [a, b, c, episode]
    assert memory.knowledge.path(a, "sem-404") == []
    lonely = memory.knowledge.add_pattern("Lonely").record.id
    assert memory.knowledge.path(a, lonely) == []


@pytest.mark.requirement("EXP-4")
def test_contradictions_and_dangling_links_are_reported(memory, pattern_ids):
    a, b, c = pattern_ids
    memory.knowledge.link(a, "contradicts", b)
    memory.knowledge.add("pattern", {"pattern": "Three", "links": [{"to": "sem-099", "relation": "elaborates"}]}, id=c)
    found = {(item.kind, item.a.id, item.b.id) for item in memory.knowledge.contradictions()}
    assert found == {("contradicts", a, b), ("dangling", c, "sem-099")}


@pytest.mark.requirement("EXP-4")
@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from(RELATIONS), st.integers(0, 4), st.booleans()), max_size=25)
)
def test_both_ends_of_a_link_agree_after_any_changes(changes):
    inverse = {
        "supersedes": "superseded_by",
        "superseded_by": "supersedes",
        "related_to": "related_to",
        "contradicts": "contradicts",
    }
    with lukasa.open("memory:") as memory:
        ids = [memory.knowledge.add_pattern(f"Pattern {n}").unwrap().id for n in range(5)]
        for a, relation, b, draw in changes:
            (memory.knowledge.link if draw else memory.knowledge.unlink)(ids[a], relation, ids[b])
        all_links = {(id, *link) for id in ids for link in links(memory, id)}
        for a, relation, b in all_links:
            if relation in inverse:
                assert (b, inverse[relation], a) in all_links
        assert not {(a, b) for a, relation, b in all_links if relation == "supersedes"} & {
            (b, a) for a, relation, b in all_links if relation == "supersedes"
        }


@pytest.mark.requirement("EXP-12")
def test_duplicates_merge_into_the_most_confident(memory, clock):
    def add(pattern, **fields):
        return memory.knowledge.add("pattern", {"pattern": pattern, **fields})

    text = "Express route handlers require explicit return types in strict mode"
    sure = add(text, confidence=0.9, source_episodes=["ep-1", "ep-2"], usage_count=3).record.id
    other = add(f"{text}.", confidence=0.7, source_episodes=["ep-2", "ep-3"], usage_count=2).record.id
    apart = add("Indexes belong on foreign keys", confidence=0.6).record.id
    preview = memory.knowledge.merge_duplicates(dry_run=True)
    assert preview.into == {sure: (other,)}
    assert memory.knowledge.get(other).superseded_by is None
    merged = memory.knowledge.merge_duplicates()
    assert merged.into == {sure: (other,)}
    item = memory.knowledge.get(sure)
    assert item.record.body["source_episodes"] == ["ep-1", "ep-2", "ep-3"]
    assert {key.id for key in item.sources} == {"ep-1", "ep-2", "ep-3"}
    assert (item.usage_count, item.confidence) == (5, 0.9)
    assert memory.knowledge.get(other).superseded_by == item.record.key
    assert [found.id for found in memory.knowledge.patterns()] == [sure, apart]
    assert memory.knowledge.merge_duplicates().into == {}
    memory.journal.undo(label=merged.label)
    assert len(memory.knowledge.patterns()) == 3
    assert memory.knowledge.get(sure).usage_count == 3


@pytest.mark.requirement("EXP-12")
def test_patterns_that_differ_in_a_negation_are_not_duplicates(local):
    local.knowledge.add_pattern("Always run the contract tests before the merge of a branch into main")
    local.knowledge.add_pattern("Never run the contract tests before the merge of a branch into main")
    local.knowledge.add_pattern("Do not run the unit tests against the production database of the service")
    local.knowledge.add_pattern("Do run the unit tests against the production database of the service")
    assert local.knowledge.merge_duplicates().into == {}


@pytest.mark.requirement("EXP-12")
@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("Meet in room 12", "Meet in room 14"),
        ("Ask Ines for the key of the archive room", "Ask Jonas for the key of the archive room"),
        ("Deploy the service on Tuesday after the review", "Deploy the service on Thursday after the review"),
        ("Run the long tests against the staging database", "Run the long tests against the production database"),
        ("Plug the red cable into the left port of the switch", "Plug the blue cable into the left port of the switch"),
        ("Retry the upload with backoff", "Do not retry the upload with backoff"),
    ],
)
@pytest.mark.parametrize("embedder", ["minilm", "static"])
def test_patterns_that_state_different_things_are_not_merged(clock, embedder, text, other):
    with lukasa.open("memory:", clock=clock, embedder=embedder) as memory:
        memory.knowledge.add_pattern(text)
        memory.knowledge.add_pattern(other)
        assert present(memory.knowledge.merge_duplicates(0.8)).into == {}


@pytest.mark.requirement("EXP-12")
@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("Express handlers need explicit return types", "Handlers in Express require an explicit return type"),
        ("Retry failed uploads with exponential backoff", "Use exponential backoff when retrying uploads that failed"),
        ("Run the contract tests before merging a branch", "Before a branch is merged, run the contract tests"),
    ],
)
def test_rewordings_are_merged(clock, text, other):
    with lukasa.open("memory:", clock=clock, embedder="minilm") as memory:
        memory.knowledge.add_pattern(text, confidence=0.9)
        memory.knowledge.add_pattern(other, confidence=0.8)
        tip = memory.journal.tip()
        assert present(memory.knowledge.merge_duplicates(dry_run=True)).into == {"sem-001": ("sem-002",)}
        assert memory.journal.tip() == tip
        assert present(memory.knowledge.merge_duplicates()).into == {"sem-001": ("sem-002",)}
        assert present(memory.knowledge.merge_duplicates()).into == {}


def test_an_agent_links_only_within_its_reach(open_store, store_path):
    owner, orion = open_store(store_path), open_store(store_path, agent="orion")
    owner.knowledge.add_pattern("Theirs", id="sem-9", scope="elysia")
    mine = orion.knowledge.add_pattern("Mine").record.id
    assert orion.knowledge.link(mine, "related_to", "sem-9").code == "not_found"
    assert orion.knowledge.link(mine, "related_to", Key("elysia", "pattern", "sem-9")).code == "not_found"
