"""The engine promise: what a database must do so that everything else can stand on it.

Three small contracts. A ``Reader`` looks at the log through the wall of one reach, at one moment. An ``Engine`` opens
readers and appends batches. ``Upkeep`` keeps the store sound. The exam for all of it is
``lukasa.testing.EngineContract``; an engine that passes it can be used.

What every engine promises:

- A batch is there whole or not at all, and once ``append`` returns ``Accepted`` it survives a power cut.
- Positions (``seq``) grow: whoever reads ``after`` a position, from 0 on, never later finds something new at or below
  what they got. Reading without ``after`` shows everything there is, also what something could still come before.
- Text index and links change in the same transaction as the log.
- A reader never learns anything, not even by a count or an error, about a scope outside its reach.
- A record of kind ``quarantine`` hides at once what its author wrote and what was derived from it; a later version
  with ``released`` brings it back. Both are derived state: they can be rebuilt from the log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from lukasa.outcome import Outcome, Refused
from lukasa.record import Key, Record, ValidatedDraft
from lukasa.scope import Reach

T = TypeVar("T")

AsOf = datetime | int
"""An earlier state: everything recorded up to a time, or up to a position of this store's log."""

QUARANTINE = "quarantine"
ERASURE = "erasure"
COMPACTION = "compaction"
RESERVED_KINDS = frozenset({QUARANTINE, ERASURE, COMPACTION})
"""Kinds the journal alone writes: the store's own books."""

NEAR_DUPLICATE_KINDS = frozenset({"memory"})
"""Kinds whose texts an engine marks (``lukasa.text.similarity``), so that nearly the same text is found without reading all."""


@dataclass(frozen=True, slots=True)
class Query:
    """Which records to read. Empty fields do not limit.

    ``since`` and ``until`` speak of when a thing happened, ``recorded_since`` of when it was written down.
    ``every_version`` reads the log itself: superseded versions and tombstones too. ``hidden`` adds what is in
    quarantine, for a reach without walls only. ``mentions`` asks for a piece of text anywhere in the record, letter
    case aside; it reads everything else that is asked for, so it is slow.
    """

    kinds: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    author: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    recorded_since: datetime | None = None
    after: int | None = None
    before: int | None = None
    as_of: AsOf | None = None
    every_version: bool = False
    hidden: bool = False
    mentions: str | None = None
    newest_first: bool = False
    limit: int | None = None


ALL_RECORDS = Query()


@dataclass(frozen=True, slots=True)
class Match:
    """A record found by an index, with the index's own score (higher is better)."""

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
    """How much one kind holds in one scope: what is live, and how many versions stand in the log."""

    scope: str
    kind: str
    live: int
    versions: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing ``verify`` found wrong: where, and what. ``repairable`` when it can be rebuilt from the log."""

    where: str
    what: str
    repairable: bool = False


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What ``verify`` found out."""

    versions: int
    findings: tuple[Finding, ...] = ()

    @property
    def sound(self) -> bool:
        return not self.findings


@dataclass(frozen=True, slots=True)
class LogCompactionResult:
    """What ``compact`` dropped."""

    versions: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True, slots=True)
