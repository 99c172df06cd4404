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

from lukasa.config import Place
from lukasa.engine import ERASURE, Progress, Query, Reader, Tally, erasure_mark
from lukasa.errors import NotAllowed, StoreDamaged
from lukasa.journal import Journal
from lukasa.record import Key, Record, digest_of, line_of
from lukasa.scope import SYSTEM

LEFT_BEHIND = ("answers to idempotency keys", "vectors")
"""What is not in the log and so does not come along: keys start anew, vectors are made again from the text."""

Watch = Callable[[str], AbstractContextManager[Progress | None]]
"""Opens a bar for a stage of the work, by its title."""
Pair = tuple[str, str]
Receipts = dict[str, dict[str, int]]

_LOG = Query(every_version=True, hidden=True)
_PAGE = 500
_EVERY = 500
_NAMED = 20
_WHOLE = 1 << 256


@dataclass(frozen=True, slots=True)
class Refusal:
    """A line that the destination did not take, and why."""

    key: Key
    version: int
    reason: str


@dataclass(frozen=True, slots=True)
class Share:
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
    def arrived(self) -> bool:
        """Whether everything the source holds of it is there."""
        return (self.versions, self.hash) == (self.there, self.hash_there)

    @property
    def holds(self) -> bool:
        return self.arrived and not self.erased


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether everything the source held is in the destination. ``same_log`` when exports of both are the same bytes."""

    shares: tuple[Share, ...]
    same_log: bool

    @property
    def holds(self) -> bool:
        return all(share.holds for share in self.shares)


@dataclass(slots=True)
class Copied:
    """What a copy did: lines it added, lines it met that were there, lines it could not add, and the proof.

    Of the refusals the first few are named.
    """

    added: int = 0
    present: int = 0
    refused: int = 0
    refusals: list[Refusal] = field(default_factory=list)
    proof: Proof = field(default_factory=lambda: Proof((), same_log=False))


def unwatched(_: str) -> AbstractContextManager[None]:
    """Nobody watches."""
    return nullcontext()


def copy_log(source: Journal, target: Journal, watch: Watch = unwatched) -> Copied:
    """Brings every line of the source into the target, and proves it. Run again after a break, it goes on."""
    if not (source.reach.unlimited and target.reach.unlimited):
        raise NotAllowed("Only the owner of both stores may copy one into the other.")
    start = _known_up_to(source, target)
    edge = source.tip()
    done = Copied()
    with watch("Copying") as bar:
        _carry(source.read(_between(start, edge)), target, done, _going_on(bar, source, target))
    with source.looking() as here:  # the last pass and the proof are of one moment
        tip = here.tip()
        _carry(_pages(here, _between(edge, tip)), target, done)
        sums = _sums(here, watch)
        done.proof = _prove(here, sums, target, watch)
        if start and (lacking := [share for share in done.proof.shares if not share.arrived]):
            done = Copied(added=done.added)
            with watch("Copying what was left out") as bar:
                told = _so_far(bar, sum(share.versions for share in lacking))
                _carry(_pages(here, _of_kinds(tip, lacking)), target, done, told)
            done.proof = _prove(here, sums, target, watch)
    return done


def same_store(one: Place, other: Place) -> bool:
    """Whether two names, however spelled, lead to the same file or database."""
    if one.path is not None and other.path is not None:
        if one.path.exists() and other.path.exists():
            return one.path.samefile(other.path)
        return one.path.resolve() == other.path.resolve()
    return bool(one.url and other.url) and _database(one.url) == _database(other.url)


def _database(url: str) -> tuple[str, str, str]:
    """Host, port and name of a database; who connects, and how, does not matter."""
    parts = urlsplit(url)
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    host, _, port = parts.netloc.rpartition("@")[2].partition(":")
    name = parts.path.lstrip("/") or options.get("dbname") or parts.username or ""
    where = unquote(host) or options.get("host", "")
    return where if "/" in where else where.lower(), port or options.get("port", "5432"), unquote(name)


# Carrying lines over


def _carry(records: Iterable[Record], target: Journal, done: Copied, told: Callable[[], None] | None = None) -> None:
    """Replays records in the target, and notes what became of each."""
    underway: deque[tuple[Key, int]] = deque()

    def lines() -> Iterator[tuple[bytes, bytes]]:
        for record in records:
            underway.append((record.key, record.version))
            yield line_of(record), record.digest

    for answer in target.replay(lines()):
        key, version = underway.popleft()
        if answer.state == "added":
            done.added += 1
        elif answer.state == "present":
            done.present += 1
        else:
            done.refused += 1
            if len(done.refusals) < _NAMED:
                done.refusals.append(Refusal(key, version, answer.reason))
        if told is not None:
            told()


def _known_up_to(source: Journal, target: Journal) -> int:
    """The position up to which the target seems to have the source's log, found by halving."""
    with source.looking() as here, target.looking() as there:
        kept = _Kept(there)
        low, high = 0, here.tip() if there.tip() else 0
        while low < high:
            middle = (low + high) // 2
            line = next(iter(here.read(replace(_between(middle, high), limit=1))), None)
            if line is not None and kept.digest(line.key, line.version) == line.digest:
                low = line.seq
            else:
                high = middle
        return low


