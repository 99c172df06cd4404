"""Appending, as far as it is the same in every engine: versions, counts, idempotency keys and replay."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from struct import iter_unpack
from typing import Any, NamedTuple, Protocol

from lukasa.core.outcome import Accepted, Conflict, Outcome, Refused, RepeatedRequest
from lukasa.core.record import (
    CHECKSUM_MASK,
    Record,
    ValidatedDraft,
    checksum,
    digest_of,
    encode_draft,
    entry_suffix,
    parse_entry,
)
from lukasa.core.scope import Reach
from lukasa.storage.engine import VERSION_TAKEN, ConditionalBatch, DamagedEntry, Engine, Reader, ReplayResult
from lukasa.storage.integrity import DigestSum, ErasedKeys, Fingerprint, ScopeAndKind

KeyTuple = tuple[str, str, str]
VersionTuple = tuple[str, str, str, int]

KEY_REUSED = Refused("key_reused", "This idempotency key was used for something else; make a new one.")


def refuse_closed_scope(scope: str) -> Refused:
    return Refused("scope_closed", f"This caller may not write to the scope {scope!r}.")


def hash_idempotency_key(reach: Reach, key: str) -> str:
    """Hash a key together with the reach, so that callers with different reaches never share a key."""
    scopes = [None if allowed is None else sorted(allowed) for allowed in (reach.readable, reach.writable)]
    return hashlib.sha256(json.dumps([scopes, key]).encode()).hexdigest()


def fingerprint_batch(batch: Sequence[ValidatedDraft] | ConditionalBatch) -> bytes:
    """Hash the content of a batch without its generated ids; a conditional batch has the one it carries, or none."""
    if callable(batch):
        return getattr(batch, "fingerprint", b"")
    contents = (
        encode_draft(sealed.draft, "", sealed.author).content if sealed.has_new_id else sealed.content
        for sealed in batch
    )
    return hashlib.sha256(b"\n".join(contents)).digest()


class RequestLog:
    """An engine whose writes belong to one request: its n-th write has the n-th idempotency key of the request.

    The writes carry the fingerprint of the request, because what a service writes may hold the time of the call.
    """

    def __init__(self, engine: Engine, key: str, fingerprint: bytes) -> None:
        self.engine = engine
        self._keys = (f"request/{key}/{number}" for number in count())
        self._fingerprint = fingerprint
        self.has_ended = False
        """Whether the request is over: later writes, such as those of a close, are plain ones."""

    def append(
        self, reach: Reach, batch: Sequence[ValidatedDraft] | ConditionalBatch, *, key: str | None = None
    ) -> Outcome:
        """Append a batch with the next key, unless the service names one. Raises ``RepeatedRequest``."""
        if self.has_ended:
            return self.engine.append(reach, batch, key=key)

        def condition(reader: Reader) -> Sequence[ValidatedDraft] | Refused:
            return batch(reader) if callable(batch) else batch

        condition.fingerprint = self._fingerprint  # type: ignore[attr-defined]  # read by fingerprint_batch
        outcome = self.engine.append(reach, condition, key=key or next(self._keys))
        if key is None and (outcome is KEY_REUSED or (isinstance(outcome, Accepted) and outcome.repeated)):
            raise RepeatedRequest(outcome)
        return outcome

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


class WriteReader(Reader, Protocol):
    """A reader inside a write transaction."""

    def records(self, seqs: Iterable[int]) -> list[Record]:
        """Return the records at some positions."""


def resolve_batch(
    reader: WriteReader,
    batch: Sequence[ValidatedDraft] | ConditionalBatch,
    stored_answer: tuple[bytes, Iterable[int]] | None,
) -> Sequence[ValidatedDraft] | Accepted | Refused:
    """Return the drafts to append, or the outcome when nothing is to be appended.

    ``stored_answer`` is the fingerprint and the positions stored with a repeated idempotency key. A conditional batch
    has no fingerprint, so its key alone counts.
    """
    if stored_answer is not None:
        fingerprint, positions = stored_answer
        if fingerprint and (given := fingerprint_batch(batch)) and given != fingerprint:
            return KEY_REUSED
        return Accepted(reader.records(positions), repeated=True)
    return batch(reader) if callable(batch) else batch


class KeyState(NamedTuple):
    """The newest visible version of a key, and the highest version number taken, hidden versions included."""

    seq: int
    version: int
    highest_version: int
    created_at: str
    deleted: bool
    token_count: int | None = None

    def with_version(
        self, seq: int, version: int, created_at: str, *, deleted: bool, hidden: bool, token_count: int | None = None
    ) -> KeyState:
        """Return the state after a version was added: the newest one, an older one, or a hidden one."""
        highest = max(self.highest_version, version)
        if hidden or version <= self.version:
            return self._replace(highest_version=highest)
        return KeyState(seq, version, highest, created_at, deleted, token_count)


NO_KEY_STATE = KeyState(seq=0, version=0, highest_version=0, created_at="", deleted=True)


def build_next_version(sealed: ValidatedDraft, state: KeyState, recorded_at: str) -> tuple[int, str, bytes] | Conflict:
    """Return the number, creation time and entry of a record's next version, or a conflict with the expected one."""
    expected = sealed.draft.expected
    if expected is None and sealed.has_new_id:
        expected = 0
    if expected is not None and expected != (0 if state.deleted and expected == 0 else state.version):
        return Conflict(sealed.key, expected, state.version)
    version, created_at = state.highest_version + 1, state.created_at or recorded_at
    return version, created_at, sealed.content[:-1] + entry_suffix(version, created_at, recorded_at)


