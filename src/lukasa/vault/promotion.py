"""Promotion from register to canon: on the word of a person, or because independent authors say the same.

Rewriting does not raise trust. A corroboration belongs to one version of a memory; when the text changes, earlier
corroborations no longer count, but authors of earlier versions that say nearly the same do. A promotion is derived from
its corroborations: if one of their authors is quarantined, the memory is a register again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lukasa.core.outcome import Refused
from lukasa.core.record import DERIVED_FROM, Draft, Link, Record
from lukasa.recall.unconfirmed_orders import CORROBORATION
from lukasa.storage.engine import Query, Reader
from lukasa.vault.checks import ComparableText, find_similar
from lukasa.vault.settings import CANON, VaultSettings

_MAX_NAME_LENGTH = 200


@dataclass(frozen=True, slots=True)
class PromotionGrant:
    """A permitted promotion: notes for the body of its record, and links to what it is derived from."""

    notes: dict[str, Any] = field(default_factory=dict)
    links: tuple[Link, ...] = ()


def corroboration_drafts(reader: Reader, record: Record, author: str, source: str) -> Sequence[Draft] | Refused:
    """Return the draft that records an author's agreement with a memory, or refuse it."""
    if not author:
        return Refused("bad_author", "No author is named. Name the author who says the same.")
    if author == record.author:
        return Refused("not_independent", f"{author!r:.80} wrote this memory; only others can corroborate it.")
    if any(known.author == author for known in _read_corroborations(reader, record)):
        return Refused("already_said", f"{author!r:.80} has corroborated this memory already.")
    return [corroboration_draft(record, record.version, author, source)]


def corroboration_draft(record: Record, version: int, author: str, source: str) -> Draft:
    """Return the draft that says that an author, or the owner, stands by a version of a record."""
    body = {"memory": record.id, "version": version, "source": source}
    id = hashlib.sha256(f"{record.id} {version} {author}".encode("utf-8", "replace")).hexdigest()[:24]
    return Draft(
        CORROBORATION, body=body, id=id, scope=record.scope, author=author, origin=source,
        links=(Link(DERIVED_FROM, record.key),), labels=(f"of={record.id}",),
    )  # fmt: skip


def check_promotion(
    reader: Reader, record: Record, text: str, by: str, settings: VaultSettings
) -> PromotionGrant | Refused:
    """Permit a register to become canon with this text, or refuse it."""
    if record.body.get("tier") == CANON:
        return Refused("already_canon", f"Memory {record.id} is canon already.")
    if by:
        if len(by) > _MAX_NAME_LENGTH or not by.isprintable():
            return Refused("bad_author", "The person's name must be short plain text.")
        return PromotionGrant({"promoted_by": by})
    corroborations = _read_corroborations(reader, record)
    found = {record.author, *(corroboration.author for corroboration in corroborations)}
    for version in reversed(reader.history(record.key)):
        if version.deleted or not _is_same_statement(record.text, version.text, settings):
            break
        found.add(version.author)
    authors = sorted(found - {""})
    if len(authors) < settings.voices:
        return Refused(
            "not_corroborated",
            f"Only {len(authors)} of {settings.voices} independent authors say this. Let others corroborate it, or have a "
            "person promote it: promote_to_canon(id, text, by=NAME), or `lukasa vault promote-to-canon ID --by NAME`.",
            {"authors": authors, "needed": settings.voices},
        )
    if not _is_same_statement(record.text, text, settings):
        return Refused(
            "rewritten",
            "The canonical text says something else than what was corroborated. Keep to it, or have a person promote it.",
        )
    links = tuple(Link(DERIVED_FROM, corroboration.key) for corroboration in corroborations)
    return PromotionGrant({"corroborated_by": authors}, links)


def _read_corroborations(reader: Reader, record: Record) -> list[Record]:
    """Read the corroborations of the current version of a memory."""
    query = Query(kinds=(CORROBORATION,), scopes=(record.scope,), labels=(f"of={record.id}",))
    return [found for found in reader.read(query) if found.body.get("version") == record.version]


def _is_same_statement(text: str, other: str, settings: VaultSettings) -> bool:
    found = find_similar(ComparableText(text, ""), [ComparableText(other, "")], settings)
    return any(match.is_duplicate for match in found)
