"""Entries of other logs: whether an entry is valid, and who imported it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from lukasa.core.outcome import Refused
from lukasa.core.record import Draft, Record, ValidatedDraft, digest_of, draft_from, entry_bytes, parse_entry
from lukasa.core.scope import SYSTEM
from lukasa.journal.gate import Gate
from lukasa.storage.engine import IMPORT


@dataclass(frozen=True, slots=True)
class ImportReceipt:
    """Who imported a version, when, and the name of the file or the server it came from.

    ``by`` is the name of an agent; the owner has none. Only the owner learns the source.
    """

    by: str
    at: datetime
    source: str = ""


def import_draft(author: str, source: str, digests: Sequence[bytes]) -> Draft:
    """Return the draft of the record that says who imported entries. It keeps their digests as numbers, not as words."""
    shown = "".join(character if character.isprintable() else "?" for character in source)[:200]
    body = {"by": author, "source": shown, "digests": [shorten_digest(digest) for digest in digests]}
    return Draft(IMPORT, body=body, scope=SYSTEM, origin="import")


def validate_entry(gate: Gate, entry: bytes, digest: bytes) -> tuple[Record, ValidatedDraft] | str:
    """Return the record of an entry and its draft that passed the gate, or why the entry is refused."""
    if digest_of(entry) != digest:
        return "the line does not match its digest"
    try:
        record = parse_entry(entry, 0, digest)
        validated = gate.validate(draft_from(record), allow_reserved=True, allow_misfit=True)
        if isinstance(validated, Refused):
            return validated.reason
        if not record.id:
            return "the id is empty"
        if record.version.__class__ is not int or not 0 < record.version < 2**31 or entry_bytes(record) != entry:
            return "the line is not in canonical form"
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        return f"not a line of a log ({error})"
    return record, validated


def shorten_digest(digest: bytes) -> int:
    """Return the first 48 bits of a digest."""
    return int.from_bytes(digest[:6])
