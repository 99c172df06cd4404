"""The outcome of a write: what is true, what type checkers know, and what ``unwrap`` returns and raises."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import assert_type

import pytest

import lukasa
from lukasa import Accepted, Conflict, Draft, Record, Refused


@pytest.fixture
def memory() -> Iterator[lukasa.Memory]:
    with lukasa.open("memory:", embedder="hash") as memory:
        yield memory


@pytest.mark.requirement("DOO-1")
def test_an_accepted_write_is_true_and_unwraps_to_its_record(memory: lukasa.Memory) -> None:
    outcome = memory.remember("We deploy on Tuesdays.")
    if outcome:
        assert_type(outcome, Accepted)
        assert_type(outcome.record, Record)
    else:
        assert_type(outcome, Refused | Conflict)
    assert_type(outcome.unwrap(), Record)
    assert outcome.unwrap().text == "We deploy on Tuesdays."
    assert list(outcome.unwrap_all()) == [outcome.unwrap()]


@pytest.mark.requirement("DOO-1")
def test_a_write_of_several_records_unwraps_to_all_of_them_and_never_to_the_first(memory: lukasa.Memory) -> None:
    outcome = memory.journal.append([Draft("note", "one"), Draft("note", "two")])
    assert [record.text for record in outcome.unwrap_all()] == ["one", "two"]
    with pytest.raises(lukasa.InvalidInput, match="accepted and has 2 records"):
        outcome.unwrap()


@pytest.mark.requirement("DOO-1")
def test_a_refusal_and_a_conflict_raise_one_error_with_their_code_and_reason(memory: lukasa.Memory) -> None:
    kept = memory.journal.write("note", "one").unwrap()
    refused = memory.remember("")
    conflict = memory.journal.write("note", "two", id=kept.id, expected=7)
    for outcome, kind in ((refused, Refused), (conflict, Conflict)):
        assert isinstance(outcome, kind)
        for unwrap in (outcome.unwrap, outcome.unwrap_all):
            with pytest.raises(lukasa.NotAccepted) as raised:
                unwrap("Try again.")
            error = raised.value
            assert (error.code, error.message, error.hint) == (outcome.code, outcome.reason, "Try again.")
            assert error.outcome is outcome
            assert str(error) == f"{outcome.reason} Try again. ({outcome.code})"


@pytest.mark.requirement("DOO-1")
def test_outcomes_are_pickled(memory: lukasa.Memory) -> None:
    kept, refused = memory.journal.write("note", "one", body={"a": [1]}), memory.remember("")
    assert pickle.loads(pickle.dumps(kept)).unwrap() == kept.unwrap()
    assert pickle.loads(pickle.dumps(refused)) == refused
