"""An example of a new service with a new kind of record, as CONTRIBUTING.md describes it.

Edit one is this module: it declares its kind and has a class with the verbs. Edit two is a line in the table
``lukasa.memory.SERVICES``. Nothing else changes: history, undo, quarantine, erasure, export and recall work at once.
"""

from __future__ import annotations

from lukasa.core.outcome import Outcome
from lukasa.core.record import Draft, Key
from lukasa.journal import Journal
from lukasa.journal.gate import KindSpec, RecordLimits

KINDS = {"agent_preference": KindSpec(RecordLimits(record_bytes=2_000), pii="block")}


class Preferences:
    """How an agent likes things done, one record per name."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def set(self, name: str, value: str) -> Outcome:
        """Store a preference; an earlier one of the same name is superseded."""
        body = {"name": name, "value": value}
        return self._journal.append(
            Draft("agent_preference", f"{name}: {value}", body, id=name, scope=self._journal.home_scope or "shared")
        )

    def get(self, name: str) -> str | None:
        """Return the current value, or ``None``."""
        record = self._journal.get(Key(self._journal.home_scope or "shared", "agent_preference", name))
        return None if record is None else str(record.body["value"])
