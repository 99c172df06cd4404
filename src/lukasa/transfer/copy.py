"""Copying a whole log from one store to another, and the proof that it arrived.

Lines go over verbatim and in log order, so what a broken-off copy leaves behind is a beginning of the source's log.
Where to go on is found by halving: is the line in the middle there already? Some twenty looks find the place among a
million lines, and nothing has to be remembered anywhere. That place is a good guess; what decides is the proof.

The proof counts and hashes, per scope and kind, what the source held at one moment, and what the destination holds of
it. The hash is the sum of the lines' SHA-256 modulo 2^256, so it does not depend on the order; the destination's lines
are read back and hashed anew. Where both differ, the lines are compared one by one: a destination may hold more than
the source, never less and never something else. If a guess left something out, the lines of those scopes and kinds go
over once more, all of them, and the proof is made again.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from lukasa.errors import NotAllowed, StoreDamaged
from lukasa.journal import Journal
from lukasa.record import Key, Record, digest_of, entry_bytes
from lukasa.scope import SYSTEM
from lukasa.storage.engine import ERASURE, Progress, Query, Reader, Tally, hash_erased_key
from lukasa.storage.location import StoreLocation

NOT_COPIED = ("answers to idempotency keys", "vectors")
"""What is not in the log and so does not come along: keys start anew, vectors are made again from the text."""

OpenProgress = Callable[[str], AbstractContextManager[Progress | None]]
"""Opens a bar for a stage of the work, by its title."""
ScopeAndKind = tuple[str, str]
ErasureReceipts = dict[str, dict[str, int]]

_WHOLE_LOG = Query(every_version=True, hidden=True)
_PAGE_SIZE = 500
_PROGRESS_INTERVAL = 500
_MAX_REFUSALS = 20
_HASH_MODULUS = 1 << 256


@dataclass(frozen=True, slots=True)
class CopyRefusal:
    """A line that the destination did not take, and why."""

    key: Key
    version: int
    reason: str


@dataclass(frozen=True, slots=True)
class KindProof:
    """What the proof says of one kind in one scope.

    ``versions`` and ``hash`` are the source's; ``there`` and ``hash_there`` are those of the lines that the destination
    holds under the same keys and versions. ``own`` counts its other lines, and ``erased`` names those of its records that
    were erased in the source.
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
        """Whether everything the source holds of it is there."""
        return (self.versions, self.hash) == (self.there, self.hash_there)

    @property
    def holds(self) -> bool:
        return self.has_arrived and not self.erased


@dataclass(frozen=True, slots=True)
class CopyProof:
    """Whether everything the source held is in the destination. ``same_log`` when exports of both are the same bytes."""

    kind_proofs: tuple[KindProof, ...]
    is_same_log: bool

    @property
    def holds(self) -> bool:
        return all(share.holds for share in self.kind_proofs)


@dataclass(slots=True)
class CopyResult:
    """What a copy did: lines it added, lines it met that were there, lines it could not add, and the proof.

    Of the refusals the first few are named.
    """

    added: int = 0
    present: int = 0
    refused: int = 0
    refusals: list[CopyRefusal] = field(default_factory=list)
    proof: CopyProof = field(default_factory=lambda: CopyProof((), is_same_log=False))


def no_progress(_: str) -> AbstractContextManager[None]:
    """Nobody watches."""
    return nullcontext()


def copy_log(source: Journal, target: Journal, open_progress: OpenProgress = no_progress) -> CopyResult:
    """Brings every line of the source into the target, and proves it. Run again after a break, it goes on."""
    if not (source.reach.unlimited and target.reach.unlimited):
        raise NotAllowed("Only the owner of both stores may copy one into the other.")
    start = _find_resume_position(source, target)
    edge = source.tip()
    done = CopyResult()
    with open_progress("Copying") as bar:
        _replay_records(
            source.read(_range_query(start, edge)), target, done, _resumed_progress_counter(bar, source, target)
        )
    with source.snapshot() as here:  # the last pass and the proof are of one moment
        tip = here.tip()
        _replay_records(_read_pages(here, _range_query(edge, tip)), target, done)
        sums = _fingerprint_log(here, open_progress)
        done.proof = _prove_copy(here, sums, target, open_progress)
        if start and (lacking := [share for share in done.proof.kind_proofs if not share.has_arrived]):
            done = CopyResult(added=done.added)
            with open_progress("Copying what was left out") as bar:
                told = _progress_counter(bar, sum(share.versions for share in lacking))
                _replay_records(_read_pages(here, _query_for(tip, lacking)), target, done, told)
            done.proof = _prove_copy(here, sums, target, open_progress)
    return done


def is_same_store(left: StoreLocation, right: StoreLocation) -> bool:
    """Whether two names, however spelled, lead to the same file or database."""
    if left.path is not None and right.path is not None:
        if left.path.exists() and right.path.exists():
            return left.path.samefile(right.path)
        return left.path.resolve() == right.path.resolve()
    return bool(left.url and right.url) and _database_address(left.url) == _database_address(right.url)


