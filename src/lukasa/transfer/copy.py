"""Copies of a whole log from one store to another, with a proof that every entry arrived.

Entries are replayed unchanged and in log order, so an interrupted copy leaves a prefix of the source's log. A binary
search finds the position to continue from: is the entry in the middle already there? That needs about twenty lookups among
a million entries and no stored state. The position is a guess; the proof decides.

The proof compares fingerprints: the number of versions and the sum of their SHA-256 digests per scope and kind, for the
source at one moment and for what the destination holds of it. The entries of the destination are hashed again. Where the
fingerprints differ, single entries are compared: a destination may hold more than the source, but nothing less and
nothing else. If the guess skipped entries, the scopes and kinds concerned are copied again, and the proof is repeated.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qs, unquote

from lukasa.core.record import Key, Record, digest_of, entry_bytes
from lukasa.core.scope import SYSTEM
from lukasa.errors import NotAllowed, StoreDamaged
from lukasa.journal import Journal
from lukasa.storage.engine import ERASURE, Progress, Query, Reader, hash_erased_key
from lukasa.storage.integrity import DigestSum, Fingerprint, ScopeAndKind
from lukasa.storage.location import StoreLocation, split_url
from lukasa.storage.log_file import ENTIRE_LOG, read_log
from lukasa.transfer.jsonl import count_versions, track_progress

NOT_COPIED = ("answers to idempotency keys", "vectors")
"""Parts of a store that are not in its log. Vectors are computed again from the texts."""

OpenProgress = Callable[[str], AbstractContextManager[Progress | None]]
"""Opens a progress bar for a stage of the work, by its title."""

_MAX_REFUSALS = 20


@dataclass(frozen=True, slots=True)
class CopyRefusal:
    """An entry that the destination refused, and the reason."""

    key: Key
    version: int
    reason: str


@dataclass(frozen=True, slots=True)
class KindProof:
    """The proof for one kind in one scope.

    ``versions`` and ``hash`` describe the source; ``there`` and ``hash_there`` describe the entries that the destination
    holds under the same keys and versions. ``own`` counts the other entries of the destination, and ``erased`` names its
    records that were erased in the source.
    """

    scope: str
    kind: str
    versions: int
    hash: str
    there: int
    hash_there: str
    own: int = 0
    erased: tuple[Key, ...] = ()

    @property
    def has_arrived(self) -> bool:
        """Whether the destination holds every version of the source."""
        return (self.versions, self.hash) == (self.there, self.hash_there)

    @property
    def holds(self) -> bool:
        return self.has_arrived and not self.erased


@dataclass(frozen=True, slots=True)
class CopyProof:
    """The proof of a copy, per scope and kind. ``is_same_log`` means that both stores export the same bytes."""

    kind_proofs: tuple[KindProof, ...]
    is_same_log: bool

    @property
    def holds(self) -> bool:
        return all(proof.holds for proof in self.kind_proofs)


@dataclass(slots=True)
class CopyResult:
    """The number of entries that a copy added, found present and failed to add, the first refusals, and the proof.

    ``left_out`` names the damaged entries of the source, which are not copied.
    """

    added: int = 0
    present: int = 0
    refused: int = 0
    refusals: list[CopyRefusal] = field(default_factory=list)
    proof: CopyProof = field(default_factory=lambda: CopyProof((), is_same_log=False))
    left_out: list[str] = field(default_factory=list)


def no_progress(_: str) -> AbstractContextManager[None]:
    """Show no progress bar."""
    return nullcontext()


def copy_log(source: Journal, target: Journal, open_progress: OpenProgress = no_progress) -> CopyResult:
    """Copy every entry of the source to the target and prove it. An interrupted copy continues when it is run again."""
    if not (source.reach.unlimited and target.reach.unlimited):
        raise NotAllowed("Only the owner of both stores may copy one into the other.")
    start, tip = _find_resume_position(source, target), source.tip()
    result = CopyResult()
    with open_progress("Copying") as bar:
        ours, theirs = source.tally(), {(row.scope, row.kind): row.versions for row in target.tally()}
        done = sum(min(row.versions, theirs.get((row.scope, row.kind), 0)) for row in ours)  # by an earlier run
        new = source.read(replace(ENTIRE_LOG, after=start, before=tip + 1))
        _replay_records(new, target, result, bar, count_versions(ours), done)
    with source.snapshot() as reader:  # the last pass and the proof see the source at the same moment
        _replay_records(read_log(reader, replace(_settled_log(reader), after=tip)), target, result)
        fingerprint = _fingerprint(reader, open_progress, "Proving the source")
        result.proof = _prove_copy(reader, fingerprint, target, open_progress)
        if start and (missing := [proof for proof in result.proof.kind_proofs if not proof.has_arrived]):
            result = CopyResult(added=result.added)
            scopes, kinds = {proof.scope for proof in missing}, {proof.kind for proof in missing}
            query = replace(_settled_log(reader), scopes=tuple(sorted(scopes)), kinds=tuple(sorted(kinds)))
            with open_progress("Copying what was left out") as bar:
                total = sum(proof.versions for proof in missing)
                _replay_records(read_log(reader, query), target, result, bar, total)
            result.proof = _prove_copy(reader, fingerprint, target, open_progress)
        result.left_out = reader.names_at(reader.damaged)
    return result


def is_same_store(left: StoreLocation, right: StoreLocation) -> bool:
    """Tell whether two locations lead to the same file or database."""
    if left.path is not None and right.path is not None:
        if left.path.exists() and right.path.exists():
            return left.path.samefile(right.path)
        return os.path.realpath(left.path) == os.path.realpath(right.path)
    return bool(left.url and right.url) and _database_address(left.url) == _database_address(right.url)


def _database_address(url: str) -> tuple[str, str, str]:
    """Return host, port and name of a database; the user and the options do not matter."""
    parts = split_url(url)
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    address, _, port = parts.netloc.rpartition("@")[2].partition(":")
    name = parts.path.lstrip("/") or options.get("dbname") or parts.username or ""
    host = unquote(address) or options.get("host", "")
    return host if "/" in host else host.lower(), port or options.get("port", "5432"), unquote(name)


def _replay_records(
    records: Iterable[Record],
    target: Journal,
    result: CopyResult,
    progress: Progress | None = None,
    total: int = 0,
    done: int = 0,
) -> None:
    """Replay records in the target and count the outcomes."""
    pending: deque[tuple[Key, int]] = deque()

    def entries() -> Iterator[tuple[bytes, bytes]]:
        for record in records:
            pending.append((record.key, record.version))
            yield entry_bytes(record), record.digest

    for answer in track_progress(target.replay(entries(), same_log=True), progress, total, done):
        key, version = pending.popleft()
        if answer.state == "added":
            result.added += 1
        elif answer.state == "present":
            result.present += 1
        else:
            result.refused += 1
            if len(result.refusals) < _MAX_REFUSALS:
                result.refusals.append(CopyRefusal(key, version, answer.reason))


def _find_resume_position(source: Journal, target: Journal) -> int:
    """Return the position up to which the target seems to hold the source's log, by binary search."""
    with source.snapshot() as ours, target.snapshot() as theirs:
        lookup = _DigestLookup(theirs)
        low, high = 0, ours.tip() if theirs.tip() else 0
        while low < high:
            middle = (low + high) // 2
            found = ours.read(replace(ENTIRE_LOG, after=middle, before=high + 1, limit=1))
            if found and lookup.find_digest(found[0].key, found[0].version) == found[0].digest:
                low = found[0].seq
            else:
                high = middle
        return low


