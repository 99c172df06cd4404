"""The SQL statements of the SQLite engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any

import apsw

from lukasa.core import canonical_json
from lukasa.storage.sql_loader import load_statements

SQL = load_statements(__name__)
_ROWS_AT_ONCE = 16


def query_rows(database: apsw.Connection, name: str, values: tuple[Any, ...] = ()) -> Iterable[Any]:
    """Run a named statement. The rows are untyped, because SQLite's columns have no static types."""
    return database.execute(SQL[name], values)


def insert_rows(database: apsw.Connection, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert short rows with a named statement for one row, sixteen at a time as far as they go, which takes less time.

    Not for a table with an integer key: SQLite may have to undo such a statement alone, so before each of several rows the
    text index would write all that it has gathered.
    """
    statement, whole = SQL[name], len(rows) // _ROWS_AT_ONCE
    if whole:
        one_row, values = statement[statement.rindex("(") :], chain.from_iterable(rows)
        size = len(rows[0]) * _ROWS_AT_ONCE
        several_rows = statement + f", {one_row}" * (_ROWS_AT_ONCE - 1)
        database.executemany(several_rows, (tuple(islice(values, size)) for _ in range(whole)))
    database.executemany(statement, rows[whole * _ROWS_AT_ONCE :])


def encode_list(values: Sequence[int] | Sequence[str]) -> str:
    """Encode values for ``json_each``; a recall does so a dozen times with hundreds of positions."""
    return canonical_json.encode(values).decode()
