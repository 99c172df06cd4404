"""Looking at the log through the wall of one reach."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from psycopg import Cursor

from lukasa.clock import to_microseconds
from lukasa.errors import StoreDamaged
from lukasa.record import Key, Record, parse_entry
from lukasa.scope import Reach
from lukasa.storage.engine import ALL_RECORDS, AsOf, Match, NearDuplicate, Query, Tally
from lukasa.storage.links import LinkTraversal
from lukasa.storage.postgres import text_index
from lukasa.storage.postgres.sql import SQL
from lukasa.storage.postgres.vectors import build_missing_vectors_clause, find_nearest
from lukasa.storage.text_match import contains_text, is_storable

_NOT_HIDDEN = "NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = log.scope AND hidden.seq = log.seq)"
_NEWEST_AS_OF = """NOT log.deleted AND NOT EXISTS (
    SELECT 1 FROM log AS newer WHERE newer.scope = log.scope AND newer.kind = log.kind AND newer.id = log.id
        AND newer.version > log.version AND newer.{bound} <= %s
        AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = newer.scope AND hidden.seq = newer.seq))"""
_PAGE_SIZE = 1000
_CANDIDATES_PER_RESULT = 10
_MIN_CANDIDATES = 300
_MAX_RANKED_PHRASES = 30
_FREQUENCY_CAP = 1000
_MAX_STREAMS = 40


class PostgresSnapshot(Protocol):
    """The transaction that is looked at."""

    def run(self, statement: str, values: Sequence[Any] = ()) -> Cursor[tuple[Any, ...]]: ...
    def find_settled_position(self) -> int | None:
        """Up to which position nothing can come before any more; ``None`` when nobody else is writing here."""


class PostgresReader(LinkTraversal):
    """Reads over one connection, in whatever transaction that connection is in."""

    def __init__(self, snapshot: PostgresSnapshot, reach: Reach) -> None:
        self._snapshot = snapshot
        self._reach = reach

    def get(self, key: Key, *, as_of: AsOf | None = None, version: int | None = None) -> Record | None:
        place = (key.scope, key.kind, key.id)
        if not self._reach.reads(key.scope) or not _is_storable(place):
            return None
        if version is not None:
            row = self._snapshot.run(SQL["get_version"], (*place, _clamp_int64(version))).fetchone()
        elif as_of is None:
            row = self._snapshot.run(SQL["get_now"], place).fetchone()
        elif isinstance(as_of, int):
            row = self._snapshot.run(SQL["get_as_of_seq"], (*place, _clamp_int64(as_of))).fetchone()
        else:
            row = self._snapshot.run(SQL["get_as_of_time"], (*place, to_microseconds(as_of))).fetchone()
        if row is None:
            return None
        record = _parse_row(row)
        return None if record.deleted else record

    def history(self, key: Key, *, hidden: bool = False) -> list[Record]:
        place = (key.scope, key.kind, key.id)
        if not self._reach.reads(key.scope) or not _is_storable(place):
            return []
        name = "whole_history" if hidden and self._reach.unlimited else "history"
        return [_parse_row(row) for row in self._snapshot.run(SQL[name], place)]

    def tip(self) -> int:
        horizon = self._snapshot.find_settled_position()
        bound = 2**63 - 1 if horizon is None else horizon
        if self._reach.readable is None:
            row = self._snapshot.run(SQL["tip"], (bound,)).fetchone()
        else:
            row = self._snapshot.run(SQL["tip_of_scopes"], (sorted(self._reach.readable), bound)).fetchone()
        return int(row[0]) if row is not None else 0

    def tally(self) -> list[Tally]:
        readable = self._readable_scopes()
        return [Tally(*row) for row in self._snapshot.run(SQL["tally"], (readable, readable))]

    def read(self, query: Query = ALL_RECORDS) -> list[Record]:
        if query.limit is not None and query.limit <= 0:
            return []
        conditions, values = self._build_conditions(query)
        if not _is_storable(values):
            return []
        if query.after is not None and (horizon := self._snapshot.find_settled_position()) is not None:
            conditions.append("log.seq <= %s")
            values.append(horizon)
        direction = "DESC" if query.newest_first else "ASC"
        statement = f"SELECT seq, line, digest FROM log WHERE {' AND '.join(conditions)} ORDER BY seq {direction}"  # noqa: S608 - only our own fragments, values are bound
        if query.mentions is not None:
            return list(self._read_mentions(query.mentions, statement, values, query.limit))
        if query.limit is not None:
            statement += " LIMIT %s"
            values.append(_clamp_int64(query.limit))
        return [_parse_row(row) for row in self._snapshot.run(statement, values)]

    def _read_mentions(self, piece: str, statement: str, values: list[Any], limit: int | None) -> Iterator[Record]:
        """Reads on until enough records say it: what a record says is judged here, not on the server."""
        found = offset = 0
        while True:
            page = self._snapshot.run(f"{statement} LIMIT {_PAGE_SIZE} OFFSET {offset}", values).fetchall()
            for row in page:
                if contains_text(row[1], piece):
                    yield _parse_row(row)
                    found += 1
                    if found == limit:
                        return
            if len(page) < _PAGE_SIZE:
                return
            offset += _PAGE_SIZE

    def _query_links(self, name: str, key: Key) -> Iterable[Sequence[Any]]:
        place = (key.scope, key.kind, key.id)
        return self._snapshot.run(SQL[name], place) if _is_storable(place) else ()

    def match_text(self, words: str, query: Query = ALL_RECORDS, *, together: str = "") -> list[Match]:
        question = text_index.TextQuery.from_words(words, together)
        if not question.phrases or query.limit == 0:
            return []
        conditions, values = self._build_conditions(query)
        if not _is_storable(values):
            return []
        ages = (True,) if query.as_of is None and not query.every_version else (True, False)
        scored: list[tuple[float, int, Any]] = []
        for live in ages:
            corpus = self._read_corpus_stats(question, live=live)
            if any(corpus.texts_with_phrase.values()):
                scored += self._score_matches(question, corpus, [*conditions, "log.live = %s"], [*values, live], query)
        scored.sort(key=lambda row: (-row[0], row[1]))
        best = scored[: query.limit]
        records = {record.seq: record for record in self.records(seq for _, seq, _ in best)}
        return [Match(records[seq], score) for score, seq, _ in best]

    def _read_corpus_stats(self, text_query: text_index.TextQuery, *, live: bool) -> text_index.CorpusStats:
        """What the ranking must know of the texts within this reach, live ones or past ones."""
        readable = self._readable_scopes()
        row = self._snapshot.run(SQL["corpus"], (live, live, readable, readable)).fetchone()
        phrases = list(text_query.phrases)
        spelled = [text_index.format_phrase(phrase) for phrase in phrases]
        holding = self._snapshot.run(SQL["holding"], (spelled, live, readable, readable))
        counts = {phrases[number - 1]: count for number, count in holding}
        texts, tokens = row if row is not None else (0, 0)
        return text_index.CorpusStats(texts, tokens, counts)

    def _score_matches(
        self,
        text_query: text_index.TextQuery,
        corpus: text_index.CorpusStats,
        conditions: list[str],
        values: list[Any],
        query: Query,
    ) -> list[tuple[float, int, Any]]:
        """The matching texts with their scores; where few are wanted, only those that come near the best."""
        phrases = [phrase for phrase in text_query.phrases if corpus.texts_with_phrase.get(phrase)]
        anything = text_query.format_tsquery(phrases)
        if not anything:
            return []
        rough, bound = "", list[Any]()
        if query.limit is not None and query.mentions is None:
            telling = sorted(phrases, key=corpus.phrase_weight, reverse=True)[:_MAX_RANKED_PHRASES]
            rank = " + ".join("%s * ts_rank('{1, 1, 1, 1}', log.words, %s::tsquery)" for _ in telling)
            average = max(corpus.tokens / corpus.texts, 1.0) if corpus.texts else 1.0
            rough = f" ORDER BY ({rank}) / (1.3 + 0.9 * log.tokens / %s) DESC, log.seq LIMIT %s"
            bound = [
                part for phrase in telling for part in (corpus.phrase_weight(phrase), text_index.format_phrase(phrase))
            ]
            bound += [average, max(_CANDIDATES_PER_RESULT * query.limit, _MIN_CANDIDATES)]
        wanted = "log.seq, log.tokens, log.words" + (
            ", log.line" if query.mentions is not None else ", NULL::text AS line"
        )
        statement = f"""SELECT found.seq, found.tokens, found.line, word.lexeme, word.positions::integer[] FROM (
                SELECT {wanted} FROM log WHERE log.words @@ %s::tsquery AND {" AND ".join(conditions)}{rough}
            ) AS found CROSS JOIN LATERAL unnest(found.words) AS word WHERE word.lexeme = ANY(%s)"""  # noqa: S608 - only our own fragments, values are bound
        places: dict[int, tuple[int, dict[str, list[int] | None]]] = {}
        for seq, length, line, token, where in self._snapshot.run(
            statement, (anything, *values, *bound, text_query.tokens)
        ):
            if query.mentions is None or contains_text(line, query.mentions):
                places.setdefault(seq, (length, {}))[1][token] = where
        return [
            (text_index.bm25_score(text_query, corpus, where, length), seq, None)
            for seq, (length, where) in places.items()
        ]

    def match_vector(self, model: str, vector: Sequence[float], query: Query = ALL_RECORDS) -> list[Match]:
        conditions, values = self._build_conditions(query)
        if query.limit == 0 or not vector or not _is_storable((model, *values)):
            return []
        if query.mentions is not None:
            wanted = find_nearest(self._snapshot.run, model, vector, conditions, values, None)
            records = {record.seq: record for record in self.records(seq for seq, _ in wanted)}
            said = {
                row[0]
                for row in self._snapshot.run(SQL["lines_of_seqs"], (list(records),))
                if contains_text(row[1], query.mentions)
            }
            best = [(seq, score) for seq, score in wanted if seq in said][: query.limit]
        else:
            best = find_nearest(self._snapshot.run, model, vector, conditions, values, query.limit)
            records = {record.seq: record for record in self.records(seq for seq, _ in best)}
        return [Match(records[seq], score) for seq, score in best]

    def without_vectors(self, model: str, limit: int) -> list[Record]:
        if not _is_storable((model,)):
            return []
        horizon = self._snapshot.find_settled_position()
        values = [readable := self._readable_scopes(), readable, 2**63 - 1 if horizon is None else horizon, limit]
        statement = f"SELECT log.seq, log.line, log.digest {build_missing_vectors_clause(self._snapshot.run, model)} ORDER BY log.seq LIMIT %s"
        return [_parse_row(row) for row in self._snapshot.run(statement, values)]

    def count_without_vectors(self, model: str) -> int:
        if not _is_storable((model,)):
            return 0
        horizon = self._snapshot.find_settled_position()
        values = [readable := self._readable_scopes(), readable, 2**63 - 1 if horizon is None else horizon]
        row = self._snapshot.run(
            f"SELECT count(*) {build_missing_vectors_clause(self._snapshot.run, model)}", values
        ).fetchone()
        return int(row[0]) if row is not None else 0

    def cosines(self, model: str, vector: Sequence[float], seqs: Sequence[int]) -> dict[int, float]:
        if not seqs or not vector or not _is_storable((model,)):
            return {}
        conditions, values = self._build_conditions(Query(every_version=True))
        wanted = ["log.seq = ANY(%s)", *conditions], [list(seqs), *values]
        return dict(find_nearest(self._snapshot.run, model, vector, *wanted, None))

    def frequency(self, tokens: Sequence[str]) -> dict[str, int]:
        counts = dict.fromkeys(tokens, 0)
        wanted = [token for token in counts if token and _is_storable((token,))]
        spelled = [text_index.format_phrase((token,)) for token in wanted]
        readable = self._readable_scopes()
        counts.update(self._snapshot.run(SQL["frequency"], (readable, readable, _FREQUENCY_CAP, wanted, spelled)))
        return counts

    def authors(self, latest: int) -> list[str]:
        pairs = sorted(self.tally(), key=lambda row: -row.live)[:_MAX_STREAMS]
        rows = self._snapshot.run(SQL["authors"], ([row.scope for row in pairs], [row.kind for row in pairs], latest))
        return [author for (author,) in rows]

    def near_duplicates(
        self, keys_of_texts: Sequence[Sequence[int]], scope: str, *, kind: str, limit_per_key: int
    ) -> list[NearDuplicate]:
        wanted = sorted({mark for marks in keys_of_texts for mark in marks})
        if not wanted or limit_per_key < 1 or not self._reach.reads(scope) or not _is_storable((scope, kind)):
            return []
        return [
            NearDuplicate(*row)
            for row in self._snapshot.run(SQL["bearing"], (scope, kind, wanted, wanted, limit_per_key))
        ]

    def adjacent_turns(self, records: Iterable[Record]) -> dict[int, tuple[int | None, int | None]]:
        readable = self._readable_scopes()
        rows = self._snapshot.run(SQL["beside"], ([record.seq for record in records], readable, readable))
        return {seq: (before, after) for seq, before, after in rows}

    def texts_at(self, seqs: Iterable[int]) -> dict[int, str]:
        readable = self._readable_scopes()
        return dict(self._snapshot.run(SQL["texts_of_seqs"], (list(seqs), readable, readable)).fetchall())

    def _readable_scopes(self) -> list[str] | None:
        return None if self._reach.readable is None else sorted(self._reach.readable)

    def records(self, seqs: Iterable[int]) -> list[Record]:
        """The records at these positions; for the engine itself, which has checked the reach."""
        wanted = list(seqs)
        return [_parse_row(row) for row in self._snapshot.run(SQL["lines_of_seqs"], (wanted,))] if wanted else []

    def _build_conditions(self, query: Query) -> tuple[list[str], list[Any]]:
        """What each version must satisfy, the wall first; what it mentions is judged elsewhere."""
        conditions: list[str] = []
        values: list[Any] = []

        def require(condition: str, *bound: Any) -> None:
            conditions.append(condition)
            values.extend(bound)

        hidden = query.hidden and self._reach.unlimited
        for allowed in (self._reach.readable, query.scopes or None):
            if allowed is not None:
                require("log.scope = ANY(%s)", sorted(allowed))
        if query.kinds:
            require("log.kind = ANY(%s)", list(query.kinds))
        if query.author is not None:
            require("log.author = %s", query.author)
        if query.labels:
            require("log.labels <> '{}' AND log.labels @> %s::text[]", list(query.labels))
        if query.since is not None:
            require("log.moment >= %s", to_microseconds(query.since))
        if query.until is not None:
            require("log.moment <= %s", to_microseconds(query.until))
        if query.recorded_since is not None:
            require("log.at >= %s", to_microseconds(query.recorded_since))
        if query.after is not None:
            require("log.seq > %s", _clamp_int64(query.after))
        if query.before is not None:
            require("log.seq < %s", _clamp_int64(query.before))
        if query.as_of is not None:
            if isinstance(query.as_of, int):
                bound, moment = "seq", _clamp_int64(query.as_of)
            else:
                bound, moment = "at", to_microseconds(query.as_of)
            require(f"log.{bound} <= %s", moment)
            if not hidden:
                require(_NOT_HIDDEN)
            if not query.every_version:
                require(_NEWEST_AS_OF.format(bound=bound), moment)
        elif not query.every_version:
            require("log.live")
        elif not hidden:
            require(_NOT_HIDDEN)
        if not conditions:
            require("true")
        return conditions, values


def _is_storable(values: Iterable[Any]) -> bool:
    """Whether PostgreSQL could hold every text at all; what it could not hold is simply not there."""
    flat = [part for value in values for part in (value if isinstance(value, list) else [value])]
    return is_storable(flat) and not any("\0" in part for part in flat if isinstance(part, str))


def _clamp_int64(value: int) -> int:
    """The nearest integer PostgreSQL can compare."""
    return max(-(2**63), min(value, 2**63 - 1))


def _parse_row(row: Sequence[Any]) -> Record:
    try:
        return parse_entry(row[1], row[0], row[2])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreDamaged(
            f"The record at position {row[0]} cannot be read.", hint="Run `lukasa verify` to see what is damaged."
        ) from error
