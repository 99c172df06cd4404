"""How a store proves itself whole, whatever engine keeps it: digests, sums of digests, marks of what was erased."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from lukasa import canonical_json
from lukasa.clock import from_iso, to_microseconds
from lukasa.errors import LukasaError
from lukasa.record import Record, digest_of, parse_entry
from lukasa.storage.engine import Finding, hash_erased_key

CHECKSUM_MASK = (1 << 62) - 1


def checksum(digest: bytes) -> int:
    """A digest's share in the sum that proves a scope's kind whole."""
    return int.from_bytes(digest[:8]) & CHECKSUM_MASK


def check_entry(row: Sequence[Any]) -> Finding | None:
    """Whether a line is what was written, and its columns what the line says.

    A row is (seq, scope, kind, id, version, author, at, moment, digest, line).
    """
    seq, scope, kind, id, version, author, at, moment, digest, line = row
    where = f"{scope}/{kind}/{id} version {version} (position {seq})"
    if line is None or digest_of(line) != digest:
        return Finding(where, "its content does not match its digest")
    try:
        record = parse_entry(line, seq, digest)
    except (ValueError, KeyError, TypeError, LukasaError) as error:
        return Finding(where, f"its content cannot be read: {error}")
    told = (record.scope, record.kind, record.id, record.version, record.author)
    times = (to_microseconds(record.recorded_at), to_microseconds(record.moment))
    if told != (scope, kind, id, version, author) or times != (at, moment):
        return Finding(where, "its columns do not match its content")
    return None


ChecksumsByKind = Mapping[tuple[str, str], tuple[int, int]]
"""Per scope and kind: how many versions there are, and the sum of their digests."""


def compare_checksums(expected: ChecksumsByKind, actual: ChecksumsByKind) -> Iterator[Finding]:
    """Whether as many lines are there as were written, and the same ones."""
    for pair in sorted(set(expected) | set(actual)):
        versions, total = expected.get(pair, (0, 0))
        found, summed = actual.get(pair, (0, 0))
        where = f"{pair[0]}/{pair[1]}"
        if versions != found:
            yield Finding(where, f"{found} versions are in the log, {versions} were written")
        elif total & CHECKSUM_MASK != summed & CHECKSUM_MASK:
            yield Finding(where, "the sum of all digests is not what was written")


class ErasedKeys:
    """Which records were erased: receipts keep a salted hash of each key, so that an old export cannot bring them back.

    What was written under such a key after the erasure is another matter, and may come.
    """

    def __init__(self, receipts: Iterable[str]) -> None:
        self._hashes_by_salt: dict[str, dict[str, datetime]] = {}
        for line in receipts:
            fields = canonical_json.parse(line)
            body, at = fields.get("body", {}), from_iso(fields["recorded_at"])
            marks = self._hashes_by_salt.setdefault(body.get("salt", ""), {})
            for mark in body.get("marks", ()):
                marks[mark] = max(at, marks.get(mark, at))

    def __contains__(self, record: Record) -> bool:
        erased = (marks.get(hash_erased_key(record.key, salt)) for salt, marks in self._hashes_by_salt.items())
        return any(at is not None and record.recorded_at <= at for at in erased)
