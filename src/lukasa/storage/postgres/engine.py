"""The PostgreSQL engine: writers lock only the scopes they touch, readers never block."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from lukasa.core.clock import Clock, SystemClock, to_microseconds
from lukasa.core.outcome import Outcome
from lukasa.core.record import ValidatedDraft
from lukasa.core.scope import FULL_REACH, Reach
from lukasa.core.text_cache import empty_caches
from lukasa.errors import LukasaError, NotAllowed, StoreClosed, StoreError, mask_password
from lukasa.storage.engine import (
    ChooseErased,
    ConditionalBatch,
    DamagedEntry,
    EraseResult,
    FindFault,
    ImportReceiptDraft,
    LogCompactionResult,
    Progress,
    ReplayResult,
    VerifyReport,
    split_into_chunks,
)
from lukasa.storage.engines import EngineOptions, register_for_fork
from lukasa.storage.files import open_output_file
from lukasa.storage.integrity import find_damaged
from lukasa.storage.location import StoreLocation
from lukasa.storage.log_file import read_log, write_log
from lukasa.storage.postgres import maintenance, schema
from lukasa.storage.postgres.append import (
    AppendOperation,
    InsertSingle,
    ReplayOperation,
    find_position,
    find_single_insert,
    write_receipt,
)
from lukasa.storage.postgres.batch import IndexSettings, PostgresLogRow
from lukasa.storage.postgres.connection import (
    PostgresClient,
    ReplicaConnection,
    RetryableTransaction,
    StatementSnapshot,
    TransactionSnapshot,
    always_true,
    fetch_single_row,
)
from lukasa.storage.postgres.errors import error_translation
from lukasa.storage.postgres.group_commit import GroupCommit
from lukasa.storage.postgres.pool import Database
from lukasa.storage.postgres.reader import PostgresReader
from lukasa.storage.postgres.sql import SQL
from lukasa.storage.postgres.vectors import put_vectors
from lukasa.storage.reader import EntryCache

T = TypeVar("T")

_REPLAY_CHUNK = 1000
_REPLICA_TIMEOUT = 2.0
_MAX_TIMED_BATCH = 10_000
_RESIDUE_NOTE = (
    "the server's write-ahead log, its replicas and backups keep what was erased until they are recycled, and freed "
    "space until it is overwritten; VACUUM FULL rewrites the tables"
)


class PostgresEngine:
    """A store in one PostgreSQL database, in the schema ``lukasa``.

    The texts of ``near_duplicate_kinds`` get near-duplicate keys. The label ``group_label`` is indexed for
    ``adjacent_turns``; other labels work there too, but more slowly. ``progress`` is called while an older store is
    migrated.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        timeout: float = 30.0,
        read_url: str | None = None,
        pool_size: int = 8,
        create: bool = True,
        read_only: bool = False,
        near_duplicate_kinds: frozenset[str] = frozenset(),
        group_label: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.url = url
        self._settings = IndexSettings(near_duplicate_kinds, group_label)
        self._clock = clock or SystemClock()
        self._server = PostgresClient(url, timeout=timeout, size=pool_size, read_only=read_only)
        self._replica = PostgresClient(read_url, timeout=timeout, size=pool_size) if read_url else None
        self._entries = EntryCache()
        self._inserts = self._new_group_commit()
        self._thread = threading.local()
        database = self._server.connect()
        try:
            with error_translation():
                schema.migrate(database, create=create, progress=progress)
                self._is_role = not schema.is_owner(database)
        finally:
            database.close()
        register_for_fork(self)

    def _new_group_commit(self) -> GroupCommit:
        return GroupCommit(partial(self._server.write, limit_time=True))

    def grant(
        self, role: str, *, read: Iterable[str], write: Iterable[str] | None = None, agent: str | None = None
    ) -> None:
        """Give a database role access to exactly these scopes, also for SQL that it writes by hand.

        With ``agent``, everything that the role writes must name that agent as its author or writer.
        """
        reach = Reach.of(read, write)
        assert reach.readable is not None
        assert reach.writable is not None
        readable, writable = reach.readable, reach.writable
        self._run_unpooled(lambda database: schema.grant_scopes(database, role, readable, writable, agent))

    @contextmanager
    def snapshot(self, reach: Reach, *, single_query: bool = False) -> Iterator[PostgresReader]:
        replica = self._find_current_replica()
        opened: AbstractContextManager[StatementSnapshot | TransactionSnapshot]
        if single_query:
            opened = self._server.statement_snapshot(replica)
        elif replica is not None:
            opened = replica.client.replica_snapshot(replica.database, replica.settled_position)
        else:
            opened = self._server.snapshot()
        with opened as snapshot:
            yield PostgresReader(snapshot, reach, self._entries)

    def append(
        self, reach: Reach, batch: Sequence[ValidatedDraft] | ConditionalBatch, *, key: str | None = None
    ) -> Outcome:
        now = self._clock.now()
        if key is None and not callable(batch) and not self._is_role:
            single = find_single_insert(reach, batch, self._settings.near_duplicate_kinds)
            if single is not None:
                self._check_not_in_condition()
                outcome = self._inserts.insert(InsertSingle(single, now))
                if outcome is not None:
                    return outcome
        return self._transact(
            AppendOperation(self._settings, reach, batch, key, now, as_role=self._is_role),
            should_commit=AppendOperation.should_commit,
            is_applied=AppendOperation.is_written,
            is_conditional=callable(batch),
            limit_time=callable(batch) or len(batch) <= _MAX_TIMED_BATCH,
        )

    def replay(
        self, reach: Reach, lines: Iterable[tuple[bytes, bytes]], receipt: ImportReceiptDraft | None = None
    ) -> Iterator[ReplayResult]:
        if self._is_role:
            raise NotAllowed("Only the owner of the database may import into it.")
        for chunk in split_into_chunks(lines, _REPLAY_CHUNK):
            self._check_not_in_condition()
            yield from self._transact(ReplayOperation(self._settings, reach, chunk, receipt, self._clock.now()))

    def put_vectors(
        self, model: str, vectors: Iterable[tuple[int, int, Sequence[float]]], *, briefly: bool = False
    ) -> None:
        rows = list(vectors)

        def work(database: Database) -> None:
            if briefly:
                database.execute("SET LOCAL lock_timeout = '250ms'")
            put_vectors(database, model, rows)

        self._transact(work)

    def close(self) -> None:
        self._server.close()
        if self._replica is not None:
            self._replica.close()

    def verify(self, progress: Progress | None = None, find_fault: FindFault | None = None) -> VerifyReport:
        return self._run_unpooled(lambda database: maintenance.verify(database, self._settings, progress, find_fault))

    def find_damaged(self, find_fault: FindFault | None) -> list[DamagedEntry]:
        return self._run_unpooled(lambda database: find_damaged(maintenance.read_pages(database, None), find_fault)[0])

    def set_aside(self, find_fault: FindFault | None, receipt: Callable[[DamagedEntry], ValidatedDraft]) -> int:
        now = self._clock.now()

        def work(database: Database) -> int:
            found = maintenance.set_aside(database, find_fault)
            for entry in found:
                write_receipt(database, self._settings, receipt(entry), now)
            return len(found)

        return self._transact(work)

    def reindex(self, progress: Progress | None = None) -> None:
        self._transact(lambda database: maintenance.reindex(database, self._settings, progress))

    def compact(self, *, before: datetime | None = None, progress: Progress | None = None) -> LogCompactionResult:
        bound = 2**63 - 1 if before is None else to_microseconds(before)
        bytes_before = self._size_in_bytes()
        dropped = self._transact(lambda database: maintenance.compact(database, bound, progress))
        if dropped:
            empty_caches()
            self._run_unpooled(_vacuum)
        return LogCompactionResult(dropped, bytes_before, self._size_in_bytes())

    def erase(self, choose: ChooseErased, receipt: Callable[[EraseResult], ValidatedDraft]) -> EraseResult:
        now = self._clock.now()
        receipts: list[PostgresLogRow] = []

        def work(database: Database) -> EraseResult:
            receipts.clear()
            erased = maintenance.erase(database, choose)
            if erased.versions:
                receipts.extend(write_receipt(database, self._settings, receipt(erased), now))
            return erased

        erased = self._transact(
            work,
            should_commit=lambda erased: bool(erased.versions),
            is_applied=lambda database, _: find_position(database, receipts[0]) is not None,
            is_conditional=True,
        )
        if not erased.versions:
            return erased
        empty_caches()
        self._run_unpooled(_vacuum)
        return replace(erased, residue=_RESIDUE_NOTE)

    def backup(self, target: Path) -> set[int]:
        """Write the exported log to a new file. Vectors and answers to idempotency keys are not in it."""
        with self.snapshot(FULL_REACH) as reader, open_output_file(target, replace=False) as file:
            write_log(read_log(reader), file, reader.damaged)
            return reader.damaged

    def __repr__(self) -> str:
        return mask_password(self.url)

    def describe(self) -> Mapping[str, Any]:
        def work(database: Database) -> dict[str, Any]:
            (version, durable, role, extension, read_only) = fetch_single_row(database.execute(SQL["server_facts"]))
            return {
                "engine": "postgresql",
                "postgresql": version,
                "pgvector": extension or "not installed",
                "schema": schema.MIGRATIONS.latest,
                "store": mask_password(self.url),
                "role": role,
                "synchronous_commit": durable,
                "read_only": read_only,
                "replica": mask_password(self._replica.url) if self._replica else None,
                "store_size": fetch_single_row(database.execute(SQL["store_size"]))[0],
            }

        return self._run_unpooled(work)

    def add_to_counter(self, name: str, amount: int, seconds: int) -> tuple[int, int]:
        def work(database: Database) -> tuple[int, int]:
            database.execute("SET LOCAL synchronous_commit = off")
            values = {"name": f"count {name}", "amount": amount, "seconds": seconds}
            counted, left = fetch_single_row(database.execute(SQL["add_to_counter"], values))
            return int(counted), int(left)

        return self._transact(work)

    def _size_in_bytes(self) -> int:
        return int(self._run_unpooled(lambda database: fetch_single_row(database.execute(SQL["store_size"]))[0]))

    def _transact(
        self,
        work: Callable[[Database], T],
        *,
        should_commit: Callable[[T], bool] = always_true,
        is_applied: Callable[[Database, T], bool] = always_true,
        is_conditional: bool = False,
        limit_time: bool = False,
    ) -> T:
        """Run work in a transaction that takes effect once, and only if ``should_commit`` accepts its result."""
        transaction = RetryableTransaction(
            work, should_commit=should_commit, is_applied=is_applied, timeout=self._server.timeout
        )
        return self._write(transaction, is_conditional=is_conditional, limit_time=limit_time)

    def _write(self, work: Callable[[Database], T], *, is_conditional: bool = False, limit_time: bool = False) -> T:
        """Run work that commits. While a conditional append runs, its thread must not write anything else."""
        self._check_not_in_condition()
        self._thread.in_condition = is_conditional
        try:
            return self._server.write(work, limit_time=limit_time)
        finally:
            self._thread.in_condition = False

    def _check_not_in_condition(self) -> None:
        if getattr(self._thread, "in_condition", False):
            raise LukasaError("A conditional append tried to write.", hint="Return the drafts to append instead.")

    def _run_unpooled(self, work: Callable[[Database], T]) -> T:
        """Run work that is long or must not be retried, over a new connection outside the pool."""
        if self._server.closed:
            raise StoreClosed
        database = self._server.connect()
        try:
            with error_translation():
                return work(database)
        finally:
            database.close()

    def _find_current_replica(self) -> ReplicaConnection | None:
        """Wait until the replica has everything written so far, and return the connection that was asked.

        Return None without a replica, when it lags too far behind, or when it follows another history than the primary, as
        a former primary or its follower does after a failover.
        """
        if self._replica is None:
            return None
        try:
            with self._server.borrow_connection() as database:
                settled, _ = self._server.positions.read(database.execute)
                position, timeline = fetch_single_row(database.execute(SQL["log_position"]))
            deadline = time.monotonic() + _REPLICA_TIMEOUT

            def is_current(database: Database) -> bool:
                while time.monotonic() < deadline:
                    replayed, followed = fetch_single_row(database.execute(SQL["has_replayed"], (position,)))
                    if replayed or followed != timeline:
                        return bool(followed == timeline)
                    time.sleep(0.002)
                return False

            found = self._replica.acquire_current(is_current)
        except (psycopg.Error, StoreError):
            return None
        return None if found is None else ReplicaConnection(self._replica, found, int(settled))

    def reset_after_fork(self) -> None:
        """Drop the connections that a forked child inherited and must not use."""
        for server in (self._server, self._replica):
            if server is not None:
                server.reset_after_fork()
        self._inserts = self._new_group_commit()


def _vacuum(database: Database) -> None:
    """Remove dead rows from tables and indexes."""
    database.execute(SQL["vacuum"])


def open_engine(location: StoreLocation, options: EngineOptions) -> PostgresEngine:
    """Open a store on a server."""
    return PostgresEngine(
        location.url,
        clock=options.clock,
        timeout=options.timeout,
        read_url=options.read_url,
        create=options.create,
        read_only=options.read_only,
        near_duplicate_kinds=options.near_duplicate_kinds,
        group_label=options.group_label,
        progress=options.progress,
    )
