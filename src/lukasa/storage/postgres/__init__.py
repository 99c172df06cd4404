"""PostgreSQL keeps the promise for many machines."""

from lukasa.storage.postgres.engine import PostgresEngine

__all__ = ["PostgresEngine"]
