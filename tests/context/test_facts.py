"""Facts: extraction from turns, identity, replacement by newer ones, and search by meaning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lukasa.context import Turn
from lukasa.context.facts import extract_facts, fact_id, normalise_fact_text
from lukasa.record import Key
from lukasa.text.sentences import split_sentences


def fact_texts(text, role="user", **more):
    return [fact.text for fact in extract_facts(Turn(role, text, **more))]


@pytest.mark.requirement("CTX-10")
@pytest.mark.parametrize(
    ("sentence", "fact"),
    [
        ("I prefer verbose output.", "User prefers verbose output"),
        ("Actually I prefer concise output, but only for logs.", "User prefers concise output, but only for logs"),
        ("I don't like meetings before 10.", "User does not like meetings before 10"),
        ("My favourite editor is Helix because it is fast.", "User's favourite editor is Helix"),
        ("Please always answer in French.", "User asks: always answer in French"),
        ("Hello, I'm Anna. How are you?", "User's name is Anna"),
        ("My name is Ingrid Olsen.", "User's name is Ingrid Olsen"),
        ("I work at Acme and it is fine.", "User works at Acme and it is fine"),
        ("I'm allergic to peanuts.", "User is allergic to peanuts"),
        ("I'm a senior software engineer at the bank.", "User is a senior software engineer at the bank"),
        ("My wife's name is Ingrid.", "User's wife's name is Ingrid"),
        ("We decided to use PostgreSQL.", "Decision: use PostgreSQL"),
        ("Let's go with plan B.", "Decision: use plan B"),
        ("Our project uses Rust 1.75.", "Project uses Rust 1.75"),
        ("We upgraded to Node.js v20.11.1 yesterday.", "Project uses Node.js 20.11.1"),
        ("The config file is in /etc/app/config.toml.", "Config file is at /etc/app/config.toml"),
        ("The release deadline is on 3 March 2026.", "The release deadline is on 3 March 2026"),
        ("The demo moved to next Friday.", "The demo is next Friday"),
    ],
)
def test_extract_facts_finds_the_fact_in_a_sentence(sentence, fact):
    assert fact in fact_texts(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "Do I prefer tea?", "I'm happy.", "I'd like to know more.", "I like how you did it.", "I love it!", "Hello there!",
        "Always on the lookout for snacks.", "It is 3.50 in all.", "The path is long.", "", "???", "/", "I prefer",
    ],
)  # fmt: skip
def test_extract_facts_finds_none_in_a_sentence_without_a_fact(sentence):
    assert fact_texts(sentence) == []


def test_extract_facts_ignores_tools_and_takes_only_decisions_from_assistants():
    assert fact_texts("I prefer verbose output.", role="tool") == []
    assert fact_texts("I prefer verbose output.", role="assistant") == []
    assert fact_texts("We decided to use PostgreSQL.", role="assistant") == ["Decision: use PostgreSQL"]
    assert fact_texts("I prefer tea.", speaker="Anna") == ["Anna prefers tea"]


@given(st.text(max_size=400))
def test_extract_facts_accepts_any_text(text):
    for fact in extract_facts(Turn("user", text)):
        assert fact.text.strip()
        assert len(fact.text) < 600


@pytest.mark.parametrize(
    "text",
    ["I prefer " * 100_000, "**a " * 50_000, "." * 100_000, "x " * 200_000, "/a" * 100_000, "I am " + "a" * 400_000 + " b.", "- " * 100_000, ".)" * 100_000, "。" * 100_000, "(((" * 60_000, "!?" * 100_000, "a. " * 60_000, "| " * 100_000],
)  # fmt: skip
def test_extract_facts_is_fast_on_hostile_text(text, cpu_seconds):
    split_sentences(text)
    extract_facts(Turn("user", text))
    assert cpu_seconds() < 5


@pytest.fixture
def cpu_seconds():
    """Measure processor time since the test began; a pattern that backtracks would take minutes."""
    import time

    began = time.process_time()
    return lambda: time.process_time() - began


@pytest.mark.requirement("CTX-10")
def test_a_fact_is_stored_with_the_turn_that_stated_it(conversations, memory):
    turn = conversations.append("s", "user", "I prefer verbose output. Our project uses Rust 1.75.").record
    assert conversations.load("s").facts == ["User prefers verbose output", "Project uses Rust 1.75"]
    fact = conversations.facts("s")[0]
    assert (fact.turn, fact.rule) == (turn.id, "preference")
    record = memory.journal.get(Key("shared", "fact", fact.id))
    assert [(link.relation, link.to.id) for link in record.links] == [("derived_from", turn.id)]
    assert record.origin == "extraction"


@pytest.mark.requirement("CTX-10", "CTX-5")
def test_a_newer_fact_replaces_a_contradicted_one_and_history_keeps_both(conversations, memory):
    conversations.append("s", "user", "Our project uses Rust 1.75.")
    conversations.append("s", "user", "I live in Oslo.")
    conversations.append("s", "user", "We upgraded to Rust 1.80 today.")
    conversations.append("s", "user", "I moved to Bergen.")
    assert conversations.load("s").facts == ["Project uses Rust 1.80", "User moved to Bergen"]
    history = memory.journal.history(Key("shared", "fact", conversations.facts("s")[0].id))
    assert [record.text for record in history] == ["Project uses Rust 1.75", "Project uses Rust 1.80"]


@pytest.mark.requirement("CTX-5")
def test_a_repeated_fact_is_stored_once(conversations, memory):
    for _ in range(3):
        conversations.append("s", "user", "I prefer verbose output.")
    assert conversations.add_fact("s", "User speaks English")
    assert conversations.add_fact("s", "user speaks  English.")
    assert conversations.add_fact("s", "User speaks English").record.version >= 1
    assert len(conversations.facts("s")) == 2
    assert len(memory.journal.history(Key("shared", "fact", conversations.facts("s")[0].id))) == 1


@pytest.mark.requirement("CTX-10")
def test_find_facts_searches_by_meaning(open_store):
    conversations = open_store(embedder="static").context
    conversations.append("s", "user", "I'm allergic to peanuts.")
    conversations.append("s", "user", "We decided to use PostgreSQL.")
    conversations.append("other", "user", "I'm allergic to cats.")
    (best, *_) = conversations.find_facts("s", "which food must be avoided?")
    assert best.text == "User is allergic to peanuts"
    assert conversations.find_facts("s", "database choice")[0].text == "Decision: use PostgreSQL"


def test_extraction_can_be_switched_off(conversations):
    conversations.configure("s", extracting=False)
    conversations.append("s", "user", "I prefer verbose output.")
    assert conversations.load("s").facts == []


@given(st.text(min_size=1, max_size=60))
def test_letter_case_white_space_and_a_full_stop_do_not_change_the_id_of_a_fact(text):
    from lukasa.context.state import Fact

    assert normalise_fact_text(normalise_fact_text(text)) == normalise_fact_text(text)
    assert fact_id("s", Fact(text)) == fact_id("s", Fact(f"  {text} . "))
