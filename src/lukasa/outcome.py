"""What a write comes back with: accepted, refused or lost a race. All three are expected, so all are values.

match journal.write("note", "the build is green"):
    case Accepted(records): ...
    case Refused(code, reason): ...
    case Conflict(key): ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lukasa.record import Key, Record


@dataclass(frozen=True, slots=True)
class Accepted:
    """The batch is durable. ``repeated`` says that an idempotency key had already brought it in."""

    records: Sequence[Record]
    repeated: bool = False

    @property
    def record(self) -> Record:
        """The only record of a batch of one."""
        (only,) = self.records
        return only

    def __bool__(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Refused:
    """The batch was not written. ``code`` is stable; ``reason`` is a sentence for the writer."""

    code: str
    reason: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Conflict:
    """Somebody else wrote ``key`` first: ``expected`` was asked for, ``found`` is there."""

    key: Key
    expected: int
    found: int

    @property
    def reason(self) -> str:
        """The sentence for the writer."""
        there = f"is at version {self.found}" if self.found else "does not exist"
        return f"{self.key} {there}, expected {self.expected or 'no record'}; read it again and retry."

    def __bool__(self) -> bool:
        return False


Outcome = Accepted | Refused | Conflict
