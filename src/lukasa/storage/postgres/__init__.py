"""The PostgreSQL engine: a store on a database server, for many machines."""

from lukasa.storage.postgres.engine import PostgresEngine, open_engine

__all__ = ["PostgresEngine", "open_engine"]
