"""``lukasa tour``: a demonstration of Lukasa in a temporary store.

Every step of ``tour.txt`` is Python code that runs exactly as printed; the result of each expression is printed below it.
Empty lines separate the steps, and the comment of a step is its title.
"""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import lukasa
from lukasa.core.outcome import Accepted, Conflict, Refused
from lukasa.core.record import Key, Link, Record
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.options import Call


@dataclass(frozen=True, slots=True)
class TourStep:
    """One step of the tour: a title, and the Python code to run."""

    title: str
    code: str


SCRIPT = files("lukasa.interfaces.cli").joinpath("tour.txt").read_text("utf-8")
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
                results: StepResults = []
                for statement in ast.parse(step.code).body:
                    code = ast.get_source_segment(step.code, statement) or ""
                    if isinstance(statement, ast.Expr):
                        results.append((code, list(_describe_value(eval(code, names)))))  # noqa: S307 - code of the step
                    else:
                        exec(code, names)  # noqa: S102 - code of the step
                        results.append((code, None))
                yield step, results
        finally:
            for memory in [value for value in names.values() if isinstance(value, lukasa.Memory)]:
                memory.close()


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
