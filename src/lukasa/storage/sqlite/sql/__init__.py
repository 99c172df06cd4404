"""The SQL statements of the SQLite engine."""

from __future__ import annotations

from lukasa.storage.sql_loader import load_statements

SQL = load_statements(__name__)
