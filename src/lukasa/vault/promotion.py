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

from lukasa.engine import Query, Reader
from lukasa.outcome import Refused
from lukasa.record import DERIVED_FROM, Draft, Link, Record
from lukasa.vault.duplicates import Seen, alike
from lukasa.vault.rules import CANON, Rules

CORROBORATION = "corroboration"
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Granted:
    """Why a promotion may go ahead: what its record says of it, and what it was derived from."""

    notes: dict[str, Any] = field(default_factory=dict)
    links: tuple[Link, ...] = ()


def corroborating(reader: Reader, record: Record, author: str, source: str) -> Sequence[Draft] | Refused:
    """The record of somebody's agreement with a memory."""
    if not author:
        return Refused("bad_author", "Nobody is named who says the same; name an author.")
    if author == record.author:
        return Refused("not_independent", f"{author!r:.80} wrote this memory; only others can corroborate it.")
    known = next((voice for voice in _voices(reader, record) if voice.author == author), None)
    if known is not None:
        return Refused("already_said", f"{author!r:.80} has corroborated this memory already.")
    link = Link(DERIVED_FROM, record.key)
    body = {"memory": record.id, "version": record.version, "source": source}
    id = hashlib.sha256(f"{record.id} {record.version} {author}".encode("utf-8", "replace")).hexdigest()[:24]
    labels = (_label(record),)
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


def promoting(reader: Reader, record: Record, text: str, by: str, rules: Rules) -> Granted | Refused:
    """Whether a register may become canon with this text."""
    if record.body.get("tier") == CANON:
        return Refused("already_canon", f"Memory {record.id} is canon already.")
    if by:
        if len(by) > _LONGEST_NAME or not by.isprintable():
            return Refused("bad_author", "The person's name must be short plain text.")
        return Granted({"promoted_by": by})
    spoken = _voices(reader, record)
    authors = sorted(
        {record.author, *_earlier_authors(reader, record, rules), *(voice.author for voice in spoken)} - {""}
    )
    if len(authors) < rules.voices:
        return Refused(
            "not_corroborated",
            f"Only {len(authors)} of {rules.voices} independent authors say this. Let others corroborate it, or have a "
            "person promote it: promote_to_canon(id, text, by=NAME), or `lukasa vault promote ID --by NAME`.",
            {"authors": authors, "needed": rules.voices},
        )
    if not _alike(record.text, text, rules):
        return Refused(
            "rewritten",
            "The canonical text says something else than what was corroborated. Keep to it, or have a person promote it.",
        )
    return Granted({"corroborated_by": authors}, tuple(Link(DERIVED_FROM, voice.key) for voice in spoken))


def _voices(reader: Reader, record: Record) -> list[Record]:
    """The corroborations of a memory as it is now."""
    query = Query(kinds=(CORROBORATION,), scopes=(record.scope,), labels=(_label(record),))
    return [voice for voice in reader.read(query) if voice.body.get("version") == record.version]


def _earlier_authors(reader: Reader, record: Record, rules: Rules) -> set[str]:
    """Who wrote earlier versions that say nearly the same, back to the first that does not."""
    authors: set[str] = set()
    for version in reversed(reader.history(record.key)):
        if version.deleted or not _alike(record.text, version.text, rules):
            break
        authors.add(version.author)
    return authors


def _alike(text: str, other: str, rules: Rules) -> bool:
    return bool(alike(Seen(text, ""), [Seen(other, "")], rules))


def _label(record: Record) -> str:
    return f"of={record.id}"
