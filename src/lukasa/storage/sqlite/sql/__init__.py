"""The SQL statements of the SQLite engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apsw

from lukasa.storage.sql_loader import load_statements

SQL = load_statements(__name__)


def query_rows(database: apsw.Connection, name: str, values: tuple[Any, ...] = ()) -> Iterable[Any]:
    """Run a named statement. The rows are untyped, because SQLite's columns have no static types."""
    return database.execute(SQL[name], values)
