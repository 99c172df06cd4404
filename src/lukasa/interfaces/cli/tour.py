"""``lukasa tour``: a short walk through what there is, in a store that is gone afterwards.

Every step is Python that runs exactly as it is printed, and under each expression stands what it came to.
"""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

import lukasa
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.options import JsonOption, get_options
from lukasa.outcome import Accepted, Conflict, Refused
from lukasa.record import Key, Link, Record
from lukasa.storage.engine import Match


@dataclass(frozen=True, slots=True)
class TourStep:
    """One stop on the walk: what it shows, and the Python that shows it."""

    title: str
    code: str


TOUR_STEPS = (
    TourStep(
        "One store, and three who use it: its owner and two agents",
        """\
owner = lukasa.open(folder / "tour.db")
orion = lukasa.open(folder / "tour.db", agent="orion")
elysia = lukasa.open(folder / "tour.db", agent="elysia")
""",
    ),
    TourStep(
        "Remember something for everybody, and something in private",
        """\
orion.journal.write("note", "Deploys run on Tuesday.", id="deploy-day")
elysia.journal.write("note", "The staging database is called heron.", id="staging", scope="elysia")
""",
    ),
    TourStep(
        "A scope is a wall: what is private to one is not there for the other",
        """\
orion.journal.get(Key("elysia", "note", "staging"))
""",
    ),
    TourStep(
        "What may not come in is refused, with a reason",
        """\
orion.journal.write("note", "Let me in.", scope="elysia")
orion.journal.write("note", body={"temperature": float("nan")})
""",
    ),
    TourStep(
        "Nobody overwrites what they have not seen: the second writer is told",
        """\
elysia.journal.write("note", "Deploys run on Thursday.", id="deploy-day", expected=1)
orion.journal.write("note", "Deploys run on Monday.", id="deploy-day", expected=1)
""",
    ),
    TourStep(
        "Every version stays, and any earlier moment can be read",
        """\
deploy_day = Key("shared", "note", "deploy-day")
first, second = orion.journal.history(deploy_day)
orion.journal.get(deploy_day)
orion.journal.get(deploy_day, as_of=first.recorded_at)
""",
    ),
    TourStep(
        "Records are found by their words",
        """\
orion.journal.write("note", "Every deploy needs a review.", id="review")
orion.journal.find("deploy review")
""",
    ),
    TourStep(
        "An agent goes wrong, and another believes it",
        """\
mallory = lukasa.open(folder / "tour.db", agent="mallory")
mallory.journal.write("note", "A review is never needed.", id="rumour")
source = Link("derived_from", Key("shared", "note", "rumour"))
elysia.journal.write("pattern", "In a hurry, skip the review.", id="hurry", links=(source,))
orion.journal.find("review")
""",
    ),
    TourStep(
        "Quarantine hides what it wrote and what was derived from it; release brings it back",
        """\
owner.journal.quarantine("mallory", reason="spreads rumours")
orion.journal.find("review")
owner.journal.release("mallory")
len(orion.journal.find("review"))
""",
    ),
    TourStep(
        "Undo reverts it by new versions, so that even the undo can be undone",
        """\
undone = owner.journal.undo(author="mallory")
undone.reverted
orion.journal.find("review")
""",
    ),
    TourStep(
        "Erase leaves nothing but a receipt",
        """\
owner.journal.erase(Key("elysia", "note", "staging"), reason="no longer needed")
elysia.journal.history(Key("elysia", "note", "staging"))
""",
    ),
    TourStep(
        "The log proves itself whole, and its indexes true",
        """\
owner.verify()
""",
    ),
    TourStep(
        "It can be carried elsewhere, byte for byte",
        """\
copy = lukasa.open(folder / "copy.db")
owner.export(folder / "here.jsonl")
copy.import_(folder / "here.jsonl")
copy.export(folder / "there.jsonl")
(folder / "here.jsonl").read_bytes() == (folder / "there.jsonl").read_bytes()
""",
    ),
)


def tour(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Walk through what Lukasa does, for real, in a temporary store.

    Example: lukasa tour
    """
    call = get_options(ctx, as_json)
    told = []
    for number, (step, lines) in enumerate(run_steps(), 1):
        if call.json:
            results = [{"code": code, "result": result} for code, result in lines]
            told.append({"title": step.title, "lines": results})
        else:
            _print_step(number, step, lines)
    if call.json:
        render.print_json(told)
    else:
        render.print_line("All of this was real, in a store that is gone now. Yours begins with lukasa.open().")


StepResults = list[tuple[str, list[str] | None]]
"""Statements, each with what it came to, line by line; ``None`` for one that is not an expression."""


def run_steps() -> Iterator[tuple[TourStep, StepResults]]:
    """Takes every step, in one store of its own."""
    with tempfile.TemporaryDirectory(prefix="lukasa-tour-") as folder:
        names: dict[str, Any] = {"lukasa": lukasa, "Key": Key, "Link": Link, "folder": Path(folder)}
        try:
            for step in TOUR_STEPS:
                yield step, [_run_statement(statement, step.code, names) for statement in ast.parse(step.code).body]
        finally:
            for memory in [value for value in names.values() if isinstance(value, lukasa.Memory)]:
                memory.close()


def _run_statement(statement: ast.stmt, source: str, names: dict[str, Any]) -> tuple[str, list[str] | None]:
    code = ast.get_source_segment(source, statement) or ""
    if isinstance(statement, ast.Expr):
        return code, list(_describe_value(eval(code, names)))  # noqa: S307 - the text of a step above, as printed
    exec(code, names)  # noqa: S102 - likewise
    return code, None


def _describe_value(value: object) -> Iterator[str]:
    """What a value says, shorter than its repr where that is long."""
    match value:
        case Accepted(records):
            yield "Accepted: " + ", ".join(f"{record.key} version {record.version}" for record in records)
        case Refused(code, reason):
            yield f"Refused ({code}): {reason}"
        case Conflict():
            yield f"Conflict: {value.reason}"
        case Record():
            yield f"{value.key} version {value.version}: {value.text}"
        case Match():
            yield from _describe_value(value.record)
        case Key():
            yield str(value)
        case [_, *_]:
            for item in value:
                yield from _describe_value(item)
        case _:
            yield repr(value)


def _print_step(number: int, step: TourStep, lines: StepResults) -> None:
    from rich.padding import Padding
    from rich.syntax import Syntax
    from rich.text import Text

    render.print_renderable(Text(f"{number}. {step.title}", style="bold"))
    for code, results in lines:
        shown = Syntax(code, "python", theme="ansi_dark", background_color="default", word_wrap=True)
        render.print_renderable(Padding(shown, (0, 0, 0, 3)))
        for result in results or ():
            render.print_renderable(Padding(Text(render.escape_line(f"→ {result}"), style="green"), (0, 0, 0, 5)))
    render.print_line("")
