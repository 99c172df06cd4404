"""Statements of a text: a later one changes an earlier one about the same subject, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lukasa.text.statements import parse_statements, text_changes

CHANGES = [
    ("We deploy on Tuesdays.", "We deploy on Thursdays."),
    ("Wir deployen dienstags.", "Wir deployen donnerstags."),
    ("The standup is at 9:30.", "The standup is at 10."),
    ("Deploys run on Tuesday.", "We moved deploys to Thursday."),
    ("Deploys run on Tuesday.", "The deploy day is now Friday."),
    ("The weekly sync is on Wednesdays at 3pm.", "Heads up: the weekly sync has moved to Thursdays at 3pm."),
    ("The invoice is due on 1 June.", "The due date of the invoice is now 15 June."),
    ("Rent is $1,200 per month.", "Rent increased to $1,350 per month."),
    ("Support hours are 9 to 5.", "Support hours are now 8 to 6."),
    ("Kubernetes is at version 1.27.", "Kubernetes was upgraded to 1.29."),
    ("We store images in S3.", "We moved image storage from S3 to R2."),
    ("The backend is written in Go.", "We rewrote the backend in Rust."),
    ("Alice is the tech lead of Atlas.", "Bob replaced Alice as the tech lead of Atlas."),
    ("The CEO is Mark.", "The new CEO is Linda."),
    ("Emma is vegetarian.", "Emma is no longer vegetarian."),
    ("The default theme is light.", "The default theme is dark now."),
    ("Lunch is at 12:00.", "Lunch is at 12:30."),
    ("Ben's phone is an iPhone.", "Ben switched from the iPhone to a Pixel."),
    ("Die Teambesprechung ist um 9 Uhr.", "Die Teambesprechung wurde auf 10 Uhr verschoben."),
    ("Wir nutzen Trello für Aufgaben.", "Wir sind von Trello auf Jira umgestiegen."),
    ("Der Projektleiter ist Thomas.", "Der neue Projektleiter ist Andreas."),
    (
        "Thanks! Deploys run on Tuesday. Anything else?",
        "Good morning. After the incident, we moved deploys to Thursday.",
    ),
]
DISTINCT = [
    ("Anna lives in Paris.", "Ben moved to Berlin."),
    ("Deploys run on Tuesday.", "Deploys run on Tuesday."),
    ("Deploys run on Tuesday.", "Should we move deploys to Thursday?"),
    ("Deploys run on Tuesday.", "If traffic grows, we move deploys to Thursday."),
    ("Deploys run on Tuesday.", "Maybe deploys move to Thursday."),
    ("Deploys run on Tuesday.", "We did not move deploys to Thursday."),
    ("Deploys run on Tuesday.", "Ben proposed to move deploys to Thursday."),
    ("Deploys run on Tuesday.", "This week only, deploys are on Thursday."),
    ("Deploys run on Tuesday.", "Last year deploys were on Thursday."),
    ("Deploys run on Tuesday.", "We moved the deploy retrospective to Thursday."),
    ("Deploys run on Tuesday.", "Deploys now need two approvals."),
    ("Deploys run on Tuesday.", "Deploys also run on Thursday now."),
    ("The server in Paris has 16 GB of memory.", "The server in London now has 32 GB of memory."),
    ("The first sprint starts on 3 March.", "The second sprint starts on 17 March."),
    ("Build 41 failed on Monday.", "Build 42 failed on Tuesday."),
    ("Tom plays the guitar.", "Tom now plays tennis."),
    ("My sister lives in Boston.", "I moved to Chicago."),
    ("I have a meeting on Monday.", "I have a call on Tuesday."),
    ("The user prefers short answers.", "The user now prefers Python."),
    ("Das Treffen mit Anna ist am Montag.", "Das Treffen mit Ben ist jetzt am Freitag."),
    ("Agreed, Maria!", "No, definitely not, Maria!"),
    ("We met on Tuesday.", "We met on Thursday."),
    ("We deploy on Tuesdays.", "We deploy on Thursdays too."),
    ("I go swimming every Monday.", "I go running every Friday."),
    ("We have 9 meetings.", "We are at 10 meetings."),
]


@pytest.mark.requirement("RCL-7")
@pytest.mark.parametrize(("older", "newer"), CHANGES)
def test_a_later_statement_changes_an_earlier_one_about_the_same_subject(older, newer):
    assert text_changes(older, newer)


@pytest.mark.requirement("RCL-7")
@pytest.mark.parametrize(("older", "newer"), DISTINCT)
def test_a_statement_about_something_else_changes_nothing(older, newer):
    assert not text_changes(older, newer)


@pytest.mark.requirement("RCL-7")
def test_the_subject_of_a_statement_in_the_first_person_is_its_speaker():
    older, newer = "I live in Oslo.", "I moved to Bergen."
    assert text_changes(older, newer, older_speaker="Anna", newer_speaker="Anna")
    assert not text_changes(older, newer, older_speaker="Anna", newer_speaker="Ben")
    assert text_changes("Anna lives in Oslo.", newer, older_speaker="Ben", newer_speaker="Anna")


@given(st.text(max_size=300), st.text(max_size=20))
def test_any_text_can_be_parsed(text, speaker):
    parse_statements(text, speaker)


@given(
    st.lists(
        st.sampled_from(
            [
                "deploys",
                "we",
                "moved",
                "Tuesday",
                "to",
                "from",
                "on",
                "is",
                "now",
                "3",
                "of",
                "Anna's",
                "not",
                "→",
                "9:30",
                "March",
                "€",
                "ist",
            ]
        ),
        max_size=12,
    )
)
def test_a_text_does_not_change_itself(words):
    text = " ".join(words)
    assert not text_changes(text, text)
