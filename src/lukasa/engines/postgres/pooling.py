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

_ROUND = 0.2
_OLDEST = 300.0


class Pool:
    """At most so many connections at a time."""

    def __init__(self, connect: Callable[[], Database], *, size: int, patience: float) -> None:
        self.size = size
        self._connect = connect
        self._patience = patience
        self._slots = threading.BoundedSemaphore(size)
        self._idle: list[tuple[Database, float]] = []
        self._closed = False

    def take(self) -> Database:
        """A connection to give back; waits while all are in use."""
        if self._closed:
            raise StoreClosed
        if not self._slots.acquire(timeout=self._patience):
            raise StoreBusy("All connections to the server were in use for too long; nothing was written, try again.")
        try:
            while self._idle:
                database, since = self._idle.pop()
                if not database.closed and time.monotonic() - since < _OLDEST:
                    return database
                database.close()
            return self._connect()
        except BaseException:
            self._slots.release()
            raise

    def give(self, database: Database) -> None:
        """Takes a connection back; one that broke, or was left in the middle of something, is not used again."""
        try:
            if self._closed or database.closed or database.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                database.close()
            else:
                self._idle.append((database, time.monotonic()))
        finally:
            self._slots.release()

    def forget(self) -> None:
        """Drops what is kept: after one connection broke, those from the same time are likely to be dead as well."""
        while self._idle:
            with suppress(IndexError):  # somebody else was faster
                self._idle.pop()[0].close()

    def close(self) -> None:
        self._closed = True
        self.forget()


class Watchman:
    """Cuts connections on which somebody has been waiting for an answer for too long."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._guard = threading.Lock()
        self._waiting: dict[int, tuple[float, Database]] = {}
        self._thread: threading.Thread | None = None

    def watch(self, database: Database) -> None:
        """From now on, the connection is cut when patience ends."""
        with self._guard:
            self._waiting[id(database)] = (time.monotonic() + self._patience, database)
            if self._thread is None:
                self._thread = threading.Thread(target=self._walk, name="lukasa-watchman", daemon=True)
                self._thread.start()

    def leave(self, database: Database) -> None:
        """The answer came, or never will."""
        with self._guard:
            self._waiting.pop(id(database), None)

    @contextmanager
    def over(self, database: Database) -> Iterator[None]:
        """While this lasts, the connection is watched."""
        self.watch(database)
        try:
            yield
        finally:
            self.leave(database)

    def _walk(self) -> None:
        idle = 0
        while idle < 50:
            time.sleep(_ROUND)
            with self._guard:
                idle = 0 if self._waiting else idle + 1
                now = time.monotonic()
                for key, (deadline, database) in list(self._waiting.items()):
                    if now > deadline:
                        del self._waiting[key]
                        _cut(database)
                if idle >= 50:
                    self._thread = None
                    return


def _cut(database: Database) -> None:
    """Ends a connection under the hands of whoever waits on it."""
    with suppress(OSError, psycopg.Error):  # it may have ended by itself this very moment
        end = socket.socket(fileno=os.dup(database.fileno()))
        try:
            end.shutdown(socket.SHUT_RDWR)
        finally:
            end.close()