class _DigestLookup:
    """Finds the digest that a store holds under a key and version."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._key: Key | None = None
        self._digests: dict[int, bytes] = {}

    def find_digest(self, key: Key, version: int) -> bytes | None:
        with suppress(StoreDamaged):  # the destination's copy does not count
            if (found := self._reader.get(key, version=version)) is not None:
                return found.digest
        if key != self._key:  # only the history holds tombstones and quarantined versions
            self._key = key
            self._digests = {record.version: record.digest for record in self._reader.history(key, hidden=True)}
        return self._digests.get(version)


def _settled_log(reader: Reader, pair: ScopeAndKind | None = None) -> Query:
    """Return the query for the log up to the snapshot's tip, or for one scope and kind of it."""
    query = replace(ENTIRE_LOG, before=reader.tip() + 1)
    return query if pair is None else replace(query, scopes=pair[:1], kinds=pair[1:])


def _fingerprint(reader: Reader, open_progress: OpenProgress, title: str, *, rehash: bool = False) -> Fingerprint:
    """Return the fingerprint of a snapshot; ``rehash`` hashes every entry again instead of trusting its digest."""
    with open_progress(title) as bar:
        records = track_progress(read_log(reader, _settled_log(reader)), bar, count_versions(reader.tally()))
        return Fingerprint.of(map(_check_digest, records) if rehash else records)


