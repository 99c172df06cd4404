"""Lukasa: one durable memory for AI agents."""

from __future__ import annotations

from types import ModuleType

from lukasa.errors import LukasaError
from lukasa.memory import Memory, find_backups
from lukasa.memory import open_memory as open
from lukasa.memory import restore_store as restore
from lukasa.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.record import Draft, Key, Link, Record
from lukasa.scope import Reach

__version__ = "0.1.0"

__all__ = [
    "Accepted",
    "Conflict",
    "Draft",
    "Key",
    "Link",
    "LukasaError",
    "Memory",
    "Outcome",
    "Reach",
    "Record",
    "Refused",
    "__version__",
    "find_backups",
    "open",
    "restore",
]


def __getattr__(name: str) -> ModuleType:
    """``lukasa.aio`` loads on first use: most programs never await."""
    if name == "aio":
        import lukasa.aio

        return lukasa.aio
    raise AttributeError(f"module 'lukasa' has no attribute {name!r}")
