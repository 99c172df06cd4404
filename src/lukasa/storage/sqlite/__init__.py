"""SQLite keeps the engine promise in one file: the embedded default."""

from lukasa.storage.sqlite.engine import SqliteEngine

__all__ = ["SqliteEngine"]
