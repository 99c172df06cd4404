"""The parts of a reader that every engine shares: query conditions, entries, single records, links, substring search."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Generic, TypeVar

from lukasa.core import canonical_json
from lukasa.core.clock import Time, to_as_of, to_microseconds, to_utc
from lukasa.core.record import Key, Record, copy_record, parse_entry, require_digest
from lukasa.core.scope import Reach
from lukasa.core.text_cache import BoundedCache
from lukasa.errors import StoreDamaged
from lukasa.storage.engine import ALL_RECORDS, Match, Neighbour, Query
from lukasa.storage.integrity import name_entry
from lukasa.storage.parsed_records import ParsedRecords
from lukasa.text.terms import strip_particle, whole_words_pattern

T = TypeVar("T")
RowT = TypeVar("RowT", bound=tuple[Any, ...])

_MAX_ENTRY_BYTES = 1_000_000
_MAX_ENTRY = 20_000
_ENTRY_BYTES = 200  # of an entry in memory, besides its characters
_SCALARS = frozenset({str, int, float, bool, type(None)})

KnownEntry = tuple[bytes | str, bytes, Record | None, bytes | None]
"""An entry, its digest, its record once it was read twice, and the body of that record as JSON if it is nested."""
FREQUENCY_CAP = 1000
"""``frequency`` counts texts one by one only up to this number."""
MAX_STREAMS = 40
"""Queries look at this many pairs of scope and kind one by one; ``authors`` takes the largest."""
MAX_QUERY_LENGTH, _MAX_WORD_LENGTH = 10_000, 300
"""The characters of a query by words, and of one word, that are searched for: each part of a word is a search of its own."""
_TIME_FIELDS = frozenset({"created_at", "recorded_at", "happened_at"})

Condition = tuple[str, Sequence[Any]]
"""A fragment of SQL with the values that it binds."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The fragments of SQL in which the engines differ. ``{bound}`` is the column ``seq`` or ``at``."""

    placeholder: str
    current: str
    not_hidden: str
    newest_as_of: str
    one_of: Callable[[str, Sequence[str]], Condition]
    has_labels: Callable[[Sequence[str]], Iterable[Condition]]
    mentions: str | None = None  # None where the reader checks the text itself


def build_conditions(dialect: Dialect, reach: Reach, query: Query) -> tuple[list[str], list[Any]]:
    """Build the conditions that every version must meet, the reach first, and the values they bind."""
    conditions: list[str] = []
    values: list[Any] = []

    def require(condition: str, bound: Sequence[Any] = ()) -> None:
        conditions.append(condition)
        values.extend(bound)

    hidden = query.hidden and reach.unlimited
    for allowed in (reach.readable, query.scopes or None):
        if allowed is not None:
            require(*dialect.one_of("log.scope", sorted(allowed)))
    if query.kinds:
        require(*dialect.one_of("log.kind", query.kinds))
    if query.labels:
        for condition in dialect.has_labels(query.labels):
            require(*condition)
    if query.author is not None:
        require(f"log.author = {dialect.placeholder}", (query.author,))
    for column, operator, limit in (
        ("moment", ">=", query.since),
        ("moment", "<=", query.until),
        ("at", ">=", query.recorded_since),
        ("seq", ">", query.after),
        ("seq", "<", query.before),
    ):
        if limit is not None:
            value = clamp_int64(limit) if isinstance(limit, int) else to_microseconds(to_utc(limit))
            require(f"log.{column} {operator} {dialect.placeholder}", (value,))
    if query.as_of is not None and (point := to_as_of(query.as_of)) is not None:
        bound, as_of = ("seq", clamp_int64(point)) if isinstance(point, int) else ("at", to_microseconds(point))
        require(f"log.{bound} <= {dialect.placeholder}", (as_of,))
        if not hidden:
            require(dialect.not_hidden)
        if not query.every_version:
            require(dialect.newest_as_of.format(bound=bound), (as_of,))
    elif not query.every_version:
        require(dialect.current)
    elif not hidden:
        require(dialect.not_hidden)
    if query.mentions is not None and dialect.mentions is not None:
        require(dialect.mentions, (query.mentions,))
    return conditions or ["TRUE"], values


