"""Integrity checks that every engine shares: digests of entries, fingerprints of logs, erased keys."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Self

from lukasa.core import canonical_json
from lukasa.core.clock import from_iso, to_microseconds
from lukasa.core.record import CHECKSUM_MASK, Record, digest_of, parse_entry
from lukasa.errors import LukasaError
from lukasa.storage.engine import DamagedEntry, FindFault, Finding, hash_erased_key

END_OF_LOG = "end of the log"
"""The place at which acknowledged entries can be missing without a trace in the log itself."""
_HASH_MODULUS = 1 << 256

ScopeAndKind = tuple[str, str]


def describe_loss(after: int, until: int) -> Finding:
    """Return the finding about acknowledged entries that are missing at the end of the log."""
    positions = f"position {until}" if until == after + 1 else f"positions {after + 1} to {until}"
    return Finding(
        END_OF_LOG,
        f"{positions} had been acknowledged and were gone when the store was opened: restore a backup, or accept the loss "
        "with `lukasa doctor --repair`",
    )


class DigestSum:
    """The number of versions of one scope and kind, and the sums of their digests. The order does not matter."""

    __slots__ = ("_checksum", "_total", "versions")

    def __init__(self) -> None:
        self.versions = self._total = self._checksum = 0

    def add(self, digest: bytes) -> None:
        """Count one version."""
        self.versions += 1
        self._total += int.from_bytes(digest)
        self._checksum += int.from_bytes(digest[:8])

    @property
    def hash(self) -> str:
        """The sum of the digests modulo 2**256, as hexadecimal digits."""
        return f"{self._total % _HASH_MODULUS:064x}"

    @property
    def checksum(self) -> int:
        """The sum of the 62-bit checksums."""
        return self._checksum & CHECKSUM_MASK


class Fingerprint:
    """The proof that two logs are equal: the number of versions and a hash, in log order and per scope and kind."""

    def __init__(self) -> None:
        self.versions = 0
        self.by_kind: dict[ScopeAndKind, DigestSum] = {}
        self._ordered = hashlib.sha256()

    @classmethod
    def of(cls, records: Iterable[Record]) -> Self:
        """Return the fingerprint of records in log order."""
        fingerprint = cls()
        fingerprint.extend(records)
        return fingerprint

    def extend(self, records: Iterable[Record]) -> None:
        """Count the next versions of the log."""
        for record in records:
            self.add(record.scope, record.kind, record.digest)

    def add(self, scope: str, kind: str, digest: bytes) -> None:
        """Count the next version of the log."""
        self.versions += 1
        self.by_kind.setdefault((scope, kind), DigestSum()).add(digest)
        self._ordered.update(digest)

    @property
    def digest(self) -> str:
        """The SHA-256 of all digests in log order, as in the last line of an exported log."""
        return self._ordered.hexdigest()


def name_entry(seq: int, scope: Any, kind: Any, id: Any, version: Any) -> str:
    """Return how an entry is named to people."""
    return f"{scope}/{kind}/{id} version {version} (position {seq})"


def check_entry(row: Sequence[Any], find_fault: FindFault | None = None) -> Finding | None:
    """Check an entry against its digest, its columns against the entry, and its record by ``find_fault``.

    A row is (seq, scope, kind, id, version, author, at, moment, digest, line).
    """
    seq, scope, kind, id, version, author, at, moment, digest, line = row
    where = name_entry(seq, scope, kind, id, version)
    if line is None or digest_of(line) != digest:
        return Finding(where, "its content does not match its digest", position=seq)
    try:
        record = parse_entry(line, seq, digest)
    except (ValueError, KeyError, TypeError, LukasaError) as error:
        return Finding(where, f"its content cannot be read: {error}", position=seq)
    names = (record.scope, record.kind, record.id, record.version, record.author)
    times = (to_microseconds(record.recorded_at), to_microseconds(record.moment))
    if names != (scope, kind, id, version, author) or times != (at, moment):
        return Finding(where, "its columns do not match its content", position=seq)
    if find_fault is not None and (fault := find_fault(record)) is not None:
        return Finding(where, f"its body is not as its kind declares: {fault}", position=seq)
    return None


def find_damaged(
    pages: Iterable[Iterable[Sequence[Any]]], find_fault: FindFault | None
) -> tuple[list[DamagedEntry], Fingerprint]:
    """Return the damaged entries of a log, given in pages of rows as ``check_entry`` takes them, and the sum of the others."""
    damaged, sound = [], Fingerprint()
    for page in pages:
        for row in page:
            seq, scope, kind, id, version, author, _, _, digest, line = row[:10]
            digest = digest if isinstance(digest, bytes) else b""
            finding = check_entry(row[:10], find_fault)
            if finding is None:
                sound.add(scope, kind, digest)
            else:
                damaged.append(DamagedEntry(seq, scope, kind, id, version, author, digest, line or b"", finding.what))
    return damaged, sound


def compare_checksums(expected: Mapping[ScopeAndKind, tuple[int, int]], actual: Fingerprint) -> Iterator[Finding]:
    """Report scopes and kinds whose entries are not the ones that were written.

    ``expected`` holds the stored number of versions and checksum of each scope and kind.
    """
    for pair in sorted(set(expected) | set(actual.by_kind)):
        versions, stored_sum = expected.get(pair, (0, 0))
        found = actual.by_kind.get(pair, DigestSum())
        where = f"{pair[0]}/{pair[1]}"
        if versions != found.versions:
            yield Finding(where, f"{found.versions} versions are in the log, {versions} were written")
        elif stored_sum & CHECKSUM_MASK != found.checksum:
            yield Finding(where, "the sum of all digests is not what was written")


class ErasedKeys:
    """Erased records and versions, known by the salted hashes in the receipts, so that an old export cannot restore them.

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
        times = (
            hashes.get(hash_erased_key(record.key, salt, version))
            for salt, hashes in self._hashes_by_salt.items()
            for version in (None, record.version)
        )
        return any(erased_at is not None and record.recorded_at <= erased_at for erased_at in times)
