"""Connections for short errands, kept for the next one.

A pool would do, but for one thing: after the server was away it waits longer and longer before it tries again, and its
borrowers wait with it. Here whoever needs a connection and finds none makes one, and hears at once when that fails.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import DictRow, dict_row

from lukasa.errors import StoreClosed
from lukasa.jobs.keepers.sql import SQL

Line = psycopg.Connection[DictRow]

_IDLE = 4


class Lines:
    """Connections to one server, made when they are needed."""

    def __init__(self, url: str, *, patience: float) -> None:
        self._url = url
        self._patience = max(1, min(10, int(patience)))
        self._idle: list[Line] = []
        self._door = threading.Lock()
        self._closed = False

    @contextmanager
    def line(self) -> Iterator[Line]:
        """A connection for one transaction, which is committed in the end."""
        connection = self._kept() or self._made()
        try:
            with connection.transaction():
                yield connection
        finally:
            self._keep(connection)

    def close(self) -> None:
        with self._door:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _kept(self) -> Line | None:
        """One that is left over and still answers."""
        while True:
            with self._door:
                if self._closed:
                    raise StoreClosed
                if not self._idle:
                    return None
                connection = self._idle.pop()
            try:
                connection.execute("")
            except psycopg.OperationalError:
                connection.close()
            else:
                return connection

    def _made(self) -> Line:
        connection = psycopg.connect(
            self._url, autocommit=True, connect_timeout=self._patience, application_name="lukasa", row_factory=dict_row
        )
        connection.execute(SQL["enter"])
        return connection

    def _keep(self, connection: Line) -> None:
        """Keeps one that can be used again, and closes any other."""
        at_rest = connection.info.transaction_status == TransactionStatus.IDLE
        with self._door:
            if at_rest and not self._closed and len(self._idle) < _IDLE:
                self._idle.append(connection)
                return
        connection.close()