class EntryCache(BoundedCache[int, KnownEntry]):
    """Up to a million bytes of entries that matched their digests, and their records.

    An entry that is read again is compared with the one that was checked, byte by byte, so that a byte altered in between
    is noticed like any other. From the third time on the record is copied, and at most its body is parsed.
    """

    def __init__(self) -> None:
        super().__init__(_MAX_ENTRY_BYTES)

    def parse(self, row: Sequence[Any], *, keep: bool = True) -> Record:
        """Parse a row of position, entry and digest; raise ``StoreDamaged`` unless the entry matches the digest.

        ``keep`` is false where the caller keeps the record itself.
        """
        (found,) = self.parse_all((row,), keep=keep)
        if isinstance(found, StoreDamaged):
            raise found
        return found

    def parse_all(self, rows: Iterable[Sequence[Any]], *, keep: bool = True) -> list[Record | StoreDamaged]:
        """Parse rows as ``parse`` does, and return the error of a damaged one in its place."""
        found: list[Record | StoreDamaged] = []
        kept: list[tuple[int, KnownEntry]] = []
        for row in rows:
            seq, entry, digest = row[0], row[1], row[2]
            try:
                known = self.get(seq)
                if known is None or known[0] != entry or known[1] != digest:
                    require_digest(entry, digest)
                    record = parse_entry(entry, seq, digest)
                    if keep and len(entry) <= _MAX_ENTRY:
                        kept.append((seq, (entry, digest, None, None)))
                else:
                    _, _, parsed, body = known
                    if parsed is None:
                        parsed = parse_entry(entry, seq, digest)
                        if not _SCALARS.issuperset(map(type, parsed.body.values())):
                            body = canonical_json.encode(parsed.body)
                        kept.append((seq, (entry, digest, parsed, body)))
                    record = copy_record(parsed, {**parsed.body} if body is None else canonical_json.parse(body))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                damage = StoreDamaged(
                    f"The record at position {seq} cannot be read.", hint="Run `lukasa verify` to see what is damaged."
                )
                damage.__cause__ = error
                found.append(damage)
            else:
                found.append(record)
        for seq, known in kept:
            self.keep(seq, known, _ENTRY_BYTES + len(known[0]))
        return found

    def parse_text(self, row: Sequence[Any], *, keep: bool = True) -> str:
        """Parse the text of a row such as ``parse`` takes; raise ``ValueError`` or a similar error if it is damaged."""
        seq, entry, digest = row[0], row[1], row[2]
        known = self.get(seq)
        if known is None or known[0] != entry or known[1] != digest:
            require_digest(entry, digest)
            if keep and len(entry) <= _MAX_ENTRY:
                self.keep(seq, (entry, digest, None, None), _ENTRY_BYTES + len(entry))
        elif known[2] is not None:
            return known[2].text
        text: str = canonical_json.parse(entry).get("text", "")
        return text


class LazyRecords(Sequence[Record], Generic[RowT]):
    """The records just written, parsed only when they are read. A row begins with the position of its record."""

    def __init__(self, rows: Sequence[RowT], parse_row: Callable[[RowT], Record]) -> None:
        self._rows = rows
        self._parse_row = parse_row

    @property
    def seqs(self) -> list[int]:
        """The positions of the records in the log."""
        return [row[0] for row in self._rows]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._parse_row(row) for row in self._rows[index]]
        return self._parse_row(self._rows[index])

    def __iter__(self) -> Iterator[Record]:
        return map(self._parse_row, self._rows)

    def __repr__(self) -> str:
        return f"<{len(self)} records>"


