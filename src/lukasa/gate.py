"""The gate: the one way in. Every draft passes the checks of its kind's policy, in order, or is refused with a reason.

A check is a small pure function of the draft. The first ones hold for every kind: shape, Unicode, JSON, size. A room
adds its own by giving its kind a policy. Checks that must look at the store run inside the room's decision (see
``Journal.decide``), under the same lock as the write; what they return passes through here like everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from math import isfinite
from types import MappingProxyType
from typing import Any, Literal

from lukasa.canonical_json import SURROGATES, TOO_LONG_FAULT, find_json_fault
from lukasa.clock import from_iso
from lukasa.errors import InvalidInput
from lukasa.outcome import Refused
from lukasa.record import NO_BODY, Draft, Key, Link, ValidatedDraft, encode_draft
from lukasa.storage.engine import QUARANTINE, RESERVED_KINDS


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """How large a record of one kind may be."""

    name_characters: int = 200
    record_bytes: int = 1_000_000
    links: int = 1_000
    labels: int = 100


DEFAULT_LIMITS = RecordLimits()
DraftCheck = Callable[[Draft, RecordLimits], Refused | None]


_accepted_names: set[tuple[str, str, str, str]] = set()
"""Combinations of kind, scope, origin and author that were found good: the same few come again and again."""


def check_names(draft: Draft, limits: RecordLimits) -> Refused | None:
    """Kind, scope, origin, author and id are short plain text; only author and id may be left open."""
    if not _has_accepted_names(draft):
        for field in ("kind", "scope", "origin", "author"):
            if (refused := _check_name(field, getattr(draft, field), limits, optional=field == "author")) is not None:
                return refused
        if len(_accepted_names) >= 10_000:
            _accepted_names.clear()
        _accepted_names.add((draft.kind, draft.scope, draft.origin, draft.author))
    return _check_name("id", draft.id, limits, optional=True) if draft.id != "" else None


def _has_accepted_names(draft: Draft) -> bool:
    try:
        return (draft.kind, draft.scope, draft.origin, draft.author) in _accepted_names
    except TypeError:  # something that is not even hashable, let alone text
        return False


def _check_name(field: str, value: object, limits: RecordLimits, *, optional: bool) -> Refused | None:
    if value.__class__ is not str:
        return Refused(f"bad_{field}", f"The {field} must be text, not {type(value).__name__}.")
    if not value and not optional:
        return Refused(f"bad_{field}", f"The {field} is empty.")
    if len(value) > limits.name_characters:
        return Refused(
            f"bad_{field}", f"The {field} has {len(value):,} characters; at most {limits.name_characters} are allowed."
        )
    if not value.isprintable() and (fault := _find_unprintable(value)):
        return Refused(f"bad_{field}", f"The {field} holds {fault}.")
    return None


def check_text(draft: Draft, limits: RecordLimits) -> Refused | None:
    if draft.text.__class__ is not str:
        return Refused("bad_text", f"The text must be text, not {type(draft.text).__name__}.")
    if len(draft.text) > limits.record_bytes:  # before anything is copied or encoded
        return Refused(
            "too_large",
            f"The text has {len(draft.text):,} characters; a record of kind {draft.kind!r} "
            f"holds at most {limits.record_bytes:,} bytes.",
        )
    if not draft.text.isascii() and SURROGATES.search(draft.text):
        return Refused("bad_unicode", "The text has a lone surrogate, which is not valid Unicode.")
    return None


def check_body(draft: Draft, limits: RecordLimits) -> Refused | None:
    if draft.body is NO_BODY:
        return None
    if draft.body.__class__ is not dict:
        return Refused("bad_json", f"The body must be a JSON object, not {type(draft.body).__name__}.")
    if (fault := find_json_fault(draft.body, max_characters=limits.record_bytes)) is not None:
        code = "too_large" if fault == TOO_LONG_FAULT else "bad_json"
        return Refused(code, f"The body cannot be stored: {fault}")
    return None


def check_links(draft: Draft, limits: RecordLimits) -> Refused | None:
    if draft.links == ():
        return None
    bad = Refused("bad_link", "A link needs a relation and the scope, kind and id of its target.")
    if draft.links.__class__ is not tuple:
        return bad
    if len(draft.links) > limits.links:
        return Refused(
            "too_many_links", f"The record has {len(draft.links):,} links; at most {limits.links:,} are allowed."
        )
    for link in draft.links:
        if link.__class__ is not Link or link.to.__class__ is not Key:
            return bad
        for value in (link.relation, link.to.scope, link.to.kind, link.to.id):
            if value.__class__ is not str or not 0 < len(value) <= limits.name_characters or not _is_printable(value):
                return bad
    return None


def check_labels(draft: Draft, limits: RecordLimits) -> Refused | None:
    if draft.labels == ():
        return None
    bad = Refused("bad_label", "A label must be short plain text, such as session=s1.")
    if draft.labels.__class__ is not tuple:
        return bad
    if len(draft.labels) > limits.labels:
        return Refused(
            "too_many_labels", f"The record has {len(draft.labels):,} labels; at most {limits.labels} are allowed."
        )
    for label in draft.labels:
        if label.__class__ is not str or not 0 < len(label) <= 2 * limits.name_characters or not _is_printable(label):
            return bad
    return None


def check_metadata(draft: Draft, _: RecordLimits) -> Refused | None:
    """When it happened, whether it is a tombstone, which version is expected."""
    happened_at: object = draft.happened_at
    if happened_at is not None and not isinstance(happened_at, datetime):
        return Refused("bad_happened_at", f"happened_at must be a datetime, not {type(happened_at).__name__}.")
    deleted: object = draft.deleted
    if not isinstance(deleted, bool):
        return Refused("bad_deleted", "deleted must be true or false.")
    if draft.expected is not None and (draft.expected.__class__ is not int or draft.expected < 0):
        return Refused(
            "bad_expected", "expected must be a version number, 0 for a record that is not there yet, or None."
        )
    return None


def check_quarantine(draft: Draft, _: RecordLimits) -> Refused | None:
    """The body of a quarantine names an author, and when it began as a time or not at all."""
    author, since, released = (draft.body.get(name) for name in ("author", "since", "released"))
    try:
        sensible = author.__class__ is str and author != "" and (since is None or from_iso(since) is not None)
    except (InvalidInput, TypeError):
        sensible = False
    if not sensible or released not in (None, True, False):
        return Refused("bad_quarantine", "A quarantine names an author and, if it has a beginning, a time.")
    return None


BASIC_CHECKS: tuple[DraftCheck, ...] = (check_names, check_text, check_body, check_links, check_labels, check_metadata)

_SCALAR_TYPES = frozenset({str, int, bool, float, type(None)})


def passes_quick_check(draft: Draft, limits: RecordLimits) -> bool:
    """Whether a glance is enough to know that no basic check can refuse. Most drafts are; the rest are looked at."""
    return (
        draft.id == ""
        and draft.links == ()
        and draft.labels == ()
        and draft.happened_at is None
        and draft.deleted is False
        and draft.expected is None
        and draft.text.__class__ is str
        and len(draft.text) <= limits.record_bytes
        and (draft.text.isascii() or not SURROGATES.search(draft.text))
        and (draft.body.__class__ is dict or draft.body is NO_BODY)
        and _is_flat(draft.body, limits)
        and _has_accepted_names(draft)
    )


def _is_flat(body: Mapping[str, Any], limits: RecordLimits) -> bool:
    """Whether a body holds nothing but short plain values."""
    for value in body.values():
        kind = value.__class__
        if kind not in _SCALAR_TYPES or (kind is float and not isfinite(value)):
            return False
        if kind is str and len(value) > limits.record_bytes:
            return False
    return True


def _is_printable(value: str) -> bool:
    return value.isprintable() or not _find_unprintable(value)


def _find_unprintable(value: str) -> str | None:
    """What in a name cannot be shown or stored; spaces and joiners of living scripts are fine."""
    return next(_iterate_faults(value), None)


def _iterate_faults(value: str) -> Iterator[str]:
    for character in value:
        code = ord(character)
        if 0xD800 <= code <= 0xDFFF:
            yield "a lone surrogate, which is not valid Unicode"
        elif code < 0x20 or 0x7F <= code < 0xA0:
            yield f"a control character (U+{code:04X})"


PiiHandling = Literal["block", "redact", "allow"]
"""What is done with personal data and secrets in a record."""


@dataclass(frozen=True, slots=True)
class KindPolicy:
    """How one kind of record is judged: its limits, then its own checks after the basic ones.

    ``personal`` says what is done with personal data and secrets: refuse the record, redact it, or let it be.
    """

    limits: RecordLimits = DEFAULT_LIMITS
    checks: tuple[DraftCheck, ...] = ()
    pii_handling: PiiHandling = "allow"


BUILTIN_POLICIES = {QUARANTINE: KindPolicy(checks=(check_quarantine,)), "memory": KindPolicy(pii_handling="block")}


def apply_pii_handlings(
    handlings: Mapping[str, PiiHandling], policies: Mapping[str, KindPolicy] | None = None
) -> dict[str, KindPolicy]:
    """The policies, with what is done with personal data and secrets in some kinds of record."""
    guarded = dict(policies or {})
    for kind, handling in handlings.items():
        if kind not in RESERVED_KINDS:
            guarded[kind] = replace(guarded.get(kind, KindPolicy()), pii_handling=handling)
    return guarded


class Gate:
    """Judges drafts by the policy of their kind."""

    def __init__(self, policies: Mapping[str, KindPolicy] | None = None) -> None:
        self._policies = MappingProxyType(BUILTIN_POLICIES | dict(policies or {}))
        self._default_policy = KindPolicy()

    def validate(
        self, draft: Draft, id: str = "", author: str = "", *, allow_reserved: bool = False
    ) -> ValidatedDraft | Refused:
        """The sealed draft, or why it may not come in.

        ``id`` and ``author`` fill what the draft leaves open; ``reserved`` lets the journal write the store's own books.
        """
        policy = (
            self._policies.get(draft.kind, self._default_policy)
            if draft.kind.__class__ is str
            else self._default_policy
        )
        limits = policy.limits
        if not passes_quick_check(draft, limits):
            for check in BASIC_CHECKS:
                if (refused := check(draft, limits)) is not None:
                    return refused
        if draft.kind in RESERVED_KINDS and not allow_reserved:
            return Refused("reserved_kind", f"Records of kind {draft.kind!r} are written by the store itself.")
        for check in policy.checks:
            if (refused := check(draft, limits)) is not None:
                return refused
        if policy.pii_handling != "allow":
            guarded = self._apply_pii_handling(draft, policy.pii_handling)
            if isinstance(guarded, Refused):
                return guarded
            draft = guarded
        try:
            sealed = encode_draft(draft, id, author)
        except InvalidInput as error:
            return Refused("bad_json", f"The record cannot be stored: {find_json_fault(draft.body) or error.message}")
        if len(sealed.content) > limits.record_bytes:
            return Refused(
                "too_large",
                f"The record has {len(sealed.content):,} bytes; at most {limits.record_bytes:,} are allowed "
                f"for {draft.kind!r}. Split it, or keep the large part outside and refer to it.",
            )
        return sealed

    def _apply_pii_handling(self, draft: Draft, handling: PiiHandling) -> Draft | Refused:
        """The draft as it may be kept. A refusal names what was found, never the value."""
        from lukasa.pii.check import check_pii, redact_draft

        if handling == "redact":
            return redact_draft(draft)
        refused = check_pii(draft)
        return draft if refused is None else refused
