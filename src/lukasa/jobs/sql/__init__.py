"""The SQL that Lukasa adds to procrastinate's own."""

from lukasa.storage.sql_loader import load_statements

SQL = load_statements(__name__)