def _database_address(url: str) -> tuple[str, str, str]:
    """Host, port and name of a database; who connects, and how, does not matter."""
    parts = urlsplit(url)
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    host, _, port = parts.netloc.rpartition("@")[2].partition(":")
    name = parts.path.lstrip("/") or options.get("dbname") or parts.username or ""
    where = unquote(host) or options.get("host", "")
    return where if "/" in where else where.lower(), port or options.get("port", "5432"), unquote(name)


# Carrying lines over


def _replay_records(
    records: Iterable[Record], target: Journal, result: CopyResult, on_record: Callable[[], None] | None = None
) -> None:
    """Replays records in the target, and notes what became of each."""
    underway: deque[tuple[Key, int]] = deque()

    def lines() -> Iterator[tuple[bytes, bytes]]:
        for record in records:
            underway.append((record.key, record.version))
            yield entry_bytes(record), record.digest

    for answer in target.replay(lines()):
        key, version = underway.popleft()
        if answer.state == "added":
            result.added += 1
        elif answer.state == "present":
            result.present += 1
        else:
            result.refused += 1
            if len(result.refusals) < _MAX_REFUSALS:
                result.refusals.append(CopyRefusal(key, version, answer.reason))
        if on_record is not None:
            on_record()


def _find_resume_position(source: Journal, target: Journal) -> int:
    """The position up to which the target seems to have the source's log, found by halving."""
    with source.snapshot() as here, target.snapshot() as there:
        kept = _DigestLookup(there)
        low, high = 0, here.tip() if there.tip() else 0
        while low < high:
            middle = (low + high) // 2
            line = next(iter(here.read(replace(_range_query(middle, high), limit=1))), None)
            if line is not None and kept.find_digest(line.key, line.version) == line.digest:
                low = line.seq
            else:
                high = middle
        return low


