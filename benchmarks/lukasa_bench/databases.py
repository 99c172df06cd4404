"""New databases on a server for the duration of a benchmark."""

from __future__ import annotations

import secrets
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from lukasa.errors import MissingExtra, StoreError, mask_password
from lukasa_bench.subjects import SubjectLocations

if TYPE_CHECKING:
    import psycopg


class BenchmarkDatabases:
    """Creates databases on the server of a URL and drops them at the end."""

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise MissingExtra(
                "The PostgreSQL engine is not installed.", hint="Run: pip install 'lukasa[postgres]'"
            ) from error
        self._url = url
        self._created_names: list[str] = []
        try:
            self._connection: psycopg.Connection[Any] = psycopg.connect(url, autocommit=True)
        except psycopg.Error as error:
            raise StoreError(f"The server cannot be reached: {mask_password(str(error))}") from error

    def create_pair(self, name: str) -> SubjectLocations:
        """Create two databases: one for Lukasa, one for the reference."""
        return SubjectLocations(self._create("lukasa", name), self._create("reference", name))

    def _create(self, subject: str, name: str) -> str:
        database = f"{subject}_{name.replace('-', '_')}_{secrets.token_hex(4)}"
        self._connection.execute(f'CREATE DATABASE "{database}"')
        self._created_names.append(database)
        server, _, options = self._url.partition("?")
        scheme, _, address = server.partition("://")
        return f"{scheme}://{address.partition('/')[0]}/{database}" + (f"?{options}" if options else "")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in self._created_names:
            self._connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        self._connection.close()
