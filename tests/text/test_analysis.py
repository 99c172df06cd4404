"""The analysis of a sentence: its clauses, and the steps that a long sentence takes."""

import sys

import pytest

from lukasa.text.analysis import split_clauses


def clauses(text):
    return [(clause.text, clause.setting) for clause in split_clauses(text, "User")]


def test_a_clause_begins_where_a_subject_and_its_verb_do():
    assert clauses("Anna owns billing, and Ben owns search.") == [("Anna owns billing", ""), ("Ben owns search", "")]
    assert clauses("I live in Graz and work as a nurse.") == [("I live in Graz", ""), ("I work as a nurse", "")]
    assert clauses("Nuts, soy and milk are bad.") == [("Nuts, soy and milk are bad", "")]


def test_a_phrase_before_the_subject_is_the_setting_and_a_reason_is_left_out():
    assert clauses("In tests, I prefer real databases because mocks lie.") == [("I prefer real databases", "in tests")]


@pytest.mark.parametrize("piece", ["word, ", "and ", "I like, ", "it's ", "- ", "because, ", "we're on, and "])
def test_the_steps_grow_with_the_length_of_the_sentence(piece):
    def count_lines(repeated):
        lines = 0

        def note(frame, event, _):
            nonlocal lines
            lines += 1
            return note

        list(split_clauses("Start", "User"))
        sys.settrace(note)
        try:
            list(split_clauses(piece * repeated, "User"))
        finally:
            sys.settrace(None)
        return lines

    assert count_lines(800) < 2.5 * count_lines(400)
