"""Showing what the library answered: tables and sentences for people, JSON for programs.

Memory text is data from strangers. Control, bidirectional and invisible characters are shown as escapes, nothing is
read as markup, and a terminal that knows few characters gets escapes for the others.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TextIO

from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lukasa.clock import to_iso
from lukasa.record import Key, Record

_INVISIBLE = (
    "\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f"
)
_UNSAFE_IN_LINE = re.compile(f"[\x00-\x1f{_INVISIBLE}]")
_UNSAFE_IN_TEXT = re.compile(f"[\x00-\x08\x0b-\x1f{_INVISIBLE}]")
_UNSAFE_IN_JSON = re.compile(f"[{_INVISIBLE}]")
_SUMMARY_LENGTH = 160
_PIPE_WIDTH = 2000


def escape_line(text: object) -> str:
    """The text on one line, with an escape for every character that a terminal would obey or hide."""
    return _UNSAFE_IN_LINE.sub(_escape_character, str(text))


def escape_text(text: str) -> str:
    """The same, but line breaks and tabs stay what they are."""
    return _UNSAFE_IN_TEXT.sub(_escape_character, text)


def _escape_character(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


class PlainConsole(Console):
    def on_broken_pipe(self) -> None:
        """Leaves the ending of the command to those who end it."""
        raise BrokenPipeError


def console(stream: TextIO) -> Console:
    """A console that reads no markup. Into a file or a pipe it writes lines as long as they need to be."""
    width = None if stream.isatty() else _PIPE_WIDTH
    return PlainConsole(file=stream, markup=False, emoji=False, highlight=False, width=width)


def print_renderable(renderable: RenderableType, stream: TextIO | None = None, *, soft_wrap: bool = False) -> None:
    """Shows something on stdout or another stream; into a file or a pipe, without the blanks that fill up a screen."""
    stream = stream or sys.stdout
    screen = console(stream)
    if screen.is_terminal:
        screen.print(renderable, soft_wrap=soft_wrap)
        return
    with screen.capture() as captured:
        screen.print(renderable, soft_wrap=soft_wrap)
    stream.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def print_line(sentence: str) -> None:
    """One line for a person."""
    print_renderable(Text(escape_line(sentence)), soft_wrap=True)


def print_to_stderr(sentence: str, style: str = "") -> None:
    """One line beside the answer: on stderr."""
    print_renderable(Text(escape_line(sentence), style=style), sys.stderr, soft_wrap=True)


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, wrap: Sequence[str] = (), truncate: str = ""
) -> None:
    """Rows under headings, numbers to the right. What is too wide for the screen is folded or cut in the named columns."""
    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="bold")
    cells = [[Text(escape_line(value)) for value in row] for row in rows]
    for at, column in enumerate(columns):
        numeric = bool(cells) and all(re.fullmatch(r"[\d,]*", row[at].plain) for row in cells)
        made.add_column(column, justify="right" if numeric else "left", no_wrap=column not in wrap, overflow="fold")
    if truncate:
        flexible = columns.index(truncate)
        room = remaining_width(
            [column for column in columns if column != truncate], [_without_column(row, flexible) for row in cells]
        )
        for row in cells:
            row[flexible].truncate(max(room, len(truncate)), overflow="ellipsis")
    for row in cells:
        made.add_row(*row)
    print_renderable(made)


def remaining_width(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> int:
    """How many characters of the screen's width these columns leave for another one."""
    taken = (max(cell_len(escape_line(value)) for value in column) + 2 for column in zip(columns, *rows, strict=True))
    return console(sys.stdout).width - sum(taken)


def _without_column(row: Sequence[object], index: int) -> list[object]:
    return [*row[:index], *row[index + 1 :]]


def print_entry(heading: str, text: str) -> None:
    """A heading and, indented below it, a text: a table's row where the screen is too narrow for tables."""
    print_renderable(Text(escape_line(heading), style="bold"))
    print_renderable(Padding(Text(escape_line(text)), (0, 0, 0, 4)))


def print_fields(fields: Mapping[str, str]) -> None:
    """Fields of one thing, name and value side by side. A value of many lines stays in its own column."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in fields.items():
        made.add_row(Text(name), Text(escape_text(value)))
    print_renderable(made)


def print_json(value: Any) -> None:
    """JSON on stdout: UTF-8 where it is understood, and never a character that a terminal would obey."""
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    spelled = json.dumps(value, indent=2, ensure_ascii=not utf8)
    sys.stdout.write(_UNSAFE_IN_JSON.sub(lambda found: json.dumps(found[0])[1:-1], spelled) + "\n")


def format_time(moment: datetime) -> str:
    """A time for a table: to the second."""
    return to_iso(moment.replace(microsecond=0))


def summarise_record(record: Record) -> str:
    """What a record says, in one short line."""
    if record.deleted:
        return "(deleted)"
    said = record.text or (json.dumps(record.body, ensure_ascii=False) if record.body else "")
    return said if len(said) <= _SUMMARY_LENGTH else said[: _SUMMARY_LENGTH - 1] + "…"


def format_size(count: int) -> str:
    """A number of bytes for people."""
    if count < 1000:
        return f"{count} bytes"
    amount = float(count)
    for unit in ("kB", "MB", "GB"):
        amount /= 1000
        if amount < 1000:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1000:.1f} TB"


def format_count(count: int, singular: str, plural: str | None = None) -> str:
    """``1 record``, ``2 records``."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def key_json(key: Key) -> dict[str, str]:
    return {"scope": key.scope, "kind": key.kind, "id": key.id}


def record_json(record: Record) -> dict[str, Any]:
    """A record as every door shows it."""
    return {
        "kind": record.kind,
        "id": record.id,
        "scope": record.scope,
        "author": record.author,
        "origin": record.origin,
        "version": record.version,
        "seq": record.seq,
        "created_at": to_iso(record.created_at),
        "recorded_at": to_iso(record.recorded_at),
        "happened_at": None if record.happened_at is None else to_iso(record.happened_at),
        "deleted": record.deleted,
        "body": record.body,
        "text": record.text,
        "links": [{"relation": link.relation, "to": key_json(link.to)} for link in record.links],
        "labels": list(record.labels),
        "digest": record.digest.hex(),
    }
