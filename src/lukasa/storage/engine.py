"""The engine contract: what a database backend must do.

``LogReader`` reads records at one moment, within one reach. ``SearchIndex`` answers text, vector and near-duplicate
queries over them. ``Reader`` is both. ``RecordLog`` opens snapshots and appends batches. ``Maintenance`` verifies,
repairs and compacts the store. ``Engine`` is all of it, and ``lukasa.testing.EngineContract`` is its conformance suite.

Every engine guarantees:

- A batch is written whole or not at all, and it survives a power cut once ``append`` returns ``Accepted``.
- Positions (``seq``) grow. A caller who reads ``after`` a position, from 0 on, never later finds a new record at or
  below the positions already returned. A read without ``after`` returns every committed record, also those below
  which a record may still appear.
- The text index and the links change in the same transaction as the log.
- A reader learns nothing about a scope outside its reach, not even by a count or an error.
- A record of kind ``quarantine`` hides at once what its author wrote and what was derived from that; a later version
  with ``released`` shows it again. What is hidden is derived state that can be rebuilt from the log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from lukasa.core.clock import Time
from lukasa.core.outcome import Outcome, Refused
from lukasa.core.record import Key, Record, ValidatedDraft
from lukasa.core.scope import Reach
from lukasa.storage.parsed_records import ParsedRecords

T = TypeVar("T")

AsOf = datetime | int
"""An earlier state of the store: everything recorded up to a time, or up to a position of the log."""

QUARANTINE = "quarantine"
ERASURE = "erasure"
COMPACTION = "compaction"
API_TOKEN = "api_token"  # noqa: S105 - a kind of record
TOKEN_USE = "api_token_use"  # noqa: S105 - a kind of record
PAGE_SESSION = "page_session"
SET_ASIDE = "set_aside"
LOSS = "loss"
IMPORT = "import"
RESERVED_KINDS = frozenset({QUARANTINE, ERASURE, COMPACTION, SET_ASIDE, LOSS, IMPORT})
"""Kinds of system records, which only the journal writes."""


@dataclass(frozen=True, slots=True)
class Query:
    """Which records to read. Empty fields do not limit.

    ``since`` and ``until`` compare when a thing happened, ``recorded_since`` when it was recorded; times are a
    ``datetime`` or a text. ``every_version`` reads superseded versions and tombstones too. ``hidden`` adds records in
    quarantine; it counts only for a reach without limits. ``mentions`` is a piece of text anywhere in the record, letter
    case ignored; it is slow, because every record that meets the other conditions is read.
    """

    kinds: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    author: str | None = None
    since: Time | None = None
    until: Time | None = None
    recorded_since: Time | None = None
    after: int | None = None
    before: int | None = None
    as_of: Time | int | None = None
    every_version: bool = False
    hidden: bool = False
    mentions: str | None = None
    newest_first: bool = False
    limit: int | None = None


ALL_RECORDS = Query()


@dataclass(slots=True, unsafe_hash=True)  # not frozen: a search makes hundreds, and a frozen one takes twice as long
class Match:
    """A record found by an index, with the index's score (higher is better)."""

    record: Record
    score: float


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A link seen from one of its ends."""

    relation: str
    key: Key
    direction: Literal["out", "in"]


@dataclass(frozen=True, slots=True)
class Tally:
    """The counts of one kind in one scope: current records, and all versions in the log."""

    scope: str
    kind: str
    live: int
    versions: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem that ``verify`` found.

    ``repairable`` means that it can be rebuilt from the log; ``position`` is that of a damaged entry, which can be set aside.
    """

    where: str
    what: str
    repairable: bool = False
    position: int | None = None


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The number of versions that ``verify`` checked, the problems it found, and the number of entries set aside so far.

    ``forged_rules`` are rules that neither the owner nor the agent they are for set; every read ignores them.
    """

    versions: int
    findings: tuple[Finding, ...] = ()
    set_aside: int = 0
    forged_rules: tuple[Record, ...] = ()

    @property
    def sound(self) -> bool:
        return not self.findings


@dataclass(frozen=True, slots=True)
class LogCompactionResult:
    """The number of versions that ``compact`` dropped, and the size of the store before and after."""

    versions: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True, slots=True)
class EraseResult:
    """The number of records that ``erase`` removed whole, and of versions that it removed in all.

    ``restored`` counts the records that lost single versions only. ``residue`` says why traces may still be on disk, for example because another process reads an older page; erasure
    finishes as soon as that reader is gone.
    """

    records: int
    versions: int
    by_kind: Mapping[str, int] = field(default_factory=dict)
    residue: str | None = None
    restored: int = 0


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The outcome of one replayed entry: added, already present, or refused with a reason."""

    state: Literal["added", "present", "refused"]
    reason: str = ""


