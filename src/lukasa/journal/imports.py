"""Entries of other logs: whether an entry is valid, and who imported it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from lukasa.core.outcome import Refused
from lukasa.core.record import (
    Draft,
    Record,
    ValidatedDraft,
    digest_of,
    draft_from,
    encode_draft,
    encode_entries,
    parse_entry,
)
from lukasa.core.scope import SYSTEM
from lukasa.journal.gate import Gate
from lukasa.storage.engine import IMPORT

_NOT_CANONICAL = "the line is not in canonical form"


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


def validate_entries(gate: Gate, lines: Sequence[tuple[bytes, bytes]]) -> list[ValidatedDraft | str]:
    """Return the draft of each entry that passed the gate, or why the entry is refused; entries come with their digests."""
    answers, records, contents = list[ValidatedDraft | str](), list[Record](), list[bytes]()
    for entry, digest in lines:
        answer: ValidatedDraft | str = _NOT_CANONICAL
        try:
            if digest_of(entry) != digest:
                answer = "the line does not match its digest"
            else:
                record = parse_entry(entry, 0, digest)
                draft = draft_from(record)
                validated = gate.validate(draft, allow_reserved=True, allow_misfit=True)
                if isinstance(validated, Refused):
                    answer = validated.reason
                elif not record.id:
                    answer = "the id is empty"
                elif record.version.__class__ is int and 0 < record.version < 2**31:
                    is_whole = validated.draft is draft  # else personal data was redacted
                    contents.append(validated.content if is_whole else encode_draft(draft).content)
                    records.append(record)
                    answer = validated
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            answer = f"not a line of a log ({error})"
        answers.append(answer)
    entries = iter(encode_entries(records, contents))
    return [
        answer if isinstance(answer, str) or next(entries) == entry else _NOT_CANONICAL
        for answer, (entry, _) in zip(answers, lines, strict=True)
    ]


def shorten_digest(digest: bytes) -> int:
    """Return the first 48 bits of a digest."""
    return int.from_bytes(digest[:6])