class StoreReader(ABC):
    """Reads records and links; an engine runs its own statements."""

    def __init__(self, reach: Reach, entries: EntryCache | None = None) -> None:
        self._reach = reach
        self._entries = EntryCache() if entries is None else entries  # shared by the readers of one engine
        self.damaged: set[int] = set()
        self.find_fault: Callable[[Record], str | None] | None = None
        self.skips_damaged = False
        self.shares_records = False
        self.position: int | None = None
        self.damaged_vectors: set[int] = set()

    @abstractmethod
    def _select_rows(self, query: Query) -> list[Sequence[Any]]:
        """Select position, entry and digest of the wanted records, in order."""

    @abstractmethod
    def _fetch_row(self, name: str, values: Sequence[Any]) -> Sequence[Any] | None:
        """Run a named statement and return its first row."""

    @abstractmethod
    def _fetch_rows(self, name: str, values: Sequence[Any]) -> Iterable[Sequence[Any]]:
        """Run a named statement and return its rows."""

    @staticmethod
    @abstractmethod
    def _is_storable(values: Iterable[Any]) -> bool:
        """Return whether the database can hold every string; a record with another string cannot exist."""

    def read(self, query: Query = ALL_RECORDS) -> list[Record]:
        if query.limit is not None and query.limit <= 0:
            return []
        rows = self._select_rows(query)
        records = self._parse_rows(rows)
        if query.limit is not None and len(records) < len(rows) == query.limit:  # others take the place of damaged ones
            rest = replace(query, limit=query.limit - len(records))
            edge = rows[-1][0]
            records += self.read(replace(rest, before=edge) if query.newest_first else replace(rest, after=edge))
        return records

    def get_parsed(self, key: Key, parsed: ParsedRecords[T]) -> T | None:
        record = self.get(key)
        return None if record is None else parsed.parse(record)

    def read_parsed(self, query: Query, parsed: ParsedRecords[T]) -> list[T]:
        return [parsed.parse(record) for record in self.read(query)]

    def match_text(
        self, words: str, query: Query = ALL_RECORDS, *, together: str = "", ranks_only: bool = False
    ) -> list[Match]:
        return self._match(lambda wanted: self._match_words(words, together, wanted, ranks_only=ranks_only), query)

    def match_vector(self, model: str, vector: Sequence[float], query: Query = ALL_RECORDS) -> list[Match]:
        return self._match(lambda wanted: self._match_nearest(model, vector, wanted), query)

    def _match(self, match: Callable[[Query], list[Match]], query: Query) -> list[Match]:
        """Return the matches; further matches take the place of damaged ones."""
        if query.limit == 0:
            return []
        found = match(query)
        if self.damaged and query.limit is not None and len(found) < query.limit:
            found = match(replace(query, limit=query.limit + len(self.damaged)))[: query.limit]
        return found

    @abstractmethod
    def _match_words(self, words: str, together: str, query: Query, *, ranks_only: bool) -> list[Match]:
        """Find records by words, as ``match_text``; damaged ones take places of the limit."""

    @abstractmethod
    def _match_nearest(self, model: str, vector: Sequence[float], query: Query) -> list[Match]:
        """Find records by vector, as ``match_vector``; damaged ones take places of the limit."""

    def _parse_rows(self, rows: Iterable[Sequence[Any]], *, keep: bool = True) -> list[Record]:
        """Parse rows of position, entry and digest; damaged ones and those with a fault are left out and counted."""
        given, find_fault, records = list(rows), self.find_fault, []
        for row, found in zip(given, self._entries.parse_all(given, keep=keep), strict=True):
            if isinstance(found, StoreDamaged) or (find_fault is not None and find_fault(found) is not None):
                self.damaged.add(row[0])
            else:
                records.append(found)
        return records

    def _parse_texts(self, rows: Iterable[Sequence[Any]]) -> Iterator[tuple[int, str]]:
        """Parse the texts of rows like those of ``_parse_rows``."""
        parse_text = self._entries.parse_text
        for row in rows:
            try:
                text = parse_text(row)
            except (ValueError, TypeError, AttributeError):
                self.damaged.add(row[0])
            else:
                yield row[0], text

    def get(self, key: Key, *, as_of: Time | int | None = None, version: int | None = None) -> Record | None:
        key_values, readable = (key.scope, key.kind, key.id), self._reach.readable
        if (readable is not None and key.scope not in readable) or not self._is_storable(key_values):
            return None
        if version is not None:
            row = self._fetch_row("get_version", (*key_values, clamp_int64(version)))
        elif as_of is None:
            row = self._fetch_row("get_newest", key_values)
        elif isinstance(as_of, int):
            row = self._fetch_row("get_as_of_seq", (*key_values, clamp_int64(as_of)))
        else:
            row = self._fetch_row("get_as_of_time", (*key_values, to_microseconds(to_utc(as_of))))
        if row is None:
            return None
        try:
            record = self._entries.parse(row)
            if self.find_fault is not None and (fault := self.find_fault(record)) is not None:
                raise StoreDamaged(f"The record at position {row[0]} is not as its kind declares: {fault}.")
        except StoreDamaged:
            self.damaged.add(row[0])
            if self.skips_damaged:
                return None
            raise
        return None if record.deleted else record

    def history(self, key: Key, *, hidden: bool = False) -> list[Record]:
        name = "whole_history" if hidden and self._reach.unlimited else "history"
        return self._parse_rows(self._fetch_of_key(name, key)) if self._reach.reads(key.scope) else []

    def neighbours(self, key: Key, relation: str | None = None) -> list[Neighbour]:
        found: list[Neighbour] = []
        if self._reach.reads(key.scope):
            for name, *target in self._fetch_of_key("links_out", key):
                found.append(Neighbour(name, Key(*target), "out"))
        for name, *source in self._fetch_of_key("links_in", key):
            if self._reach.reads(source[0]):
                found.append(Neighbour(name, Key(*source), "in"))
        return [neighbour for neighbour in found if relation is None or neighbour.relation == relation]

    def descendants(self, keys: Sequence[Key], *, hidden: bool = False) -> list[Key]:
        name = "all_derived_from_key" if hidden and self._reach.unlimited else "derived_from_key"
        found: dict[Key, None] = {}
        frontier = list(keys)
        while frontier:
            for row in list(self._fetch_of_key(name, frontier.pop())):
                child = Key(*row)
                if child not in found and child not in keys and self._reach.reads(child.scope):
                    found[child] = None
                    frontier.append(child)
        return list(found)

    def names_at(self, seqs: Iterable[int]) -> list[str]:
        wanted = json.dumps(sorted(seqs))
        rows = self._fetch_rows("names_at", (wanted,)) if wanted != "[]" else ()
        return [name_entry(*row) for row in rows if self._reach.reads(str(row[1]))]

    def _group_labels(self, records: Iterable[Record], group_label: str) -> dict[int, str]:
        """Return the group labels of the records that have one, by position."""
        return {
            record.seq: f"{group_label}={group}"
            for record in records
            if (group := record.label(group_label)) is not None and self._reach.reads(record.scope)
        }

    def _fetch_of_key(self, name: str, key: Key) -> Iterable[Sequence[Any]]:
        key_values = (key.scope, key.kind, key.id)
        return self._fetch_rows(name, key_values) if self._is_storable(key_values) else ()


