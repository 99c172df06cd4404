"""Rendering of answers: JSON with --json, else sentences, a table and fields."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich import box
from rich.table import Table
from rich.text import Text

from lukasa.errors import InvalidInput
from lukasa.interfaces.cli.options import Call, require_choice, unwrap_help
from lukasa.interfaces.cli.render import (
    escape_line,
    format_cell,
    format_size,
    print_line,
    print_renderable,
    print_table,
    read_fields,
    shorten,
)
from lukasa.interfaces.outcomes import ExitCode

pytestmark = pytest.mark.requirement("DOO-2")


@dataclass
class Inner:
    name: str


@dataclass
class Row:
    id: str
    count: int
    inner: Inner


ROWS = [Row("a", 1, Inner("x")), Row("b", 22, Inner("y")), Row("c", 3, Inner("z"))]
COLUMNS: Any = ("id, how many=count, name=inner.name", ("double", lambda row: 2 * row.count))


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_with_json_only_the_value_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    Call(json=True).show(ROWS, "A sentence.", columns=COLUMNS, empty="Nothing.")
    assert json.loads(capsys.readouterr().out)[1] == {"id": "b", "count": 22, "inner": {"name": "y"}}


def test_columns_name_an_attribute_a_path_or_a_function(capsys: pytest.CaptureFixture[str]) -> None:
    Call().show(ROWS, "A sentence.", columns=COLUMNS, after=["The end."])
    first, heading, _, *rows, last = lines(capsys)
    assert (first, last) == ("A sentence.", "The end.")
    assert heading.split() == ["id", "how", "many", "name", "double"]
    assert [row.split() for row in rows] == [["a", "1", "x", "2"], ["b", "22", "y", "44"], ["c", "3", "z", "6"]]


def test_columns_read_keys_format_values_and_leave_missing_ones_empty(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, Any]] = [{"name": "a", "body": {"score": 0.125}}, {"name": "b", "body": {}}]
    Call().show(rows, columns="name, score=body.score:.2f, body.missing")
    heading, _, *shown = lines(capsys)
    assert heading.split() == ["name", "score", "body.missing"]
    assert [row.split() for row in shown] == [["a", "0.12"], ["b"]]


def test_fields_are_read_by_name() -> None:
    assert read_fields(ROWS[0], "id, how many=count:03d, inner.name") == {
        "id": "a",
        "how many": "001",
        "inner.name": "x",
    }


def test_a_further_part_is_printed_only_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    for as_json in (True, False):
        Call(json=as_json).show_more("More.", columns=COLUMNS, rows=ROWS[:1])
    assert lines(capsys)[0] == "More."


def test_an_exit_code_ends_the_command_after_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        Call().show({}, "Damaged.", exit_code=ExitCode.DAMAGED)
    assert (ended.value.exit_code, lines(capsys)) == (6, ["Damaged."])


def test_a_value_outside_the_choices_is_refused_with_the_choices() -> None:
    require_choice(None, ("dot", "svg"), "a format")
    require_choice("dot", ("dot", "svg"), "a format")
    with pytest.raises(InvalidInput) as refused:
        require_choice("png", ("dot", "svg"), "a format")
    assert (refused.value.message, refused.value.hint) == ("'png' is not a format.", "Use dot or svg.")


def test_without_rows_only_the_empty_sentence_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    Call().show([], "A sentence.", columns=COLUMNS, empty="Nothing.")
    assert lines(capsys) == ["Nothing."]


def test_rows_past_the_limit_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    Call().show({"answer": 1}, columns="id, n", rows=[("a", 1), ("b", 2), ("c", 3)], limit=2)
    assert lines(capsys)[-2:] == ["b   2", "and 1 more; --json shows all of them."]


def test_empty_fields_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    Call().show({}, fields={"name": "ada", "note": "", "none": None, "works": True, "count": 0})
    assert lines(capsys) == ["name   ada", "works  yes", "count  0"]


def test_a_function_may_print_everything(capsys: pytest.CaptureFixture[str]) -> None:
    Call().show(ROWS, lambda: print_line("own layout"), columns=COLUMNS)
    assert lines(capsys) == ["own layout"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (False, "no"),
        (("a", "b"), "a, b"),
        (datetime(2026, 2, 3, 12, 0, 0, 5, tzinfo=UTC), "2026-02-03T12:00:00Z"),
        (1.5, "1.5"),
    ],
)
def test_a_cell_is_one_text(value: object, text: str) -> None:
    assert format_cell(value) == text


def test_sizes_and_long_texts_are_shortened() -> None:
    assert [format_size(size) for size in (999, 1500, 2_500_000)] == ["999 bytes", "1.5 kB", "2.5 MB"]
    assert shorten("a\n b " * 10, 8) == "a b a b…"


def test_help_wraps_at_the_screen_and_keeps_paragraphs() -> None:
    assert unwrap_help("Do it\n    now.\n\n    Example: lukasa do\n    ") == "Do it now.\n\nExample: lukasa do"


CELLS = st.one_of(
    st.none(), st.integers(0, 10**6), st.text(max_size=30), st.text("abc, 1é日\u0301", max_size=12), st.just("x " * 990)
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.data(), headings=st.lists(st.text("abcé日", min_size=1, max_size=5), min_size=1, max_size=4, unique=True)
)
def test_a_table_in_a_pipe_is_the_one_that_rich_draws(
    capsys: pytest.CaptureFixture[str], data: st.DataObject, headings: list[str]
) -> None:
    rows = data.draw(st.lists(st.tuples(*(CELLS for _ in headings)), max_size=4))
    print_table(headings, rows, wrap=headings[0])
    printed = capsys.readouterr().out
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    texts = [[escape_line(format_cell(value)) for value in row] for row in rows]
    for index, heading in enumerate(headings):
        is_numeric = rows and all(re.fullmatch(r"[\d,]*", row[index]) for row in texts)
        justify: Any = "right" if is_numeric else "left"
        table.add_column(heading, justify=justify, no_wrap=heading not in headings[0].split(", "), overflow="fold")
    for row in texts:
        table.add_row(*map(Text, row))
    print_renderable(table)
    assert printed == capsys.readouterr().out
