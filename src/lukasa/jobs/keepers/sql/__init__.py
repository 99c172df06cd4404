"""The SQL that Lukasa adds to procrastinate's own."""

from lukasa.engines.statements import load

SQL = load(__name__)
