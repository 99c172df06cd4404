"""The checks that hold for every kind of record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from typing import Any

from lukasa.canonical import SURROGATES, TOO_LONG, fault_of
from lukasa.clock import from_iso
from lukasa.errors import InvalidInput
from lukasa.outcome import Refused
from lukasa.record import NO_BODY, Draft, Key, Link


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a record of one kind may be."""

    name_characters: int = 200
    record_bytes: int = 1_000_000
    links: int = 1_000
    labels: int = 100


DEFAULT_LIMITS = Limits()
Check = Callable[[Draft, Limits], Refused | None]


_known_names: set[tuple[str, str, str, str]] = set()
"""Combinations of kind, scope, origin and author that were found good: the same few come again and again."""


def names(draft: Draft, limits: Limits) -> Refused | None:
    """Kind, scope, origin, author and id are short plain text; only author and id may be left open."""
    if not _known(draft):
        for field in ("kind", "scope", "origin", "author"):
            if (refused := _name(field, getattr(draft, field), limits, optional=field == "author")) is not None:
                return refused
        if len(_known_names) >= 10_000:
            _known_names.clear()
        _known_names.add((draft.kind, draft.scope, draft.origin, draft.author))
    return _name("id", draft.id, limits, optional=True) if draft.id != "" else None


def _known(draft: Draft) -> bool:
    try:
        return (draft.kind, draft.scope, draft.origin, draft.author) in _known_names
    except TypeError:  # something that is not even hashable, let alone text
        return False


def _name(field: str, value: object, limits: Limits, *, optional: bool) -> Refused | None:
    if value.__class__ is not str:
        return Refused(f"bad_{field}", f"The {field} must be text, not {type(value).__name__}.")
    if not value and not optional:
        return Refused(f"bad_{field}", f"The {field} is empty.")
    if len(value) > limits.name_characters:
        return Refused(
            f"bad_{field}", f"The {field} has {len(value):,} characters; at most {limits.name_characters} are allowed."
        )
    if not value.isprintable() and (fault := _unprintable(value)):
        return Refused(f"bad_{field}", f"The {field} holds {fault}.")
    return None


def text(draft: Draft, limits: Limits) -> Refused | None:
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


def body(draft: Draft, limits: Limits) -> Refused | None:
    if draft.body is NO_BODY:
        return None
    if draft.body.__class__ is not dict:
        return Refused("bad_json", f"The body must be a JSON object, not {type(draft.body).__name__}.")
    if (fault := fault_of(draft.body, characters=limits.record_bytes)) is not None:
        code = "too_large" if fault == TOO_LONG else "bad_json"
        return Refused(code, f"The body cannot be stored: {fault}")
    return None


def links(draft: Draft, limits: Limits) -> Refused | None:
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
            if value.__class__ is not str or not 0 < len(value) <= limits.name_characters or not _plain(value):
                return bad
    return None


def labels(draft: Draft, limits: Limits) -> Refused | None:
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
        if label.__class__ is not str or not 0 < len(label) <= 2 * limits.name_characters or not _plain(label):
            return bad
    return None


def stamps(draft: Draft, _: Limits) -> Refused | None:
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


def quarantine(draft: Draft, _: Limits) -> Refused | None:
    """The body of a quarantine names an author, and when it began as a time or not at all."""
    author, since, released = (draft.body.get(name) for name in ("author", "since", "released"))
    try:
        sensible = author.__class__ is str and author != "" and (since is None or from_iso(since) is not None)
    except (InvalidInput, TypeError):
        sensible = False
    if not sensible or released not in (None, True, False):
        return Refused("bad_quarantine", "A quarantine names an author and, if it has a beginning, a time.")
    return None


BASIC: tuple[Check, ...] = (names, text, body, links, labels, stamps)

_SIMPLE = frozenset({str, int, bool, float, type(None)})


def obviously_fine(draft: Draft, limits: Limits) -> bool:
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
        and _flat(draft.body, limits)
        and _known(draft)
    )


def _flat(body: Mapping[str, Any], limits: Limits) -> bool:
    """Whether a body holds nothing but short plain values."""
    for value in body.values():
        kind = value.__class__
        if kind not in _SIMPLE or (kind is float and not isfinite(value)):
            return False
        if kind is str and len(value) > limits.record_bytes:
            return False
    return True


def _plain(value: str) -> bool:
    return value.isprintable() or not _unprintable(value)


def _unprintable(value: str) -> str | None:
    """What in a name cannot be shown or stored; spaces and joiners of living scripts are fine."""
    return next(_faults(value), None)


def _faults(value: str) -> Iterator[str]:
    for character in value:
        code = ord(character)
        if 0xD800 <= code <= 0xDFFF:
            yield "a lone surrogate, which is not valid Unicode"
        elif code < 0x20 or 0x7F <= code < 0xA0:
            yield f"a control character (U+{code:04X})"
