"""Reading a SQLite store within one reach."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from lukasa.core.canonical_json import encode_text
from lukasa.core.record import Key, Record
from lukasa.core.scope import Reach
from lukasa.core.text_cache import BoundedCache, cache_texts
from lukasa.errors import StoreDamaged
from lukasa.storage.engine import Match, NearDuplicate, Query, Tally
from lukasa.storage.parsed_records import ParsedRecords
from lukasa.storage.reader import (
    FREQUENCY_CAP,
    MAX_STREAMS,
    Condition,
    Dialect,
    EntryCache,
    StoreReader,
    build_conditions,
    clamp_int64,
    is_storable,
    list_query_words,
    split_query_words,
)
from lukasa.storage.sqlite.reach_search import ReachConditions, score_within_reach
from lukasa.storage.sqlite.sql import SQL
from lukasa.storage.sqlite.unindexed_texts import EXTRA_MATCHES, IndexPhrase, UnindexedTexts, read_texts
from lukasa.text.terms import is_prefix_term, strip_particle

_RECORDS_PER_KEY = 10
_MAX_JOINED_LABELS = 8
_CACHED_BYTES, _CACHED_BYTES_OF_MANY = 14_000_000, 3_000_000
_MANY = 20_000  # in a log of so many entries each question finds other records
_RECORD_BYTES = 700  # of a record in memory, besides its entry

if TYPE_CHECKING:
    from lukasa.storage.sqlite.vectors import RankedCosines

T = TypeVar("T")


def _one_of(column: str, values: Sequence[str]) -> Condition:
    if len(values) == 1:
        return f"{column} = ?", values
    return f"{column} IN ({', '.join('?' for _ in values) or 'NULL'})", values


def _has_labels(labels: Sequence[str]) -> Iterator[Condition]:
    for label in labels:
        condition = "EXISTS (SELECT 1 FROM label AS l WHERE l.label = ? AND l.scope = log.scope AND l.seq = log.seq)"
        yield condition, (label,)


_DIALECT = Dialect(
    placeholder="?",
    current="NOT EXISTS (SELECT 1 FROM not_current WHERE not_current.seq = log.seq)",
    not_hidden="NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)",
    newest_as_of="""CASE WHEN json_valid(line) THEN line ->> 'deleted' IS NULL ELSE TRUE END AND NOT EXISTS (
        SELECT 1 FROM log AS newer WHERE newer.scope = log.scope AND newer.kind = log.kind AND newer.id = log.id
            AND newer.version > log.version AND newer.{bound} <= ?
            AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = newer.seq))""",
    one_of=_one_of,
    has_labels=_has_labels,
    mentions="says(CAST(log.line AS BLOB), ?)",
)


class SqliteReader(StoreReader):
    """Reads over one connection, in the transaction that the connection is in."""

    def __init__(
        self,
        connection: apsw.Connection,
        reach: Reach,
        shared_caches: dict[Any, Any] | None = None,
        entries: EntryCache | None = None,
    ) -> None:
        super().__init__(reach, entries)
        self._db = connection
        self._parsed_records: dict[int, Record] = {}  # text and vector queries often find the same records
        self._known_cosines: tuple[str, Any, RankedCosines | None] = ("", (), None)  # of a model with a vector
        self._shared_caches = shared_caches  # records, vectors and sketches, shared by the readers of one engine

    _is_storable = staticmethod(is_storable)

    def _fetch_row(self, name: str, values: Sequence[Any]) -> Sequence[Any] | None:
        row: Sequence[Any] | None = self._db.execute(SQL[name], values).get
        return row

    def _fetch_rows(self, name: str, values: Sequence[Any]) -> Iterable[Sequence[Any]]:
        return self._db.execute(SQL[name], values)

    def tip(self) -> int:
        if self._reach.readable is None:
            return int(self._db.execute(SQL["tip"]).get)
        pairs = ((row.scope, row.kind) for row in self.tally())
        return max((self._db.execute(SQL["tip_of_kind"], pair).get or 0 for pair in pairs), default=0)

    def tally(self) -> list[Tally]:
        if not self._db.in_transaction:
            self._db.execute("BEGIN")  # a single query that needs the counts first is two statements
        rows: list[Any] = self._db.execute(SQL["tally"]).fetchall()
        if any([type(value) for value in row] != [str, str, int, int] for row in rows):
            raise StoreDamaged(
                "The counts of the store cannot be read.", hint="Run `lukasa verify` to see what is damaged."
            )
        readable = self._reach.readable
        return [Tally(*row) for row in rows if readable is None or row[0] in readable]

    def _select_rows(self, query: Query) -> list[Sequence[Any]]:
        statement, values = self._build_statement(query, "log.seq, CAST(log.line AS BLOB), log.digest")
        return list(self._db.execute(statement, values)) if statement else []

    def get_parsed(self, key: Key, parsed: ParsedRecords[T]) -> T | None:
        values = (key.scope, key.kind, key.id)
        if not self._reach.reads(key.scope) or not is_storable(values):
            return None
        seq = self._db.execute(SQL["find_newest"], values).get
        if seq is None or (value := parsed.known.get(seq)) is not None:
            return None if seq is None else value
        record = self.get(key)
        return None if record is None else parsed.add(record, self._db.execute(SQL["entry_size"], (seq,)).get)

    def read_parsed(self, query: Query, parsed: ParsedRecords[T]) -> list[T]:
        statement, values = self._build_statement(query, "log.seq")
        seqs: list[Any] = [seq for (seq,) in self._db.execute(statement, values)] if statement else []
        found = {seq: parsed.known.get(seq) for seq in seqs}
        if missing := [seq for seq, value in found.items() if value is None]:
            entries: list[Any] = self._db.execute(SQL["entries_at"], (encode_text(missing),)).fetchall()
            sizes = {row[0]: len(row[1]) for row in entries}
            records = self._parse_rows(entries)
            if len(records) < len(missing):  # others take the place of damaged ones
                return super().read_parsed(query, parsed)
            found |= {record.seq: parsed.add(record, sizes[record.seq]) for record in records}
        return list(found.values())  # type: ignore[arg-type]  # none is missing

    def _build_statement(self, query: Query, columns: str) -> tuple[str, Sequence[Any]]:
        """Build the statement that selects columns of the wanted records, in order; "" if no record can be wanted."""
        if query.limit is not None and query.limit <= 0:
            return "", ()
        if len(query.scopes) == 1 and (query.labels or len(query.kinds) == 1):
            return _select_stream(self._reach, query, columns)
        selection, values = self._build_selection(query)
        if not selection or not is_storable(values):
            return "", ()
        direction = "DESC" if query.newest_first else "ASC"
        return SQL["chosen_entries"].format(columns=columns, selection=selection, direction=direction), values

    def _match_words(self, words: str, together: str, query: Query, *, ranks_only: bool) -> list[Match]:
        # Every word is quoted, so that none is an operator. A word with inner punctuation (multi-agent,
        # CVE-2025-64439) becomes a phrase of its parts.
        any_of = [IndexPhrase.from_word(word) for word in list_query_words(words)]
        all_of = [IndexPhrase.from_word(strip_particle(word)) for word in split_query_words(together)]
        alternatives = [phrase.written for phrase in any_of]
        if all_of:
            alternatives.append(f"({' AND '.join(phrase.written for phrase in all_of)})")
        if not alternatives:
            return []
        tables = ("words",) if query.as_of is None and not query.every_version else ("words", "past_words")
        conditions, values = build_conditions(_DIALECT, self._reach, query)
        if not is_storable(values):
            return []
        if not self._db.in_transaction:  # a single query: its statements see one moment, which ends with the snapshot
            self._db.execute("BEGIN")
        if self._reach.readable is not None and not ranks_only:
            return self._match_within_reach(tables, any_of, all_of, conditions, values, query)
        unindexed = read_texts(self._db)
        limit = -1 if query.limit is None else int(query.limit) + (EXTRA_MATCHES if unindexed else 0)
        best = limit if conditions == [_DIALECT.current] else -1  # the table words holds only current texts
        where = " AND ".join(conditions)
        scores: dict[int, float] = {}
        for table in tables:
            statement = SQL["match_indexed"].format(table=table, best=best, conditions=where, limit=limit)
            found = dict(self._db.execute(statement, (" OR ".join(alternatives), *values)))
            if None in found.values():
                raise StoreDamaged("The text index cannot be read.", hint="Run `lukasa doctor --repair` to rebuild it.")
            if table == "words" and unindexed:
                found = self._score_again(unindexed, any_of, all_of, found, where, values)
            scores.update(found)
        matches = [Match(record, scores[record.seq]) for record in self.records(scores)]
        matches.sort(key=lambda match: (-match.score, match.record.seq))
        return matches[: query.limit]

    def _match_within_reach(
        self,
        tables: Sequence[str],
        any_of: Sequence[IndexPhrase],
        all_of: Sequence[IndexPhrase],
        conditions: Sequence[str],
        values: Sequence[Any],
        query: Query,
    ) -> list[Match]:
        """Match words for a caller with limited reach; see ``reach_search``."""
        readable = sorted(self._reach.readable or ())
        split = len(readable)  # the reach comes first among conditions and values
        parts = ReachConditions(conditions[0], values[:split], " AND ".join(conditions[1:]) or "TRUE", values[split:])
        tally = self.tally()
        scores: dict[int, float] = {}
        for table in tables:
            is_live = table == "words"
            texts = sum(row.live if is_live else row.versions - row.live for row in tally)
            new = (
                [(seq, text) for seq, scope, text in read_texts(self._db) if self._reach.reads(scope)]
                if is_live
                else ()
            )
            scores.update(score_within_reach(self._db, table, any_of, all_of, parts, texts, new))
        best = sorted(scores, key=lambda seq: (-scores[seq], seq))[: query.limit]
        records = {record.seq: record for record in self.records(best)}
        return [Match(records[seq], scores[seq]) for seq in best if seq in records]

    def _score_again(
        self,
        unindexed: Iterable[tuple[int, str, str]],
        any_of: Sequence[IndexPhrase],
        all_of: Sequence[IndexPhrase],
        found: Mapping[int, float],
        where: str,
        values: Sequence[Any],
    ) -> dict[int, float]:
        """Return the scores of indexed matches and of those that are not indexed yet, as if all were indexed."""
        texts = UnindexedTexts(unindexed)
        any_of = [phrase for phrase in any_of if phrase.tokens]
        all_of = all_of if all(phrase.tokens for phrase in all_of) else ()  # a phrase of punctuation is in no text
        statement = SQL["wanted_positions"].format(conditions=where)
        matches = self._db.execute(statement, (json.dumps(texts.find_matches(any_of, all_of)), *values))
        indexed = {record.seq: record.text for record in self.records(found)}
        return texts.score(self._db, any_of, all_of, [seq for (seq,) in matches], indexed)

    def _match_nearest(self, model: str, vector: Sequence[float], query: Query) -> list[Match]:
        best = self._find_nearest(model, vector, query)
        records = {record.seq: record for record in self.records(seq for seq, _ in best)}
        return [Match(records[seq], score) for seq, score in best if seq in records]

    def _find_nearest(self, model: str, vector: Sequence[float], query: Query) -> list[tuple[int, float]]:
        from lukasa.storage.sqlite.vectors import EXACT_SEARCH_LIMIT, VectorCache, rank_nearest, rerank_size, scan_size

        conditions, values = build_conditions(_DIALECT, self._reach, query)
        damaged = self.damaged_vectors
        if not is_storable((model, *values)):
            return []
        where = " AND ".join(conditions)
        cache: VectorCache | None = None
        if self._shared_caches is not None and query.limit is not None:
            cache = self._shared_caches.setdefault("vectors", VectorCache())
            vectors = cache.get_vectors(self._db, model, len(vector))
            if vectors is not None:
                cosines = vectors.compare(vector)
                self._known_cosines = (model, vector, cosines)
                return self._choose_nearest(cosines, query, where, values)
        if self._is_narrow(query, EXACT_SEARCH_LIMIT):
            selection, bound = self._build_selection(replace(query, limit=None))
            statement = SQL["vectors_of_selection"].format(selection=selection)
            return rank_nearest(
                vector, self._db.execute(statement, (*bound, model)) if selection else (), query.limit, damaged
            )
        if cache is not None and query.limit is not None:
            sketches = cache.get_sketches(self._db, model)
            count, read = scan_size(len(sketches.seqs)), rerank_size(query.limit, len(vector))
            statement = SQL["vectors_of_nearest"].format(conditions=where, limit=read)
            while max(count, EXACT_SEARCH_LIMIT) < len(sketches.seqs):
                if conditions != [_DIALECT.current]:
                    positions = encode_text(sketches.find_nearest(vector, count))
                    found = self._db.execute(statement, (positions, model, *values))
                    best = rank_nearest(vector, found, query.limit, damaged)
                else:
                    best = sketches.rank_current(
                        self._db, model, vector, count, read, query.limit, damaged, self._edition()
                    )
                if len(best) >= query.limit:
                    return best
                count, read = 8 * count, 8 * read  # a narrow query rejects most of the nearest
        statement = SQL["vectors_of_model"].format(conditions=where)
        return rank_nearest(vector, self._db.execute(statement, (model, *values)), query.limit, damaged)

    def _choose_nearest(
        self, cosines: RankedCosines, query: Query, where: str, values: Sequence[Any]
    ) -> list[tuple[int, float]]:
        """Return the first positions that meet a query, with their cosines."""
        statement = SQL["wanted_positions"].format(conditions=where)

        def find_accepted(seqs: Sequence[int]) -> list[int]:
            return [seq for (seq,) in self._db.execute(statement, (encode_text(seqs), *values))]

        limit = len(cosines.seqs) if query.limit is None else query.limit
        best = cosines.choose_nearest(limit, find_accepted, self._edition(where, *values))
        if best is None:
            selection, bound = self._build_selection(replace(query, limit=None))
            chosen = {seq for (seq,) in self._db.execute(selection, bound)} if selection else set()
            best = list(islice((found for found in cosines.list_nearest() if found[0] in chosen), limit))
        return best

    def _is_narrow(self, query: Query, max_records: int) -> bool:
        """Return whether scopes, kinds or labels leave so few records that all can be compared."""
        if self._reach.readable is None and not (query.scopes or query.kinds or query.labels):
            return False
        pairs = [row for row in self.tally() if _matches_query(row, query)]
        if sum(row.versions for row in pairs) <= max_records:
            return True
        scopes = json.dumps(sorted({row.scope for row in pairs}))
        return any(
            self._db.execute(SQL["count_labelled"], (label, scopes, max_records + 1)).get <= max_records
            for label in query.labels[:1]
        )

    def without_vectors(self, model: str, limit: int) -> list[Record]:
        rows = self._db.execute(SQL["without_vectors"], (model, limit)) if is_storable((model,)) else ()
        return self._parse_rows(row for row in rows if self._reach.reads(str(row[3])))

    def count_without_vectors(self, model: str) -> int:
        if not is_storable((model,)):
            return 0
        if self._reach.readable is None:
            return int(self._db.execute(SQL["count_without_vectors"], (model,)).get)
        scopes = json.dumps(sorted(self._reach.readable))
        return int(self._db.execute(SQL["count_without_vectors_within"], (model, scopes)).get)

    def cosines(self, model: str, vector: Sequence[float], seqs: Sequence[int]) -> dict[int, float]:
        from lukasa.storage.sqlite.vectors import compute_cosines

        if not seqs or not is_storable((model,)):
            return {}
        known_model, known_vector, known = self._known_cosines
        are_matches = self._parsed_records.keys() >= set(seqs)  # of this snapshot, so that they are visible
        if known_vector is vector and known_model == model and are_matches:
            return {} if known is None else known.at(seqs)
        rows: Iterable[Sequence[Any]]
        if are_matches:
            readable = [seq for seq in seqs if self._reach.reads(self._parsed_records[seq].scope)]
            rows = self._db.execute(SQL["vectors_of_matches"], (model, encode_text(sorted(readable))))
        else:
            found_rows = self._db.execute(SQL["vectors_of_positions"], (model, encode_text(sorted(seqs))))
            rows = (row for row in found_rows if self._reach.reads(row[2]))
        found, scores = compute_cosines(vector, rows, self.damaged_vectors)
        best: dict[int, float] = {}
        for seq, score in zip(found, scores.tolist(), strict=True):
            best[seq] = max(score, best.get(seq, -2.0))
        return best

    def frequency(self, tokens: Sequence[str]) -> dict[str, int]:
        wanted = [token for token in dict.fromkeys(tokens) if is_storable((token,))]
        counts = dict.fromkeys(tokens, 0)
        texts = read_texts(self._db)
        unindexed = UnindexedTexts(texts) if texts else None
        if self._reach.readable is None:
            counts.update(self._db.execute(SQL["frequency"], (encode_text(wanted),)))
            for token in filter(is_prefix_term, wanted):
                counts[token] = self._db.execute(SQL["frequency_of_prefix"], (token,)).get
            if unindexed is not None:
                for token in wanted:
                    counts[token] += unindexed.count_token(token, is_prefix=is_prefix_term(token))
        else:
            scopes = json.dumps(sorted(self._reach.readable))
            for token in wanted:
                values = (IndexPhrase.from_word(token).written, scopes, FREQUENCY_CAP)
                counts[token] = self._db.execute(SQL["frequency_within"], values).get
                if unindexed is not None:
                    new_count = unindexed.count_phrase(token, self._reach.readable)
                    counts[token] = min(counts[token] + new_count, FREQUENCY_CAP)
        return counts

    def authors(self, latest: int) -> list[str]:
        largest = sorted(self.tally(), key=lambda row: -row.live)[:MAX_STREAMS]
        rows = (row for pair in largest for row in self._db.execute(SQL["authors"], (pair.scope, pair.kind, latest)))
        return sorted({author for (author,) in rows})

    def near_duplicates(
        self, keys_of_texts: Sequence[Sequence[int]], scope: str, *, kind: str, limit_per_key: int
    ) -> list[NearDuplicate]:
        wanted = sorted({pair_key for pair_keys in keys_of_texts for pair_key in pair_keys})
        if not wanted or limit_per_key < 1 or not self._reach.reads(scope) or not is_storable((scope, kind)):
            return []
        max_rows = _RECORDS_PER_KEY * (len(wanted) + 10)
        rows: list[Any] = self._db.execute(SQL["find_duplicate_keys"], (str(wanted), max_rows)).fetchall()
        seqs_by_key: dict[int, list[int]] = {}
        for pair_key, seq in rows:
            seqs_by_key.setdefault(pair_key, []).append(seq)
        newest = {pair_key: seqs[-limit_per_key:] for pair_key, seqs in seqs_by_key.items()}
        if len(rows) == max_rows:  # the last keys were cut off: read the newest records of each of them
            cut_off = wanted[bisect_left(wanted, rows[-1][0]) :]
            newest.update(self._query_seqs_by_key("newest_with_key", cut_off, limit_per_key))
        full = [pair_key for pair_key, seqs in newest.items() if len(seqs) == limit_per_key]
        keys_of_seq: dict[int, set[int]] = {}
        per_key = len(rows) if len(keys_of_texts) == 1 else 4 * limit_per_key
        for pair_keys in keys_of_texts if full else ():  # records beyond the limit that share several keys of one text
            first_keys: dict[int, int] = {}
            for pair_key in pair_keys:
                for seq in seqs_by_key.get(pair_key, ())[-per_key:]:
                    if seq in first_keys:
                        keys_of_seq.setdefault(seq, {first_keys[seq]}).add(pair_key)
                    first_keys[seq] = pair_key
        repeated = list(keys_of_seq)
        found = self._read_current_texts([*newest.values(), repeated], scope, kind)
        thinned = [pair_key for pair_key in full if any(seq not in found for seq in newest[pair_key])]
        if thinned:  # some of their newest records are not current, so older ones count
            newest.update(self._query_seqs_by_key("newest_current_with_key", thinned, limit_per_key, scope, kind))
            found = self._read_current_texts([*newest.values(), repeated], scope, kind)
        for pair_key, seqs in newest.items():
            for seq in seqs:
                keys_of_seq.setdefault(seq, set()).add(pair_key)
        return [NearDuplicate(id, text, tuple(keys_of_seq[seq])) for seq, (id, text) in found.items()]

    def _query_seqs_by_key(self, name: str, pair_keys: Sequence[int], *values: Any) -> dict[int, list[int]]:
        rows = self._db.execute(SQL[name], (json.dumps(pair_keys), *values))
        return {pair_key: json.loads(seqs) for pair_key, seqs in rows}

    def _read_current_texts(self, seq_lists: Iterable[list[int]], scope: str, kind: str) -> dict[int, tuple[str, str]]:
        """Read id and text of the positions that are current and of that kind and scope, newest first."""
        newest = sorted({seq for seqs in seq_lists for seq in seqs}, reverse=True)
        rows = self._db.execute(SQL["current_texts"], (str(newest), scope, kind)) if newest else ()
        return {seq: (id, text or "") for seq, id, text in rows}

    def adjacent_turns(self, records: Iterable[Record], group_label: str) -> dict[int, tuple[int | None, int | None]]:
        wanted, known = list(records), self._find_known_turns(group_label)
        labels = self._group_labels((record for record in wanted if record.seq not in known), group_label)
        found = {record.seq: known[record.seq] for record in wanted if record.seq in known}
        for seq, before, after in self._db.execute(SQL["adjacent_records"], (json.dumps(labels),)) if labels else ():
            found[seq] = (before, after)
            if seq < _MANY:
                known[seq] = (before, after)
        return found

    def _find_known_turns(self, group_label: str) -> dict[int, tuple[int | None, int | None]]:
        """Return the adjacent turns that readers of this connection found since the store last changed."""
        edition = self._edition(group_label)
        if edition is None or self._shared_caches is None:
            return {}
        cached = self._shared_caches.get("turns")
        if cached is None or cached[0] != edition:
            cached = self._shared_caches["turns"] = (edition, {})
        known: dict[int, tuple[int | None, int | None]] = cached[1]
        return known

    def _edition(self, *details: Any) -> tuple[Any, ...] | None:
        """Return a value that stays the same until the store changes; none unless this reader shares its records."""
        if not self.shares_records or self._shared_caches is None or not self._db.in_transaction:
            return None
        # The first number says whether another connection has written, the second whether this one has.
        return self._db, self._db.execute("PRAGMA data_version").get, self._db.total_changes(), details

    def texts_at(self, seqs: Iterable[int]) -> dict[int, str]:
        missing, shared = list(seqs), self._find_shared_records()
        texts: dict[int, str] = {}
        if shared and not self._db.execute(SQL["has_hidden"]).get:
            found = [record for seq in missing if (record := shared.get(seq)) is not None]
            texts = {record.seq: record.text for record in found if self._reach.reads(record.scope)}
            missing = [seq for seq in missing if seq not in texts]
        missing.sort()  # entries next to each other are on one page
        rows = self._db.execute(SQL["texts_at"], (encode_text(missing),)) if missing else ()
        readable = (row for row in rows if self._reach.reads(row[3]))
        if shared is None:
            return dict(self._parse_texts(readable))
        parse, parse_text = self._entries.parse, self._entries.parse_text
        for row in readable:
            try:
                if row[0] >= _MANY:  # its record would be dropped before another question finds it
                    texts[row[0]] = parse_text(row, keep=False)
                    continue
                record = parse(row, keep=False)
            except (StoreDamaged, ValueError, TypeError, AttributeError):
                self.damaged.add(row[0])
                continue
            texts[record.seq] = record.text
            if self.find_fault is None or self.find_fault(record) is None:
                _share_record(shared, record, len(row[1]))
        return texts

    def records(self, seqs: Iterable[int]) -> list[Record]:
        """Return the records within reach at some positions."""
        wanted, known, shared = list(seqs), self._parsed_records, self._find_shared_records()
        if shared is not None:
            known.update({seq: record for seq in wanted if (record := shared.get(seq)) is not None})
        if missing := sorted(seq for seq in wanted if seq not in known):
            sizes: dict[int, int] = {}

            def read_rows() -> Iterator[Sequence[Any]]:
                for row in self._db.execute(SQL["entries_at"], (encode_text(missing),)):
                    sizes[row[0]] = len(row[1])
                    yield row

            records = self._parse_rows(read_rows(), keep=shared is None)
            known.update({record.seq: record for record in records})
            if shared is not None:
                for record in records:
                    _share_record(shared, record, sizes[record.seq])
        if self._reach.readable is None:
            return [known[seq] for seq in wanted if seq in known]
        return [record for seq in wanted if (record := known.get(seq)) is not None and self._reach.reads(record.scope)]

    def _find_shared_records(self) -> BoundedCache[int, Record] | None:
        """Return the cached records of the readers that find the same faults; none unless this one shares records."""
        if not self.shares_records or self._shared_caches is None:
            return None
        name = ("records", self.find_fault)
        cache: BoundedCache[int, Record] | None = self._shared_caches.get(name)
        return self._shared_caches.setdefault(name, BoundedCache(_CACHED_BYTES)) if cache is None else cache

    def _build_selection(self, query: Query) -> tuple[str, list[Any]]:
        """Build a statement that selects the positions of the wanted records.

        Every pair of scope and kind is a sorted stream in an index, and so is every label in a scope; merging a few
        streams never reads more than the limit asks for.
        """
        pairs = [(row.scope, row.kind) for row in self.tally() if _matches_query(row, query)]
        if not pairs:
            return "", []
        conditions, values = build_conditions(_DIALECT, self._reach, query)
        if query.labels:
            bounds, bound = _bound_labels(query)
            head = SQL["label_stream"].format(bounds=bounds)
            streams = [(head, [query.labels[0], scope, *bound]) for scope in sorted({scope for scope, _ in pairs})]
        elif self._reach.readable is None and not query.scopes and not query.kinds:
            streams = []
        else:
            head = SQL["kind_stream"]
            streams = [(head, [scope, kind]) for scope, kind in pairs]
        if not streams or len(streams) > MAX_STREAMS:
            streams = [(SQL["whole_stream"], [])]
        selection = " UNION ALL ".join(f"{head} AND {' AND '.join(conditions)}" for head, _ in streams)
        selection += f" ORDER BY seq {'DESC' if query.newest_first else 'ASC'}"
        if query.limit is not None:
            selection += f" LIMIT {int(query.limit)}"
        return selection, [value for _, own in streams for value in (*own, *values)]


def _share_record(cache: BoundedCache[int, Record], record: Record, size: int) -> None:
    """Keep a record that a search found. An entry of the log never changes, and no position is used again."""
    if record.seq >= _MANY:
        cache.max_bytes = _CACHED_BYTES_OF_MANY
    cache.keep(record.seq, record, _RECORD_BYTES + size)


def _bound_labels(query: Query) -> tuple[str, list[int]]:
    """Repeat the limits of a query on the label, so that its stream is entered at that position and not at its end."""
    as_of = query.as_of if isinstance(query.as_of, int) else None
    limits = [
        (op, limit) for op, limit in ((">", query.after), ("<", query.before), ("<=", as_of)) if limit is not None
    ]
    bounds = "".join(f" AND label.seq {operator} ?" for operator, _ in limits)
    return bounds, [clamp_int64(limit) for _, limit in limits]


@cache_texts(1_000)
def _select_stream(reach: Reach, query: Query, columns: str) -> tuple[str, Sequence[Any]]:
    """Build the statement of a query that reads one sorted stream of an index: a label in a scope, or a kind in one."""
    (scope,) = query.scopes
    if not reach.reads(scope):
        return "", ()
    within = reach if reach.readable is None else Reach.of((scope,))
    direction = "DESC" if query.newest_first else "ASC"
    if query.labels:
        bounds, bound = _bound_labels(query)
        joined = query.labels[1:_MAX_JOINED_LABELS]
        others = [f"other_{number}" for number in range(len(joined))]  # joined before the log: they need no entry
        log = "log"
        if columns == "log.seq" and len(query.kinds) == 1:  # the index says it all, on a tenth of the pages
            log = "log INDEXED BY log_by_kind ON log.scope = label.scope AND log.seq = label.seq"
        tables = " CROSS JOIN ".join(("label", *(f"label AS {name}" for name in others), log))
        head = f"{tables} WHERE label.label = ? AND label.scope = ?{bounds} AND log.seq = label.seq"
        for name in others:
            head += f" AND {name}.label = ? AND {name}.scope = label.scope AND {name}.seq = label.seq"
        own: list[Any] = [query.labels[0], scope, *bound, *joined]
        rest = replace(query, scopes=(), labels=query.labels[_MAX_JOINED_LABELS:])
        conditions, values = build_conditions(_DIALECT, within, rest)
        order = "label.seq"
    else:
        head, own, order = "log WHERE log.scope = ? AND log.kind = ?", [scope, query.kinds[0]], "log.seq"
        conditions, values = build_conditions(_DIALECT, within, replace(query, scopes=(), kinds=()))
    if not is_storable((*own, *values)):
        return "", ()
    limit = "" if query.limit is None else f" LIMIT {int(query.limit)}"
    statement = SQL["stream"].format(
        columns=columns, head=head, conditions=" AND ".join(conditions), order=order, direction=direction, limit=limit
    )
    return statement, (*own, *values)


def _matches_query(row: Tally, query: Query) -> bool:
    return (not query.kinds or row.kind in query.kinds) and (not query.scopes or row.scope in query.scopes)
