"""The table of outcomes: every error and outcome has one exit code, HTTP status, problem type and tool outcome."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import pytest

from lukasa import Key, errors
from lukasa.core.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.errors import NotAccepted
from lukasa.interfaces.outcomes import OUTCOMES, REFUSALS, ExitCode, error_code, outcome_of, request_error, row_of

pytestmark = pytest.mark.requirement("DOO-2")

CONFLICT = Conflict(Key("s", "k", "i"), 1, 2)


def error_classes(kind: type[errors.LukasaError] = errors.LukasaError) -> Iterator[type[errors.LukasaError]]:
    """Yield a class of the error tree and every class below it."""
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == "lukasa.errors":
            yield from error_classes(child)


def test_every_error_and_every_outcome_has_exactly_one_row() -> None:
    ours = {kind for kind in OUTCOMES if kind.__module__.startswith("lukasa")}
    assert ours == {*error_classes(), *get_args(Outcome)}


@pytest.mark.parametrize("kind", [kind for kind in OUTCOMES if kind is not Accepted])
def test_only_an_accepted_outcome_is_reported_as_success(kind: type) -> None:
    row = OUTCOMES[kind]
    assert row.exit_code is not ExitCode.OK
    assert row.http_status >= 400
    assert row.tool_outcome != "done"
    assert row.problem_type


@pytest.mark.parametrize("kind", list(error_classes()), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("public", [False, True])
def test_every_error_is_reported_with_its_code_message_and_hint(kind: type, public: bool) -> None:
    info = outcome_of(kind("It went wrong.", hint="Do better."), public=public)
    assert (info.message, info.hint, info.row.exit_code) == ("It went wrong.", "Do better.", OUTCOMES[kind].exit_code)
    assert info.code == info.code.lower() == error_code(kind())
    assert info.code.replace("_", "") == kind.__name__.lower()


def test_an_error_without_a_message_uses_its_docstring() -> None:
    assert outcome_of(errors.StoreBusy()).message.startswith("Another process held the write lock")


def test_an_outcome_that_is_not_accepted_is_raised_and_reported_as_itself() -> None:
    for outcome, exit_code, status, code in (
        (Refused("bad_id", "No."), ExitCode.REFUSED, 422, "bad_id"),
        (Refused("not_found", "Nothing there."), ExitCode.NOT_FOUND, 404, "not_found"),
        (CONFLICT, ExitCode.CONFLICT, 409, "conflict"),
    ):
        with pytest.raises(NotAccepted) as stopped:
            outcome.unwrap()
        info = outcome_of(stopped.value)
        assert (info.row.exit_code, info.row.http_status, info.code) == (exit_code, status, code)
        assert info.message == outcome.reason
        assert info == outcome_of(outcome)


def test_a_class_that_is_not_in_the_table_is_reported_like_its_base_class() -> None:
    assert row_of(PermissionError()) is OUTCOMES[OSError]
    assert row_of(type("Late", (errors.StoreBusy,), {})("Late.")) is OUTCOMES[errors.StoreBusy]
    assert row_of(ZeroDivisionError()).exit_code is ExitCode.UNEXPECTED


def test_a_public_message_names_no_file_and_quotes_no_unforeseen_error() -> None:
    missing = FileNotFoundError(2, "No such file or directory", "/home/ada/secret.db")
    assert outcome_of(missing).message == "/home/ada/secret.db: No such file or directory."
    assert outcome_of(missing, public=True).message == "No such file or directory."
    assert "memory text" in outcome_of(ValueError("memory text")).message
    assert outcome_of(ValueError("memory text"), public=True).message == "ValueError in the server."


def test_a_problem_document_carries_the_status_the_code_and_advice() -> None:
    problem = outcome_of(Refused("duplicate", "It is known.", {"duplicate_of": "x"})).as_problem()
    assert problem["type"] == "urn:lukasa:problem:duplicate"
    assert (problem["status"], problem["code"], problem["detail"]) == (409, "duplicate", "It is known.")
    assert problem["details"] == {"duplicate_of": "x"}
    assert "distinct_from" in problem["next"]
    assert "replace" not in problem["next"]


def test_an_agent_gets_the_hint_of_the_error_or_else_of_the_table() -> None:
    assert outcome_of(errors.StoreFull(hint="Delete backups.")).agent_hint == "Delete backups."
    assert "free some space" in (outcome_of(errors.StoreFull()).agent_hint or "")
    assert "history" in (outcome_of(CONFLICT).agent_hint or "")


@pytest.mark.parametrize(
    ("code", "status"), [("unauthorized", 401), ("unknown_host", 421), ("foreign_origin", 403), ("body_too_large", 413)]
)
def test_a_refused_request_has_a_status_and_advice(code: str, status: int) -> None:
    problem = request_error(code, "No.").as_problem()
    assert (problem["status"], problem["code"], problem["detail"]) == (status, code, "No.")
    assert problem["next"]


def test_wrong_usage_has_its_own_code() -> None:
    info = request_error("usage", "No such option: --bogus")
    assert (info.code, info.row.exit_code, info.row.http_status) == ("usage", ExitCode.USAGE, 422)
    assert info.as_json() == {"error": {"code": "usage", "message": "No such option: --bogus", "hint": None}}


def test_every_exit_code_is_reachable_from_the_table() -> None:
    assert {row.exit_code for row in (*OUTCOMES.values(), *REFUSALS.values())} == set(ExitCode)
