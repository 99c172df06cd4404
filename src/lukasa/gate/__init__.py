"""The gate: the one way in. Every draft passes the checks of its kind's policy, in order, or is refused with a reason.

A check is a small pure function of the draft. The first ones hold for every kind: shape, Unicode, JSON, size. A room
adds its own by giving its kind a policy. Checks that must look at the store run inside the room's decision (see
``Journal.decide``), under the same lock as the write; what they return passes through here like everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from lukasa.canonical import fault_of
from lukasa.engine import QUARANTINE, RESERVED_KINDS
from lukasa.errors import InvalidInput
from lukasa.gate.checks import BASIC, DEFAULT_LIMITS, Check, Limits, obviously_fine, quarantine
from lukasa.outcome import Refused
from lukasa.record import Draft, Sealed, seal

__all__ = ["Check", "Gate", "Handling", "Limits", "Policy", "guarding"]

Handling = Literal["block", "redact", "allow"]
"""What is done with personal data and secrets in a record."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How one kind of record is judged: its limits, then its own checks after the basic ones.

    ``personal`` says what is done with personal data and secrets: refuse the record, redact it, or let it be.
    """

    limits: Limits = DEFAULT_LIMITS
    checks: tuple[Check, ...] = ()
    personal: Handling = "allow"


OWN_POLICIES = {QUARANTINE: Policy(checks=(quarantine,)), "memory": Policy(personal="block")}


def guarding(handlings: Mapping[str, Handling], policies: Mapping[str, Policy] | None = None) -> dict[str, Policy]:
    """The policies, with what is done with personal data and secrets in some kinds of record."""
    guarded = dict(policies or {})
    for kind, handling in handlings.items():
        if kind not in RESERVED_KINDS:
            guarded[kind] = replace(guarded.get(kind, Policy()), personal=handling)
    return guarded


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
        if policy.personal != "allow":
            guarded = self._guard(draft, policy.personal)
            if isinstance(guarded, Refused):
                return guarded
            draft = guarded
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

    def _guard(self, draft: Draft, handling: Handling) -> Draft | Refused:
        """The draft as it may be kept. A refusal names what was found, never the value."""
        from lukasa.gate.guarding import refusal, without_secrets

        if handling == "redact":
            return without_secrets(draft)
        refused = refusal(draft)
        return draft if refused is None else refused
