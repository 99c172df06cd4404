"""The bare reference on PostgreSQL: one table with the same indexes, one INSERT per commit, COPY for batches.

It has no versions, no digests, no counts and no scopes, and its text index is made by the server.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import orjson
import psycopg

from lukasa_bench.corpus import CorpusNote

_SCHEMA = """
CREATE TABLE IF NOT EXISTS record (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, scope text COLLATE "C", kind text COLLATE "C", id text COLLATE "C",
    author text, at bigint, body text, text text, labels text[],
    words tsvector GENERATED ALWAYS AS (to_tsvector('english', text)) STORED, UNIQUE (scope, kind, id));
CREATE INDEX IF NOT EXISTS record_by_kind ON record (scope, kind, seq);
CREATE INDEX IF NOT EXISTS record_by_words ON record USING gin (words) WHERE words IS NOT NULL;
CREATE INDEX IF NOT EXISTS record_by_label ON record USING gin (labels) WHERE labels <> '{}';
"""
_COLUMNS = "scope, kind, id, author, at, body, text, labels"
_INSERT = f"INSERT INTO record ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"  # noqa: S608 - our own words
_COPY = f"COPY record ({_COLUMNS}) FROM STDIN"
_IS_NOTE = "scope = 'shared' AND kind = 'note'"
_GET = f"SELECT {_COLUMNS} FROM record WHERE {_IS_NOTE} AND id = %s"  # noqa: S608 - our own words
_HISTORY = f"SELECT {_COLUMNS} FROM record WHERE {_IS_NOTE} AND id >= %s AND id < %s ORDER BY id"  # noqa: S608 - our own words
_FIND = f"SELECT {_COLUMNS} FROM record, to_tsquery('english', %s) AS asked WHERE words @@ asked ORDER BY ts_rank(words, asked) DESC LIMIT 10"  # noqa: S608 - our own words

ReferenceRow = tuple[Any, ...]


class PostgresReference:
    """A minimal store: one connection per thread, autocommit."""

    name = "reference"

    def __init__(self, url: str) -> None:
        self._url = url
        self._thread_local = threading.local()
        self._connections: list[psycopg.Connection[ReferenceRow]] = []
        self._database.execute(_SCHEMA)

    @property
    def _database(self) -> psycopg.Connection[ReferenceRow]:
        database: psycopg.Connection[ReferenceRow] | None = getattr(self._thread_local, "database", None)
        if database is None:
            database = self._thread_local.database = psycopg.connect(self._url, autocommit=True)
            self._connections.append(database)
        return database

    def add(self, note: CorpusNote) -> str:
        """Add one note and return its id once it is durable."""
        self._database.execute(_INSERT, _note_row(note))
        return note.id

    def add_all(self, notes: Sequence[CorpusNote]) -> None:
        """Add a batch in one transaction."""
        with self._database.cursor() as cursor, cursor.copy(_COPY) as copy:
            for note in notes:
                copy.write_row(_note_row(note))

    def revise(self, note: CorpusNote, version: int) -> None:
        """Store another version under a key in the same range as the others."""
        self.add(CorpusNote(f"{note.id}.{version}", note.text, note.body))

    def get(self, id: str) -> ReferenceRow | None:
        row = self._database.execute(_GET, (id,)).fetchone()
        return None if row is None else _decode_body(row)

    def history(self, id: str) -> list[ReferenceRow]:
        return [_decode_body(row) for row in self._database.execute(_HISTORY, (id, id + "/"))]

    def find(self, words: str) -> list[ReferenceRow]:
        """Return the ten best notes that hold any of the words."""
        return [_decode_body(row) for row in self._database.execute(_FIND, (" | ".join(words.split()),))]

    def ids(self, receipts: Sequence[str]) -> list[str]:
        """Return the ids that ``add`` acknowledged."""
        return list(receipts)

    def close(self) -> None:
        for database in self._connections:
            database.close()


def _note_row(note: CorpusNote) -> ReferenceRow:
    body = orjson.dumps(note.body).decode()
    return "shared", "note", note.id, "bench", time.time_ns() // 1000, body, note.text, "{}"


def _decode_body(row: ReferenceRow) -> ReferenceRow:
    return (*row[:5], orjson.loads(row[5]), *row[6:])