class TallyChanges:
    """Changes to the counts of a transaction, per scope and kind: live, versions, checksum and an engine's own."""

    def __init__(self, columns: int = 3) -> None:
        self._columns = columns
        self._changes: dict[tuple[str, str], list[int]] = {}

    def changes_for(self, scope: str, kind: str) -> list[int]:
        change = self._changes.get((scope, kind))
        if change is None:
            change = self._changes[scope, kind] = [0] * self._columns
        return change

    def add_version(self, scope: str, kind: str, digest: bytes, live: int = 1) -> None:
        change = self.changes_for(scope, kind)
        change[0] += live
        change[1] += 1
        change[2] += checksum(digest)

    def add_versions(self, scope: str, kind: str, digests: Sequence[bytes]) -> None:
        """Add many versions, each of a new record."""
        change = self.changes_for(scope, kind)
        change[0] += len(digests)
        change[1] += len(digests)
        change[2] += sum(start for (start,) in iter_unpack(">Q24x", b"".join(digests)))

    def remove_version(self, scope: str, kind: str, digest: bytes, live: int) -> None:
        change = self.changes_for(scope, kind)
        change[0] -= live
        change[1] -= 1
        change[2] -= checksum(digest)

    def remove_damaged(
        self, damaged: Iterable[DamagedEntry], sound: Fingerprint, stored: Mapping[ScopeAndKind, tuple[int, int]]
    ) -> None:
        """Subtract damaged entries. ``sound`` sums up the others, ``stored`` has the number and checksum of all by kind.

        If nothing else is missing, the checksum becomes that of the other entries: the digest of a damaged entry may be
        the very part that is damaged. Otherwise the difference stays, so that ``verify`` goes on to report it.
        """
        by_pair: dict[ScopeAndKind, list[DamagedEntry]] = {}
        for entry in damaged:
            pair = (entry.scope, entry.kind)
            if digest_of(entry.line) == entry.digest:  # the columns may be what is damaged
                record = parse_entry(entry.line, entry.seq, entry.digest)
                pair = (record.scope, record.kind)
            by_pair.setdefault(pair, []).append(entry)
        for pair, entries in by_pair.items():
            versions, stored_sum = stored.get(pair, (0, 0))
            found, change = sound.by_kind.get(pair, DigestSum()), self.changes_for(*pair)
            if versions - len(entries) == found.versions:
                change[2] += found.checksum - stored_sum
            else:
                change[2] -= sum(checksum(entry.digest) for entry in entries)
            change[1] -= min(len(entries), versions)

    def add_live(self, scope: str, kind: str, live: int) -> None:
        """Add to the number of current records, or subtract."""
        self.changes_for(scope, kind)[0] += live

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the changes in one order everywhere, so that writers never deadlock."""
        return [
            (scope, kind, live, versions, total & CHECKSUM_MASK, *others)
            for (scope, kind), (live, versions, total, *others) in sorted(self._changes.items())
        ]


def parse_replayed_entries(reach: Reach, lines: Iterable[tuple[bytes, bytes]]) -> list[tuple[Record | str, bytes]]:
    """Parse entries of another log, given with their digests; a string is the reason why an entry is refused."""
    parsed: list[tuple[Record | str, bytes]] = []
    for entry, digest in lines:
        record: Record | str = "the line does not match its digest"
        if digest_of(entry) == digest:
            record = parse_entry(entry, 0, digest)
            if reach.writable is not None and record.scope not in reach.writable:
                record = f"the scope {record.scope!r} is closed to this caller"
        parsed.append((record, entry))
    return parsed


class Replay(ABC):
    """Adds entries of another log to this one, in one transaction."""

    def __init__(self, erasure_receipts: Iterable[str]) -> None:
        receipts = list(erasure_receipts)
        self._erased_keys = ErasedKeys(receipts) if receipts else None
        self._added: dict[VersionTuple, bytes] = {}

    @abstractmethod
    def find_digest(self, version: VersionTuple) -> bytes | None:
        """Return the digest of a version that was in the log before this replay."""

    @abstractmethod
    def add_record(self, record: Record, entry: bytes) -> None:
        """Add a new version as it is."""

    @property
    def added_digests(self) -> list[bytes]:
        """The digests of the entries that were added."""
        return list(self._added.values())

    def run(self, entries: Iterable[tuple[Record | str, bytes]]) -> list[ReplayResult]:
        """Add parsed entries; a string is the reason why that entry is refused."""
        results = []
        for record, entry in entries:
            if isinstance(record, str):
                results.append(ReplayResult("refused", record))
                continue
            version = (record.scope, record.kind, record.id, record.version)
            known = self._added.get(version) or self.find_digest(version)
            if known is not None:
                is_same = known == record.digest
                results.append(ReplayResult("present") if is_same else ReplayResult("refused", VERSION_TAKEN))
            elif self._erased_keys is not None and record in self._erased_keys:
                results.append(ReplayResult("refused", "this record was erased here"))
            else:
                self._added[version] = record.digest
                self.add_record(record, entry)
                results.append(ReplayResult("added"))
        return results
