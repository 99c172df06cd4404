"""The bare reference on SQLite: the least work that stores and finds a note with the same durability.

It has one table, one text index over that table's text, and one transaction per add. It has no versions, no scopes, no checks,
no digests and no counts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import orjson

from lukasa_bench.corpus import CorpusNote

BUSY_TIMEOUT_MS = 30_000

_SETTINGS = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS record (
    id TEXT PRIMARY KEY, scope TEXT, kind TEXT, author TEXT, at INTEGER, body TEXT, text TEXT);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (text, content = 'record', content_rowid = 'rowid',
    tokenize = 'porter unicode61 remove_diacritics 2');
"""
_INSERT = "INSERT INTO record (id, scope, kind, author, at, body, text) VALUES (?, ?, ?, ?, ?, ?, ?)"
_INSERT_WORDS = "INSERT INTO words (rowid, text) VALUES (?, ?)"
_GET = "SELECT id, scope, kind, author, at, body, text FROM record WHERE id = ?"
_HISTORY = "SELECT id, scope, kind, author, at, body, text FROM record WHERE id >= ?1 AND id < ?1 || '/' ORDER BY id"
_FIND = """
SELECT id, scope, kind, author, at, body, record.text
FROM words JOIN record ON record.rowid = words.rowid WHERE words MATCH ? ORDER BY words.rank LIMIT 10
"""

ReferenceRow = tuple[str, str, str, str, int, Any, str]


class SqliteReference:
    """A minimal store: SQLite through ``apsw`` with WAL and a real fsync per commit."""

    name = "reference"

    def __init__(self, path: Path) -> None:
        self.database = apsw.Connection(
            str(path), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_NOMUTEX
        )
        self.database.set_busy_timeout(BUSY_TIMEOUT_MS)
        self.database.execute(_SETTINGS)
        self.database.execute(_SCHEMA)
        self._lock = threading.Lock()  # threads share the connection

    def add(self, note: CorpusNote) -> str:
        """Add one note and return its id once it is durable."""
        with self._lock:
            database = self.database
            database.execute("BEGIN IMMEDIATE")
            try:
                database.execute(_INSERT, _note_row(note))
                database.execute(_INSERT_WORDS, (database.last_insert_rowid(), note.text))
                database.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise
        return note.id

    def add_all(self, notes: Sequence[CorpusNote]) -> None:
        """Add a batch in one transaction."""
        with self._lock:
            database = self.database
            database.execute("BEGIN IMMEDIATE")
            try:
                database.executemany(_INSERT, [_note_row(note) for note in notes])
                first = database.last_insert_rowid() - len(notes) + 1
                database.executemany(_INSERT_WORDS, [(first + index, note.text) for index, note in enumerate(notes)])
                database.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise

    def revise(self, note: CorpusNote, version: int) -> None:
        """Store another version under a primary key in the same range as the others."""
        self.add(CorpusNote(f"{note.id}.{version}", note.text, note.body))

    def get(self, id: str) -> ReferenceRow | None:
        row = self.database.execute(_GET, (id,)).get
        return None if row is None else _decode_body(row)

    def history(self, id: str) -> list[ReferenceRow]:
        return [_decode_body(row) for row in self.database.execute(_HISTORY, (id,))]

    def find(self, words: str) -> list[ReferenceRow]:
        """Return the ten best notes that hold any of the words."""
        question = " OR ".join(f'"{word}"' for word in words.split())
        return [_decode_body(row) for row in self.database.execute(_FIND, (question,))]

    def ids(self, receipts: Sequence[str]) -> list[str]:
        """Return the ids that ``add`` acknowledged."""
        return list(receipts)

    def close(self) -> None:
        self.database.close()

    def _roll_back(self) -> None:
        if self.database.in_transaction:
            self.database.execute("ROLLBACK")


def _note_row(note: CorpusNote) -> ReferenceRow:
    return note.id, "shared", "note", "bench", time.time_ns() // 1000, orjson.dumps(note.body).decode(), note.text


def _decode_body(row: Sequence[Any]) -> ReferenceRow:
    id, scope, kind, author, at, body, text = row
    return id, scope, kind, author, at, orjson.loads(body), text
