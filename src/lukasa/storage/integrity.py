"""Integrity checks that every engine shares: digests of entries, checksums of scopes and kinds, erased keys."""

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

ChecksumsByKind = Mapping[tuple[str, str], tuple[int, int]]
"""Per scope and kind: the number of versions, and the sum of their digests modulo 2**62."""


def check_entry(row: Sequence[Any]) -> Finding | None:
    """Check an entry against its digest, and its columns against the entry.

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
    names = (record.scope, record.kind, record.id, record.version, record.author)
    times = (to_microseconds(record.recorded_at), to_microseconds(record.moment))
    if names != (scope, kind, id, version, author) or times != (at, moment):
        return Finding(where, "its columns do not match its content")
    return None


def compare_checksums(expected: ChecksumsByKind, actual: ChecksumsByKind) -> Iterator[Finding]:
    """Report scopes and kinds whose entries are not the ones that were written."""
    for pair in sorted(set(expected) | set(actual)):
        expected_versions, expected_sum = expected.get(pair, (0, 0))
        versions, actual_sum = actual.get(pair, (0, 0))
        where = f"{pair[0]}/{pair[1]}"
        if expected_versions != versions:
            yield Finding(where, f"{versions} versions are in the log, {expected_versions} were written")
        elif expected_sum & CHECKSUM_MASK != actual_sum & CHECKSUM_MASK:
            yield Finding(where, "the sum of all digests is not what was written")


class ErasedKeys:
    """Erased records, known by the salted hashes in the receipts, so that an old export cannot restore them.

    A version recorded under an erased key after the erasure is a new record and is not contained.
    """

    def __init__(self, receipts: Iterable[str]) -> None:
        self._hashes_by_salt: dict[str, dict[str, datetime]] = {}
        for line in receipts:
            fields = canonical_json.parse(line)
            body, erased_at = fields.get("body", {}), from_iso(fields["recorded_at"])
            hashes = self._hashes_by_salt.setdefault(body.get("salt", ""), {})
            for key_hash in body.get("marks", ()):
                hashes[key_hash] = max(erased_at, hashes.get(key_hash, erased_at))

    def __contains__(self, record: Record) -> bool:
        times = (hashes.get(hash_erased_key(record.key, salt)) for salt, hashes in self._hashes_by_salt.items())
        return any(erased_at is not None and record.recorded_at <= erased_at for erased_at in times)