class _DigestLookup:
    """Knows which digest a store holds under a key and version."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._key: Key | None = None
        self._digests: dict[int, bytes] = {}

    def find_digest(self, key: Key, version: int) -> bytes | None:
        if (found := self._reader.get(key, version=version)) is not None:
            return found.digest
        if key != self._key:  # tombstones, and what is in quarantine, only the history tells of
            self._key = key
            self._digests = {record.version: record.digest for record in self._reader.history(key, hidden=True)}
        return self._digests.get(version)


# Proving


class _DigestSum:
    """Lines of one scope and kind: how many, and the sum of their digests."""

    __slots__ = ("total", "versions")

    def __init__(self) -> None:
        self.versions = 0
        self.total = 0

    def add(self, digest: bytes) -> None:
        self.versions += 1
        self.total += int.from_bytes(digest)

    @property
    def hash(self) -> str:
        return f"{self.total % _HASH_MODULUS:064x}"


class _LogFingerprint(NamedTuple):
    """The sums of a store at one moment, and the seal that ends its export."""

    sums: dict[ScopeAndKind, _DigestSum]
    export_digest: bytes


def _fingerprint_log(reader: Reader, open_progress: OpenProgress, *, rehash: bool = False) -> _LogFingerprint:
    """Counts and adds up a log; ``anew`` hashes each line again instead of taking its digest."""
    pairs: dict[ScopeAndKind, _DigestSum] = {}
    seal = hashlib.sha256()
    with open_progress("Proving the destination" if rehash else "Proving the source") as bar:
        told = _progress_counter(bar, _count_versions(reader.tally()))
        for record in _read_pages(reader, _range_query(0, reader.tip())):
            if rehash and digest_of(entry_bytes(record)) != record.digest:
                raise StoreDamaged(
                    f"{record.key} version {record.version} does not match its digest in the destination.",
                    hint="Run `lukasa verify` on it to see what is damaged.",
                )
            pairs.setdefault((record.scope, record.kind), _DigestSum()).add(record.digest)
            seal.update(record.digest)
            told()
    return _LogFingerprint(pairs, seal.digest())


def _prove_copy(
    source: Reader, fingerprint: _LogFingerprint, target: Journal, open_progress: OpenProgress
) -> CopyProof:
    with target.snapshot() as there:
        held = _fingerprint_log(there, open_progress, rehash=True)
        if fingerprint.export_digest == held.export_digest:
            shares = [_make_kind_proof(pair, found, found, found) for pair, found in held.sums.items()]
        else:
            shares = list(_compare_logs(source, fingerprint.sums, there, held.sums, open_progress))
    return CopyProof(
        tuple(sorted(shares, key=lambda share: (share.scope, share.kind))),
        is_same_log=fingerprint.export_digest == held.export_digest,
    )


def _compare_logs(
    source: Reader,
    source_sums: dict[ScopeAndKind, _DigestSum],
    target: Reader,
    target_sums: dict[ScopeAndKind, _DigestSum],
    open_progress: OpenProgress,
) -> Iterator[KindProof]:
    """Compares scope by scope and kind by kind; where count or hash differ, line by line."""
    receipts, kept = _read_receipts(target), _DigestLookup(target)
    nothing = _DigestSum()
    for pair in source_sums | target_sums:
        ours, theirs = source_sums.get(pair, nothing), target_sums.get(pair, nothing)
        if (ours.versions, ours.hash) == (theirs.versions, theirs.hash):
            yield _make_kind_proof(pair, ours, theirs, theirs)
            continue
        found = _DigestSum()
        with open_progress(f"Comparing {pair[0]}/{pair[1]}") as bar:
            told = _progress_counter(bar, ours.versions)
            for record in _read_pages(source, _pair_query(pair, source.tip())):
                if (digest := kept.find_digest(record.key, record.version)) is not None:
                    found.add(digest)
                told()
        has_more = receipts and theirs.versions > found.versions
        erased = dict.fromkeys(_find_erased_records(source, target, pair, receipts) if has_more else ())
        yield _make_kind_proof(pair, ours, found, theirs, tuple(erased))


def _make_kind_proof(
    pair: ScopeAndKind,
    source_sum: _DigestSum,
    found_sum: _DigestSum,
    target_sum: _DigestSum,
    erased: tuple[Key, ...] = (),
) -> KindProof:
    own = target_sum.versions - found_sum.versions
    return KindProof(*pair, source_sum.versions, source_sum.hash, found_sum.versions, found_sum.hash, own, erased)


def _read_receipts(reader: Reader) -> ErasureReceipts:
    """Where a store keeps the receipt of each erased record, by salt and mark."""
    receipts: ErasureReceipts = {}
    for receipt in _read_pages(reader, _pair_query((SYSTEM, ERASURE), reader.tip())):
        marks = receipts.setdefault(receipt.body.get("salt", ""), {})
        marks |= dict.fromkeys(receipt.body.get("marks", ()), receipt.seq)
    return receipts


def _find_erased_records(
    source: Reader, target: Reader, pair: ScopeAndKind, receipts: ErasureReceipts
) -> Iterator[Key]:
    """Records of the destination that came before the receipt of their erasure did, and are gone from the source."""
    for record in _read_pages(target, _pair_query(pair, target.tip())):
        positions = (marks.get(hash_erased_key(record.key, salt), 0) for salt, marks in receipts.items())
        if record.seq < max(positions, default=0) and not _has_version(source, record):
            yield record.key


def _has_version(reader: Reader, record: Record) -> bool:
    return any(version.digest == record.digest for version in reader.history(record.key, hidden=True))


# Reading the log


def _range_query(after: int, tip: int) -> Query:
    """Every line behind one position and up to another."""
    return replace(_WHOLE_LOG, after=after, before=tip + 1)


def _pair_query(pair: ScopeAndKind, tip: int) -> Query:
    return replace(_range_query(0, tip), scopes=pair[:1], kinds=pair[1:])


def _query_for(tip: int, kind_proofs: Iterable[KindProof]) -> Query:
    """Every line of the scopes and of the kinds of these shares."""
    scopes, kinds = {share.scope for share in kind_proofs}, {share.kind for share in kind_proofs}
    return replace(_range_query(0, tip), scopes=tuple(sorted(scopes)), kinds=tuple(sorted(kinds)))


def _read_pages(reader: Reader, query: Query) -> Iterator[Record]:
    """Records in log order, page by page within one look."""
    query = replace(query, limit=_PAGE_SIZE)
    while page := reader.read(query):
        yield from page
        if query.after is not None and page[-1].seq <= query.after:
            raise StoreDamaged("Positions in the log do not grow; run `lukasa verify` to see what is damaged.")
        query = replace(query, after=page[-1].seq)


# Telling how far it is


def _count_versions(tally: Iterable[Tally]) -> int:
    return sum(row.versions for row in tally)


def _progress_counter(progress: Progress | None, total: int, done: int = 0) -> Callable[[], None]:
    """Counts calls, and tells the bar now and then."""
    if progress is None:
        return lambda: None
    counter = count(done + 1)

    def advance() -> None:
        at = next(counter)
        if at % _PROGRESS_INTERVAL == 0:
            progress(min(at, total), total)

    return advance


def _resumed_progress_counter(progress: Progress | None, source: Journal, target: Journal) -> Callable[[], None]:
    """The same, from where an earlier run left off: as many lines as both sides have in each scope and kind."""
    here, there = source.tally(), {(row.scope, row.kind): row.versions for row in target.tally()}
    shared = sum(min(row.versions, there.get((row.scope, row.kind), 0)) for row in here)
    return _progress_counter(progress, _count_versions(here), shared)