VERSION_TAKEN = "another record has this key and version"
"""The reason why an entry is refused when the log has another content under its key and version."""


class NearDuplicate(NamedTuple):
    """A current record that shares near-duplicate keys with a text: its id, its text and the shared keys."""

    id: str
    text: str
    pair_keys: Sequence[int]


class DamagedEntry(NamedTuple):
    """An entry that failed a check: its columns, its bytes as they are, and the fault."""

    seq: int
    scope: str
    kind: str
    id: str
    version: int
    author: str
    digest: bytes
    line: bytes
    fault: str


FindFault = Callable[[Record], str | None]
"""Returns why a record that matches its digest counts as damaged, or ``None``."""

ImportReceiptDraft = Callable[[Sequence[bytes]], ValidatedDraft]
"""Returns the record that says who brought the entries with these digests."""

ConditionalBatch = Callable[["Reader"], "Sequence[ValidatedDraft] | Refused"]
"""Reads the store inside the write lock and returns the drafts to append. May run more than once; must not write."""

ChooseErased = Callable[["Reader"], "Sequence[Key | Record]"]
"""Reads the store inside the write lock and returns what to erase: the keys of whole records, and single versions."""

Progress = Callable[[int, int], None]
"""Called now and then with the work done and the total."""


class LogReader(Protocol):
    """Records, counts and links at one moment, within one reach.

    An entry that does not match its digest is never returned: ``get`` raises ``StoreDamaged`` for it, every other read
    leaves it out. Both add its position to ``damaged``. A caller may set ``find_fault``, which returns why a record counts as
    damaged too, and ``skips_damaged``, with which ``get`` returns ``None`` instead of raising. A caller that never changes the
    body of a record may set ``shares_records``: then searches may return records that other readers have too.

    ``position`` is the newest position of the log, for the reader of a conditional append if the engine knows it without a
    query: a value that was read at the same position before still holds. Otherwise it is ``None``.
    """

    damaged: set[int]
    find_fault: FindFault | None
    skips_damaged: bool
    shares_records: bool
    position: int | None

    def get(self, key: Key, *, as_of: Time | int | None = None, version: int | None = None) -> Record | None:
        """Return the newest version, the version as of an earlier state, or one version by number; no tombstones.

        Args:
            key: The key of the record: scope, kind and id.
            as_of: An earlier time, or a position in the log.
            version: The number of a version; default: the newest.

        Example:
            reader.get(lukasa.Key("shared", "note", "n-1"))
        """

    def read(self, query: Query = ALL_RECORDS) -> list[Record]:
        """Return records in log order.

        Args:
            query: Filters: kinds, scopes, labels, author, times, limit.

        Example:
            reader.read(lukasa.Query(kinds=("note",), newest_first=True, limit=5))
        """

    def get_parsed(self, key: Key, parsed: ParsedRecords[T]) -> T | None:
        """Return the value that ``parsed`` has or makes of the newest version; ``None`` for a tombstone.

        Args:
            key: The key of the record: scope, kind and id.
            parsed: The values made of records before, and the function that makes them.
        """

    def read_parsed(self, query: Query, parsed: ParsedRecords[T]) -> list[T]:
        """Return the value that ``parsed`` has or makes of each record, in log order.

        Args:
            query: Which records, in which order.
            parsed: The values made of records before, and the function that makes them.
        """

    def history(self, key: Key, *, hidden: bool = False) -> list[Record]:
        """Return every stored version, oldest first, tombstones included; ``hidden`` as in ``Query``.

        Args:
            key: The key of the record: scope, kind and id.
            hidden: Return quarantined versions too; for the owner only.

        Example:
            reader.history(lukasa.Key("shared", "note", "n-1"))
        """

    def tally(self) -> list[Tally]:
        """Return the counts per scope and kind, in constant time per pair.

        Example:
            reader.tally()
        """

    def tip(self) -> int:
        """Return the newest position; 0 for an empty log.

        Example:
            reader.tip()
        """

    def names_at(self, seqs: Iterable[int]) -> list[str]:
        """Return key, version and position of the entries at some positions, damaged or not, as ``verify`` names them.

        Args:
            seqs: Positions in the log.
        """

    def neighbours(self, key: Key, relation: str | None = None) -> list[Neighbour]:
        """Return the links of current records that leave or reach ``key``.

        Args:
            key: The key of the record: scope, kind and id.
            relation: Only links with this relation.

        Example:
            reader.neighbours(lukasa.Key("shared", "note", "n-1"))
        """

    def descendants(self, keys: Sequence[Key], *, hidden: bool = False) -> list[Key]:
        """Return every record with a version derived from these keys, directly or not; ``hidden`` as in ``Query``.

        Args:
            keys: The keys of the records.
            hidden: Return quarantined versions too; for the owner only.

        Example:
            reader.descendants([lukasa.Key("shared", "note", "n-1")])
        """


