"""The deterministic summary is worth reading: whole sentences, what matters first, and never beyond its budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lukasa.context import ConversationSummary, Turn, summarise
from lukasa.context.summary import HEADING, score_sentence, shorten_summary
from lukasa.models.token_counter import open_token_counter
from lukasa.text.sentences import split_sentences

COUNT = open_token_counter()
NOTHING = ConversationSummary()

CONVERSATION = [
    ("user", "Hi there! How are you?"),
    ("assistant", "Hello! I'm doing well, thanks. How can I help?"),
    ("user", "I'm Anna. We decided to use PostgreSQL 16 instead of MySQL for the billing service."),
    ("assistant", "Great choice! I'll create the file src/billing/schema.sql for you."),
    ("tool", '{"success": true, "path": "src/billing/schema.sql"}'),
    ("user", "Thanks! That's awesome. The release deadline is on 3 March 2026."),
    ("assistant", "Sounds good. The migration failed with error 42P01: relation invoices does not exist."),
    ("user", "I prefer short commit messages, e.g. one line. Dr. Ng reviews them at 5 p.m. on Fridays."),
    ("assistant", "Got it."),
    ("user", "Who will own the invoices table after the migration?"),
]


def turns(pairs, start=0):
    return [Turn(role, text, token_count=COUNT(text), id=f"t{at}") for at, (role, text) in enumerate(pairs, start)]


def test_it_keeps_what_matters_and_leaves_small_talk():
    text = summarise(NOTHING, turns(CONVERSATION), 400, COUNT).text
    assert text.startswith(HEADING)
    for kept in (
        "We decided to use PostgreSQL 16 instead of MySQL for the billing service.",
        "The release deadline is on 3 March 2026.",
        "error 42P01",
        "I prefer short commit messages, e.g. one line.",
        "Who will own the invoices table after the migration?",
    ):
        assert kept in text, kept
    for left in ("How are you", "Got it", "awesome", "Great choice"):
        assert left not in text, left


def test_it_tells_who_said_what_in_the_order_it_was_said():
    text = summarise(NOTHING, turns(CONVERSATION), 400, COUNT).text
    lines = text.splitlines()[1:]
    assert all(line.startswith(("- user: ", "- assistant: ", "- tool: ")) for line in lines)
    places = [
        next(at for at, (_, said) in enumerate(CONVERSATION) if line.split(": ", 1)[1][:30] in said) for line in lines
    ]
    assert places == sorted(places)


def test_every_line_is_a_whole_sentence_of_what_was_said():
    whole = {sentence for _, said in CONVERSATION for sentence in split_sentences(said)} | {
        said for _, said in CONVERSATION
    }
    for line in summarise(NOTHING, turns(CONVERSATION), 150, COUNT).lines:
        assert line.text.split(": ", 1)[1] in whole


def test_an_open_question_is_worth_more_than_one_that_was_answered():
    question = "Who will own the invoices table?"
    assert score_sentence(question, is_unanswered=True) > score_sentence(question)
    assert score_sentence("We decided to use Rust.") > score_sentence("That is nice.") > score_sentence("Thanks!")


def test_what_is_too_long_to_quote_is_said_to_be_there():
    said = Turn("user", "word " * 3_000, token_count=3_000, id="t")
    assert summarise(NOTHING, [said], 500, COUNT).text == f"{HEADING}\n- user: (a message of 3,000 tokens, not quoted)"


@pytest.mark.requirement("CTX-7")
@given(st.lists(st.lists(st.text(max_size=80), max_size=12), max_size=6), st.integers(0, 300))
def test_it_never_exceeds_its_budget_however_often_it_is_folded(rounds, budget):
    summary, at = NOTHING, 0
    for texts in rounds:
        said = turns([("user", text) for text in texts], at)
        at += len(said)
        summary = summarise(summary, said, budget, COUNT)
        assert COUNT(summary.text) <= budget
        assert summary.tokens == (COUNT(summary.text) if summary.text else 0)
    assert summary.turns == at


@pytest.mark.requirement("CTX-7")
def test_over_hundreds_of_rounds_the_summary_stays_within_its_budget_and_keeps_what_mattered_lately():
    summary = NOTHING
    for round in range(200):
        said = turns([
            ("user", f"We decided to move project {round} to region eu-{round} on 3 March 2026."),
            ("assistant", "That sounds nice and I will have a look at it soon."),
            ("user", f"The weather in town number {round} was quite pleasant over there."),
        ])  # fmt: skip
        summary = summarise(summary, said, 500, COUNT)
        assert COUNT(summary.text) <= 500
    assert "project 199 " in summary.text
    assert summary.text.count("We decided") > summary.text.count("weather")
    assert summary.rounds == 200


def test_it_stands_still_when_nothing_is_added():
    summary = summarise(NOTHING, turns(CONVERSATION), 300, COUNT)
    assert summarise(summary, [], 300, COUNT).text == summary.text


def test_a_text_that_was_written_by_hand_is_kept_sentence_by_sentence():
    earlier = ConversationSummary(text="User requested file creation. Successfully created test.txt.")
    text = summarise(earlier, turns(CONVERSATION), 400, COUNT).text
    assert "- User requested file creation.\n- Successfully created test.txt.\n" in text


def test_what_is_said_again_stands_once():
    again = turns([("user", "We decided to use PostgreSQL for billing.")] * 5)
    summary = summarise(summarise(NOTHING, again, 300, COUNT), again, 300, COUNT)
    assert summary.text.count("PostgreSQL") == 1


@given(st.lists(st.text(max_size=60), min_size=1, max_size=20), st.integers(0, 120))
def test_a_summary_is_shortened_by_whole_lines(texts, budget):
    whole = summarise(NOTHING, turns([("user", text) for text in texts]), 1_000, COUNT)
    brief = shorten_summary(whole.text, budget, COUNT)
    assert COUNT(brief) <= budget
    assert set(brief.splitlines()) <= set(whole.text.splitlines()) | {HEADING}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "Dr. Ng met J. Smith at 3 p.m. on Friday. They left.",
            ["Dr. Ng met J. Smith at 3 p.m. on Friday.", "They left."],
        ),
        ("See https://a.b/c.d?e=f. Use v1.2.3. Done", ["See https://a.b/c.d?e=f.", "Use v1.2.3.", "Done"]),
        ("It works, e.g. this one. OK?", ["It works, e.g. this one.", "OK?"]),
        ("1. Buy milk. And eggs.\n2. Go home", ["Buy milk.", "And eggs.", "Go home"]),
        ("Before.\n```python\nx = 1. Y\n```\nAfter.", ["Before.", "After."]),
        ("# Heading. One\n| a | b |\nThe line goes\non here.", ["The line goes on here."]),
        ("She said “Hello.” Then left.", ["She said “Hello.”", "Then left."]),
        ("我们决定使用Rust。明天见！", ["我们决定使用Rust。", "明天见！"]),
        ("It costs $3.50. No. 5 is free.", ["It costs $3.50.", "No. 5 is free."]),
        ("", []),
        ("\n\n  \n", []),
    ],
)
def test_sentences_end_where_they_end(text, found):
    assert split_sentences(text) == found


@given(st.text(max_size=300))
def test_sentences_say_only_what_the_text_says(text):
    bare = "".join(text.replace("*", "").replace("_", "").split())
    for sentence in split_sentences(text):
        assert "".join(sentence.replace("*", "").replace("_", "").split()) in bare
