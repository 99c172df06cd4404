"""``lukasa tour``: a demonstration of Lukasa in a temporary store.

Every step is Python code that runs exactly as printed; the result of each expression is printed below it.
"""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lukasa
from lukasa.core.outcome import Accepted, Conflict, Refused
from lukasa.core.record import Key, Link, Record
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.options import Call

SCRIPT = """
# Open one store as its owner and as two agents
owner = lukasa.open(folder / "tour.db")
orion = lukasa.open(folder / "tour.db", agent="orion")
elysia = lukasa.open(folder / "tour.db", agent="elysia")

# Write a shared note and a private one
orion.journal.write("note", "Deploys run on Tuesday.", id="deploy-day")
elysia.journal.write("note", "The staging database is called heron.", id="staging", scope="elysia")

# An agent cannot read the private scope of another agent
orion.journal.get(Key("elysia", "note", "staging"))

# A write that is not allowed is refused, with a reason
orion.journal.write("note", "Let me in.", scope="elysia")
orion.journal.write("note", body={"temperature": float("nan")})

# Two agents update the same note: the second one gets a conflict
elysia.journal.write("note", "Deploys run on Thursday.", id="deploy-day", expected=1)
orion.journal.write("note", "Deploys run on Monday.", id="deploy-day", expected=1)

# Every version is kept, and the store can be read as of any time
deploy_day = Key("shared", "note", "deploy-day")
first, second = orion.journal.history(deploy_day)
orion.journal.get(deploy_day)
orion.journal.get(deploy_day, as_of=first.recorded_at)

# Find records by their words
orion.journal.write("note", "Every deploy needs a review.", id="review")
orion.journal.find("deploy review")

# One agent writes something false, and another derives a pattern from it
mallory = lukasa.open(folder / "tour.db", agent="mallory")
mallory.journal.write("note", "A review is never needed.", id="rumour")
source = Link("derived_from", Key("shared", "note", "rumour"))
elysia.journal.write("pattern", "In a hurry, skip the review.", id="hurry", links=(source,))
orion.journal.find("review")

# Quarantine hides what an agent wrote and what was derived from it; release shows it again
owner.journal.quarantine("mallory", reason="spreads rumours")
orion.journal.find("review")
owner.journal.release("mallory")
len(orion.journal.find("review"))

# Undo reverts records by writing new versions, so it can be undone too
undone = owner.journal.undo(author="mallory")
undone.reverted
orion.journal.find("review")

# Erase removes a record for good and leaves a receipt
owner.journal.erase(Key("elysia", "note", "staging"), reason="no longer needed")
elysia.journal.history(Key("elysia", "note", "staging"))

# Verify checks the log and its indexes for damage
owner.verify()

# Export and import copy the log byte for byte
copy = lukasa.open(folder / "copy.db")
owner.export(folder / "here.jsonl")
copy.import_(folder / "here.jsonl")
copy.export(folder / "there.jsonl")
(folder / "here.jsonl").read_bytes() == (folder / "there.jsonl").read_bytes()
"""
"""The steps of the tour, separated by empty lines. The comment of a step is its title."""


@dataclass(frozen=True, slots=True)
class TourStep:
    """One step of the tour: a title, and the Python code to run."""

    title: str
    code: str


TOUR_STEPS = [TourStep(*step.removeprefix("# ").split("\n", 1)) for step in SCRIPT.strip().split("\n\n")]


def tour(call: Call) -> None:
    """Show what Lukasa does, step by step, in a temporary store. Your store is not used.

    Example: lukasa tour
    """
    from rich.padding import Padding
    from rich.syntax import Syntax
    from rich.text import Text

    steps = []
    for number, (step, lines) in enumerate(run_steps(), 1):
        steps.append({"title": step.title, "lines": [{"code": code, "result": result} for code, result in lines]})
        if call.json:
            continue
        render.print_renderable(Text(f"{number}. {step.title}", style="bold"))
        for code, results in lines:
            shown = Syntax(code, "python", theme="ansi_dark", background_color="default", word_wrap=True)
            render.print_renderable(Padding(shown, (0, 0, 0, 3)))
            for result in results or ():
                render.print_renderable(Padding(Text(render.escape_line(f"→ {result}"), style="green"), (0, 0, 0, 5)))
        render.print_line("")
    call.show(steps, "All of this really ran, in a store that is deleted now. Create your own with lukasa.open().")


StepResults = list[tuple[str, list[str] | None]]
"""Statements, each with the lines of its result, or ``None`` if it is not an expression."""


def run_steps() -> Iterator[tuple[TourStep, StepResults]]:
    """Run every step in a temporary store."""
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
        return code, list(_describe_value(eval(code, names)))  # noqa: S307 - code of a step above
    exec(code, names)  # noqa: S102 - code of a step above
    return code, None


def _describe_value(value: object) -> Iterator[str]:
    """Yield a value as lines, shorter than its repr."""
    from lukasa.storage.engine import Match

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
