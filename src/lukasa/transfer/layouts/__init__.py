"""File layouts of other programs and documents: import and export."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, cast

from lukasa.core.clock import Clock, IdMaker
from lukasa.core.outcome import Accepted, Outcome
from lukasa.errors import InvalidInput
from lukasa.journal import Journal

LAYOUTS: Mapping[str, str] = MappingProxyType(
    {"loki": "lukasa.transfer.layouts.loki", "memory-graph": "lukasa.transfer.layouts.memory_graph"}
)
"""The layouts of whole stores: format name and module."""

SERVICE_LAYOUTS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "voxsigil": ("sessions", "lukasa.transfer.layouts.session_json"),
        "context": ("context", "lukasa.transfer.layouts.context_json"),
        "vault": ("vault", "lukasa.transfer.layouts.vault_jsonl"),
        "trust": ("trust", "lukasa.transfer.layouts.agent_memory"),
    }
)
"""The layouts of what one service keeps: format name, service and module."""


@dataclass(slots=True)
class LayoutImportResult:
    """How many records an import added and found present, and the refused ones: file or line, and reason."""

    added: int = 0
    present: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)

    def count(self, where: str, outcome: Outcome) -> None:
        """Count the outcome of one record. An accepted outcome without records means that the record was present."""
        if isinstance(outcome, Accepted):
            self.added += len(outcome.records)
            self.present += not outcome.records
        else:
            self.refused.append((where, outcome.reason))


class Layout(Protocol):
    """A module that reads and writes one layout."""

    def read(self, journal: Journal, clock: Clock, new_id: IdMaker, source: Path, scope: str) -> LayoutImportResult: ...

    def write(self, journal: Journal, target: Path, scope: str) -> int: ...


class ServiceLayout(Protocol):
    """A module that reads and writes what one service keeps, as a folder of files or as one file."""

    def read_folder(self, service: Any, source: Path, scope: str) -> LayoutImportResult: ...

    def write_folder(self, service: Any, target: Path, scope: str) -> int: ...


def load_service_layout(name: str) -> tuple[str, ServiceLayout]:
    """Return the service of a layout, and its module."""
    service, module = SERVICE_LAYOUTS[name]
    return service, cast("ServiceLayout", importlib.import_module(module))


def load_layout(name: str, others: Iterable[str] = ()) -> Layout:
    """Import the module of a layout; ``others`` are formats that an error names too."""
    if name not in LAYOUTS:
        known = ", ".join(("jsonl", *LAYOUTS, *SERVICE_LAYOUTS, *others))
        raise InvalidInput(f"There is no format {name[:60]!r}.", hint=f"Use one of {known}.")
    return cast("Layout", importlib.import_module(LAYOUTS[name]))


def encode_json(value: Any) -> bytes:
    """Return a value as the content of a JSON file that people can read."""
    return json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n"
