"""PostgreSQL keeps the promise for many machines."""

from lukasa.engines.postgres.engine import PostgresEngine

__all__ = ["PostgresEngine"]
