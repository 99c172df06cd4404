"""SQLite databases of other programs, opened to read plain tables and nothing else."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lukasa.errors import FormatError

_SQLITE_START = b"SQLite format 3\0"
_MAX_VALUE_BYTES = 64_000_000
_TABLES_BY_FORMAT = {"claude-mem": ("observations", "sdk_sessions"), "langgraph": ("checkpoints", "writes")}


def detect_database(path: Path) -> str | None:
    """Return the format of a SQLite database by its tables."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        if file.read(len(_SQLITE_START)) != _SQLITE_START:
            return None
    with open_database(path) as database:
        for format, tables in _TABLES_BY_FORMAT.items():
            if all(database.columns(table) for table in tables):
                return format
    return None


class ForeignDatabase:
    """The plain tables of a database that another program made."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def columns(self, table: str) -> list[str]:
        """Return the columns of a plain table; none for a view or a virtual table, which would run code of the file."""
        plain = (
            "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ? AND upper(sql) NOT LIKE 'CREATE VIRTUAL%'"
        )
        if self._connection.execute(plain, (table,)).fetchone() is None:
            return []
        return [row[0] for row in self._connection.execute("SELECT name FROM pragma_table_info(?)", (table,))]

    def rows(
        self, table: str, wanted: Sequence[str], order: str, where: str = "", values: Sequence[Any] = ()
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table with the wanted columns; a column that is missing is ``None``."""
        known = self.columns(table)
        names = [name for name in wanted if name in known]
        if not names:
            return
        condition = f" WHERE {where}" if where else ""
        query = f"SELECT {', '.join(names)} FROM {table}{condition} ORDER BY {order}"  # noqa: S608 - names of this program
        for row in self._connection.execute(query, values):
            yield dict.fromkeys(wanted) | dict(zip(names, row, strict=True))


@contextmanager
def open_database(path: Path) -> Iterator[ForeignDatabase]:
    """Open a database of another program without changing it. A damaged one raises ``FormatError``."""
    connection = None
    try:
        connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
            connection.execute(f"PRAGMA {pragma}")
        yield ForeignDatabase(connection)
    except sqlite3.Error as error:
        raise FormatError(
            f"{path} cannot be read: {str(error)[:200]}.", hint="Close the program that uses it, or copy its file."
        ) from error
    finally:
        if connection is not None:
            connection.close()
