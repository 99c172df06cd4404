"""A pool of connections to one server, and the timeout of queries.

A connection is opened in the thread that needs it, so the caller gets the server's own error at once. One background
thread closes connections whose query runs past the timeout; it runs only while queries are watched.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any

import psycopg
from psycopg import Connection

from lukasa.errors import StoreBusy, StoreClosed

Database = Connection[tuple[Any, ...]]

_IDLE = psycopg.pq.TransactionStatus.IDLE
_CHECK_INTERVAL = 0.2
_MAX_IDLE_SECONDS = 300.0


class PostgresPool:
    """Up to ``size`` connections, opened when they are needed."""

    def __init__(self, connect: Callable[[], Database], *, size: int, timeout: float) -> None:
        self.size = size
        self._connect = connect
        self._timeout = timeout
        # One item for each connection that may be taken; faster than a semaphore.
        self._slots: SimpleQueue[None] = SimpleQueue()
        for _ in range(size):
            self._slots.put(None)
        self._idle_connections: list[tuple[Database, float]] = []
        self._closed = False

    def acquire(self) -> Database:
        """Take a connection; wait while all are in use."""
        if self._closed:
            raise StoreClosed
        try:
            self._slots.get(timeout=self._timeout)
        except Empty:
            reason = "All connections to the server were in use for too long; nothing was written, try again."
            raise StoreBusy(reason) from None
        try:
            while self._idle_connections:
                database, since = self._idle_connections.pop()
                if not database.closed and time.monotonic() - since < _MAX_IDLE_SECONDS:
                    return database
                database.close()
            return self._connect()
        except BaseException:
            self._slots.put(None)
            raise

    def release(self, database: Database) -> None:
        """Put a connection back; a broken one, or one inside a transaction, is closed."""
        try:
            if self._closed or database.closed or database.pgconn.transaction_status != _IDLE:
                database.close()
            else:
                self._idle_connections.append((database, time.monotonic()))
        finally:
            self._slots.put(None)

    def close_idle(self) -> None:
        """Close the idle connections: after one broke, the others are probably dead too."""
        while self._idle_connections:
            with suppress(IndexError):  # another thread took it
                self._idle_connections.pop()[0].close()

    def close(self) -> None:
        self._closed = True
        self.close_idle()


class QueryTimeouts:
    """Cuts connections whose query runs past the timeout."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._lock = threading.Lock()
        self._deadlines: dict[int, tuple[float, Database]] = {}
        self._thread: threading.Thread | None = None

    def start_timer(self, database: Database) -> None:
        """Cut the connection once the timeout has passed."""
        with self._lock:
            self._deadlines[id(database)] = (time.monotonic() + self._timeout, database)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run_checks, name="lukasa-query-timeouts", daemon=True)
                self._thread.start()

    def stop_timer(self, database: Database) -> None:
        """Stop watching a connection."""
        with self._lock:
            self._deadlines.pop(id(database), None)

    @contextmanager
    def limit_time(self, database: Database) -> Iterator[None]:
        """Watch a connection during the block."""
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
                        # Shut the socket down under the waiting thread; the connection may also end by itself just now.
                        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(database.fileno())) as end:
                            end.shutdown(socket.SHUT_RDWR)
                if idle >= 50:
                    self._thread = None
                    return
