"""The outcome of a write: accepted, refused, or in conflict. All three are expected, so all are values.

match journal.write("note", "the build is green"):
    case Accepted(records): ...
    case Refused(code, reason): ...
    case Conflict(key): ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lukasa.core.record import Key, Record


@dataclass(frozen=True, slots=True)
class Accepted:
    """The batch is durable. ``repeated`` is true when an earlier call with the same idempotency key wrote it.

    ``details`` are for the caller's next step, such as ``similar_to``: memories that say something similar.
    """

    records: Sequence[Record]
    repeated: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def record(self) -> Record:
        """The record of a batch that has exactly one."""
        (only,) = self.records
        return only

    @property
    def seqs(self) -> Sequence[int]:
        """The positions of the records in the log, which the records just written need not be parsed for."""
        seqs: Sequence[int] | None = getattr(self.records, "seqs", None)
        return [record.seq for record in self.records] if seqs is None else seqs

    def __bool__(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Refused:
    """The batch was not written. ``code`` is stable and for programs; ``reason`` is a sentence for people."""

    code: str
    reason: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Conflict:
    """Another write changed ``key`` first: the caller expected one version and the store has another."""

    key: Key
    expected: int
    found: int

    @property
    def reason(self) -> str:
        """The sentence for people."""
        there = f"is at version {self.found}" if self.found else "does not exist"
        return f"{self.key} {there}, expected {self.expected or 'no record'}; read it again and retry."

    def __bool__(self) -> bool:
        return False


Outcome = Accepted | Refused | Conflict


class RepeatedRequest(Exception):
    """A write of ``Memory.for_request`` found its key used by an earlier request; ``outcome`` is what that one wrote.

    If the earlier request was another one, the outcome is a refusal.
    """

    def __init__(self, outcome: Outcome) -> None:
        super().__init__("An earlier request has the same key.")
        self.outcome = outcome
