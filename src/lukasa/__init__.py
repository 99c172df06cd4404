"""Lukasa: one durable memory for AI agents."""

from lukasa.errors import LukasaError
from lukasa.memory import Memory
from lukasa.memory import open_memory as open
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
    "open",
]
