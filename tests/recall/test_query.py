"""Query analysis: kind, subject, topic, phrases and dates of a question."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lukasa.recall import QuestionKind, parse_question
from lukasa.recall.query import asks_for_several
from lukasa.text.dates import Period, find_periods

SPEAKERS = ["Amara", "Bela Novak", "user", "assistant"]


def test_parse_takes_speaker_names_as_subject_and_removes_them_from_the_vector_text():
    question = parse_question("What did Amara's sister bake for Bela?", speakers=SPEAKERS)
    assert question.subject == {"Amara", "Bela Novak"}
    assert question.for_vector == "What did sister bake for ?"
    assert question.words == ("Amara", "sister", "bake", "Bela")
    assert question.names == {"amara", "bela"}


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("Where do I keep my spare keys?", {"user"}),
        ("What did you recommend for the leaking tap?", {"assistant"}),
        ("Which port does the server use?", set()),
        ("Can you give me a summary of my garden project?", set()),
    ],
)
def test_parse_finds_the_subject_of_a_question_without_a_name(text, subject):
    assert parse_question(text, speakers=SPEAKERS).subject == subject


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Which port does the server use?", QuestionKind.FACT),
        ("When did we move the office?", QuestionKind.TIME),
        ("How should I water the ferns?", QuestionKind.ADVICE),
        ("Have I ever flown a glider?", QuestionKind.ASSENT),
        ("Summarise how the boat repair went", QuestionKind.THREAD),
        ("In which order did I plant the trees?", QuestionKind.THREAD),
    ],
)
def test_parse_classifies_the_kind_of_a_question(text, kind):
    assert parse_question(text).kind is kind


def test_parse_strips_the_framing_of_a_request_for_a_summary():
    question = parse_question("Can you give me a brief summary of the boat repair across our conversations?")
    assert question.topic == "the boat repair"
    assert question.words == ("boat", "repair")


def test_parse_keeps_quotations_and_identifiers_as_phrases():
    question = parse_question('Who wrote "The Quiet Reef" and where is foo_bar() or CVE-2025-64439 or multi-agent?')
    assert set(question.phrases) == {"the quiet reef", "foo_bar()", "cve-2025-64439", "multi-agent"}


def test_rules_apply_to_requests_and_not_to_questions_about_the_past():
    assert parse_question("Which libraries does the project use?").standing
    assert not parse_question("Which libraries did I mention?").standing
    assert not parse_question("How did you suggest to store the libraries?").standing
    assert not parse_question("How many libraries does my project use?").standing
    assert parse_question("How long does a build usually take?").standing
    assert parse_question("How many libraries should I use?").standing
    assert not parse_question("Which books does Amara like?", speakers=SPEAKERS).standing


@pytest.mark.requirement("RCL-1")
@given(st.text(max_size=200), st.lists(st.text(max_size=12), max_size=4))
def test_parse_accepts_any_string(text, speakers):
    question = parse_question(text, speakers=speakers, now=date(2026, 1, 31))
    assert question.text == text
    assert question.subject <= set(speakers)


MOMENT = date(2024, 5, 15)  # a Wednesday


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("on 3 May 2024", date(2024, 5, 3), date(2024, 5, 3)),
        ("May 3rd, 2024", date(2024, 5, 3), date(2024, 5, 3)),
        ("2024-05-03", date(2024, 5, 3), date(2024, 5, 3)),
        ("in February 2024", date(2024, 2, 1), date(2024, 2, 29)),
        ("in December 2023", date(2023, 12, 1), date(2023, 12, 31)),
        ("during 2023", date(2023, 1, 1), date(2023, 12, 31)),
        ("I saw her yesterday", date(2024, 5, 14), date(2024, 5, 14)),
        ("it was last Friday", date(2024, 5, 10), date(2024, 5, 10)),
        ("since last Wednesday", date(2024, 5, 8), date(2024, 5, 8)),
        ("we leave next Friday", date(2024, 5, 17), date(2024, 5, 17)),
        ("last week", date(2024, 5, 6), date(2024, 5, 12)),
        ("this weekend", date(2024, 5, 18), date(2024, 5, 19)),
        ("last month", date(2024, 4, 1), date(2024, 4, 30)),
        ("three days ago", date(2024, 5, 12), date(2024, 5, 12)),
        ("two weeks ago", date(2024, 4, 28), date(2024, 5, 4)),
        ("in two days", date(2024, 5, 17), date(2024, 5, 17)),
        ("last summer", date(2023, 6, 1), date(2023, 8, 31)),
    ],
)
def test_find_periods_resolves_dates_to_days(text, first, last):
    assert find_periods(text, MOMENT) == (Period(first, last),)


def test_a_month_without_a_year_matches_that_month_of_every_year():
    (june,) = find_periods("what happened in June?")
    assert june.contains(date(2021, 6, 30))
    assert june.contains(date(2035, 6, 1))
    assert not june.contains(date(2021, 7, 1))
    assert june.days_since(date(2021, 7, 4)) == 4
    assert june.overlaps(Period(date(2023, 5, 30), date(2023, 6, 2)))
    assert not june.overlaps(Period(date(2023, 7, 1), date(2023, 7, 2)))


def test_find_periods_ignores_words_that_only_look_like_dates():
    assert find_periods("Maybe they march on; I may decide in 5 minutes, room 2024.", MOMENT) == ()


@given(st.text(max_size=200), st.dates())
def test_find_periods_accepts_any_text(text, moment):
    assert all(period.first <= period.last for period in find_periods(text, moment))


@given(st.sampled_from(["999 years ago", "in 999 months", "last winter", "next year", "last week"]), st.dates())
def test_find_periods_leaves_out_dates_beyond_the_calendar(text, moment):
    assert all(period.first <= period.last for period in find_periods(text, moment))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What activities does Amara enjoy?", True),
        ("Which new books did I read?", True),
        ("How many trips were there?", True),
        ("What kind of music does she like?", True),
        ("Would Amara like a concert?", True),
        ("What job is he likely to take?", True),
        ("What is his job?", False),
        ("What was the class about?", False),
        ("Would you recommend a book?", False),
        ("Can you tell me which books to read?", False),
    ],
)
def test_a_question_for_several_things_is_recognised(text, expected):
    assert asks_for_several(parse_question(text)) is expected
