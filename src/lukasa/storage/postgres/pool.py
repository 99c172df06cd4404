"""Connections to one server, made when they are needed and kept for the next who needs one.

A connection is made in the thread that asked for it, so whoever asks learns at once, and in the server's words, why
there is none. Nobody works in the background but one watchman, and he only when somebody waits for an answer: where a
server goes silent, he cuts the connection, and who waited gets an error instead of waiting for ever.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import Connection

from lukasa.errors import StoreBusy, StoreClosed

Database = Connection[tuple[Any, ...]]

_CHECK_INTERVAL = 0.2
_MAX_IDLE_SECONDS = 300.0


class PostgresPool:
    """At most so many connections at a time."""

    def __init__(self, connect: Callable[[], Database], *, size: int, timeout: float) -> None:
        self.size = size
        self._connect = connect
        self._timeout = timeout
        self._slots = threading.BoundedSemaphore(size)
        self._idle_connections: list[tuple[Database, float]] = []
        self._closed = False

    def acquire(self) -> Database:
        """A connection to give back; waits while all are in use."""
        if self._closed:
            raise StoreClosed
        if not self._slots.acquire(timeout=self._timeout):
            raise StoreBusy("All connections to the server were in use for too long; nothing was written, try again.")
        try:
            while self._idle_connections:
                database, since = self._idle_connections.pop()
                if not database.closed and time.monotonic() - since < _MAX_IDLE_SECONDS:
                    return database
                database.close()
            return self._connect()
        except BaseException:
            self._slots.release()
            raise

    def release(self, database: Database) -> None:
        """Takes a connection back; one that broke, or was left in the middle of something, is not used again."""
        try:
            if self._closed or database.closed or database.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                database.close()
            else:
                self._idle_connections.append((database, time.monotonic()))
        finally:
            self._slots.release()

    def close_idle(self) -> None:
        """Drops what is kept: after one connection broke, those from the same time are likely to be dead as well."""
        while self._idle_connections:
            with suppress(IndexError):  # somebody else was faster
                self._idle_connections.pop()[0].close()

    def close(self) -> None:
        self._closed = True
        self.close_idle()


class QueryTimeouts:
    """Cuts connections on which somebody has been waiting for an answer for too long."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._lock = threading.Lock()
        self._deadlines: dict[int, tuple[float, Database]] = {}
        self._thread: threading.Thread | None = None

    def start_timer(self, database: Database) -> None:
        """From now on, the connection is cut when patience ends."""
        with self._lock:
            self._deadlines[id(database)] = (time.monotonic() + self._timeout, database)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run_checks, name="lukasa-watchman", daemon=True)
                self._thread.start()

    def stop_timer(self, database: Database) -> None:
        """The answer came, or never will."""
        with self._lock:
            self._deadlines.pop(id(database), None)

    @contextmanager
    def limit_time(self, database: Database) -> Iterator[None]:
        """While this lasts, the connection is watched."""
        self.start_timer(database)
        try:
            yield
        finally:
            self.stop_timer(database)

    def _run_checks(self) -> None:
        idle = 0
        while idle < 50:
            time.sleep(_CHECK_INTERVAL)
            with self._lock:
                idle = 0 if self._deadlines else idle + 1
                now = time.monotonic()
                for key, (deadline, database) in list(self._deadlines.items()):
                    if now > deadline:
                        del self._deadlines[key]
                        _shut_down_socket(database)
                if idle >= 50:
                    self._thread = None
                    return


def _shut_down_socket(database: Database) -> None:
    """Ends a connection under the hands of whoever waits on it."""
    with suppress(OSError, psycopg.Error):  # it may have ended by itself this very moment
        end = socket.socket(fileno=os.dup(database.fileno()))
        try:
            end.shutdown(socket.SHUT_RDWR)
        finally:
            end.close()
