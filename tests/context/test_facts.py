"""Facts are drawn from what people say, known again, replaced by newer ones, and found by meaning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lukasa.context import Turn
from lukasa.context.facts import extract_facts, fact_id, normalise_fact_text
from lukasa.record import Key
from lukasa.text.sentences import split_sentences


def stated(text, role="user", **more):
    return [fact.text for fact in extract_facts(Turn(role, text, **more))]


@pytest.mark.requirement("CTX-10")
@pytest.mark.parametrize(
    ("said", "fact"),
    [
        ("I prefer verbose output.", "User prefers verbose output"),
        ("Actually I prefer concise output, but only for logs.", "User prefers concise output"),
        ("I don't like meetings before 10.", "User does not like meetings before 10"),
        ("My favourite editor is Helix because it is fast.", "User's favourite editor is Helix"),
        ("Please always answer in French.", "User asks: always answer in French"),
        ("Hello, I'm Anna. How are you?", "User's name is Anna"),
        ("My name is Ingrid Olsen.", "User's name is Ingrid Olsen"),
        ("I work at Acme and it is fine.", "User works at Acme and it is fine"),
        ("I'm allergic to peanuts.", "User is allergic to peanuts"),
        ("I'm a senior software engineer at the bank.", "User is a senior software engineer"),
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
def test_a_fact_is_drawn_from_what_is_said(said, fact):
    assert fact in stated(said)


@pytest.mark.parametrize(
    "said",
    [
        "Do I prefer tea?", "I'm happy.", "I'd like to know more.", "I like how you did it.", "I love it!", "Hello there!",
        "Always on the lookout for snacks.", "It is 3.50 in all.", "The path is long.", "", "???", "/", "I prefer",
    ],
)  # fmt: skip
def test_nothing_is_drawn_from_what_states_nothing(said):
    assert stated(said) == []


def test_tools_are_not_listened_to_and_assistants_only_for_decisions():
    assert stated("I prefer verbose output.", role="tool") == []
    assert stated("I prefer verbose output.", role="assistant") == []
    assert stated("We decided to use PostgreSQL.", role="assistant") == ["Decision: use PostgreSQL"]
    assert stated("I prefer tea.", speaker="Anna") == ["Anna prefers tea"]


@given(st.text(max_size=400))
def test_any_text_can_be_looked_through(text):
    for fact in extract_facts(Turn("user", text)):
        assert fact.text.strip()
        assert len(fact.text) < 600


@pytest.mark.parametrize(
    "text",
    ["I prefer " * 100_000, "**a " * 50_000, "." * 100_000, "x " * 200_000, "/a" * 100_000, "I am " + "a" * 400_000 + " b.", "- " * 100_000, ".)" * 100_000, "。" * 100_000, "(((" * 60_000, "!?" * 100_000, "a. " * 60_000, "| " * 100_000],
)  # fmt: skip
def test_hostile_text_is_looked_through_in_no_time(text, spent):
    split_sentences(text)
    extract_facts(Turn("user", text))
    assert spent() < 5


@pytest.fixture
def spent():
    """How much processor time has gone since the test began: a pattern that backtracks would take minutes."""
    import time

    began = time.process_time()
    return lambda: time.process_time() - began


@pytest.mark.requirement("CTX-10")
def test_a_fact_is_kept_with_the_turn_that_stated_it(contexts, memory):
    turn = contexts.append("s", "user", "I prefer verbose output. Our project uses Rust 1.75.").record
    assert contexts.load("s").facts == ["User prefers verbose output", "Project uses Rust 1.75"]
    fact = contexts.facts("s")[0]
    assert (fact.turn, fact.rule) == (turn.id, "preference")
    record = memory.journal.get(Key("shared", "fact", fact.id))
    assert [(link.relation, link.to.id) for link in record.links] == [("derived_from", turn.id)]
    assert record.origin == "extraction"


@pytest.mark.requirement("CTX-10", "CTX-5")
def test_a_newer_fact_takes_the_place_of_one_it_contradicts_and_history_keeps_both(contexts, memory):
    contexts.append("s", "user", "Our project uses Rust 1.75.")
    contexts.append("s", "user", "I live in Oslo.")
    contexts.append("s", "user", "We upgraded to Rust 1.80 today.")
    contexts.append("s", "user", "I moved to Bergen.")
    assert contexts.load("s").facts == ["Project uses Rust 1.80", "User moved to Bergen"]
    history = memory.journal.history(Key("shared", "fact", contexts.facts("s")[0].id))
    assert [record.text for record in history] == ["Project uses Rust 1.75", "Project uses Rust 1.80"]


@pytest.mark.requirement("CTX-5")
def test_the_same_fact_is_kept_once(contexts, memory):
    for _ in range(3):
        contexts.append("s", "user", "I prefer verbose output.")
    assert contexts.add_fact("s", "User speaks English")
    assert contexts.add_fact("s", "user speaks  English.")
    assert contexts.add_fact("s", "User speaks English").record.version >= 1
    assert len(contexts.facts("s")) == 2
    assert len(memory.journal.history(Key("shared", "fact", contexts.facts("s")[0].id))) == 1


@pytest.mark.requirement("CTX-10")
def test_facts_are_found_by_meaning(opened):
    contexts = opened(embedder="static").context
    contexts.append("s", "user", "I'm allergic to peanuts.")
    contexts.append("s", "user", "We decided to use PostgreSQL.")
    contexts.append("other", "user", "I'm allergic to cats.")
    (best, *_) = contexts.find_facts("s", "which food must be avoided?")
    assert best.text == "User is allergic to peanuts"
    assert contexts.find_facts("s", "database choice")[0].text == "Decision: use PostgreSQL"


def test_extraction_can_be_switched_off(contexts):
    contexts.configure("s", extracting=False)
    contexts.append("s", "user", "I prefer verbose output.")
    assert contexts.load("s").facts == []


@given(st.text(min_size=1, max_size=60))
def test_case_spaces_and_a_full_stop_make_no_other_fact(text):
    from lukasa.context.state import Fact

    assert normalise_fact_text(normalise_fact_text(text)) == normalise_fact_text(text)
    assert fact_id("s", Fact(text)) == fact_id("s", Fact(f"  {text} . "))
