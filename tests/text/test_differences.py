"""Differences between two texts: what can carry a fact, and what cannot."""

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lukasa.text.differences import find_difference, is_misspelling

DIFFERENT = [
    ("number", "The API listens on port 8080", "The API listens on port 9090"),
    ("number", "Two people must approve", "Three people must approve"),
    ("number", "The alarm rings at 6:30 am", "The alarm rings at 6:30 pm"),
    ("date", "The contract ends in June", "The contract ends in July"),
    ("weekday", "Deploys run on Tuesday", "Deploys run on Thursday"),
    ("unit", "The cache expires after 5 minutes", "The cache expires after 5 hours"),
    ("negation", "Anna is not allergic to nuts", "Anna is allergic to nuts"),
    ("negation", "The hotel comes without breakfast", "The hotel comes with breakfast"),
    ("modal", "Users must use two factors", "Users should use two factors"),
    ("tense", "The office was in Berlin", "The office is in Berlin"),
    ("tense", "Anna worked at Acme", "Anna works at Acme"),
    ("tense", "Anna had a dog", "Anna has a dog"),
    ("tense", "Das Paket wird geliefert", "Das Paket wurde geliefert"),
    ("person", "My sister lives in Oslo", "His sister lives in Oslo"),
    ("antonym", "Dislikes pizza", "Likes pizza"),
    ("antonym", "The endpoint is unsafe", "The endpoint is safe"),
    ("name", "Ben works in the search team", "Anna works in the payments team"),
    ("name", "We use C++ for drivers", "We use C# for drivers"),
    ("order", "Jan is taller than Piet", "Piet is taller than Jan"),
    ("order", "Anna reports to Ben", "Ben reports to Anna"),
    ("order", "The shop is open from Monday to Friday", "The shop is open from Friday to Monday"),
    ("order", "staging replicates production", "production replicates staging"),
    ("word", "Production runs osprey", "Production runs heron"),
    ("word", "Anna moved from Berlin", "Anna moved to Berlin"),
    ("word", "Jobs start every 10 minutes", "Jobs start for 10 minutes"),
    ("word", "Admins and editors may publish", "Admins or editors may publish"),
    ("word", "Anna likes coffee", "Anna likes black coffee"),
    ("negation", "Anna mag keinen Kaffee", "Anna mag Kaffee"),
    ("weekday", "Das Team trifft sich am Montag", "Das Team trifft sich am Dienstag"),
    ("modal", "Das muss der Vertrieb genehmigen", "Das kann der Vertrieb genehmigen"),
    ("tense", "Lena hat das Team geleitet", "Lena leitet das Team"),
    ("order", "The job copies data from staging to production", "The job copies data from production to staging"),
    ("order", "Merge main into release", "Merge release into main"),
    ("order", "The mix needs more acid than base", "The mix needs more base than acid"),
    ("order", "Tenants may keep cats but not dogs", "Tenants may keep dogs but not cats"),
    ("order", "Water ferns in the morning and cacti at night", "Water cacti in the morning and ferns at night"),
    ("order", "Every module has an owner", "Every owner has a module"),
    ("order", "Restart the proxy, then the app", "Restart the app, then the proxy"),
    ("order", "Ada, Ben's manager, is on leave", "Ben, Ada's manager, is on leave"),
    ("order", "Der Zug fährt von Basel nach Genf", "Der Zug fährt von Genf nach Basel"),
    ("word", "用户喜欢深色模式", "用户喜欢浅色模式"),
    ("word", "El servidor está en la oficina", "El servidor está en la bodega"),
]
SAME = [
    ("Deploys run on Tuesday", "deploys run on tuesday!"),
    ("Deploys run on Tuesdays", "Deploys run every Tuesday"),
    ("The staging database is called heron", "The staging database is named heron"),
    ("Anna works in the payments team", "Anna is working on the payments team"),
    ("The nightly backup runs at 2 am", "Backup runs every night at 02:00"),
    ("The user prefers dark mode", "Dark mode is preferred by the user"),
    ("The API does not support XML", "Please note that the API doesn't support XML"),
    ("We deploy the API on Tuesdays", "On Tuesdays we deploy the API"),
    ("The database is in Frankfurt", "The databse is in Frankfurt"),
    ("At most 1,000 users", "At most 1000 users"),
    ("The colour is grey", "The color is gray"),
    ("Anna and Ben own it", "Ben and Anna own it"),
    ("The deadline is 3 May 2024", "The deadline is May 3rd, 2024"),
    ("The deadline is 2024-05-03", "The deadline is 3 May 2024"),
    ("Everyone must attend", "Everyone has to attend"),
    ("CANON: We ship weekly", "We ship every week"),
    ("Die Datenbank heißt Reiher", "Datenbank heisst Reiher"),
    ("Am Montag trifft sich das Team", "Das Team trifft sich am Montag"),
    ("Das Standup ist um 9 Uhr", "Das Standup ist um 9:00 Uhr"),
    ("Ines has been vegetarian since 2019", "Since 2019 Ines has been vegetarian"),
    ("Paris is the capital of France", "The capital of France is Paris"),
    ("Metrics go from the agents to Prometheus", "Metrics go to Prometheus from the agents"),
    ("Alerts go to Priya, Tom and Lee", "Alerts go to Lee, Tom and Priya"),
    ("The API returns JSON", "The API returns JSON, by the way"),
    ("The queue holds 1.2 million messages", "The queue holds 1,200,000 messages"),
    ("Exams start at 9 a.m.", "Exams start at 9 o'clock"),
    ("The lease ends on 31 December", "The lease ends on Dec 31"),
    ("Amira heads the sales department", "Amira heads the sales dept."),
    ("The database is in Frankfurt", "The DB is based in Frankfurt"),
    ("Rechnungen gehen an die Buchhaltung", "Die Rechnungen gehen an die Buchhaltung"),
    ("Der Drucker steht im 2. Stock", "Der Drucker steht im zweiten Stock"),
    ("Der Zug nach Basel fährt um 8:15 Uhr ab", "Um 8 Uhr 15 fährt der Zug nach Basel ab"),
    ("Jonas wohnt in Graz", "Jonas lebt in Graz"),
    ("用户喜欢深色模式", "用户喜欢深色模式。"),
]


