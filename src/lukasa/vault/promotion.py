"""From register to canon: on the word of a person, or because independent authors say the same.

Rewriting raises nobody's trust. A corroboration speaks of one version of a memory; when the text changes, those who
spoke for the old one no longer count, unless they wrote a version that still says nearly the same. A promotion is
derived from its corroborations: if one of those authors is quarantined, the memory is a register again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lukasa.outcome import Refused
from lukasa.record import DERIVED_FROM, Draft, Link, Record
from lukasa.storage.engine import Query, Reader
from lukasa.vault.duplicates import ComparableText, find_duplicates
from lukasa.vault.settings import CANON, VaultSettings

CORROBORATION = "corroboration"
_MAX_NAME_LENGTH = 200


@dataclass(frozen=True, slots=True)
class PromotionGrant:
    """Why a promotion may go ahead: what its record says of it, and what it was derived from."""

    notes: dict[str, Any] = field(default_factory=dict)
    links: tuple[Link, ...] = ()


def corroboration_drafts(reader: Reader, record: Record, author: str, source: str) -> Sequence[Draft] | Refused:
    """The record of somebody's agreement with a memory."""
    if not author:
        return Refused("bad_author", "Nobody is named who says the same; name an author.")
    if author == record.author:
        return Refused("not_independent", f"{author!r:.80} wrote this memory; only others can corroborate it.")
    known = next((voice for voice in _read_corroborations(reader, record) if voice.author == author), None)
    if known is not None:
        return Refused("already_said", f"{author!r:.80} has corroborated this memory already.")
    link = Link(DERIVED_FROM, record.key)
    body = {"memory": record.id, "version": record.version, "source": source}
    id = hashlib.sha256(f"{record.id} {record.version} {author}".encode("utf-8", "replace")).hexdigest()[:24]
    labels = (_corroboration_label(record),)
    return [
        Draft(
            CORROBORATION,
            body=body,
            id=id,
            scope=record.scope,
            author=author,
            origin=source,
            links=(link,),
            labels=labels,
        )
    ]


def check_promotion(
    reader: Reader, record: Record, text: str, by: str, settings: VaultSettings
) -> PromotionGrant | Refused:
    """Whether a register may become canon with this text."""
    if record.body.get("tier") == CANON:
        return Refused("already_canon", f"Memory {record.id} is canon already.")
    if by:
        if len(by) > _MAX_NAME_LENGTH or not by.isprintable():
            return Refused("bad_author", "The person's name must be short plain text.")
        return PromotionGrant({"promoted_by": by})
    spoken = _read_corroborations(reader, record)
    authors = sorted(
        {record.author, *_earlier_authors(reader, record, settings), *(voice.author for voice in spoken)} - {""}
    )
    if len(authors) < settings.voices:
        return Refused(
            "not_corroborated",
            f"Only {len(authors)} of {settings.voices} independent authors say this. Let others corroborate it, or have a "
            "person promote it: promote_to_canon(id, text, by=NAME), or `lukasa vault promote ID --by NAME`.",
            {"authors": authors, "needed": settings.voices},
        )
    if not _is_same_statement(record.text, text, settings):
        return Refused(
            "rewritten",
            "The canonical text says something else than what was corroborated. Keep to it, or have a person promote it.",
        )
    return PromotionGrant({"corroborated_by": authors}, tuple(Link(DERIVED_FROM, voice.key) for voice in spoken))


def _read_corroborations(reader: Reader, record: Record) -> list[Record]:
    """The corroborations of a memory as it is now."""
    query = Query(kinds=(CORROBORATION,), scopes=(record.scope,), labels=(_corroboration_label(record),))
    return [voice for voice in reader.read(query) if voice.body.get("version") == record.version]


def _earlier_authors(reader: Reader, record: Record, settings: VaultSettings) -> set[str]:
    """Who wrote earlier versions that say nearly the same, back to the first that does not."""
    authors: set[str] = set()
    for version in reversed(reader.history(record.key)):
        if version.deleted or not _is_same_statement(record.text, version.text, settings):
            break
        authors.add(version.author)
    return authors


def _is_same_statement(text: str, other: str, settings: VaultSettings) -> bool:
    return bool(find_duplicates(ComparableText(text, ""), [ComparableText(other, "")], settings))


def _corroboration_label(record: Record) -> str:
    return f"of={record.id}"
