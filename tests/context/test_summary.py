"""The rule-based summary: whole sentences, the most valuable ones, within its budget."""

from dataclasses import replace

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


def make_turns(pairs, start=0):
    return [
        Turn(role, text, token_count=COUNT(text), id=f"t{index}") for index, (role, text) in enumerate(pairs, start)
    ]


def test_summarise_keeps_decisions_and_facts_and_drops_small_talk():
    text = summarise(NOTHING, make_turns(CONVERSATION), 400, COUNT).text
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


def test_summary_lines_name_the_speaker_in_the_order_of_the_turns():
    text = summarise(NOTHING, make_turns(CONVERSATION), 400, COUNT).text
    lines = text.splitlines()[1:]
    assert all(line.startswith(("- user: ", "- assistant: ", "- tool: ")) for line in lines)
    positions = [
        next(index for index, (_, said) in enumerate(CONVERSATION) if line.split(": ", 1)[1][:30] in said)
        for line in lines
    ]
    assert positions == sorted(positions)


def test_every_summary_line_is_a_whole_sentence_of_a_turn():
    whole = {sentence for _, said in CONVERSATION for sentence in split_sentences(said)} | {
        said for _, said in CONVERSATION
    }
    for line in summarise(NOTHING, make_turns(CONVERSATION), 150, COUNT).lines:
        assert line.text.split(": ", 1)[1] in whole


def test_score_sentence_prefers_open_questions_and_decisions():
    question = "Who will own the invoices table?"
    assert score_sentence(question, is_unanswered=True) > score_sentence(question)
    assert score_sentence("We decided to use Rust.") > score_sentence("That is nice.") > score_sentence("Thanks!")


REQUESTS = [
    "Please rename the cleanup command to prune.",
    "can you sort the branches by date?",
    "Make the two buttons more visible, on the left side.",
    "The tree view makes everything bugged.",
]


def make_session():
    """Return the turns of a coding session: requests, calls, their output, code, and what came of it."""
    session = []
    for number, request in enumerate(REQUESTS):
        calls = ({"id": f"c{number}", "name": "Bash"},)
        session += [
            Turn("user", f"{request} `npm run lint --fix` fails. src/app/view{number}.tsx:{number}0 TypeError: x is undefined"),
            Turn("assistant", f"Now I will look at src/app/view{number}.tsx with 12 tests.", tool_calls=calls),
            Turn("tool", f"FAILED src/app/view{number}.tsx 3 errors\n" * 100, is_unsaid=True),
            Turn("assistant", f"[Bash grep {number}]", tool_calls=calls, is_unsaid=True),
            Turn("tool", f"src/app/other{number}.tsx: error 7", is_unsaid=True),
            Turn("assistant", f"$ git diff --stat src/app/view{number}.tsx\n\nFixed the view number {number} and all tests pass."),
        ]  # fmt: skip
    return [replace(turn, token_count=COUNT(turn.content), id=f"t{index}") for index, turn in enumerate(session)]


def test_the_summary_of_a_coding_session_keeps_requests_first_then_outcomes_and_code_last():
    session = make_session()
    tight, wide = (summarise(NOTHING, session, budget, COUNT).text for budget in (70, 120))
    assert all(request in tight for request in REQUESTS)
    assert all(request in wide for request in REQUESTS)
    assert wide.count("tests pass") == len(REQUESTS)
    for code in ("npm run", "TypeError", "git diff", "FAILED", "error 7", "not quoted"):
        assert code not in wide, code
    whole = summarise(NOTHING, session, 4_000, COUNT).text
    assert "TypeError" in whole
    assert not any(code in whole for code in ("FAILED", "error 7", "not quoted", "- tool:"))


