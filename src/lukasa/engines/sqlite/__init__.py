"""SQLite keeps the engine promise in one file: the embedded default."""

from lukasa.engines.sqlite.engine import SqliteEngine

__all__ = ["SqliteEngine"]