def _check_digest(record: Record) -> Record:
    if digest_of(entry_bytes(record)) != record.digest:
        raise StoreDamaged(
            f"{record.key} version {record.version} does not match its digest in the destination.",
            hint="Run `lukasa verify` on it to see what is damaged.",
        )
    return record


def _prove_copy(source: Reader, fingerprint: Fingerprint, target: Journal, open_progress: OpenProgress) -> CopyProof:
    with target.snapshot() as reader:
        found = _fingerprint(reader, open_progress, "Proving the destination", rehash=True)
        proofs = _compare_logs(source, fingerprint, reader, found, open_progress)
        ordered = tuple(sorted(proofs, key=lambda proof: (proof.scope, proof.kind)))
    return CopyProof(ordered, is_same_log=fingerprint.digest == found.digest)


def _compare_logs(
    source: Reader, ours: Fingerprint, target: Reader, theirs: Fingerprint, open_progress: OpenProgress
) -> Iterator[KindProof]:
    """Compare the fingerprints of each scope and kind; where they differ, compare entry by entry."""
    receipts: dict[str, dict[str, int]] = {}  # the positions of erasure receipts, by salt and hash of the erased key
    for receipt in read_log(target, _settled_log(target, (SYSTEM, ERASURE))):
        positions = receipts.setdefault(receipt.body.get("salt", ""), {})
        positions |= dict.fromkeys(receipt.body.get("marks", ()), receipt.seq)
    lookup = _DigestLookup(target)
    for pair in ours.by_kind | theirs.by_kind:
        expected = ours.by_kind.get(pair, DigestSum())
        held = arrived = theirs.by_kind.get(pair, DigestSum())
        erased: dict[Key, None] = {}
        if (expected.versions, expected.hash) != (held.versions, held.hash):
            arrived = DigestSum()
            with open_progress(f"Comparing {pair[0]}/{pair[1]}") as bar:
                records = read_log(source, _settled_log(source, pair))
                for record in track_progress(records, bar, expected.versions):
                    if (digest := lookup.find_digest(record.key, record.version)) is not None:
                        arrived.add(digest)
            if receipts and held.versions > arrived.versions:
                erased = dict.fromkeys(_find_erased_records(source, target, pair, receipts))
        own = held.versions - arrived.versions
        yield KindProof(*pair, expected.versions, expected.hash, arrived.versions, arrived.hash, own, tuple(erased))


def _find_erased_records(
    source: Reader, target: Reader, pair: ScopeAndKind, receipts: dict[str, dict[str, int]]
) -> Iterator[Key]:
    """Yield records of the destination that precede the receipt of their erasure and are gone from the source."""
    for record in read_log(target, _settled_log(target, pair)):
        positions = (
            marks.get(hash_erased_key(record.key, salt, version), 0)
            for salt, marks in receipts.items()
            for version in (None, record.version)
        )
        if record.seq < max(positions, default=0):
            versions = source.history(record.key, hidden=True)
            if all(version.digest != record.digest for version in versions):
                yield record.key
