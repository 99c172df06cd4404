"""The SQLite engine: a store in one file, or in memory."""

from lukasa.storage.sqlite.engine import SqliteEngine, open_engine

__all__ = ["SqliteEngine", "open_engine"]
