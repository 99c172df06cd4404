"""Reading a PostgreSQL store within one reach."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from psycopg import Cursor

from lukasa.core.record import Record
from lukasa.core.scope import Reach
from lukasa.storage.engine import Match, NearDuplicate, Query, Tally
from lukasa.storage.postgres import text_index
from lukasa.storage.postgres.batch import format_integers
from lukasa.storage.postgres.connection import Values
from lukasa.storage.postgres.sql import SQL
from lukasa.storage.postgres.vectors import build_missing_vectors_count, build_missing_vectors_query, find_nearest
from lukasa.storage.reader import (
    FREQUENCY_CAP,
    MAX_STREAMS,
    Condition,
    Dialect,
    EntryCache,
    StoreReader,
    build_conditions,
    clamp_int64,
    contains_text,
    is_storable,
)
from lukasa.text.terms import is_prefix_term

_PAGE_SIZE = 1000
_CANDIDATES_PER_RESULT = 10
_MIN_CANDIDATES = 300
_MAX_RANKED_PHRASES = 30
_NO_LIMIT = 2**63 - 1
_LARGE_STORE = 20_000
"""From this position on a match scores texts together that have the same score."""
_KEY_FIELDS = ("scope", "kind", "id", "bound")
_OF_ONE_KEY = frozenset({"get_version", "get_newest"})
"""Statements that name the parts of a key more than once."""


def _one_of(column: str, values: Sequence[str]) -> Condition:
    return f"{column} = ANY(%s)", [list(values)]


def _has_labels(labels: Sequence[str]) -> Iterator[Condition]:
    yield "log.labels <> '{}' AND log.labels @> %s::text[]", [list(labels)]


_DIALECT = Dialect(
    placeholder="%s",
    current="log.live",
    not_hidden="NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = log.scope AND hidden.seq = log.seq)",
    newest_as_of="""NOT log.deleted AND NOT EXISTS (
        SELECT 1 FROM log AS newer WHERE newer.scope = log.scope AND newer.kind = log.kind AND newer.id = log.id
            AND newer.version > log.version AND newer.{bound} <= %s
            AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = newer.scope AND hidden.seq = newer.seq))""",
    one_of=_one_of,
    has_labels=_has_labels,
)


class PostgresSnapshot(Protocol):
    """The transaction that a reader reads in."""

    @property
    def newest_position(self) -> int:
        """The newest position that is known; the store may have grown since."""

    def note_position(self, position: int) -> None:
        """Remember a position of the store."""

    def run(self, statement: str, values: Values = ()) -> Cursor[tuple[Any, ...]]: ...
    def keep_moment(self) -> None:
        """Let every later statement see the same moment."""

    def find_settled_position(self, *, wait: bool = True) -> int | None:
        """Return the position up to which no new entry can appear; None when no other writer is active.

        With ``wait``, writers at work are waited for a moment.
        """


class PostgresReader(StoreReader):
    """Reads over one connection, in the transaction that the connection is in."""

    def __init__(self, snapshot: PostgresSnapshot, reach: Reach, entries: EntryCache | None = None) -> None:
        super().__init__(reach, entries)
        self._snapshot = snapshot
        self._scopes = None if reach.readable is None else sorted(reach.readable)

    @staticmethod
    def _is_storable(values: Iterable[Any]) -> bool:
        flat = [part for value in values for part in (value if isinstance(value, list) else [value])]
        return is_storable(flat) and not any("\0" in part for part in flat if isinstance(part, str))

    def _fetch_row(self, name: str, values: Sequence[Any]) -> Sequence[Any] | None:
        return self._fetch_rows(name, values).fetchone()

    def _fetch_rows(self, name: str, values: Sequence[Any]) -> Cursor[tuple[Any, ...]]:
        if name in _OF_ONE_KEY:
            return self._snapshot.run(SQL[name], dict(zip(_KEY_FIELDS, values, strict=False)))
        return self._run_within_reach(SQL[name], values)

    def _run_within_reach(self, statement: str, values: Sequence[Any]) -> Cursor[tuple[Any, ...]]:
        """Run a statement; ``WITHIN_REACH(column)`` becomes a condition by which the server skips other scopes' partitions."""
        before, mark, rest = statement.partition("WITHIN_REACH(")
        column, _, after = rest.partition(")")
        if mark and self._scopes is None:
            statement = f"{before}TRUE{after}"
        elif mark:
            place = before.count("%s")
            statement, values = f"{before}{column} = ANY(%s){after}", [*values[:place], self._scopes, *values[place:]]
        return self._snapshot.run(statement, values)

    def _settled_position(self, *, wait: bool = True) -> int:
        position = self._snapshot.find_settled_position(wait=wait)
        return _NO_LIMIT if position is None else position

    def tip(self) -> int:
        settled = self._settled_position()
        if self._scopes is None:
            row = self._fetch_row("tip", (settled,))
        else:
            row = self._fetch_row("tip_of_scopes", (self._scopes, settled))
        return int(row[0]) if row is not None else 0

    def tally(self) -> list[Tally]:
        return [Tally(*row) for row in self._fetch_rows("tally", ())]

    def _select_rows(self, query: Query) -> list[Sequence[Any]]:
        conditions, values = build_conditions(_DIALECT, self._reach, query)
        if not self._is_storable(values):
            return []
        if query.after is not None and (settled := self._snapshot.find_settled_position()) is not None:
            conditions.append("log.seq <= %s")
            values.append(settled)
        direction = "DESC" if query.newest_first else "ASC"
        statement = SQL["select_entries"].format(conditions=" AND ".join(conditions), direction=direction)
        if query.mentions is not None:
            return list(self._select_mentions(query.mentions, statement, values, query.limit))
        if query.limit is not None:
            statement += " LIMIT %s"
            values.append(clamp_int64(query.limit))
        return list(self._snapshot.run(statement, values))

    def _select_mentions(
        self, piece: str, statement: str, values: list[Any], limit: int | None
    ) -> Iterator[Sequence[Any]]:
        """Read page by page until enough records contain the piece, which is checked here and not on the server."""
        found = offset = 0
        while True:
            page = self._snapshot.run(f"{statement} LIMIT {_PAGE_SIZE} OFFSET {offset}", values).fetchall()
            for row in page:
                if contains_text(row[1], piece):
                    yield row
                    found += 1
                    if found == limit:
                        return
            if len(page) < _PAGE_SIZE:
                return
            offset += _PAGE_SIZE

    def _match_words(self, words: str, together: str, query: Query, *, ranks_only: bool) -> list[Match]:  # noqa: ARG002 - scores are always of texts within reach
        text_query = text_index.TextQuery.from_words(words, together)
        if not text_query.phrases:
            return []
        conditions, values = build_conditions(_DIALECT, self._reach, query)
        if not self._is_storable(values):
            return []
        scored: list[tuple[float, int]] = []
        found: list[Match] = []
        is_plain = text_query.is_plain and len(text_query.phrases) <= _MAX_RANKED_PHRASES and query.mentions is None
        scope_conditions = 0 if self._reach.readable is None else 1
        is_whole = conditions[scope_conditions:] == [_DIALECT.current] and not query.scopes
        counts = is_plain and not text_query.all_of and is_whole
        if not counts:  # the words are counted before the texts are matched
            self._snapshot.keep_moment()
        for live in (True,) if query.as_of is None and not query.every_version else (True, False):
            meant = (conditions, values) if is_whole else ([*conditions, "log.live = %s"], [*values, live])
            if is_plain:
                found += self._match_tokens(text_query, *meant, query, live=live, counts=counts)
                continue
            corpus = self._read_corpus_stats(text_query, live=live)
            if any(corpus.texts_with_phrase.values()):
                scored += self._score_matches(text_query, corpus, *meant, query)
        if scored:
            scored.sort(key=lambda row: (-row[0], row[1]))
            best = scored[: query.limit]
            records = {record.seq: record for record in self.records(seq for _, seq in best)}
            found = [Match(records[seq], score) for score, seq in best if seq in records]
        return sorted(found, key=lambda match: (-match.score, match.record.seq))[: query.limit]

    def _match_tokens(
        self,
        text_query: text_index.TextQuery,
        conditions: list[str],
        values: list[Any],
        query: Query,
        *,
        live: bool,
        counts: bool,
    ) -> list[Match]:
        """Match texts, current ones or others, that hold some tokens; the server finds and scores them.

        With ``counts`` it also counts the texts with each token: every text that has one matches.
        """
        times: list[Any] = list(text_query.phrases.values())
        if not counts:
            corpus = self._read_corpus_stats(text_query, live=live).texts_with_phrase
            times = [value for phrase, n in text_query.phrases.items() for value in (n, *[corpus.get(phrase, 0)] * 3)]
            if not any(corpus.values()):
                return []
        phrases = [text_index.format_phrase(phrase) for phrase in text_query.phrases]
        tsquery = text_query.format_tsquery(list(text_query.phrases))
        is_large = self._snapshot.newest_position >= _LARGE_STORE
        statement = text_index.build_token_match(len(phrases), tuple(conditions), counts=counts, is_large=is_large)
        limit = _NO_LIMIT if query.limit is None else clamp_int64(query.limit)
        bound = (*phrases, tsquery, *values, live, live, *times, limit, limit)
        rows = self._run_within_reach(statement, bound).fetchall()
        scores = {row[0]: row[3] for row in rows}
        self._snapshot.note_position(max(scores, default=0))
        return [Match(record, scores[record.seq]) for record in self._parse_rows(row[:3] for row in rows)]

    def _read_corpus_stats(self, text_query: text_index.TextQuery, *, live: bool) -> text_index.CorpusStats:
        """Read the figures of the texts within reach, current ones or others, that the ranking needs."""
        texts, tokens = self._fetch_row("corpus_stats", (live, live)) or (0, 0)
        phrases = list(text_query.phrases)
        formatted = [text_index.format_phrase(phrase) for phrase in phrases]
        rows = self._fetch_rows("count_phrases", (formatted, live))
        return text_index.CorpusStats(texts, tokens, {phrases[number - 1]: count for number, count in rows})

    def _score_matches(
        self,
        text_query: text_index.TextQuery,
        corpus: text_index.CorpusStats,
        conditions: list[str],
        values: list[Any],
        query: Query,
    ) -> list[tuple[float, int]]:
        """Return scores and positions of matching texts; with a limit, only of those that come near the best."""
        phrases = [phrase for phrase in text_query.phrases if corpus.texts_with_phrase.get(phrase)]
        tsquery = text_query.format_tsquery(phrases)
        if not tsquery:
            return []
        order, order_values = "", list[Any]()
        if query.limit is not None and query.mentions is None:
            rarest = sorted(phrases, key=corpus.phrase_weight, reverse=True)[:_MAX_RANKED_PHRASES]
            rank = " + ".join("%s * ts_rank('{1, 1, 1, 1}', log.words, %s::tsquery)" for _ in rarest)
            average = max(corpus.tokens / corpus.texts, 1.0) if corpus.texts else 1.0
            order = f" ORDER BY ({rank}) / (1.3 + 0.9 * log.tokens / %s) DESC, log.seq LIMIT %s"
            for phrase in rarest:
                order_values += (corpus.phrase_weight(phrase), text_index.format_phrase(phrase))
            order_values += (average, max(_CANDIDATES_PER_RESULT * query.limit, _MIN_CANDIDATES))
        line = "log.line" if query.mentions is not None else "NULL::text AS line"
        statement = SQL["match_phrases"].format(line=line, conditions=" AND ".join(conditions), order=order)
        texts: dict[int, tuple[int, dict[str, list[int] | None]]] = {}
        prefixes = [token for token in text_query.tokens if token.endswith("*")]
        patterns = [prefix[:-1] + "%" for prefix in prefixes]
        bound = (tsquery, *values, *order_values, text_query.tokens, patterns)
        for seq, length, entry, token, positions in self._snapshot.run(statement, bound):
            if query.mentions is None or contains_text(entry, query.mentions):
                found = texts.setdefault(seq, (length, {}))[1]
                found[token] = positions
                for prefix in prefixes:
                    if token.startswith(prefix[:-1]):
                        known = found.get(prefix, [])
                        found[prefix] = None if known is None or positions is None else [*known, *positions]
        return text_index.bm25_scores(text_query, corpus, texts)

    def _match_nearest(self, model: str, vector: Sequence[float], query: Query) -> list[Match]:
        conditions, values = build_conditions(_DIALECT, self._reach, query)
        if not vector or not self._is_storable((model, *values)):
            return []
        limit = query.limit if query.mentions is None else None
        best = find_nearest(self._run_within_reach, model, vector, conditions, values, limit)
        rows: Iterable[Sequence[Any]] = self._fetch_rows("entries_at", ([seq for seq, _ in best],)) if best else ()
        if query.mentions is not None:
            piece = query.mentions
            rows = (row for row in rows if contains_text(row[1], piece))
        records = {record.seq: record for record in self._parse_rows(rows)}
        return [Match(records[seq], score) for seq, score in best if seq in records][: query.limit]

    def without_vectors(self, model: str, limit: int) -> list[Record]:
        if not self._is_storable((model,)):
            return []
        values = [self._settled_position(wait=False), limit, limit]
        statement = build_missing_vectors_query(self._snapshot.run, model)
        return self._parse_rows(self._run_within_reach(statement, values))

    def count_without_vectors(self, model: str) -> int:
        if not self._is_storable((model,)):
            return 0
        statement = build_missing_vectors_count(self._snapshot.run, model)
        row = self._run_within_reach(statement, (_NO_LIMIT, _NO_LIMIT)).fetchone()
        return int(row[0]) if row is not None else 0

    def cosines(self, model: str, vector: Sequence[float], seqs: Sequence[int]) -> dict[int, float]:
        if not seqs or not vector or not self._is_storable((model,)):
            return {}
        conditions, values = build_conditions(_DIALECT, self._reach, Query(every_version=True))
        wanted = ["log.seq = ANY(%s)", *conditions], [list(seqs), *values]
        return dict(find_nearest(self._run_within_reach, model, vector, *wanted, None))

    def frequency(self, tokens: Sequence[str]) -> dict[str, int]:
        counts = dict.fromkeys(tokens, 0)
        wanted = [token for token in counts if token and self._is_storable((token,))]
        phrases = [text_index.format_phrase((token + "*" if is_prefix_term(token) else token,)) for token in wanted]
        for token, count in self._fetch_rows("frequency", (FREQUENCY_CAP, wanted, phrases)):
            counts[token] = count
        return counts

    def authors(self, latest: int) -> list[str]:
        kinds_of_scope: dict[str, list[str]] = {}
        for row in sorted(self.tally(), key=lambda row: -row.live)[:MAX_STREAMS]:
            kinds_of_scope.setdefault(row.scope, []).append(row.kind)
        found: set[str] = set()
        for scope, kinds in kinds_of_scope.items():
            found.update(author for (author,) in self._fetch_rows("authors", (kinds, scope, latest)))
        return sorted(found)

    def near_duplicates(
        self, keys_of_texts: Sequence[Sequence[int]], scope: str, *, kind: str, limit_per_key: int
    ) -> list[NearDuplicate]:
        wanted = sorted({pair_key for pair_keys in keys_of_texts for pair_key in pair_keys})
        if not wanted or limit_per_key < 1 or not self._reach.reads(scope) or not self._is_storable((scope, kind)):
            return []
        rows = self._fetch_rows(
            "near_duplicates", (format_integers(wanted), scope, limit_per_key, limit_per_key, scope, kind)
        )
        return [
            NearDuplicate(id, text, pair_keys)
            for seq, id, line, digest, pair_keys in rows
            for _, text in self._parse_texts([(seq, line, digest)])
        ]

    def adjacent_turns(self, records: Iterable[Record], group_label: str) -> dict[int, tuple[int | None, int | None]]:
        wanted = list(records)
        labels, scopes = self._group_labels(wanted, group_label), {record.seq: record.scope for record in wanted}
        found: dict[int, tuple[int | None, int | None]] = {}
        # The first statement finds the records whose group label the engine indexes, the second one all others.
        for name in ("adjacent_in_group", "adjacent_by_label"):
            if labels:
                values = (list(labels), [scopes[seq] for seq in labels], list(labels.values()))
                for seq, before, after in self._fetch_rows(name, values):
                    found[seq] = (before, after)
                    del labels[seq]
        return found

    def texts_at(self, seqs: Iterable[int]) -> dict[int, str]:
        return dict(self._parse_texts(self._fetch_rows("texts_at", (list(seqs),))))

    def records(self, seqs: Iterable[int]) -> list[Record]:
        """Return the records within reach at some positions."""
        wanted = list(seqs)
        rows = self._fetch_rows("entries_at", (wanted,)) if wanted else ()
        return [record for record in self._parse_rows(rows) if self._reach.reads(record.scope)]
