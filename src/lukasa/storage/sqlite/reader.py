"""Looking at the log through the wall of one reach."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import apsw

from lukasa.clock import to_microseconds
from lukasa.errors import StoreDamaged
from lukasa.record import Key, Record, parse_entry
from lukasa.scope import Reach
from lukasa.storage.engine import ALL_RECORDS, AsOf, Match, NearDuplicate, Query, Tally
from lukasa.storage.links import LinkTraversal
from lukasa.storage.sqlite.sql import SQL
from lukasa.storage.text_match import is_storable, split_query_words

_LIVE = "NOT EXISTS (SELECT 1 FROM past WHERE past.seq = log.seq)"
_NOT_HIDDEN = "NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = log.seq)"
_NEWEST_AS_OF = """line ->> 'deleted' IS NULL AND NOT EXISTS (
    SELECT 1 FROM log AS newer WHERE newer.scope = log.scope AND newer.kind = log.kind AND newer.id = log.id
        AND newer.version > log.version AND newer.{bound} <= ?
        AND NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.seq = newer.seq))"""
_MAX_STREAMS = 40
_FREQUENCY_CAP = 1000
_RECORDS_PER_KEY = 10


class SqliteReader(LinkTraversal):
    """Reads over one connection, in whatever transaction that connection is in."""

    def __init__(self, connection: apsw.Connection, reach: Reach, shared_caches: dict[str, Any] | None = None) -> None:
        self._db = connection
        self._reach = reach
        self._parsed_records: dict[int, Record] = {}  # of this look: words and meaning often find the same
        self._shared_caches = shared_caches  # where readers of one engine share what they keep in memory of its vectors

    def get(self, key: Key, *, as_of: AsOf | None = None, version: int | None = None) -> Record | None:
        place = (key.scope, key.kind, key.id)
        if not self._reach.reads(key.scope) or not is_storable(place):
            return None
        if version is not None:
            row = self._db.execute(SQL["get_version"], (*place, _clamp_int64(version))).get
        elif as_of is None:
            row = self._db.execute(SQL["get_now"], place).get
        elif isinstance(as_of, int):
            row = self._db.execute(SQL["get_as_of_seq"], (*place, _clamp_int64(as_of))).get
        else:
            row = self._db.execute(SQL["get_as_of_time"], (*place, to_microseconds(as_of))).get
        if row is None:
            return None
        record = _parse_row(row)
        return None if record.deleted else record

    def history(self, key: Key, *, hidden: bool = False) -> list[Record]:
        place = (key.scope, key.kind, key.id)
        if not self._reach.reads(key.scope) or not is_storable(place):
            return []
        name = "whole_history" if hidden and self._reach.unlimited else "history"
        return [_parse_row(row) for row in self._db.execute(SQL[name], place)]

    def tip(self) -> int:
        if self._reach.readable is None:
            return int(self._db.execute(SQL["tip"]).get)
        pairs = ((row.scope, row.kind) for row in self.tally())
        return max((self._db.execute(SQL["tip_of_kind"], pair).get or 0 for pair in pairs), default=0)

    def tally(self) -> list[Tally]:
        rows: list[Any] = self._db.execute(
            "SELECT scope, kind, live, versions FROM tally ORDER BY scope, kind"
        ).fetchall()
        if any([type(value) for value in row] != [str, str, int, int] for row in rows):
            raise StoreDamaged(
                "The counts of the store cannot be read.", hint="Run `lukasa verify` to see what is damaged."
            )
        return [Tally(*row) for row in rows if self._reach.reads(row[0])]

    def read(self, query: Query = ALL_RECORDS) -> list[Record]:
        chosen, values = self._build_selection(query)
        if not chosen or not is_storable(values):
            return []
        direction = "DESC" if query.newest_first else "ASC"
        statement = f"SELECT log.seq, line, digest FROM ({chosen}) AS chosen JOIN log ON log.seq = chosen.seq ORDER BY log.seq {direction}"  # noqa: S608 - only our own fragments, values are bound
        return [_parse_row(row) for row in self._db.execute(statement, values)]

    def _query_links(self, name: str, key: Key) -> Iterable[Sequence[Any]]:
        place = (key.scope, key.kind, key.id)
        return self._db.execute(SQL[name], place) if is_storable(place) else ()

    def match_text(self, words: str, query: Query = ALL_RECORDS, *, together: str = "") -> list[Match]:
        question = _build_fts_query(words, together)
        if not question or query.limit == 0:
            return []
        tables = ("words",) if query.as_of is None and not query.every_version else ("words", "past_words")
        conditions, values = self._build_conditions(query)
        if not is_storable(values):
            return []
        limit = -1 if query.limit is None else int(query.limit)
        best = limit if conditions == [_LIVE] else -1  # the index of the present holds only what is live
        matches = []
        for table in tables:
            # scored and put in order first, looked up then: as many as are wanted, not all that match
            statement = f"""SELECT log.seq, log.line, log.digest, found.score FROM (
                    SELECT rowid AS seq, -bm25({table}) AS score FROM {table} WHERE {table} MATCH ? ORDER BY score DESC LIMIT {best}
                ) AS found CROSS JOIN log ON log.seq = found.seq WHERE {" AND ".join(conditions)} LIMIT {limit}"""  # noqa: S608 - only our own fragments, values are bound
            matches += [
                Match(self._parse_cached(row), row[3]) for row in self._db.execute(statement, (question, *values))
            ]
        if any(match.score is None for match in matches):
            raise StoreDamaged("The text index cannot be read.", hint="Run `lukasa doctor --repair` to rebuild it.")
        matches.sort(key=lambda match: (-match.score, match.record.seq))
        return matches[: query.limit]

    def match_vector(self, model: str, vector: Sequence[float], query: Query = ALL_RECORDS) -> list[Match]:
        if query.limit == 0:
            return []
        best = self._find_nearest(model, vector, query)
        records = {record.seq: record for record in self.records(seq for seq, _ in best)}
        return [Match(records[seq], score) for seq, score in best]

    def _find_nearest(self, model: str, vector: Sequence[float], query: Query) -> list[tuple[int, float]]:
        from lukasa.storage.sqlite.vectors import (
            EXACT_SEARCH_LIMIT,
            SketchCache,
            json_array,
            rank_nearest,
            rerank_size,
            scan_size,
        )

        conditions, values = self._build_conditions(query)
        if not is_storable((model, *values)):
            return []
        if self._is_narrow(query, EXACT_SEARCH_LIMIT):
            chosen, bound = self._build_selection(replace(query, limit=None))
            statement = f"""SELECT vector.seq, vector.vector FROM ({chosen}) AS chosen
                CROSS JOIN vector ON vector.model = ? AND vector.seq = chosen.seq"""  # noqa: S608 - only our own fragments, values are bound
            return rank_nearest(vector, self._db.execute(statement, (*bound, model)) if chosen else (), query.limit)
        where = " AND ".join(conditions)
        if self._shared_caches is not None and query.limit is not None:
            shelves: SketchCache = self._shared_caches.setdefault("vectors", SketchCache())
            sketches = shelves.get_sketches(self._db, model)
            count, read = scan_size(len(sketches.seqs)), rerank_size(query.limit, len(vector))
            statement = f"""SELECT vector.seq, vector.vector FROM json_each(?) AS near CROSS JOIN log ON log.seq = near.value
                CROSS JOIN vector ON vector.model = ? AND vector.seq = near.value WHERE {where} LIMIT {read}"""  # noqa: S608 - only our own fragments, values are bound
            while max(count, EXACT_SEARCH_LIMIT) < len(sketches.seqs):
                near = sketches.find_nearest(vector, count)
                if conditions == [_LIVE]:  # most will do, and in the order of the log they are read with fewer pages
                    rows = self._db.execute(SQL["live_vectors"], (json_array(sorted(near[:read])), model))
                else:
                    rows = self._db.execute(statement, (json_array(near), model, *values))
                best = rank_nearest(vector, rows, query.limit)
                if len(best) >= query.limit:
                    return best
                count, read = 8 * count, 8 * read  # a narrow question: most of the nearest are not wanted
        statement = f"""SELECT vector.seq, vector.vector FROM vector CROSS JOIN log ON log.seq = vector.seq
            WHERE vector.model = ? AND {where}"""  # noqa: S608 - only our own fragments, values are bound
        return rank_nearest(vector, self._db.execute(statement, (model, *values)), query.limit)

    def _is_narrow(self, query: Query, max_records: int) -> bool:
        """Whether scopes, kinds or labels leave so few records that all of them can be looked at."""
        if self._reach.readable is None and not (query.scopes or query.kinds or query.labels):
            return False
        pairs = [row for row in self.tally() if _matches_query(row, query)]
        if sum(row.versions for row in pairs) <= max_records:
            return True
        scopes = json.dumps(sorted({row.scope for row in pairs}))
        return any(
            self._db.execute(SQL["labelled"], (label, scopes, max_records + 1)).get <= max_records
            for label in query.labels[:1]
        )

    def without_vectors(self, model: str, limit: int) -> list[Record]:
        rows = self._db.execute(SQL["without_vectors"], (model, limit)) if is_storable((model,)) else ()
        return [_parse_row(row[:3]) for row in rows if self._reach.reads(str(row[3]))]

    def count_without_vectors(self, model: str) -> int:
        return int(self._db.execute(SQL["lacking_vectors"], (model,)).get) if is_storable((model,)) else 0

    def cosines(self, model: str, vector: Sequence[float], seqs: Sequence[int]) -> dict[int, float]:
        from lukasa.storage.sqlite.vectors import compute_cosines, json_array

        if not seqs or not is_storable((model,)):
            return {}
        rows = self._db.execute(SQL["vectors_of_seqs"], (model, json_array(seqs)))
        found, scores = compute_cosines(vector, (row for row in rows if self._reach.reads(row[2])))
        best: dict[int, float] = {}
        for seq, score in zip(found, scores.tolist(), strict=True):
            best[seq] = max(score, best.get(seq, -2.0))
        return best

    def frequency(self, tokens: Sequence[str]) -> dict[str, int]:
        wanted = [token for token in dict.fromkeys(tokens) if is_storable((token,))]
        counts = dict.fromkeys(tokens, 0)
        if self._reach.readable is None:
            counts.update(self._db.execute(SQL["frequency"], (json.dumps(wanted),)))
        else:
            scopes = json.dumps(sorted(self._reach.readable))
            for token in wanted:
                question = '"' + token.replace('"', '""') + '"'
                counts[token] = self._db.execute(SQL["frequency_within"], (question, scopes, _FREQUENCY_CAP)).get
        return counts

    def authors(self, latest: int) -> list[str]:
        largest = sorted(self.tally(), key=lambda row: -row.live)[:_MAX_STREAMS]
        rows = (row for pair in largest for row in self._db.execute(SQL["authors"], (pair.scope, pair.kind, latest)))
        return sorted({author for (author,) in rows})

    def near_duplicates(
        self, keys_of_texts: Sequence[Sequence[int]], scope: str, *, kind: str, limit_per_key: int
    ) -> list[NearDuplicate]:
        wanted = sorted({mark for marks in keys_of_texts for mark in marks})
        if not wanted or limit_per_key < 1 or not self._reach.reads(scope) or not is_storable((scope, kind)):
            return []
        most = _RECORDS_PER_KEY * (len(wanted) + 10)
        rows: list[Any] = self._db.execute(SQL["bearing"], (json.dumps(wanted), most)).fetchall()
        every: dict[int, list[int]] = {}
        for mark, seq in rows:
            every.setdefault(mark, []).append(seq)
        bearers = {mark: seqs[-limit_per_key:] for mark, seqs in every.items()}
        if len(rows) == most:  # some were not read to their end: those bring their newest, one after the other
            bearers.update(
                self._query_seqs_by_key("newest_bearing", wanted[bisect_left(wanted, rows[-1][0]) :], limit_per_key)
            )
        crowded = [mark for mark, seqs in bearers.items() if len(seqs) == limit_per_key]
        again = _find_repeated_seqs(keys_of_texts, every) if crowded else {}
        found = self._read_live_texts([*bearers.values(), list(again)], scope, kind)
        thinned = [mark for mark in crowded if any(seq not in found for seq in bearers[mark])]
        if thinned:  # some of their newest are not live, so older ones count
            bearers.update(self._query_seqs_by_key("newest_live_bearing", thinned, limit_per_key, scope, kind))
            found = self._read_live_texts([*bearers.values(), list(again)], scope, kind)
        borne = again
        for mark, seqs in bearers.items():
            for seq in seqs:
                borne.setdefault(seq, set()).add(mark)
        return [NearDuplicate(id, text, tuple(borne[seq])) for seq, (id, text) in found.items()]

    def _query_seqs_by_key(self, name: str, pair_keys: Sequence[int], *values: Any) -> dict[int, list[int]]:
        return {mark: json.loads(seqs) for mark, seqs in self._db.execute(SQL[name], (json.dumps(pair_keys), *values))}

    def _read_live_texts(self, seq_lists: Iterable[list[int]], scope: str, kind: str) -> dict[int, tuple[str, str]]:
        """The ids and texts of those that are live and of that kind and scope, newest first."""
        newest = sorted({seq for seqs in seq_lists for seq in seqs}, reverse=True)
        rows = self._db.execute(SQL["live_texts"], (json.dumps(newest), scope, kind)) if newest else ()
        return {seq: (id, text or "") for seq, id, text in rows}

    def adjacent_turns(self, records: Iterable[Record]) -> dict[int, tuple[int | None, int | None]]:
        sessions = {
            record.seq: f"session={session}"
            for record in records
            if (session := record.label("session")) is not None and self._reach.reads(record.scope)
        }
        return {seq: (before, after) for seq, before, after in self._db.execute(SQL["beside"], (json.dumps(sessions),))}

    def texts_at(self, seqs: Iterable[int]) -> dict[int, str]:
        rows = self._db.execute(SQL["texts_of_seqs"], (json.dumps(list(seqs)),))
        return {seq: text or "" for seq, text, scope in rows if self._reach.reads(scope)}

    def records(self, seqs: Iterable[int]) -> list[Record]:
        """The records at these positions; for the engine itself, which has checked the reach."""
        wanted = list(seqs)
        missing = [seq for seq in wanted if seq not in self._parsed_records]
        for row in self._db.execute(SQL["lines_of_seqs"], (json.dumps(missing),)):
            self._parse_cached(row)
        return [self._parsed_records[seq] for seq in wanted if seq in self._parsed_records]

    def _parse_cached(self, row: Sequence[Any]) -> Record:
        record = self._parsed_records[row[0]] = self._parsed_records.get(row[0]) or _parse_row(row)
        return record

    def _build_selection(self, query: Query) -> tuple[str, list[Any]]:
        """A statement that yields the positions of the wanted records, cheapest first.

        Every pair of scope and kind that exists is a sorted stream of its own in an index, and so is every label
        in a scope; merging few streams never reads more than the limit asks for.
        """
        pairs = [(row.scope, row.kind) for row in self.tally() if _matches_query(row, query)]
        if not pairs:
            return "", []
        direction = "DESC" if query.newest_first else "ASC"
        tail = f" ORDER BY seq {direction}" + ("" if query.limit is None else f" LIMIT {int(query.limit)}")
        conditions, values = self._build_conditions(query)
        if query.labels:
            scopes = sorted({scope for scope, _ in pairs})
            bounds, edges = _build_position_bounds(
                query
            )  # said of the label too, so that its stream is entered there and not at its end
            head = f"SELECT label.seq AS seq FROM label JOIN log ON log.seq = label.seq WHERE label.label = ? AND label.scope = ?{bounds}"  # noqa: S608 - only our own fragments, values are bound
            streams = [(head, [query.labels[0], scope, *edges]) for scope in scopes]
        elif self._reach.readable is None and not query.scopes and not query.kinds:
            streams = [("SELECT log.seq AS seq FROM log WHERE TRUE", [])]
        else:
            head = "SELECT log.seq AS seq FROM log WHERE log.scope = ? AND log.kind = ?"
            streams = [(head, [scope, kind]) for scope, kind in pairs]
        if len(streams) > _MAX_STREAMS:
            streams = [("SELECT log.seq AS seq FROM log WHERE TRUE", [])]
        parts, bound = [], []
        for head, own in streams:
            parts.append(f"{head} AND {' AND '.join(conditions)}")
            bound += [*own, *values]
        return " UNION ALL ".join(parts) + tail, bound

    def _build_conditions(self, query: Query) -> tuple[list[str], list[Any]]:
        """What each version must satisfy, the wall first."""
        conditions: list[str] = []
        values: list[Any] = []

        def require(condition: str, *bound: Any) -> None:
            conditions.append(condition)
            values.extend(bound)

        hidden = query.hidden and self._reach.unlimited
        for allowed in (self._reach.readable, query.scopes or None):
            if allowed is not None:
                require(f"log.scope IN ({_build_placeholders(allowed)})", *sorted(allowed))
        if query.kinds:
            require(f"log.kind IN ({_build_placeholders(query.kinds)})", *query.kinds)
        if query.author is not None:
            require("log.author = ?", query.author)
        for label in query.labels:
            require(
                "EXISTS (SELECT 1 FROM label AS l WHERE l.label = ? AND l.scope = log.scope AND l.seq = log.seq)", label
            )
        if query.since is not None:
            require("log.moment >= ?", to_microseconds(query.since))
        if query.until is not None:
            require("log.moment <= ?", to_microseconds(query.until))
        if query.recorded_since is not None:
            require("log.at >= ?", to_microseconds(query.recorded_since))
        if query.after is not None:
            require("log.seq > ?", _clamp_int64(query.after))
        if query.before is not None:
            require("log.seq < ?", _clamp_int64(query.before))
        if query.as_of is not None:
            if isinstance(query.as_of, int):
                bound, moment = "seq", _clamp_int64(query.as_of)
            else:
                bound, moment = "at", to_microseconds(query.as_of)
            require(f"log.{bound} <= ?", moment)
            if not hidden:
                require(_NOT_HIDDEN)
            if not query.every_version:
                require(_NEWEST_AS_OF.format(bound=bound), moment)
        elif not query.every_version:
            require(_LIVE)
        elif not hidden:
            require(_NOT_HIDDEN)
        if query.mentions is not None:
            require("says(log.line, ?)", query.mentions)
        if not conditions:
            require("TRUE")
        return conditions, values


def _build_position_bounds(query: Query) -> tuple[str, list[int]]:
    """Between which positions the wanted records stand, as far as the question says."""
    as_of = query.as_of if isinstance(query.as_of, int) else None
    asked = ((" AND label.seq > ?", query.after), (" AND label.seq < ?", query.before), (" AND label.seq <= ?", as_of))
    given = [(condition, _clamp_int64(value)) for condition, value in asked if value is not None]
    return "".join(condition for condition, _ in given), [value for _, value in given]


def _clamp_int64(value: int) -> int:
    """The nearest integer SQLite can compare."""
    return max(-(2**63), min(value, 2**63 - 1))


def _parse_row(row: Sequence[Any]) -> Record:
    try:
        return parse_entry(row[1], row[0], row[2])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreDamaged(
            f"The record at position {row[0]} cannot be read.", hint="Run `lukasa verify` to see what is damaged."
        ) from error


def _matches_query(row: Tally, query: Query) -> bool:
    return (not query.kinds or row.kind in query.kinds) and (not query.scopes or row.scope in query.scopes)


def _build_placeholders(values: Iterable[str]) -> str:
    return ", ".join("?" for _ in values) or "NULL"


def _build_fts_query(words: str, together: str = "") -> str:
    """An FTS5 question for any of the words, or for all of some together. Each is quoted, so none can be an operator.

    A word with inner punctuation (``multi-agent``, ``CVE-2025-64439``) becomes a phrase of its parts.
    """
    every = " AND ".join(map(_quote_word, split_query_words(together)))
    return " OR ".join([*map(_quote_word, split_query_words(words)), *([f"({every})"] if every else [])])


def _find_repeated_seqs(
    keys_of_texts: Iterable[Sequence[int]], seqs_by_key: Mapping[int, Sequence[int]]
) -> dict[int, set[int]]:
    """Who bears several marks of one text, with those marks."""
    again: dict[int, set[int]] = {}
    for marks in keys_of_texts:
        met: dict[int, int] = {}
        for mark in marks:
            for seq in seqs_by_key.get(mark, ()):
                if seq in met:
                    again.setdefault(seq, {met[seq]}).add(mark)
                met[seq] = mark
    return again


def _quote_word(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'
