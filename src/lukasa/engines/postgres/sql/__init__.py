"""The SQL of the PostgreSQL engine."""

from lukasa.engines.statements import load

SQL = load(__name__)
