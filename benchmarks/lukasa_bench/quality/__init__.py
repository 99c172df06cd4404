"""Quality of what Lukasa keeps, derives and finds, measured on sets of cases in ``data/``.

Each section is a module of this package with a function ``measure(embedder)`` that returns rows. A case is judged by the
set alone: no figure depends on the speed of the machine.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from time import perf_counter
from typing import Any, Literal

from lukasa.errors import InvalidInput
from lukasa_bench.report import BenchmarkBar

SECTIONS = ("duplicates", "updates", "consolidation", "extraction", "scripts")
"""The sections, in the order of the table; one that has no module yet is left out."""


@dataclass(frozen=True, slots=True)
class QualityRow:
    """One figure of a section; ``note`` says what it counts."""

    section: str
    case: str
    value: float
    unit: Literal["%", "count"]
    bar: BenchmarkBar | None = None
    note: str = ""

    @property
    def meets_bar(self) -> bool | None:
        """Whether the bar is met, if there is one."""
        if self.bar is None:
            return None
        return self.value <= self.bar.limit if self.bar.at == "most" else self.value >= self.bar.limit

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"met": self.meets_bar}


@dataclass(frozen=True, slots=True)
class QualityReport:
    """The rows of all measured sections."""

    rows: tuple[QualityRow, ...]
    embedder: str | None
    seconds: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"rows": [row.as_json() for row in self.rows]}


def at_most(limit: float) -> BenchmarkBar:
    """Return the bar that a figure must not exceed."""
    return BenchmarkBar("lukasa", "most", limit)


def at_least(limit: float) -> BenchmarkBar:
    """Return the bar that a figure must reach."""
    return BenchmarkBar("lukasa", "least", limit)


def list_sections() -> list[str]:
    """Return the names of the sections that can be measured."""
    return [name for name in SECTIONS if find_spec(f"{__name__}.{name}") is not None]


def load_cases(name: str) -> Any:
    """Load the set of cases ``data/NAME.json``."""
    return json.loads((files(__name__) / "data" / f"{name}.json").read_text("utf-8"))


def run(sections: Sequence[str] = (), *, embedder: str | None = None) -> QualityReport:
    """Measure the named sections, or all of them."""
    known = list_sections()
    for name in sections:
        if name not in known:
            raise InvalidInput(f"{name!r:.40} is not a section of the benchmark.", hint=f"Say {', '.join(known)}.")
    began = perf_counter()
    rows: list[QualityRow] = []
    for name in sections or known:
        rows += import_module(f"{__name__}.{name}").measure(embedder)
    return QualityReport(tuple(rows), embedder, perf_counter() - began)
