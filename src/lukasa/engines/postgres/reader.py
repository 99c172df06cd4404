"""Looking at the log through the wall of one reach."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from psycopg import Cursor

from lukasa.clock import microseconds
from lukasa.engine import ALL, AsOf, Bearer, Match, Query, Tally
from lukasa.engines.arrows import Arrows
from lukasa.engines.postgres import words as wording
from lukasa.engines.postgres.sql import SQL
from lukasa.engines.postgres.vectors import nearest, unembedded
from lukasa.engines.saying import says, storable
from lukasa.errors import StoreDamaged
from lukasa.record import Key, Record, unfold
from lukasa.scope import Reach

_NOT_HIDDEN = "NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = log.scope AND hidden.seq = log.seq)"
_NEWEST_AS_OF = """NOT log.deleted AND NOT EXISTS (
    SELECT 1 FROM log AS newer WHERE newer.scope = log.scope AND newer.kind = log.kind AND newer.id = log.id
        AND newer.version > log.version AND newer.{bound} <= %s
        AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.scope = newer.scope AND hidden.seq = newer.seq))"""
_PAGE = 1000
_CANDIDATES = 10
_FEWEST_CANDIDATES = 300
_MANY_PHRASES = 30
_COUNTED = 1000
_MANY_STREAMS = 40


class Moment(Protocol):
    """The transaction that is looked at."""

    def run(self, statement: str, values: Sequence[Any] = ()) -> Cursor[tuple[Any, ...]]: ...
    def horizon(self) -> int | None:
        """Up to which position nothing can come before any more; ``None`` when nobody else is writing here."""


class PostgresReader(Arrows):
    """Reads over one connection, in whatever transaction that connection is in."""

    def __init__(self, moment: Moment, reach: Reach) -> None:
        self._moment = moment
        self._reach = reach

    def get(self, key: Key, *, as_of: AsOf | None = None, version: int | None = None) -> Record | None:
        place = (key.scope, key.kind, key.id)
        if not self._reach.reads(key.scope) or not _storable(place):
            return None
        if version is not None:
            row = self._moment.run(SQL["get_version"], (*place, _number(version))).fetchone()
        elif as_of is None:
            row = self._moment.run(SQL["get_now"], place).fetchone()
        elif isinstance(as_of, int):
            row = self._moment.run(SQL["get_as_of_seq"], (*place, _number(as_of))).fetchone()
        else:
            row = self._moment.run(SQL["get_as_of_time"], (*place, microseconds(as_of))).fetchone()
        if row is None:
            return None
        record = _record(row)
        return None if record.deleted else record

    def history(self, key: Key, *, hidden: bool = False) -> list[Record]:
        place = (key.scope, key.kind, key.id)
        if not self._reach.reads(key.scope) or not _storable(place):
            return []
        name = "whole_history" if hidden and self._reach.unlimited else "history"
        return [_record(row) for row in self._moment.run(SQL[name], place)]

    def tip(self) -> int:
        horizon = self._moment.horizon()
        bound = 2**63 - 1 if horizon is None else horizon
        if self._reach.readable is None:
            row = self._moment.run(SQL["tip"], (bound,)).fetchone()
        else:
            row = self._moment.run(SQL["tip_of_scopes"], (sorted(self._reach.readable), bound)).fetchone()
        return int(row[0]) if row is not None else 0

    def tally(self) -> list[Tally]:
        readable = self._readable()
        return [Tally(*row) for row in self._moment.run(SQL["tally"], (readable, readable))]

    def read(self, query: Query = ALL) -> list[Record]:
        if query.limit is not None and query.limit <= 0:
            return []
        conditions, values = self._conditions(query)
        if not _storable(values):
            return []
        if query.after is not None and (horizon := self._moment.horizon()) is not None:
            conditions.append("log.seq <= %s")
            values.append(horizon)
        direction = "DESC" if query.newest_first else "ASC"
        statement = f"SELECT seq, line, digest FROM log WHERE {' AND '.join(conditions)} ORDER BY seq {direction}"  # noqa: S608 - only our own fragments, values are bound
        if query.mentions is not None:
            return list(self._mentioning(query.mentions, statement, values, query.limit))
        if query.limit is not None:
            statement += " LIMIT %s"
            values.append(_number(query.limit))
        return [_record(row) for row in self._moment.run(statement, values)]

    def _mentioning(self, piece: str, statement: str, values: list[Any], limit: int | None) -> Iterator[Record]:
        """Reads on until enough records say it: what a record says is judged here, not on the server."""
        found = offset = 0
        while True:
            page = self._moment.run(f"{statement} LIMIT {_PAGE} OFFSET {offset}", values).fetchall()
            for row in page:
                if says(row[1], piece):
                    yield _record(row)
                    found += 1
                    if found == limit:
                        return
            if len(page) < _PAGE:
                return
            offset += _PAGE

    def _answers(self, name: str, key: Key) -> Iterable[Sequence[Any]]:
        place = (key.scope, key.kind, key.id)
        return self._moment.run(SQL[name], place) if _storable(place) else ()

    def match_text(self, words: str, query: Query = ALL, *, together: str = "") -> list[Match]:
        question = wording.Question.of(words, together)
        if not question.phrases or query.limit == 0:
            return []
        conditions, values = self._conditions(query)
        if not _storable(values):
            return []
        ages = (True,) if query.as_of is None and not query.every_version else (True, False)
        scored: list[tuple[float, int, Any]] = []
        for live in ages:
            corpus = self._corpus(question, live=live)
            if any(corpus.holding.values()):
                scored += self._scored(question, corpus, [*conditions, "log.live = %s"], [*values, live], query)
        scored.sort(key=lambda row: (-row[0], row[1]))
        best = scored[: query.limit]
        records = {record.seq: record for record in self.records(seq for _, seq, _ in best)}
        return [Match(records[seq], score) for score, seq, _ in best]

    def _corpus(self, question: wording.Question, *, live: bool) -> wording.Corpus:
        """What the ranking must know of the texts within this reach, live ones or past ones."""
        readable = self._readable()
        row = self._moment.run(SQL["corpus"], (live, live, readable, readable)).fetchone()
        phrases = list(question.phrases)
        spelled = [wording.query_of(phrase) for phrase in phrases]
        holding = self._moment.run(SQL["holding"], (spelled, live, readable, readable))
        counts = {phrases[number - 1]: count for number, count in holding}
        texts, tokens = row if row is not None else (0, 0)
        return wording.Corpus(texts, tokens, counts)

    def _scored(
        self, question: wording.Question, corpus: wording.Corpus, conditions: list[str], values: list[Any], query: Query
    ) -> list[tuple[float, int, Any]]:
        """The matching texts with their scores; where few are wanted, only those that come near the best."""
        phrases = [phrase for phrase in question.phrases if corpus.holding.get(phrase)]
        anything = question.spelled(phrases)
        if not anything:
            return []
        rough, bound = "", list[Any]()
        if query.limit is not None and query.mentions is None:
            telling = sorted(phrases, key=corpus.weight, reverse=True)[:_MANY_PHRASES]
            rank = " + ".join("%s * ts_rank('{1, 1, 1, 1}', log.words, %s::tsquery)" for _ in telling)
            average = max(corpus.tokens / corpus.texts, 1.0) if corpus.texts else 1.0
            rough = f" ORDER BY ({rank}) / (1.3 + 0.9 * log.tokens / %s) DESC, log.seq LIMIT %s"
            bound = [part for phrase in telling for part in (corpus.weight(phrase), wording.query_of(phrase))]
            bound += [average, max(_CANDIDATES * query.limit, _FEWEST_CANDIDATES)]
        wanted = "log.seq, log.tokens, log.words" + (
            ", log.line" if query.mentions is not None else ", NULL::text AS line"
        )
        statement = f"""SELECT found.seq, found.tokens, found.line, word.lexeme, word.positions::integer[] FROM (
                SELECT {wanted} FROM log WHERE log.words @@ %s::tsquery AND {" AND ".join(conditions)}{rough}
            ) AS found CROSS JOIN LATERAL unnest(found.words) AS word WHERE word.lexeme = ANY(%s)"""  # noqa: S608 - only our own fragments, values are bound
        places: dict[int, tuple[int, dict[str, list[int] | None]]] = {}
        for seq, length, line, token, where in self._moment.run(
            statement, (anything, *values, *bound, question.tokens)
        ):
            if query.mentions is None or says(line, query.mentions):
                places.setdefault(seq, (length, {}))[1][token] = where
        return [(wording.score(question, corpus, where, length), seq, None) for seq, (length, where) in places.items()]

    def match_vector(self, model: str, vector: Sequence[float], query: Query = ALL) -> list[Match]:
        conditions, values = self._conditions(query)
        if query.limit == 0 or not vector or not _storable((model, *values)):
            return []
        if query.mentions is not None:
            wanted = nearest(self._moment.run, model, vector, conditions, values, None)
            records = {record.seq: record for record in self.records(seq for seq, _ in wanted)}
            said = {
                row[0]
                for row in self._moment.run(SQL["lines_of_seqs"], (list(records),))
                if says(row[1], query.mentions)
            }
            best = [(seq, score) for seq, score in wanted if seq in said][: query.limit]
        else:
            best = nearest(self._moment.run, model, vector, conditions, values, query.limit)
            records = {record.seq: record for record in self.records(seq for seq, _ in best)}
        return [Match(records[seq], score) for seq, score in best]

    def without_vectors(self, model: str, limit: int) -> list[Record]:
        if not _storable((model,)):
            return []
        horizon = self._moment.horizon()
        values = [readable := self._readable(), readable, 2**63 - 1 if horizon is None else horizon, limit]
        statement = (
            f"SELECT log.seq, log.line, log.digest {unembedded(self._moment.run, model)} ORDER BY log.seq LIMIT %s"
        )
        return [_record(row) for row in self._moment.run(statement, values)]

    def lacking_vectors(self, model: str) -> int:
        if not _storable((model,)):
            return 0
        horizon = self._moment.horizon()
        values = [readable := self._readable(), readable, 2**63 - 1 if horizon is None else horizon]
        row = self._moment.run(f"SELECT count(*) {unembedded(self._moment.run, model)}", values).fetchone()
        return int(row[0]) if row is not None else 0

    def closeness(self, model: str, vector: Sequence[float], seqs: Sequence[int]) -> dict[int, float]:
        if not seqs or not vector or not _storable((model,)):
            return {}
        conditions, values = self._conditions(Query(every_version=True))
        wanted = ["log.seq = ANY(%s)", *conditions], [list(seqs), *values]
        return dict(nearest(self._moment.run, model, vector, *wanted, None))

    def frequency(self, tokens: Sequence[str]) -> dict[str, int]:
        counts = dict.fromkeys(tokens, 0)
        wanted = [token for token in counts if token and _storable((token,))]
        spelled = [wording.query_of((token,)) for token in wanted]
        readable = self._readable()
        counts.update(self._moment.run(SQL["frequency"], (readable, readable, _COUNTED, wanted, spelled)))
        return counts

    def authors(self, latest: int) -> list[str]:
        pairs = sorted(self.tally(), key=lambda row: -row.live)[:_MANY_STREAMS]
        rows = self._moment.run(SQL["authors"], ([row.scope for row in pairs], [row.kind for row in pairs], latest))
        return [author for (author,) in rows]

    def bearing(self, texts: Sequence[Sequence[int]], scope: str, *, kind: str, each: int) -> list[Bearer]:
        wanted = sorted({mark for marks in texts for mark in marks})
        if not wanted or each < 1 or not self._reach.reads(scope) or not _storable((scope, kind)):
            return []
        return [Bearer(*row) for row in self._moment.run(SQL["bearing"], (scope, kind, wanted, wanted, each))]

    def beside(self, records: Iterable[Record]) -> dict[int, tuple[int | None, int | None]]:
        readable = self._readable()
        rows = self._moment.run(SQL["beside"], ([record.seq for record in records], readable, readable))
        return {seq: (before, after) for seq, before, after in rows}

    def texts(self, seqs: Iterable[int]) -> dict[int, str]:
        readable = self._readable()
        return dict(self._moment.run(SQL["texts_of_seqs"], (list(seqs), readable, readable)).fetchall())

    def _readable(self) -> list[str] | None:
        return None if self._reach.readable is None else sorted(self._reach.readable)

    def records(self, seqs: Iterable[int]) -> list[Record]:
        """The records at these positions; for the engine itself, which has checked the reach."""
        wanted = list(seqs)
        return [_record(row) for row in self._moment.run(SQL["lines_of_seqs"], (wanted,))] if wanted else []

    def _conditions(self, query: Query) -> tuple[list[str], list[Any]]:
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
            require("log.moment >= %s", microseconds(query.since))
        if query.until is not None:
            require("log.moment <= %s", microseconds(query.until))
        if query.recorded_since is not None:
            require("log.at >= %s", microseconds(query.recorded_since))
        if query.after is not None:
            require("log.seq > %s", _number(query.after))
        if query.before is not None:
            require("log.seq < %s", _number(query.before))
        if query.as_of is not None:
            if isinstance(query.as_of, int):
                bound, moment = "seq", _number(query.as_of)
            else:
                bound, moment = "at", microseconds(query.as_of)
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


def _storable(values: Iterable[Any]) -> bool:
    """Whether PostgreSQL could hold every text at all; what it could not hold is simply not there."""
    flat = [part for value in values for part in (value if isinstance(value, list) else [value])]
    return storable(flat) and not any("\0" in part for part in flat if isinstance(part, str))


def _number(value: int) -> int:
    """The nearest integer PostgreSQL can compare."""
    return max(-(2**63), min(value, 2**63 - 1))


def _record(row: Sequence[Any]) -> Record:
    try:
        return unfold(row[1], row[0], row[2])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreDamaged(
            f"The record at position {row[0]} cannot be read.", hint="Run `lukasa verify` to see what is damaged."
        ) from error
