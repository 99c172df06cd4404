"""Entries of the log that were read before, kept in memory, so that checking and parsing them again costs little."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from lukasa.core import canonical_json
from lukasa.core.record import Record, copy_record, parse_entry
from lukasa.core.text_cache import BoundedCache
from lukasa.errors import StoreDamaged

_MAX_BYTES = 1_000_000
_MAX_ENTRY = 20_000
_ENTRY_BYTES = 200  # of an entry in memory, besides its characters
_SCALARS = frozenset({str, int, float, bool, type(None)})

KnownEntry = tuple[bytes | str, bytes, Record | None, bytes | None]
"""An entry, its digest, its record once it was read twice, and the body of that record as JSON if it is nested."""


class EntryCache(BoundedCache[int, KnownEntry]):
    """Up to a million bytes of entries that matched their digests, and their records.

    An entry that is read again is compared with the one that was checked, byte by byte, so that a byte altered in between
    is noticed like any other. From the third time on the record is copied, and at most its body is parsed.
    """

    def __init__(self) -> None:
        super().__init__(_MAX_BYTES)

    def parse(self, row: Sequence[Any], *, keep: bool = True) -> Record:
        """Parse a row of position, entry and digest; raise ``StoreDamaged`` unless the entry matches the digest.

        ``keep`` is false where the caller keeps the record itself.
        """
        seq, entry, digest = row[0], row[1], row[2]
        try:
            known = self.get(seq)
            if known is None or known[0] != entry or known[1] != digest:
                self._check(seq, entry, digest, keep=keep)
                return parse_entry(entry, seq, digest)
            _, _, record, body = known
            if record is None:
                record = parse_entry(entry, seq, digest)
                if not _SCALARS.issuperset(map(type, record.body.values())):
                    body = canonical_json.encode(record.body)
                self.keep(seq, (entry, digest, record, body), _ENTRY_BYTES + len(entry))
            return copy_record(record, {**record.body} if body is None else canonical_json.parse(body))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreDamaged(
                f"The record at position {seq} cannot be read.", hint="Run `lukasa verify` to see what is damaged."
            ) from error

    def parse_text(self, row: Sequence[Any], *, keep: bool = True) -> str:
        """Parse the text of a row like those of ``parse``; raise ``ValueError`` and its like if it is damaged."""
        seq, entry, digest = row[0], row[1], row[2]
        known = self.get(seq)
        if known is None or known[0] != entry or known[1] != digest:
            self._check(seq, entry, digest, keep=keep)
        elif known[2] is not None:
            return known[2].text
        text: str = canonical_json.parse(entry).get("text", "")
        return text

    def _check(self, seq: int, entry: bytes | str, digest: bytes, *, keep: bool) -> None:
        if sha256(entry.encode() if isinstance(entry, str) else entry).digest() != digest:
            raise ValueError("the entry does not match its digest")
        if keep and len(entry) <= _MAX_ENTRY:
            self.keep(seq, (entry, digest, None, None), _ENTRY_BYTES + len(entry))