class _Kept:
    """Knows which digest a store holds under a key and version."""

    def __init__(self, look: Reader) -> None:
        self._look = look
        self._key: Key | None = None
        self._digests: dict[int, bytes] = {}

    def digest(self, key: Key, version: int) -> bytes | None:
        if (found := self._look.get(key, version=version)) is not None:
            return found.digest
        if key != self._key:  # tombstones, and what is in quarantine, only the history tells of
            self._key = key
            self._digests = {record.version: record.digest for record in self._look.history(key, hidden=True)}
        return self._digests.get(version)


# Proving


class _Sum:
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
        return f"{self.total % _WHOLE:064x}"


class _Sums(NamedTuple):
    """The sums of a store at one moment, and the seal that ends its export."""

    pairs: dict[Pair, _Sum]
    seal: bytes


def _sums(look: Reader, watch: Watch, *, anew: bool = False) -> _Sums:
    """Counts and adds up a log; ``anew`` hashes each line again instead of taking its digest."""
    pairs: dict[Pair, _Sum] = {}
    seal = hashlib.sha256()
    with watch("Proving the destination" if anew else "Proving the source") as bar:
        told = _so_far(bar, _versions(look.tally()))
        for record in _pages(look, _between(0, look.tip())):
            if anew and digest_of(line_of(record)) != record.digest:
                raise StoreDamaged(
                    f"{record.key} version {record.version} does not match its digest in the destination.",
                    hint="Run `lukasa verify` on it to see what is damaged.",
                )
            pairs.setdefault((record.scope, record.kind), _Sum()).add(record.digest)
            seal.update(record.digest)
            told()
    return _Sums(pairs, seal.digest())


def _prove(here: Reader, sums: _Sums, target: Journal, watch: Watch) -> Proof:
    with target.looking() as there:
        held = _sums(there, watch, anew=True)
        if sums.seal == held.seal:
            shares = [_share(pair, found, found, found) for pair, found in held.pairs.items()]
        else:
            shares = list(_compare(here, sums.pairs, there, held.pairs, watch))
    return Proof(tuple(sorted(shares, key=lambda share: (share.scope, share.kind))), same_log=sums.seal == held.seal)


