"""The gate: the one way in. Every draft passes the checks of its kind's policy, in order, or is refused with a reason.

A check is a small pure function of the draft. The first ones hold for every kind: shape, Unicode, JSON, size. A room
adds its own by giving its kind a policy. Checks that must look at the store run inside the room's decision (see
``Journal.decide``), under the same lock as the write; what they return passes through here like everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from lukasa.canonical import fault_of
from lukasa.engine import QUARANTINE, RESERVED_KINDS
from lukasa.errors import InvalidInput
from lukasa.gate.checks import BASIC, DEFAULT_LIMITS, Check, Limits, obviously_fine, quarantine
from lukasa.outcome import Refused
from lukasa.record import Draft, Sealed, seal

__all__ = ["Check", "Gate", "Limits", "Policy"]


@dataclass(frozen=True, slots=True)
class Policy:
    """How one kind of record is judged: its limits, then its own checks after the basic ones."""

    limits: Limits = DEFAULT_LIMITS
    checks: tuple[Check, ...] = ()


OWN_POLICIES = {
    QUARANTINE: Policy(checks=(quarantine,)),
    "turn": Policy(Limits(record_bytes=32_000_000)),  # what somebody says is kept whole, however long
}


class Gate:
    """Judges drafts by the policy of their kind."""

    def __init__(self, policies: Mapping[str, Policy] | None = None) -> None:
        self._policies = MappingProxyType(OWN_POLICIES | dict(policies or {}))
        self._default = Policy()

    def admit(self, draft: Draft, id: str = "", author: str = "", *, reserved: bool = False) -> Sealed | Refused:
        """The sealed draft, or why it may not come in.

        ``id`` and ``author`` fill what the draft leaves open; ``reserved`` lets the journal write the store's own books.
        """
        policy = self._policies.get(draft.kind, self._default) if draft.kind.__class__ is str else self._default
        limits = policy.limits
        if not obviously_fine(draft, limits):
            for check in BASIC:
                if (refused := check(draft, limits)) is not None:
                    return refused
        if draft.kind in RESERVED_KINDS and not reserved:
            return Refused("reserved_kind", f"Records of kind {draft.kind!r} are written by the store itself.")
        for check in policy.checks:
            if (refused := check(draft, limits)) is not None:
                return refused
        try:
            sealed = seal(draft, id, author)
        except InvalidInput as error:
            return Refused("bad_json", f"The record cannot be stored: {fault_of(draft.body) or error.message}")
        if len(sealed.content) > limits.record_bytes:
            return Refused(
                "too_large",
                f"The record has {len(sealed.content):,} bytes; at most {limits.record_bytes:,} are allowed "
                f"for {draft.kind!r}. Split it, or keep the large part outside and refer to it.",
            )
        return sealed