class SearchIndex(Protocol):
    """Text, vector and near-duplicate queries at one moment, within one reach.

    A vector that does not match its checksum is left out, and its position is added to ``damaged_vectors``.
    """

    damaged_vectors: set[int]

    def match_text(
        self, words: str, query: Query = ALL_RECORDS, *, together: str = "", ranks_only: bool = False
    ) -> list[Match]:
        """Return records whose text holds any of the words, best first. Any string is a valid query.

        The words of ``together`` count as one: a text that holds all of them matches too. Scores are made of the texts within
        reach, so that they tell nothing of others.

        Args:
            words: The words to look for.
            query: Filters: kinds, scopes, labels, author, times, limit.
            together: Words that count as one: a text with all of them matches too.
            ranks_only: The scores only choose candidates and are shown to nobody; then they may be made of all texts, which is
                faster.

        Example:
            reader.match_text("release day", lukasa.Query(limit=5))
        """

    def match_vector(self, model: str, vector: Sequence[float], query: Query = ALL_RECORDS) -> list[Match]:
        """Return the current records whose stored vectors are nearest by cosine, best first.

        The result is exact in a small store; a large store may occasionally miss one of the nearest records.

        Args:
            model: The name of the embedder's model.
            vector: The vector to compare with.
            query: Filters: kinds, scopes, labels, author, times, limit.
        """

    def without_vectors(self, model: str, limit: int) -> list[Record]:
        """Return the next versions with a text and no vector of the model, oldest first, hidden ones included.

        Vectors are made in log order: every version before one that has a vector is taken to have one too.

        Args:
            model: The name of the embedder's model.
            limit: How many to return at most.
        """

    def count_without_vectors(self, model: str) -> int:
        """Count the versions within reach with a text and no vector of the model.

        Args:
            model: The name of the embedder's model.
        """

    def cosines(self, model: str, vector: Sequence[float], seqs: Sequence[int]) -> dict[int, float]:
        """Return the cosines of the records at some positions; records without a vector are left out.

        Args:
            model: The name of the embedder's model.
            vector: The vector to compare with.
            seqs: Positions in the log.
        """

    def frequency(self, tokens: Sequence[str]) -> dict[str, int]:
        """Return about how many texts within reach hold each token of ``lukasa.text.terms``; 0 is exact.

        Args:
            tokens: Tokens of ``lukasa.text.terms``.
        """

    def authors(self, latest: int) -> list[str]:
        """Return the authors of the latest records of each scope and kind; of the largest pairs if there are many.

        Args:
            latest: How many records of each scope and kind to look at.

        Example:
            reader.authors(100)
        """

    def near_duplicates(
        self, keys_of_texts: Sequence[Sequence[int]], scope: str, *, kind: str, limit_per_key: int
    ) -> list[NearDuplicate]:
        """Return the current records of a kind and scope that share near-duplicate keys with any of the texts.

        Each text is given by its keys. Each key brings its newest ``limit_per_key`` records, and beyond those the
        records that share several keys of one text, as far as that is cheap to find. Every record comes once, newest
        first. The cost depends on the number of keys, not on the size of the log.

        Args:
            keys_of_texts: The near-duplicate keys of each text.
            scope: The scope.
            kind: The kind of record.
            limit_per_key: How many records each key brings at most.
        """

    def adjacent_turns(self, records: Iterable[Record], group_label: str) -> dict[int, tuple[int | None, int | None]]:
        """Return the positions of the current records of the same kind just before and just after each record.

        Neighbours share the record's label ``group_label=…``; records without such a label are left out.

        Args:
            records: The records.
            group_label: The name of the label that turns of one conversation share.
        """

    def texts_at(self, seqs: Iterable[int]) -> dict[int, str]:
        """Return the texts at some positions.

        Args:
            seqs: Positions in the log.

        Example:
            reader.texts_at([1, 2])
        """


class Reader(LogReader, SearchIndex, Protocol):
    """A snapshot of the store within one reach."""


