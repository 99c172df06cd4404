"""What every adapter needs of a store: its scope, ids from names, and writes that must be accepted."""

from __future__ import annotations

import hashlib

from lukasa.errors import InvalidInput
from lukasa.memory import Memory
from lukasa.outcome import Accepted, Outcome


def choose_scope(memory: Memory, scope: str | None) -> str:
    """Return the scope that an adapter writes to: the one named, or the caller's own."""
    chosen = scope or memory.journal.home_scope
    if chosen is None:
        raise InvalidInput("The caller may write no scope.", hint="Open the store with another agent or scope.")
    return chosen


def require_accepted(outcome: Outcome) -> None:
    """Raise ``InvalidInput`` if a write was not accepted; the frameworks expect an exception."""
    if not isinstance(outcome, Accepted):
        raise InvalidInput(f"The store did not take it: {outcome.reason}")


def hash_names(*names: str) -> str:
    """Return an id for names of any length and characters."""
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogatepass")).hexdigest()[:24]
