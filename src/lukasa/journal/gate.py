"""The gate: every draft passes the checks of its kind, in order, or is refused with a reason.

A check is a small pure function of the draft. The basic checks hold for every kind: names, Unicode, JSON, size. A service
declares more for its own kinds with a ``KindSpec``. Checks that must read the store run inside the service's condition
(see ``Journal.append_if``), under the same lock as the write; the drafts they return pass the gate too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal

from lukasa.core.body_shape import BodyShape
from lukasa.core.canonical_json import SURROGATES, TOO_LONG_FAULT, find_json_fault
from lukasa.core.clock import from_iso
from lukasa.core.outcome import Refused
from lukasa.core.record import NO_BODY, Draft, Key, Link, Record, ValidatedDraft, encode_draft
from lukasa.errors import InvalidInput
from lukasa.storage.engine import IMPORT, QUARANTINE, RESERVED_KINDS, SET_ASIDE


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """Size limits of one kind of record."""

    name_characters: int = 200
    record_bytes: int = 1_000_000
    links: int = 1_000
    labels: int = 100


DEFAULT_LIMITS = RecordLimits()
FieldCheck = Callable[[Any, RecordLimits], Refused | None]
DraftCheck = Callable[[Draft, RecordLimits], Refused | None]


def _name_check(field: str, *, optional: bool = False) -> FieldCheck:
    """Return the check of a name: short printable text."""
    code = f"bad_{field}"

    def check(value: Any, limits: RecordLimits) -> Refused | None:
        if value.__class__ is not str:
            return Refused(code, f"The {field} must be text, not {type(value).__name__}.")
        if not value and not optional:
            return Refused(code, f"The {field} is empty.")
        if len(value) > limits.name_characters:
            most = limits.name_characters
            return Refused(code, f"The {field} has {len(value):,} characters; at most {most} are allowed.")
        if not value.isprintable() and (fault := _find_unprintable(value)):
            return Refused(code, f"The {field} holds {fault}.")
        return None

    return check


def _check_text(text: Any, limits: RecordLimits) -> Refused | None:
    if text.__class__ is not str:
        return Refused("bad_text", f"The text must be text, not {type(text).__name__}.")
    if len(text) > limits.record_bytes:  # checked before the text is copied or encoded
        most = limits.record_bytes
        return Refused("too_large", f"The text has {len(text):,} characters; the record holds at most {most:,} bytes.")
    if not text.isascii() and SURROGATES.search(text):
        return Refused("bad_unicode", "The text has a lone surrogate, which is not valid Unicode.")
    return None


def _check_body(body: Any, limits: RecordLimits) -> Refused | None:
    if body.__class__ is not dict:
        return Refused("bad_json", f"The body must be a JSON object, not {type(body).__name__}.")
    if body and (fault := find_json_fault(body, max_characters=limits.record_bytes)) is not None:
        code = "too_large" if fault == TOO_LONG_FAULT else "bad_json"
        return Refused(code, f"The body cannot be stored: {fault}")
    return None


def _check_links(links: Any, limits: RecordLimits) -> Refused | None:
    bad = Refused("bad_link", "A link needs a relation and the scope, kind and id of its target.")
    if links.__class__ is not tuple:
        return bad
    if len(links) > limits.links:
        return Refused("too_many_links", f"The record has {len(links):,} links; at most {limits.links:,} are allowed.")
    for link in links:
        if link.__class__ is not Link or link.to.__class__ is not Key:
            return bad
        for value in (link.relation, link.to.scope, link.to.kind, link.to.id):
            if value.__class__ is not str or not 0 < len(value) <= limits.name_characters or not _is_printable(value):
                return bad
    return None


def _check_labels(labels: Any, limits: RecordLimits) -> Refused | None:
    if labels.__class__ is not tuple:
        return _BAD_LABEL
    if len(labels) > limits.labels:
        most = limits.labels
        return Refused("too_many_labels", f"The record has {len(labels):,} labels; at most {most} are allowed.")
    longest = 2 * limits.name_characters
    for label in labels:
        if label.__class__ is not str or not 0 < len(label) <= longest or not _is_printable(label):
            return _BAD_LABEL
    return None


_BAD_LABEL = Refused("bad_label", "A label must be short plain text, such as session=s1.")


def _check_happened_at(moment: Any, _: RecordLimits) -> Refused | None:
    if moment is None or isinstance(moment, datetime):
        return None
    return Refused("bad_happened_at", f"happened_at must be a datetime, not {type(moment).__name__}.")


def _check_deleted(deleted: Any, _: RecordLimits) -> Refused | None:
    return None if isinstance(deleted, bool) else Refused("bad_deleted", "deleted must be true or false.")


def _check_expected(expected: Any, _: RecordLimits) -> Refused | None:
    if expected is None or (expected.__class__ is int and expected >= 0):
        return None
    return Refused("bad_expected", "expected must be a version number, 0 for a record that is not there yet, or None.")


RULES: Mapping[str, FieldCheck] = {
    "kind": _name_check("kind"),
    "scope": _name_check("scope"),
    "origin": _name_check("origin"),
    "author": _name_check("author", optional=True),
    "id": _name_check("id", optional=True),
    "text": _check_text,
    "body": _check_body,
    "links": _check_links,
    "labels": _check_labels,
    "happened_at": _check_happened_at,
    "deleted": _check_deleted,
    "expected": _check_expected,
}
"""The rule for each field of a draft of any kind, in the order in which a refusal names the first fault."""

_REQUIRED = object()
_CHECKS = tuple(
    (Draft._fields.index(field), Draft._field_defaults.get(field, _REQUIRED), check) for field, check in RULES.items()
)
"""The rules compiled: where a field is in a draft, the default that passes unseen, and the check."""


def check_fields(draft: Draft, limits: RecordLimits) -> Refused | None:
    """Refuse a draft with a field that breaks its rule."""
    for place, default, check in _CHECKS:
        value = draft[place]
        if value is not default and (refused := check(value, limits)) is not None:
            return refused
    return None


def all_fields_pass(drafts: Sequence[Draft], limits: RecordLimits) -> bool:
    """Tell whether every draft keeps the rules. A value that many drafts share is looked at once."""
    columns = tuple(zip(*drafts, strict=True))
    for place, default, check in _CHECKS:
        column = columns[place]
        for value in dict(zip(map(id, column), column, strict=True)).values():
            if value is not default and check(value, limits) is not None:
                return False
    return True


def check_quarantine(draft: Draft, _: RecordLimits) -> Refused | None:
    """Require a quarantine to name an author and, if it has a start, a valid time."""
    author, since, released = (draft.body.get(name) for name in ("author", "since", "released"))
    try:
        sensible = author.__class__ is str and author != "" and (since is None or from_iso(since) is not None)
    except (InvalidInput, TypeError):
        sensible = False
    if not sensible or released not in (None, True, False):
        return Refused("bad_quarantine", "A quarantine names an author and, if it has a beginning, a time.")
    return None


def _is_printable(value: str) -> bool:
    return value.isprintable() or not _find_unprintable(value)


def _find_unprintable(value: str) -> str | None:
    """Return why a name cannot be shown or stored, or ``None``. Spaces and joiners of living scripts are fine."""
    for character in value:
        code = ord(character)
        if 0xD800 <= code <= 0xDFFF:
            return "a lone surrogate, which is not valid Unicode"
        if code < 0x20 or 0x7F <= code < 0xA0:
            return f"a control character (U+{code:04X})"
    return None


PiiHandling = Literal["block", "redact", "allow"]
"""How personal data and secrets in a record are handled: refuse the record, redact them, or store them."""


@dataclass(frozen=True, slots=True)
class KindSpec:
    """The declaration of one kind of record by a service.

    ``body`` declares the fields of the body. ``checks`` run after the basic ones. ``near_duplicates`` asks the engine to index
    the texts of this kind, so that nearly equal texts are found without reading all of them. ``owner_only`` kinds are rules:
    the owner writes them in any scope, an agent in its own alone. ``falls_back`` says that an earlier version may take the
    place of a damaged one: true of a running state, false of a statement, whose old wording would come back.

    The rest says who may write the kind (see ``lukasa.journal.write_rules``). ``written_by`` is the least channel that a caller with limits
    needs, ``agent_field`` the field of the body (or ``id``) that names the agent who acts. ``agent_check`` refuses drafts that
    only a service may write for an agent. ``is_statement`` says that a record states something in its author's name, so that
    nobody else changes it unless only its ``open_fields`` differ, such as counts, in the body or in labels.
    """

    limits: RecordLimits = DEFAULT_LIMITS
    checks: tuple[DraftCheck, ...] = ()
    pii: PiiHandling = "allow"
    near_duplicates: bool = False
    owner_only: bool = False
    body: BodyShape | None = None
    falls_back: bool = False
    written_by: Literal["anyone", "service", "store"] = "anyone"
    agent_field: str = ""
    agent_check: Callable[[Draft], Refused | None] | None = None
    is_statement: bool = True
    open_fields: frozenset[str] = frozenset()


SYSTEM_KINDS: Mapping[str, KindSpec] = MappingProxyType(
    {
        QUARANTINE: KindSpec(checks=(check_quarantine,)),
        SET_ASIDE: KindSpec(RecordLimits(record_bytes=60_000_000)),
        IMPORT: KindSpec(body=BodyShape({"by": str, "source": str, "digests": [int]}, required="by source digests")),
    }
)
"""The kinds that the journal itself writes and that need checks."""


def override_pii(kinds: Mapping[str, KindSpec], handling_by_kind: Mapping[str, PiiHandling]) -> dict[str, KindSpec]:
    """Return the kinds with another handling of personal data for some of them. System kinds cannot be changed."""
    changed = dict(kinds)
    for kind, handling in handling_by_kind.items():
        if kind not in RESERVED_KINDS:
            changed[kind] = replace(changed.get(kind, KindSpec()), pii=handling)
    return changed


class Gate:
    """Validates drafts by the declarations of their kinds. A kind that no service declares gets the defaults."""

    def __init__(self, kinds: Mapping[str, KindSpec] | None = None) -> None:
        self._kinds = MappingProxyType({**SYSTEM_KINDS, **(kinds or {})})
        self._default = KindSpec()
        self.owner_only = frozenset(kind for kind, spec in self._kinds.items() if spec.owner_only)
        self._body_faults = {kind: spec.body.find_fault for kind, spec in self._kinds.items() if spec.body is not None}

    def spec(self, kind: str) -> KindSpec:
        """Return the declaration of a kind; for an unknown kind, the defaults."""
        return self._kinds.get(kind, self._default)

    def falls_back(self, kind: str) -> bool:
        """Return whether an earlier version of a record may take the place of a damaged one."""
        return self._kinds.get(kind, self._default).falls_back

    def find_body_fault(self, record: Record) -> str | None:
        """Return how the body of a stored record differs from the declaration of its kind, or ``None``."""
        find_fault = self._body_faults.get(record.kind)
        if find_fault is None or record.deleted:
            return None
        fault = find_fault(record.body)
        return None if fault is None else fault.lstrip(". ")

    def validate(
        self, draft: Draft, id: str = "", author: str = "", *, allow_reserved: bool = False, allow_misfit: bool = False
    ) -> ValidatedDraft | Refused:
        """Check a draft and encode it, or return why it is refused.

        ``id`` and ``author`` are used where the draft has none. ``allow_reserved`` admits the store's own kinds,
        ``allow_misfit`` a body that is not as its kind declares: the logs of older stores hold such records.
        """
        spec = self._kinds.get(draft.kind, self._default) if draft.kind.__class__ is str else self._default
        if (refused := check_fields(draft, spec.limits)) is not None:
            return refused
        return self._validate_kind(spec, draft, id, author, allow_reserved, allow_misfit)

    def validate_all(
        self, drafts: Sequence[Draft], new_id: Callable[[], str], author: str
    ) -> list[ValidatedDraft] | None:
        """Validate drafts of one kind in less time than one by one; ``None`` if any might be refused, or kinds differ."""
        kind = drafts[0].kind
        spec = self._kinds.get(kind, self._default) if kind.__class__ is str else self._default
        if any(type(draft) is not Draft or draft.kind != kind or draft.deleted for draft in drafts):
            return None
        if not all_fields_pass(drafts, spec.limits):
            return None
        if kind in RESERVED_KINDS:
            return None
        if spec.body is not None:
            bodies = [draft.body for draft in drafts if draft.body is not NO_BODY]
            if len(bodies) < len(drafts):
                bodies.append({})  # looked at once for all drafts without one
            if any(spec.body.find_fault(body) is not None for body in bodies):
                return None
        if spec.checks or spec.pii != "allow":
            answers = [self._validate_kind(spec, draft, draft.id or new_id(), author) for draft in drafts]
            validated = [answer for answer in answers if not isinstance(answer, Refused)]
        else:
            try:
                validated = [encode_draft(draft, draft.id or new_id(), author) for draft in drafts]
            except InvalidInput:
                return None
        if len(validated) < len(drafts) or max(len(each.content) for each in validated) > spec.limits.record_bytes:
            return None
        return validated

    def _validate_kind(
        self,
        spec: KindSpec,
        draft: Draft,
        id: str,
        author: str,
        allow_reserved: bool = False,
        allow_misfit: bool = False,
    ) -> ValidatedDraft | Refused:
        """Check a draft that passed the basic checks by the declaration of its kind, and encode it."""
        limits = spec.limits
        if draft.kind in RESERVED_KINDS and not allow_reserved:
            return Refused("reserved_kind", f"Records of kind {draft.kind!r} are written by the store itself.")
        if spec.body is not None and not allow_misfit and not draft.deleted:
            fault = spec.body.find_fault({} if draft.body is NO_BODY else draft.body)
            if fault is not None:
                reason = f"The body of a record of kind {draft.kind!r} does not fit: {fault.lstrip('. ')}."
                return Refused("bad_body", reason)
        for check in spec.checks:
            if (refused := check(draft, limits)) is not None:
                return refused
        if spec.pii != "allow":
            from lukasa.pii.detector import apply_pii_handling

            checked = apply_pii_handling(draft, spec.pii)
            if isinstance(checked, Refused):
                return checked
            draft = checked
        try:
            validated = encode_draft(draft, id, author)
        except InvalidInput as error:
            return Refused("bad_json", f"The record cannot be stored: {find_json_fault(draft.body) or error.message}")
        if len(validated.content) > limits.record_bytes:
            return Refused(
                "too_large",
                f"The record has {len(validated.content):,} bytes; at most {limits.record_bytes:,} are allowed "
                f"for {draft.kind!r}. Split it, or keep the large part outside and refer to it.",
            )
        return validated
