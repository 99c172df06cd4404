"""The outcome of a write: accepted, refused, or in conflict. All three are expected, so all are values.

match journal.write("note", "the build is green"):
    case Accepted(records): ...
    case Refused(code, reason): ...
    case Conflict(key): ...

An outcome is true when it was accepted, and type checkers know that: after ``if outcome:`` it has a ``record``. A caller
who expects nothing else takes the record with ``unwrap()``, which raises ``NotAccepted`` for the other two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, Self

from lukasa.core.record import Key, Record
from lukasa.errors import InvalidInput, NotAccepted

_NOT_PERMITTED = "This caller may not do that. Ask the owner of the store."
_ASK_OWNER = "Ask the owner of the store to do it."
_OTHERWISE = "Correct the call as the reason says, then repeat it."
NEXT_STEPS: Mapping[str, str] = {
    "conflict": "Read the record again with `history`, decide, then call again.",
    "not_found": "Look for the right id with `recall`.",
    **dict.fromkeys(("not_allowed", "bad_scope", "scope_closed", "not_yours", "author_not_yours"), _NOT_PERMITTED),
    "proposed": "The owner decides. Tell them the id of the proposal; do not call again.",
    **dict.fromkeys(("needs_owner", "refused_by_owner", "too_many_proposals"), _ASK_OWNER),
    "duplicate": (
        "Nothing needs to be done if both say the same. If this is another fact, call `remember` with `distinct_from` set to "
        "the id in `duplicate_of`. If the fact has changed, read that memory with `history`, then update it."
    ),
    "busy": "Call again in a moment.",
    "secret": "Leave the secret out, then call again.",
}
"""What a caller does next after a refusal or a conflict, by its code."""


def next_step(code: str) -> str:
    """Return what a caller does next after a refusal or a conflict of this code."""
    return NEXT_STEPS.get(code, _OTHERWISE)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The batch is durable. ``repeated`` is true when an earlier call with the same idempotency key wrote it.

    ``details`` are for the caller's next step, such as ``similar_to``: memories that say something similar.
    """

    records: Sequence[Record]
    repeated: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def code(self) -> str:
        """The code for programs; a refusal and a conflict have codes of their own."""
        return "accepted"

    @property
    def reason(self) -> str:
        """The sentence for people."""
        return "The write was accepted."

    @property
    def record(self) -> Record:
        """The record of a batch that has exactly one."""
        if len(self.records) != 1:
            raise InvalidInput(
                f"The write was accepted and has {len(self.records)} records, not one.",
                hint="Take them from `records`.",
            )
        return self.records[0]

    @property
    def seqs(self) -> Sequence[int]:
        """The positions of the records in the log, which the records just written need not be parsed for."""
        seqs: Sequence[int] | None = getattr(self.records, "seqs", None)
        return [record.seq for record in self.records] if seqs is None else seqs

    def unwrap(self, hint: str | None = None) -> Record:  # noqa: ARG002 - a hint is for those that raise
        """Return the record of a batch that has exactly one, as ``record`` does; ``unwrap_all`` returns those of any batch."""
        return self.record

    def unwrap_all(self, hint: str | None = None) -> Sequence[Record]:  # noqa: ARG002
        """Return the records of the batch: none, one or several."""
        return self.records

    def __bool__(self) -> Literal[True]:
        return True


@dataclass(frozen=True, slots=True)
class Refused:
    """The batch was not written. ``code`` is stable and for programs; ``reason`` is a sentence for people."""

    code: str
    reason: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def unwrap(self, hint: str | None = None) -> NoReturn:
        """Raise ``NotAccepted`` with the reason, the code and a hint, by default the next step of its code, if that has one."""
        raise NotAccepted(outcome=self, hint=hint or NEXT_STEPS.get(self.code))

    unwrap_all = unwrap

    def __bool__(self) -> Literal[False]:
        return False


@dataclass(frozen=True, slots=True)
class Conflict:
    """Another write changed ``key`` first: the caller expected one version and the store has another."""

    key: Key
    expected: int
    found: int

    @property
    def code(self) -> str:
        """The code for programs, as a refusal has one."""
        return "conflict"

    @property
    def details(self) -> Mapping[str, Any]:
        """The two versions."""
        return {"expected": self.expected, "found": self.found}

    @property
    def reason(self) -> str:
        """The sentence for people."""
        there = f"is at version {self.found}" if self.found else "does not exist"
        return f"{self.key} {there}, expected {self.expected or 'no record'}; read it again and retry."

    def unwrap(self, hint: str | None = None) -> NoReturn:
        """Raise ``NotAccepted`` with the reason, the code and a hint, by default the next step of its code, if that has one."""
        raise NotAccepted(outcome=self, hint=hint or NEXT_STEPS.get(self.code))

    unwrap_all = unwrap

    def __bool__(self) -> Literal[False]:
        return False


Outcome = Accepted | Refused | Conflict


class Answer:
    """What a call returns that may be refused and stores no records: a report, or the thing that was begun."""

    __slots__ = ()

    def unwrap(self) -> Self:
        """Return the answer itself; a refusal raises ``NotAccepted`` here.

        Example:
            memory.episodes.start("Fix the login page").unwrap().finish()
        """
        return self


class RepeatedRequest(Exception):
    """A write of ``Memory.for_request`` has the key of an earlier request; ``outcome`` is the outcome of the earlier write.

    If the earlier request was another one, the outcome is a refusal.
    """

    def __init__(self, outcome: Outcome) -> None:
        super().__init__("An earlier request has the same key.")
        self.outcome = outcome
