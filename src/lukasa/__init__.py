"""Lukasa: one durable memory for AI agents."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lukasa import aio as aio
    from lukasa.client import connect
    from lukasa.errors import LukasaError
    from lukasa.memory import Memory, audit_source, find_backups
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
    "audit_source",
    "connect",
    "find_backups",
    "open",
    "restore",
]

_LAZY_IMPORTS = {
    "LukasaError": "errors",
    "Memory": "memory",
    "audit_source": "memory",
    "connect": "client",
    "find_backups": "memory",
    "open": "memory.open_memory",
    "restore": "memory.restore_store",
    **dict.fromkeys(("Accepted", "Conflict", "Outcome", "Refused"), "outcome"),
    **dict.fromkeys(("Draft", "Key", "Link", "Record"), "record"),
    "Reach": "scope",
}


def __getattr__(name: str) -> Any:
    """Names and modules load on first use, so that a command that needs few of them starts at once."""
    module, _, other = _LAZY_IMPORTS.get(name, name).partition(".")
    try:
        loaded = import_module(f"lukasa.{module}")
    except ModuleNotFoundError as error:
        if error.name != f"lukasa.{module}":
            raise
        raise AttributeError(f"module 'lukasa' has no attribute {name!r}") from None
    found = getattr(loaded, other or name) if name in _LAZY_IMPORTS else loaded
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