class RecordLog(Protocol):
    """Snapshots and appends."""

    def snapshot(self, reach: Reach, *, single_query: bool = False) -> AbstractContextManager[Reader]:
        """Open a consistent snapshot. ``single_query`` announces a single query, which may save a transaction."""

    def append(
        self, reach: Reach, batch: Sequence[ValidatedDraft] | ConditionalBatch, *, key: str | None = None
    ) -> Outcome:
        """Append all drafts or none. A repeated idempotency ``key`` returns the first outcome again."""

    def replay(
        self, reach: Reach, lines: Iterable[tuple[bytes, bytes]], receipt: ImportReceiptDraft | None = None
    ) -> Iterator[ReplayResult]:
        """Add entries of another store's log with their digests, unchanged, each once however often it comes.

        ``receipt`` is called with the digests of those that were added, and its record is written in the same transaction.
        """

    def put_vectors(
        self, model: str, vectors: Iterable[tuple[int, int, Sequence[float]]], *, briefly: bool = False
    ) -> None:
        """Store vectors of a model as (position, chunk, vector), replacing those of the same positions.

        A vector may be an array of numpy, which is stored in half the time. With ``briefly`` the call waits for other writers only a moment before it raises ``StoreBusy``.
        """


class Maintenance(Protocol):
    """Verification, repair and housekeeping of the store."""

    def verify(self, progress: Progress | None = None, find_fault: FindFault | None = None) -> VerifyReport:
        """Check the log against its digests and the indexes against the log. Changes nothing."""

    def find_damaged(self, find_fault: FindFault | None) -> list[DamagedEntry]:
        """Return every entry that ``verify`` would report, in log order."""

    def set_aside(self, find_fault: FindFault | None, receipt: Callable[[DamagedEntry], ValidatedDraft]) -> int:
        """Replace every damaged entry by its receipt, atomically, and return their number.

        The indexes still hold them until ``reindex``.
        """

    def reindex(self, progress: Progress | None = None) -> None:
        """Rebuild everything that is derived from the log."""

    def compact(self, *, before: datetime | None = None, progress: Progress | None = None) -> LogCompactionResult:
        """Drop superseded versions, or only those superseded before a time. The newest version always stays."""

    def erase(self, choose: ChooseErased, receipt: Callable[[EraseResult], ValidatedDraft]) -> EraseResult:
        """Remove the chosen records and versions from log and indexes, and append the receipt, atomically.

        Of a record that loses single versions, the newest one that is left and not hidden is current again.
        """

    def backup(self, target: Path) -> set[int]:
        """Write a consistent copy to a new file: a store that opens, or an exported log.

        Returns the positions of damaged records that the copy lacks.
        """

    def describe(self) -> Mapping[str, Any]:
        """Return facts about the store for people: location, engine version, sizes."""

    def close(self) -> None:
        """Release all resources. Closing twice is allowed."""


class Engine(RecordLog, Maintenance, Protocol):
    """A complete database backend."""


@runtime_checkable
class SharedCounters(Protocol):
    """Counters that all processes on a store share; an engine for many processes has them too."""

    def add_to_counter(self, name: str, amount: int, seconds: int) -> tuple[int, int]:
        """Add to a counter that begins at 0 every so many seconds; return its value, and the seconds until it does again.

        A counter may be lost in a crash of the database.
        """


def split_into_chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of up to ``size`` items. When the source fails, its earlier items come first, then the failure."""
    source = iter(items)
    failure: Exception | None = None
    while failure is None:
        chunk: list[T] = []
        try:
            for item in islice(source, size):
                chunk.append(item)  # noqa: PERF402 - list() would lose the items drawn before a failure
        except Exception as error:  # noqa: BLE001 - raised again below
            failure = error
        if chunk:
            yield chunk
        elif failure is None:
            return
    raise failure


def group_erased(chosen: Iterable[Key | Record]) -> dict[Key, set[int] | None]:
    """Return the positions of the versions to erase, by record; ``None`` for whole records."""
    whole = dict.fromkeys(key for key in chosen if isinstance(key, Key))
    grouped: dict[Key, set[int] | None] = {**whole}
    for record in chosen:
        if isinstance(record, Record) and record.key not in whole:
            positions = grouped.setdefault(record.key, set())
            assert positions is not None
            positions.add(record.seq)
    return grouped


def hash_erased_key(key: Key, salt: str, version: int | None = None) -> str:
    """Return the salted hash by which an erasure's receipt recognises a key, or a version of it, without naming it."""
    name = str(key) if version is None else f"{key}\n{version}"
    return hashlib.blake2b(name.encode(), key=salt.encode()[:64], digest_size=16).hexdigest()
