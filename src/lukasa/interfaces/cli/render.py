"""Output of the commands: JSON for programs, tables and sentences for people.

Memory text is untrusted. Control, bidirectional and invisible characters are shown as escapes, markup is never
interpreted, and characters that a terminal's encoding lacks become escapes too.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TextIO

from lukasa.core.clock import to_iso
from lukasa.core.record import Key, Record
from lukasa.interfaces.serialise import to_json

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_INVISIBLE = (
    "\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f"
)
_UNSAFE_IN_LINE = re.compile(f"[\x00-\x1f{_INVISIBLE}]")
_SUMMARY_LENGTH = 160
_PIPE_WIDTH = 2000
_MAX_KEYS = 20
_COMBINING = "\u0300"  # the first character that does not fill one cell of the screen, but for those that are escaped

Column = str | tuple[str, Callable[[Any], object]]
"""A heading with a function of the row, or several columns in one string, separated by commas.

A column in a string is ``heading=path:format``. The path names an attribute or a key of the row, or one inside of it,
such as ``memory.id``. Without a path the heading is the path too. Without a format ``format_cell`` formats the value;
``count``, ``size`` and ``weights`` are formats too.
"""
Lines = str | Iterable[str]
"""One line, or several."""


def show(
    value: Any,
    *,
    as_json: bool,
    text: Lines | Callable[[], None] = (),
    columns: str | Sequence[Column] = (),
    rows: Iterable[Any] | None = None,
    wrap: str = "",
    truncate: str = "",
    limit: int | None = None,
    fields: Mapping[str, object] | None = None,
    after: Lines = (),
    empty: str = "",
) -> None:
    """Print a value as JSON, or for a person as sentences, a table and fields, in this order.

    The table shows ``rows``, which are the value itself unless given: objects, or tuples of cells. At most ``limit`` of
    them are shown. Without rows only the sentence ``empty`` is printed. ``text`` may be a function that prints all.
    """
    if as_json:
        print_json(to_json(value))
        return
    if callable(text):
        text()
        return
    shown = list(value if rows is None else rows) if columns or empty else []
    if empty and not shown:
        print_line(empty)
        return
    print_lines(text)
    if shown and columns:
        readers = dict(_read_columns((columns,) if isinstance(columns, str) else columns))
        cells = [
            row if type(row) is tuple else [read(row) for read in readers.values()]
            for row in shown[: len(shown) if limit is None else limit]
        ]
        print_table(list(readers), cells, wrap=wrap, truncate=truncate)
        if limit is not None and len(shown) > limit:
            print_line(f"and {len(shown) - limit:,} more; --json shows all of them.")
    if fields:
        print_fields({name: cell for name, item in fields.items() if (cell := format_cell(item))})
    print_lines(after)


def print_lines(lines: Lines) -> None:
    """Print one line, or several."""
    for line in (lines,) if isinstance(lines, str) else lines:
        print_line(line)


def _read_columns(columns: Iterable[Column]) -> Iterator[tuple[str, Callable[[Any], object]]]:
    """Yield the heading of each column with a function that returns the column's cell of a row."""
    for column in columns:
        if isinstance(column, tuple):
            yield column
            continue
        for words in column.split(", "):
            heading, _, source = words.partition("=")
            name, _, form = (source or heading).partition(":")
            yield heading if source else name, partial(_read_cell, path=name, form=form)


def read_fields(value: Any, names: str) -> dict[str, object]:
    """Return fields of a value by heading; ``names`` is written like the columns of a table."""
    return {heading: read(value) for heading, read in _read_columns((names,))}


def _read_cell(row: Any, path: str, form: str) -> object:
    for name in path.split("."):
        row = row.get(name) if isinstance(row, Mapping) else getattr(row, name)
    if form in FORMS:
        return FORMS[form](row)
    return format(row, form) if form and row is not None else row