def clamp_int64(value: int) -> int:
    """Return the nearest integer that a database can compare."""
    return max(-(2**63), min(value, 2**63 - 1))


def contains_text(entry: bytes | str, piece: str) -> bool:
    """Return whether any string of a record contains a piece of text, letter case ignored; times do not count.

    The answer for a damaged entry is yes: the reader that parses it next counts the damage.
    """
    folded = piece.casefold()
    entry = entry.decode("utf-8", "replace") if isinstance(entry, bytes) else entry
    if folded.isascii() and folded.isalnum() and folded not in entry.casefold():
        return False  # JSON does not escape plain letters and digits
    try:
        return any(folded in value.casefold() for value in _list_strings(entry))
    except ValueError:
        return True


def names_subject(entry: bytes | str, subject: str, *, exact: bool = False) -> bool:
    """Return whether any string of a record has a subject as whole words; letter case counts if ``exact``."""
    pattern = whole_words_pattern(subject if exact else subject.casefold())
    return any(pattern.search(value if exact else value.casefold()) for value in _list_strings(entry))


def _list_strings(entry: bytes | str) -> Iterator[str]:
    """Yield every string of a record, the names of fields too, but for its times."""
    fields = canonical_json.parse(entry)
    pending = [value for name, value in fields.items() if name not in _TIME_FIELDS | {"links"}]
    pending += [part for link in fields.get("links", ()) for part in link.values()]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            pending += value.keys()
            pending += value.values()
        elif isinstance(value, list):
            pending += value


def split_query_words(query: str, limit: int = 1000) -> list[str]:
    """Split any string into its distinct words, as they are written; of long words only the beginning, of many the first."""
    clean = query.encode("utf-8", "replace").decode().replace("\0", " ")
    words = [word[:_MAX_WORD_LENGTH] for word in dict.fromkeys(clean.split())][:limit]
    if len(query) <= MAX_QUERY_LENGTH:
        return words
    ends = accumulate(map(len, words))
    return [word for word, end in zip(words, ends, strict=True) if end <= MAX_QUERY_LENGTH]


def list_query_words(query: str) -> list[str]:
    """List the words of a query, and Korean words without their particles too."""
    words = split_query_words(query)
    return list(dict.fromkeys([*words, *map(strip_particle, words)]))


def is_storable(values: Iterable[Any]) -> bool:
    """Return whether every string among the values is valid Unicode."""
    return all(
        value.isascii() or not canonical_json.SURROGATES.search(value) for value in values if isinstance(value, str)
    )
