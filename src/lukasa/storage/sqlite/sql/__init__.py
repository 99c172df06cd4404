"""The SQL statements of the SQLite engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from lukasa import canonical_json
from lukasa.storage.sql_loader import load_statements

SQL = load_statements(__name__)


def query_rows(database: apsw.Connection, name: str, values: tuple[Any, ...] = ()) -> Iterable[Any]:
    """Run a named statement. The rows are untyped, because SQLite's columns have no static types."""
    return database.execute(SQL[name], values)


def encode_list(values: Sequence[int] | Sequence[str]) -> str:
    """Encode values for ``json_each``; a recall does so a dozen times with hundreds of positions."""
    return canonical_json.encode(values).decode()