@pytest.mark.requirement("VLT-6")
@pytest.mark.parametrize(("kind", "one", "other"), DIFFERENT)
def test_a_change_that_can_carry_a_fact_is_a_difference_in_both_directions(kind, one, other):
    found, back = find_difference(one, other), find_difference(other, one)
    assert found is not None
    assert back is not None
    assert (found.kind, back.kind) == (kind, kind)
    assert {found.here, found.there} == {back.here, back.there}


@pytest.mark.requirement("VLT-6")
@pytest.mark.parametrize(("one", "other"), SAME)
def test_a_change_that_cannot_carry_a_fact_is_none(one, other):
    assert find_difference(one, other) is None
    assert find_difference(other, one) is None


@given(st.text(max_size=80))
def test_no_text_differs_from_itself(text):
    assert find_difference(text, text) is None


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_two_texts_are_compared_alike_in_both_directions(one, other):
    assert (find_difference(one, other) is None) == (find_difference(other, one) is None)


@pytest.mark.requirement("VLT-6")
def test_a_long_text_is_compared_within_milliseconds():
    words = [f"{first}{vowel}{last}o{n}" for n in range(4) for first in "bdfg" for vowel in "aeiou" for last in "nrst"]
    for other in (words[::-1], words[160:] + words[:160], [f"{word}x" for word in words]):
        began = process_time()
        assert find_difference(" ".join(words), " ".join(other)) is not None
        assert process_time() - began < 0.5


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("database", "databse", True),
        ("receive", "recieve", True),
        ("running", "runnning", True),
        ("calendar", "calender", True),
        ("house", "mouse", False),
        ("trail", "trial", False),
        ("contact", "contract", False),
        ("heron", "heros", False),
        ("k8s1", "k8s2", False),
    ],
)
def test_a_misspelling_is_told_from_another_word(one, other, expected):
    assert is_misspelling(one, other) is expected
    assert is_misspelling(other, one) is expected
