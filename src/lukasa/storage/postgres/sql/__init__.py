"""The SQL statements of the PostgreSQL engine."""

from lukasa.storage.sql_loader import load_statements

SQL = load_statements(__name__)
