"""SQL statements on the job tables, beyond those of procrastinate."""

from lukasa.storage.sql_loader import load_statements

SQL = load_statements(__name__)
