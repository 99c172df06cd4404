"""The checks that hold for every kind of record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lukasa.canonical import fault_of
from lukasa.outcome import Refused
from lukasa.record import Draft


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
    if not draft.text.isascii() and any("\ud800" <= character <= "\udfff" for character in draft.text):
        return Refused("bad_unicode", "The text has a lone surrogate, which is not valid Unicode.")
    return None


def body(draft: Draft, _: Limits) -> Refused | None:
    if draft.body.__class__ is not dict:
        return Refused("bad_json", f"The body must be a JSON object, not {type(draft.body).__name__}.")
    if (fault := fault_of(draft.body)) is not None:
        return Refused("bad_json", f"The body cannot be stored: {fault}")
    return None


def links(draft: Draft, limits: Limits) -> Refused | None:
    if len(draft.links) > limits.links:
        return Refused(
            "too_many_links", f"The record has {len(draft.links):,} links; at most {limits.links:,} are allowed."
        )
    for link in draft.links:
        for value in (link.relation, link.to.scope, link.to.kind, link.to.id):
            if value.__class__ is not str or not 0 < len(value) <= limits.name_characters or not _plain(value):
                return Refused("bad_link", "A link needs a relation and the scope, kind and id of its target.")
    return None


def labels(draft: Draft, limits: Limits) -> Refused | None:
    if len(draft.labels) > limits.labels:
        return Refused(
            "too_many_labels", f"The record has {len(draft.labels):,} labels; at most {limits.labels} are allowed."
        )
    for label in draft.labels:
        if label.__class__ is not str or not 0 < len(label) <= 2 * limits.name_characters or not _plain(label):
            return Refused("bad_label", "A label must be short plain text, such as session=s1.")
    return None


BASIC: tuple[Check, ...] = (names, text, body, links, labels)

_SIMPLE = frozenset({str, int, bool, type(None)})


def obviously_fine(draft: Draft, limits: Limits) -> bool:
    """Whether a glance is enough to know that no basic check can refuse. Most drafts are; the rest are looked at."""
    body = draft.body
    return (
        draft.id == ""
        and not draft.links
        and not draft.labels
        and draft.text.__class__ is str
        and len(draft.text) <= limits.record_bytes
        and draft.text.isascii()
        and body.__class__ is dict
        and _SIMPLE.issuperset(map(type, body.values()))
        and _known(draft)
    )


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
