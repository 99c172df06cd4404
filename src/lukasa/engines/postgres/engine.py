"""The PostgreSQL engine: one database, writers that wait only for those they would trip over, readers that wait for nobody."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from lukasa.clock import Clock, SystemClock, microseconds
from lukasa.engine import Compacted, Decision, Erased, Progress, Reader, Replayed, Verdict, chunks
from lukasa.engines.appending import sole
from lukasa.engines.postgres import dumping, migrating, upkeep
from lukasa.engines.postgres.appending import AddSole, Append, Replay, position_of, write_receipt
from lukasa.engines.postgres.connecting import Server, Transaction, always, first
from lukasa.engines.postgres.faults import translated
from lukasa.engines.postgres.lines import Row
from lukasa.engines.postgres.pooling import Database
from lukasa.engines.postgres.reader import PostgresReader
from lukasa.engines.postgres.sql import SQL
from lukasa.engines.postgres.vectors import put
from lukasa.errors import LukasaError, StoreClosed, StoreError, without_password
from lukasa.outcome import Outcome
from lukasa.record import Key, Sealed
from lukasa.scope import Reach

T = TypeVar("T")

_REPLAY_CHUNK = 1000
_CATCHING_UP = 2.0
_BRIEF = 10_000
_RESIDUE = (
    "the server's write-ahead log, its replicas and backups keep what was erased until they are recycled, and freed "
    "space until it is overwritten; VACUUM FULL rewrites the tables"
)


class PostgresEngine:
    """Keeps the engine promise in one PostgreSQL database, in the schema ``lukasa``."""

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        patience: float = 30.0,
        read_url: str | None = None,
        pool_size: int = 8,
        make: bool = True,
    ) -> None:
        self.url = url
        self._clock = clock or SystemClock()
        self._server = Server(url, patience=patience, size=pool_size)
        self._replica = Server(read_url, patience=patience, size=pool_size) if read_url else None
        self._thread = threading.local()
        database = self._server.connect()
        try:
            with translated():
                migrating.migrate(database, make=make)
        finally:
            database.close()
        _open_engines.add(self)

    @classmethod
    def restore(cls, url: str, file: Path) -> None:
        """Brings what ``backup`` wrote into a database whose store is empty."""
        engine = cls(url)
        try:
            engine._own(lambda database: dumping.load(database, file))
        finally:
            engine.close()

    def grant(self, role: str, *, read: Iterable[str], write: Iterable[str] | None = None) -> None:
        """Lets a database role reach exactly these scopes, whatever statements it writes by hand."""
        reach = Reach.of(read, write)
        assert reach.readable is not None
        assert reach.writable is not None
        readable, writable = reach.readable, reach.writable
        self._own(lambda database: migrating.admit(database, role, readable, writable))

    # Log

    @contextmanager
    def reading(self, reach: Reach, *, once: bool = False) -> Iterator[PostgresReader]:
        settled = self._caught_up()
        if self._replica is not None and settled is not None:
            with self._replica.looking(settled) as look:
                yield PostgresReader(look, reach)
        else:
            with self._server.glancing() if once else self._server.looking() as look:
                yield PostgresReader(look, reach)

    def append(self, reach: Reach, batch: Sequence[Sealed] | Decision, *, key: str | None = None) -> Outcome:
        now = self._clock.now()
        if key is None and not callable(batch) and (one := sole(reach, batch)) is not None:
            outcome = self._write(AddSole(one, now), brief=True)
            if outcome is not None:
                return outcome
        return self._transact(
            Append(reach, batch, key, now),
            keeps=Append.keeps,
            proof=Append.is_there,
            deciding=callable(batch),
            brief=callable(batch) or len(batch) <= _BRIEF,
        )

    def replay(self, reach: Reach, lines: Iterable[tuple[bytes, bytes]]) -> Iterator[Replayed]:
        for chunk in chunks(lines, _REPLAY_CHUNK):
            self._check_not_deciding()
            yield from self._transact(Replay(reach, chunk))

    def put_vectors(self, model: str, vectors: Iterable[tuple[int, int, Sequence[float]]]) -> None:
        rows = list(vectors)
        self._transact(lambda database: put(database, model, rows))

    def close(self) -> None:
        self._server.close()
        if self._replica is not None:
            self._replica.close()

    # Upkeep

    def verify(self, progress: Progress | None = None) -> Verdict:
        return self._own(lambda database: upkeep.verify(database, progress))

    def reindex(self, progress: Progress | None = None) -> None:
        self._transact(lambda database: upkeep.reindex(database, progress))

    def compact(self, *, before: datetime | None = None, progress: Progress | None = None) -> Compacted:
        bound = 2**63 - 1 if before is None else microseconds(before)
        bytes_before = self._size()
        dropped = self._transact(lambda database: upkeep.compact(database, bound, progress))
        if dropped:
            self._own(_vacuum)
        return Compacted(dropped, bytes_before, self._size())

    def erase(self, choose: Callable[[Reader], Sequence[Key]], receipt: Callable[[Erased], Sealed]) -> Erased:
        now = self._clock.now()

        receipts: list[Row] = []

        def work(database: Database) -> Erased:
            receipts.clear()
            return upkeep.erase(
                database, choose, lambda erased: receipts.extend(write_receipt(database, receipt(erased), now))
            )

        erased = self._transact(
            work,
            keeps=lambda erased: bool(erased.versions),
            proof=lambda database, _: position_of(database, receipts[0]) is not None,
            deciding=True,
        )
        if not erased.versions:
            return erased
        self._own(_vacuum)
        return replace(erased, residue=_RESIDUE)

    def backup(self, target: Path) -> None:
        self._own(lambda database: dumping.dump(database, target))

    def describe(self) -> Mapping[str, Any]:
        def work(database: Database) -> dict[str, Any]:
            (version, durable, role, extension) = first(database.execute(_FACTS))
            return {
                "engine": "postgresql",
                "postgresql": version,
                "pgvector": extension or "not installed",
                "schema": migrating.newest(),
                "store": without_password(self.url),
                "role": role,
                "synchronous_commit": durable,
                "read_only": False,
                "replica": without_password(self._replica.url) if self._replica else None,
                "bytes": first(database.execute(SQL["bytes"]))[0],
            }

        return self._own(work)

    def _size(self) -> int:
        return int(self._own(lambda database: first(database.execute(SQL["bytes"]))[0]))

    # Connections

    def _transact(
        self,
        work: Callable[[Database], T],
        *,
        keeps: Callable[[T], bool] = always,
        proof: Callable[[Database, T], bool] = always,
        deciding: bool = False,
        brief: bool = False,
    ) -> T:
        """Runs work in a transaction that takes effect once, and only if ``keeps`` says so of what it returns."""
        transaction = Transaction(work, keeps=keeps, proof=proof, patience=self._server.patience)
        return self._write(transaction, deciding=deciding, brief=brief)

    def _write(self, work: Callable[[Database], T], *, deciding: bool = False, brief: bool = False) -> T:
        """Runs work that commits; while it decides, this thread must not write anything else."""
        self._check_not_deciding()
        self._thread.deciding = deciding
        try:
            return self._server.write(work, brief=brief)
        finally:
            self._thread.deciding = False

    def _check_not_deciding(self) -> None:
        if getattr(self._thread, "deciding", False):
            raise LukasaError("A decision tried to write.", hint="Return what to append instead.")

    def _own(self, work: Callable[[Database], T]) -> T:
        """Runs work over a connection of its own, outside the pool: long, or not to be tried again."""
        if self._server.closed:
            raise StoreClosed
        database = self._server.connect()
        try:
            with translated():
                return work(database)
        finally:
            database.close()

    def _caught_up(self) -> int | None:
        """Waits for the replica to have everything that was written when we asked; tells up to where that is settled.

        ``None`` without a replica, or when it lags too far behind.
        """
        if self._replica is None:
            return None
        try:
            with self._server.borrowed() as database:
                settled, _ = first(database.execute(SQL["settled"]))
                (position,) = first(database.execute("SELECT pg_current_wal_flush_lsn()::text"))
            deadline = time.monotonic() + _CATCHING_UP
            with self._replica.borrowed() as database:
                while time.monotonic() < deadline:
                    (there,) = first(database.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", (position,)))
                    if there or there is None:
                        return int(settled)
                    time.sleep(0.002)
        except (psycopg.Error, StoreError):
            return None
        return None

    def _leave_parent(self) -> None:
        for server in (self._server, self._replica):
            if server is not None:
                server.leave_parent()


_FACTS = """SELECT current_setting('server_version'), current_setting('synchronous_commit'), current_user,
    (SELECT extversion FROM pg_extension WHERE extname = 'vector')"""


def _vacuum(database: Database) -> None:
    """Takes dead rows away, in tables and indexes."""
    database.execute("VACUUM log, link, hidden, tally")


_open_engines: weakref.WeakSet[PostgresEngine] = weakref.WeakSet()


def _leave_parents() -> None:
    for engine in list(_open_engines):
        engine._leave_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_parents)
