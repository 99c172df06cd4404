"""The reference of recall: a minimal hybrid search by words and by meaning.

One table has a text index, which is searched for any of the question's words and ranked by the database; one matrix of
vectors in memory is multiplied with the question's vector; both lists of a hundred are fused by reciprocal rank. It has no
scopes, no versions, no filters and no explanations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import apsw
import numpy as np
import orjson

from lukasa_bench.conversations import VECTOR_LENGTH, CorpusTurn

if TYPE_CHECKING:
    import psycopg

    from lukasa.models.embedder import Vectors

FUSION_DEPTH = 100
_RRF_CONSTANT = 60
_WORD_PATTERN = re.compile(r"\w+")
_SETTINGS = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS record (
    nr INTEGER PRIMARY KEY, id TEXT UNIQUE, session TEXT, author TEXT, moment TEXT, body TEXT, text TEXT);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (text, content = 'record', content_rowid = 'nr',
    tokenize = 'porter unicode61 remove_diacritics 2');
"""
_INSERT = "INSERT INTO record (nr, id, session, author, moment, body, text) VALUES (?, ?, ?, ?, ?, ?, ?)"
_INSERT_WORDS = "INSERT INTO words (rowid, text) VALUES (?, ?)"
_MATCH_WORDS = f"SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT {FUSION_DEPTH}"  # noqa: S608 - our own number
_SELECT_ROWS = "SELECT record.* FROM json_each(?) AS wanted JOIN record ON nr = wanted.value"

_PG_SCHEMA = """
CREATE TABLE IF NOT EXISTS record (
    nr bigint PRIMARY KEY, id text UNIQUE, session text, author text, moment text, body text, text text,
    words tsvector GENERATED ALWAYS AS (to_tsvector('english', text)) STORED);
CREATE INDEX IF NOT EXISTS record_by_words ON record USING gin (words);
"""
_PG_COPY = "COPY record (nr, id, session, author, moment, body, text) FROM STDIN"
_PG_MATCH_WORDS = f"""SELECT nr FROM record, to_tsquery('english', %s) AS asked WHERE words @@ asked
    ORDER BY ts_rank(words, asked) DESC LIMIT {FUSION_DEPTH}"""  # noqa: S608 - our own number
_PG_SELECT_ROWS = "SELECT nr, id, session, author, moment, body, text FROM record WHERE nr = ANY(%s)"

TurnRow = tuple[Any, ...]


class TurnIndex(Protocol):
    """Stores the turns and matches their words."""

    def add(self, rows: Sequence[TurnRow]) -> None: ...
    def match(self, words: Sequence[str]) -> list[int]:
        """Return the numbers of the best hundred turns that hold any of the words."""

    def get_rows(self, numbers: Sequence[int]) -> list[TurnRow]: ...
    def close(self) -> None: ...


class SqliteTurnIndex:
    """Turns in one SQLite file."""

    def __init__(self, path: Path) -> None:
        self._database = apsw.Connection(str(path))
        self._database.execute(_SETTINGS)
        self._database.execute(_SCHEMA)

    def add(self, rows: Sequence[TurnRow]) -> None:
        with self._database:
            self._database.executemany(_INSERT, rows)
            self._database.executemany(_INSERT_WORDS, [(row[0], row[-1]) for row in rows])

    def match(self, words: Sequence[str]) -> list[int]:
        question = " OR ".join(f'"{word}"' for word in words)
        return [nr for (nr,) in self._database.execute(_MATCH_WORDS, (question,))] if question else []

    def get_rows(self, numbers: Sequence[int]) -> list[TurnRow]:
        return list(self._database.execute(_SELECT_ROWS, (orjson.dumps(numbers).decode(),)))

    def close(self) -> None:
        self._database.close()


class PostgresTurnIndex:
    """Turns in one database of a server."""

    def __init__(self, url: str) -> None:
        import psycopg

        self._database: psycopg.Connection[TurnRow] = psycopg.connect(url, autocommit=True)
        self._database.execute(_PG_SCHEMA)

    def add(self, rows: Sequence[TurnRow]) -> None:
        with self._database.cursor() as cursor, cursor.copy(_PG_COPY) as copy:
            for row in rows:
                copy.write_row(row)

    def match(self, words: Sequence[str]) -> list[int]:
        return [nr for (nr,) in self._database.execute(_PG_MATCH_WORDS, (" | ".join(words),))] if words else []

    def get_rows(self, numbers: Sequence[int]) -> list[TurnRow]:
        return self._database.execute(_PG_SELECT_ROWS, (list(numbers),)).fetchall()

    def close(self) -> None:
        self._database.close()


class HybridReference:
    """Search by words and by meaning, fused by rank."""

    name = "reference"

    def __init__(self, location: Path | str, matrix: Path) -> None:
        self._turn_index: TurnIndex = (
            SqliteTurnIndex(location) if isinstance(location, Path) else PostgresTurnIndex(location)
        )
        self._matrix_file = matrix
        self._matrix: Vectors = np.load(matrix) if matrix.exists() else np.empty((0, VECTOR_LENGTH), dtype=np.float32)
        self._vector_count = len(self._matrix)

    def reserve(self, count: int) -> None:
        """Reserve space for ``count`` vectors, on disk while they are added, so that building needs no memory."""
        self._matrix = np.lib.format.open_memmap(self._matrix_file, "w+", np.float32, (count, VECTOR_LENGTH))

    def add_all(self, turns: Sequence[CorpusTurn], vectors: Vectors) -> None:
        first = self._vector_count
        self._matrix[first : first + len(turns)] = vectors
        self._vector_count += len(turns)
        self._turn_index.add(
            [
                (first + index, turn.id, turn.session, turn.author, turn.moment.isoformat(), "{}", turn.text)
                for index, turn in enumerate(turns)
            ]
        )

    def load_matrix(self) -> None:
        """Load the vectors into memory."""
        self._matrix = np.array(self._matrix)

    def ask(self, question: str, vector: Vectors, without: frozenset[str] = frozenset()) -> list[TurnRow]:
        """Return the ten best turns; the words ``without`` are left out of the question."""
        words = [word for word in dict.fromkeys(_WORD_PATTERN.findall(question.lower())) if word not in without]
        scores: dict[int, float] = {}
        for numbers in (self._turn_index.match(words), self._nearest_turns(vector)):
            for rank, nr in enumerate(numbers, 1):
                scores[nr] = scores.get(nr, 0.0) + 1 / (_RRF_CONSTANT + rank)
        best = sorted(scores, key=lambda nr: -scores[nr])[:10]
        rows = {row[0]: (*row[:5], orjson.loads(row[5]), row[6]) for row in self._turn_index.get_rows(best)}
        return [rows[nr] for nr in best]

    def _nearest_turns(self, vector: Vectors) -> list[int]:
        scores = self._matrix @ vector
        deep = min(FUSION_DEPTH, len(scores))
        if not deep:
            return []
        best = np.argpartition(-scores, deep - 1)[:deep]
        ordered: list[int] = best[np.argsort(-scores[best])].tolist()
        return ordered

    def close(self) -> None:
        self._turn_index.close()