class EraseResult:
    """What ``erase`` removed: how many versions of how many records, and whether every old page is gone.

    ``residue`` says why traces may still be on disk (another process is reading an older page); erasing finishes as
    soon as that reader is gone.
    """

    records: int
    versions: int
    by_kind: Mapping[str, int] = field(default_factory=dict)
    residue: str | None = None


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What a replayed line did: it was added, it was there already, or why it could not be taken."""

    state: Literal["added", "present", "refused"]
    reason: str = ""


class NearDuplicate(NamedTuple):
    """A live record that bears some of the marks that were asked for: which, and what it says."""

    id: str
    text: str
    pair_keys: Sequence[int]


ConditionalBatch = Callable[["Reader"], "Sequence[ValidatedDraft] | Refused"]
"""Looks at the store inside the write lock and answers what to append. May run more than once; must not write."""

Progress = Callable[[int, int], None]
"""Called now and then with how much is done and how much there is."""


class Reader(Protocol):
    """A look at the log through the wall of one reach."""

    def get(self, key: Key, *, as_of: AsOf | None = None, version: int | None = None) -> Record | None:
        """The newest version, the version of an earlier time, or one version by number. Tombstones are ``None``."""

    def read(self, query: Query = ALL_RECORDS) -> list[Record]:
        """Records in log order."""

    def history(self, key: Key, *, hidden: bool = False) -> list[Record]:
        """Every version that is kept, oldest first, tombstones included; ``hidden`` as in ``Query``."""

    def tally(self) -> list[Tally]:
        """Counts per scope and kind, in constant time per pair."""

    def tip(self) -> int:
        """The newest position; 0 for an empty log."""

    def neighbours(self, key: Key, relation: str | None = None) -> list[Neighbour]:
        """Links of live records that leave or reach ``key``."""

    def descendants(self, keys: Sequence[Key], *, hidden: bool = False) -> list[Key]:
        """Every record of which some version was derived from these, however indirectly; ``hidden`` as in ``Query``."""

    def match_text(self, words: str, query: Query = ALL_RECORDS, *, together: str = "") -> list[Match]:
        """Records whose text holds any of the words, best first. Any string at all is a valid question.

        Words asked ``together`` count as one: a text that holds all of them matches too.
        """

    def match_vector(self, model: str, vector: Sequence[float], query: Query = ALL_RECORDS) -> list[Match]:
        """Live records whose stored vectors are nearest by cosine, best first.

        Exact in a small store; in a large one a record among the very nearest may be missed now and then.
        """

    def without_vectors(self, model: str, limit: int) -> list[Record]:
        """The next versions that have a text and no vector of the model yet, oldest first, hidden ones included.

        Vectors are made in log order, so what lies before one that has a vector is taken to have one too.
        """

    def count_without_vectors(self, model: str) -> int:
        """How many versions have a text and no vector of the model yet; for a reach without walls only."""

    def cosines(self, model: str, vector: Sequence[float], seqs: Sequence[int]) -> dict[int, float]:
        """The cosines of given records, by position; those that have no vector are left out."""

    def frequency(self, tokens: Sequence[str]) -> dict[str, int]:
        """In about how many texts within reach each token stands; see ``lukasa.text.tokenizer``. 0 means in none."""

    def authors(self, latest: int) -> list[str]:
        """Who wrote the latest records of each scope and kind, that many of each; of the largest, where there are many."""

    def near_duplicates(
        self, keys_of_texts: Sequence[Sequence[int]], scope: str, *, kind: str, limit_per_key: int
    ) -> list[NearDuplicate]:
        """The live records of a marked kind in a scope that bear marks of some texts, each text given by its marks.

        By each mark the newest ``each`` come, and beyond those the ones that bear several marks of one text, as far as
        it is cheap to tell. Every record comes once, newest first. The cost is that of the marks, not of the log.
        """

    def adjacent_turns(self, records: Iterable[Record]) -> dict[int, tuple[int | None, int | None]]:
        """Where what was said just before and just after stands: the live records of the same kind next to each.

        Next to each in its session, that is, which the label ``session=…`` tells; who has none stands alone.
        """

    def texts_at(self, seqs: Iterable[int]) -> dict[int, str]:
        """The texts at given positions."""


class RecordLog(Protocol):
    """Keeps records."""

    def snapshot(self, reach: Reach, *, single_query: bool = False) -> AbstractContextManager[Reader]:
        """One consistent look. ``once`` says that a single question will be asked, which may spare a transaction."""

    def append(
        self, reach: Reach, batch: Sequence[ValidatedDraft] | ConditionalBatch, *, key: str | None = None
    ) -> Outcome:
        """Appends all or nothing. A repeated idempotency ``key`` answers what it answered the first time."""

    def replay(self, reach: Reach, lines: Iterable[tuple[bytes, bytes]]) -> Iterator[ReplayResult]:
        """Takes lines of another store's log with their digests, verbatim, each once however often it comes."""

    def put_vectors(self, model: str, vectors: Iterable[tuple[int, int, Sequence[float]]]) -> None:
        """Stores vectors as (position, chunk, vector) for a model; replaces what was there."""


class StoreMaintenance(Protocol):
    """Keeps the store sound."""

    def verify(self, progress: Progress | None = None) -> VerifyReport:
        """Proves the log whole and the indexes true to it. Changes nothing."""

    def reindex(self, progress: Progress | None = None) -> None:
        """Rebuilds everything derived from the log."""

    def compact(self, *, before: datetime | None = None, progress: Progress | None = None) -> LogCompactionResult:
        """Drops superseded versions (those superseded before a time, if one is given). The newest always stays."""

    def erase(
        self, choose: Callable[[Reader], Sequence[Key]], receipt: Callable[[EraseResult], ValidatedDraft]
    ) -> EraseResult:
        """Removes every version of the chosen records from log and indexes and appends the receipt, as one."""

    def backup(self, target: Path) -> None:
        """Writes a consistent copy to a new file."""

    def describe(self) -> Mapping[str, Any]:
        """Facts about the store for people: place, engine version, sizes."""

    def close(self) -> None:
        """Lets go of everything. Closing twice is fine."""


class Engine(RecordLog, StoreMaintenance, Protocol):
    """A database that keeps the promise."""


def split_into_chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of up to ``size`` items. When the source fails, what it gave before comes out first, then the failure."""
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


def hash_erased_key(key: Key, salt: str) -> str:
    """What an erasure's receipt remembers of a key: enough to know it again, not enough to read it."""
    return hashlib.blake2b(str(key).encode(), key=salt.encode()[:64], digest_size=16).hexdigest()