def test_requests_stay_in_the_summary_over_many_rounds():
    summary, session = NOTHING, make_session()
    for start in range(0, len(session), 6):
        summary = summarise(summary, session[start : start + 6], 90, COUNT)
    assert all(request in summary.text for request in REQUESTS)


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (
            "Implement the following plan:\n\n# Plan: Sort branches by date\n\n## Context\n\n" + "It is slow. " * 500,
            "Implement the following plan: Plan: Sort branches by date",
        ),
        ("# Review of the token counts\n\n" + "Each of the counts is wrong. " * 200, "Review of the token counts"),
        ("Hi!\n\nok\n\nPlease look at the login page.", "Please look at the login page."),
        ("Please fix " + "the page and " * 60, "Please fix " + "the page and " * 17 + "the …"),
    ],
)
def test_a_long_request_is_told_by_its_first_sentence_or_title(said, line):
    turns = make_turns([("user", said), ("assistant", "It is done.")])
    assert summarise(NOTHING, turns, 300, COUNT).lines[0].text == f"user: {line}"


def test_shorten_summary_drops_the_least_valuable_lines():
    whole = summarise(NOTHING, make_session(), 4_000, COUNT)
    brief = shorten_summary(whole, 70, COUNT)
    assert all(request in brief for request in REQUESTS)


def test_summarise_mentions_a_message_that_is_too_long_to_quote():
    said = Turn("user", "word " * 3_000, token_count=3_000, id="t")
    assert summarise(NOTHING, [said], 500, COUNT).text == f"{HEADING}\n- user: (a message of 3,000 tokens, not quoted)"


@pytest.mark.requirement("CTX-7")
@given(st.lists(st.lists(st.text(max_size=80), max_size=12), max_size=6), st.integers(0, 300))
def test_summarise_never_exceeds_its_budget_in_any_number_of_rounds(rounds, budget):
    summary, total = NOTHING, 0
    for texts in rounds:
        said = make_turns([("user", text) for text in texts], total)
        total += len(said)
        summary = summarise(summary, said, budget, COUNT)
        assert COUNT(summary.text) <= budget
        assert summary.tokens == (COUNT(summary.text) if summary.text else 0)
    assert summary.turns == total


@pytest.mark.requirement("CTX-7")
def test_after_hundreds_of_rounds_the_summary_keeps_the_recent_decisions():
    summary = NOTHING
    for round in range(200):
        said = make_turns([
            ("user", f"We decided to move project {round} to region eu-{round} on 3 March 2026."),
            ("assistant", "That sounds nice and I will have a look at it soon."),
            ("user", f"The weather in town number {round} was quite pleasant over there."),
        ])  # fmt: skip
        summary = summarise(summary, said, 500, COUNT)
        assert COUNT(summary.text) <= 500
    assert "project 199 " in summary.text
    assert summary.text.count("We decided") > summary.text.count("weather")
    assert summary.rounds == 200


def test_summarise_without_turns_keeps_the_text():
    summary = summarise(NOTHING, make_turns(CONVERSATION), 300, COUNT)
    assert summarise(summary, [], 300, COUNT).text == summary.text


def test_summarise_splits_a_hand_written_text_into_sentences():
    earlier = ConversationSummary(text="User requested file creation. Successfully created test.txt.")
    text = summarise(earlier, make_turns(CONVERSATION), 400, COUNT).text
    assert "- User requested file creation.\n- Successfully created test.txt.\n" in text


def test_summarise_drops_repeated_sentences():
    again = make_turns([("user", "We decided to use PostgreSQL for billing.")] * 5)
    summary = summarise(summarise(NOTHING, again, 300, COUNT), again, 300, COUNT)
    assert summary.text.count("PostgreSQL") == 1


@given(st.lists(st.text(max_size=60), min_size=1, max_size=20), st.integers(0, 120))
def test_shorten_summary_drops_whole_lines(texts, budget):
    whole = summarise(NOTHING, make_turns([("user", text) for text in texts]), 1_000, COUNT)
    brief = shorten_summary(whole, budget, COUNT)
    assert COUNT(brief) <= budget
    assert set(brief.splitlines()) <= set(whole.text.splitlines()) | {HEADING}


@pytest.mark.parametrize(
    ("text", "sentences"),
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
def test_split_sentences_finds_the_ends_of_sentences(text, sentences):
    assert split_sentences(text) == sentences


@given(st.text(max_size=300))
def test_split_sentences_adds_nothing_to_the_text(text):
    bare = "".join(text.replace("*", "").replace("_", "").split())
    for sentence in split_sentences(text):
        assert "".join(sentence.replace("*", "").replace("_", "").split()) in bare
