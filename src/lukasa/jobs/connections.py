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
from lukasa.jobs.sql import SQL

DictConnection = psycopg.Connection[DictRow]

_MAX_IDLE = 4


class JobConnectionPool:
    """Connections to one server, made when they are needed."""

    def __init__(self, url: str, *, timeout: float) -> None:
        self._url = url
        self._connect_timeout = max(1, min(10, int(timeout)))
        self._idle: list[DictConnection] = []
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def transaction(self) -> Iterator[DictConnection]:
        """A connection for one transaction, which is committed in the end."""
        connection = self._take_idle() or self._connect()
        try:
            with connection.transaction():
                yield connection
        finally:
            self._release(connection)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take_idle(self) -> DictConnection | None:
        """One that is left over and still answers."""
        while True:
            with self._lock:
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

    def _connect(self) -> DictConnection:
        connection = psycopg.connect(
            self._url,
            autocommit=True,
            connect_timeout=self._connect_timeout,
            application_name="lukasa",
            row_factory=dict_row,
        )
        connection.execute(SQL["enter"])
        return connection

    def _release(self, connection: DictConnection) -> None:
        """Keeps one that can be used again, and closes any other."""
        at_rest = connection.info.transaction_status == TransactionStatus.IDLE
        with self._lock:
            if at_rest and not self._closed and len(self._idle) < _MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()
