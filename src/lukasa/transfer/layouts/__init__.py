"""File layouts, in and out."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, cast

from lukasa.clock import Clock, IdMaker
from lukasa.errors import InvalidInput
from lukasa.journal import Journal

LAYOUTS: Mapping[str, str] = MappingProxyType(
    {"loki": "lukasa.transfer.layouts.loki", "memory-graph": "lukasa.transfer.layouts.memory_graph"}
)
"""The layouts of whole folders, by the name that doors know them by."""


@dataclass(slots=True)
class LayoutImportResult:
    """What taking in a layout did: how many records are new or changed, how many were there, which were refused."""

    added: int = 0
    present: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)


class Layout(Protocol):
    """A module that reads and writes one layout."""

    def read(self, journal: Journal, clock: Clock, new_id: IdMaker, source: Path, scope: str) -> LayoutImportResult: ...

    def write(self, journal: Journal, target: Path, scope: str) -> int: ...


def load_layout(name: str) -> Layout:
    """The layout of a name."""
    if name not in LAYOUTS:
        known = ", ".join(("jsonl", *LAYOUTS))
        raise InvalidInput(f"There is no format {name[:60]!r}.", hint=f"Use one of {known}.")
    return cast("Layout", importlib.import_module(LAYOUTS[name]))