def _format_weights(weights: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {weight:.2f}" for name, weight in weights.items())


def format_cell(value: object) -> str:
    """Return a value as the text of one table cell."""
    match value:
        case None | True | False:
            return {None: "", True: "yes", False: "no"}[value]
        case datetime():
            return format_time(value)
        case tuple() | list():
            return ", ".join(map(str, value))
    return str(value)


def escape_line(text: object) -> str:
    """Return the text on one line, with an escape for every character that a terminal would obey or hide."""
    return _UNSAFE_IN_LINE.sub(_escape_character, str(text))


def escape_text(text: str) -> str:
    """Return the text with escapes as in ``escape_line``, but keep line breaks and tabs."""
    return _UNSAFE_IN_LINE.sub(lambda found: found[0] if found[0] in "\t\n" else _escape_character(found), text)


def _escape_character(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def console(stream: TextIO) -> Console:
    """Return a console that interprets no markup; into a file or pipe it writes lines of any length."""
    from rich.console import Console

    class PlainConsole(Console):
        """A console that leaves a broken pipe to the caller."""

        def on_broken_pipe(self) -> None:
            """Raise instead of exiting, so that the command chooses the exit code."""
            raise BrokenPipeError

    width = None if stream.isatty() else _PIPE_WIDTH
    return PlainConsole(file=stream, markup=False, emoji=False, highlight=False, width=width)


def print_renderable(renderable: RenderableType, stream: TextIO | None = None, *, soft_wrap: bool = False) -> None:
    """Print to stdout or another stream; into a file or pipe without the blanks that fill up a screen."""
    stream = stream or sys.stdout
    screen = console(stream)
    if screen.is_terminal:
        screen.print(renderable, soft_wrap=soft_wrap)
        return
    with screen.capture() as captured:
        screen.print(renderable, soft_wrap=soft_wrap)
    stream.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def print_line(sentence: str, stream: TextIO | None = None, style: str = "") -> None:
    """Print one line for a person, to stdout or another stream."""
    stream = stream or sys.stdout
    if not stream.isatty():  # as below, without loading what draws on a screen
        stream.write(escape_line(sentence).rstrip() + "\n")
        return
    from rich.text import Text

    print_renderable(Text(escape_line(sentence), style=style), stream, soft_wrap=True)


def print_to_stderr(sentence: str, style: str = "") -> None:
    """Print one line to stderr, apart from the answer."""
    print_line(sentence, sys.stderr, style)


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, wrap: str = "", truncate: str = ""
) -> None:
    """Print rows under headings, numbers to the right. Columns in ``wrap`` are folded, ``truncate`` is cut, to fit."""
    texts = [[escape_line(format_cell(value)) for value in row] for row in rows]
    by_column = zip(*(texts or [list(columns)]), strict=True)
    are_numeric = [bool(texts) and {*"0123456789,"}.issuperset("".join(column)) for column in by_column]
    if not sys.stdout.isatty() and (lines := _lay_out(columns, texts, are_numeric)):
        sys.stdout.write("".join(line.rstrip() + "\n" for line in lines))
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="bold")
    cells = [list(map(Text, row)) for row in texts]
    for column, is_numeric in zip(columns, are_numeric, strict=True):
        justify: Literal["left", "right"] = "right" if is_numeric else "left"
        table.add_column(column, justify=justify, no_wrap=column not in wrap.split(", "), overflow="fold")
    if truncate:
        flexible = columns.index(truncate)
        others = [column for column in columns if column != truncate]
        width = remaining_width(others, [[*row[:flexible], *row[flexible + 1 :]] for row in cells])
        for row in cells:
            row[flexible].truncate(max(width, len(truncate)), overflow="ellipsis")
    for row in cells:
        table.add_row(*row)
    print_renderable(table)


def _lay_out(columns: Sequence[str], rows: Sequence[Sequence[str]], are_numeric: Sequence[bool]) -> list[str]:
    """Return the lines of a table as a pipe gets them; none if it is too wide, or needs to know how wide a character is."""
    table = [columns, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    plain = all(text.isascii() or max(text) < _COMBINING for row in table for text in row)
    if not plain or sum(widths) + 2 * len(widths) > _PIPE_WIDTH or not sys.stdout.encoding.lower().startswith("utf"):
        return []
    aligned = [
        "  ".join(
            text.rjust(width) if is_numeric else text.ljust(width)
            for text, width, is_numeric in zip(row, widths, are_numeric, strict=True)
        )
        for row in table
    ]
    return [aligned[0], "─" * (sum(widths) + 2 * len(widths) - 2), *aligned[1:]]


def remaining_width(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> int:
    """Return how many characters of the screen's width these columns leave for another one."""
    from rich.cells import cell_len

    used = (
        max(cell_len(escape_line(format_cell(value))) for value in column) + 2
        for column in zip(columns, *rows, strict=True)
    )
    return console(sys.stdout).width - sum(used)


def print_entry(heading: str, text: str) -> None:
    """Print a heading and an indented text, where the screen is too narrow for a table."""
    from rich.padding import Padding
    from rich.text import Text

    print_renderable(Text(escape_line(heading), style="bold"))
    print_renderable(Padding(Text(escape_line(text)), (0, 0, 0, 4)))


def print_fields(fields: Mapping[str, str]) -> None:
    """Print names and values in two columns; a value of several lines stays in its column."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields.items():
        table.add_row(Text(name), Text(escape_text(value)))
    print_renderable(table)


def print_json(value: Any) -> None:
    """Print JSON to stdout, as UTF-8 if the stream can, without any character that a terminal would obey."""
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    document = json.dumps(value, indent=2, ensure_ascii=not utf8)
    shown = _UNSAFE_IN_LINE.sub(lambda found: found[0] if found[0] == "\n" else json.dumps(found[0])[1:-1], document)
    sys.stdout.write(shown + "\n")


def format_time(moment: datetime) -> str:
    """Return a time for a table, to the second."""
    return to_iso(moment.replace(microsecond=0))


def format_size(count: int) -> str:
    """Return a number of bytes for people."""
    if count < 1000:
        return f"{count} bytes"
    amount, units = count / 1000, ["kB", "MB", "GB", "TB"]
    while amount >= 1000 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{amount:.1f} {units[0]}"


FORMS: Mapping[str, Callable[[Any], object]] = {"count": len, "size": format_size, "weights": _format_weights}


def format_count(count: int, singular: str, plural: str | None = None) -> str:
    """Return ``1 record`` or ``2 records``."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def shorten(value: object, length: int = 80) -> str:
    """Return a value as one line of at most ``length`` characters."""
    line = " ".join(str(value).split())
    return line if len(line) <= length else line[: length - 1] + "…"


def summarise_record(record: Record) -> str:
    """Return the text of a record, or its body, as one short line."""
    if record.deleted:
        return "(deleted)"
    text = record.text or (json.dumps(record.body, ensure_ascii=False) if record.body else "")
    return text if len(text) <= _SUMMARY_LENGTH else text[: _SUMMARY_LENGTH - 1] + "…"


def list_keys(keys: Sequence[Key]) -> list[str]:
    """Return one line for each of the first keys, and a line that counts the others."""
    lines = [f"  {key}" for key in keys[:_MAX_KEYS]]
    return [*lines, f"  and {len(keys) - _MAX_KEYS:,} more"] if len(keys) > _MAX_KEYS else lines