def _compare(
    here: Reader, sent: dict[Pair, _Sum], there: Reader, held: dict[Pair, _Sum], watch: Watch
) -> Iterator[Share]:
    """Compares scope by scope and kind by kind; where count or hash differ, line by line."""
    receipts, kept = _receipts(there), _Kept(there)
    nothing = _Sum()
    for pair in sent | held:
        ours, theirs = sent.get(pair, nothing), held.get(pair, nothing)
        if (ours.versions, ours.hash) == (theirs.versions, theirs.hash):
            yield _share(pair, ours, theirs, theirs)
            continue
        found = _Sum()
        with watch(f"Comparing {pair[0]}/{pair[1]}") as bar:
            told = _so_far(bar, ours.versions)
            for record in _pages(here, _of_pair(pair, here.tip())):
                if (digest := kept.digest(record.key, record.version)) is not None:
                    found.add(digest)
                told()
        has_more = receipts and theirs.versions > found.versions
        erased = dict.fromkeys(_revenants(here, there, pair, receipts) if has_more else ())
        yield _share(pair, ours, found, theirs, tuple(erased))


def _share(pair: Pair, sent: _Sum, found: _Sum, held: _Sum, erased: tuple[Key, ...] = ()) -> Share:
    own = held.versions - found.versions
    return Share(*pair, sent.versions, sent.hash, found.versions, found.hash, own, erased)


def _receipts(look: Reader) -> Receipts:
    """Where a store keeps the receipt of each erased record, by salt and mark."""
    receipts: Receipts = {}
    for receipt in _pages(look, _of_pair((SYSTEM, ERASURE), look.tip())):
        marks = receipts.setdefault(receipt.body.get("salt", ""), {})
        marks |= dict.fromkeys(receipt.body.get("marks", ()), receipt.seq)
    return receipts


def _revenants(here: Reader, there: Reader, pair: Pair, receipts: Receipts) -> Iterator[Key]:
    """Records of the destination that came before the receipt of their erasure did, and are gone from the source."""
    for record in _pages(there, _of_pair(pair, there.tip())):
        positions = (marks.get(erasure_mark(record.key, salt), 0) for salt, marks in receipts.items())
        if record.seq < max(positions, default=0) and not _holds(here, record):
            yield record.key


def _holds(look: Reader, record: Record) -> bool:
    return any(version.digest == record.digest for version in look.history(record.key, hidden=True))


# Reading the log


def _between(after: int, tip: int) -> Query:
    """Every line behind one position and up to another."""
    return replace(_LOG, after=after, before=tip + 1)


def _of_pair(pair: Pair, tip: int) -> Query:
    return replace(_between(0, tip), scopes=pair[:1], kinds=pair[1:])


def _of_kinds(tip: int, shares: Iterable[Share]) -> Query:
    """Every line of the scopes and of the kinds of these shares."""
    scopes, kinds = {share.scope for share in shares}, {share.kind for share in shares}
    return replace(_between(0, tip), scopes=tuple(sorted(scopes)), kinds=tuple(sorted(kinds)))


def _pages(look: Reader, query: Query) -> Iterator[Record]:
    """Records in log order, page by page within one look."""
    query = replace(query, limit=_PAGE)
    while page := look.read(query):
        yield from page
        if query.after is not None and page[-1].seq <= query.after:
            raise StoreDamaged("Positions in the log do not grow; run `lukasa verify` to see what is damaged.")
        query = replace(query, after=page[-1].seq)


# Telling how far it is


def _versions(tally: Iterable[Tally]) -> int:
    return sum(row.versions for row in tally)


def _so_far(bar: Progress | None, total: int, done: int = 0) -> Callable[[], None]:
    """Counts calls, and tells the bar now and then."""
    if bar is None:
        return lambda: None
    counter = count(done + 1)

    def told() -> None:
        at = next(counter)
        if at % _EVERY == 0:
            bar(min(at, total), total)

    return told


def _going_on(bar: Progress | None, source: Journal, target: Journal) -> Callable[[], None]:
    """The same, from where an earlier run left off: as many lines as both sides have in each scope and kind."""
    here, there = source.tally(), {(row.scope, row.kind): row.versions for row in target.tally()}
    shared = sum(min(row.versions, there.get((row.scope, row.kind), 0)) for row in here)
    return _so_far(bar, _versions(here), shared)
