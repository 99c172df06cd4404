"""Several threads, one commit: single inserts that wait for a transaction of their scope are committed together.

A thread that finds none of these transactions in its scope inserts at once. While one is under way, threads wait until
together they insert as many records as it does, or until it ends; then one of them inserts for all, in one statement. At most
``_MAX_TRANSACTIONS`` are under way. They are kept alike in size: with one large and one small, most threads wait for the
large one while the other commits a single record. No thread returns before the commit of its record. Threads of other
scopes are never waited for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import psycopg

from lukasa.core.outcome import Outcome
from lukasa.storage.postgres.append import InsertSingle, encode_group
from lukasa.storage.postgres.errors import RETRYABLE_ERRORS, is_connection_lost
from lukasa.storage.postgres.pool import Database
from lukasa.storage.postgres.prepared import decode_bigints, execute_prepared

_MAX_TRANSACTIONS = 2
_MAX_GROUP = 64

Write = Callable[[Callable[[Database], Outcome | None]], Outcome | None]
"""Runs work that commits, and runs it again after a lost race or a lost connection."""


class InsertGroup:
    """The inserts of several threads in one scope: one statement, one round trip.

    It is tried once. If it failed or may have failed for a record, the thread of that record inserts it alone.
    """

    def __init__(self, inserts: Sequence[InsertSingle]) -> None:
        self._inserts = inserts
        self.outcomes: list[Outcome] = []

    def __call__(self, database: Database) -> None:
        if any(insert.was_tried for insert in self._inserts):
            return
        for insert in self._inserts:
            insert.was_tried = True
        try:
            positions = execute_prepared(database, "insert_group", encode_group(self._inserts))
        except psycopg.Error as error:
            if is_connection_lost(error) or isinstance(error, RETRYABLE_ERRORS):
                raise
            return  # one of the records cannot be inserted
        if positions is not None:
            self.outcomes = [
                insert.accept(seq) for insert, seq in zip(self._inserts, decode_bigints(positions), strict=True)
            ]


class _WaitingInsert:
    __slots__ = ("error", "insert", "is_leader", "outcome", "wake_lock")

    def __init__(self, insert: InsertSingle) -> None:
        self.insert = insert
        self.outcome: Outcome | None = None
        self.error: BaseException | None = None
        self.is_leader = False
        self.wake_lock = threading.Lock()
        self.wake_lock.acquire()


class _ScopeInserts:
    """The transactions of one scope that are under way with their records, and the inserts that wait."""

    __slots__ = ("in_flight", "transactions", "waiting")

    def __init__(self) -> None:
        """Begin with a transaction of one record."""
        self.transactions = 1
        self.in_flight = 1
        self.waiting: list[_WaitingInsert] = []

    def may_begin(self) -> bool:
        """Return whether one more thread begins a transaction: it inserts as many records as the one under way, or more."""
        return self.transactions < _MAX_TRANSACTIONS and len(self.waiting) + 1 >= self.in_flight

    def take_group(self) -> list[_WaitingInsert]:
        """Take the inserts that one thread runs with its own; their number keeps transactions under way alike in size."""
        count = len(self.waiting)
        if self.in_flight:
            count = min(count, (count + self.in_flight) // _MAX_TRANSACTIONS)
        count = min(count, _MAX_GROUP)
        group, self.waiting = self.waiting[:count], self.waiting[count:]
        self.in_flight += 1 + len(group)
        return group


class GroupCommit:
    """Inserts single records for the threads of one process."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._lock = threading.Lock()  # guards what follows; held only for moments
        self._scopes: dict[str, _ScopeInserts] = {}

    def insert(self, insert: InsertSingle) -> Outcome | None:
        """Insert a record and return once it is durable; return None when it needs the full append."""
        scope = insert.scope
        waiting: _WaitingInsert | None = None
        group: Sequence[_WaitingInsert] = ()
        with self._lock:
            inserts = self._scopes.get(scope)
            if inserts is None:
                inserts = self._scopes[scope] = _ScopeInserts()
            elif inserts.may_begin():
                inserts.transactions += 1
                group = inserts.take_group()
            else:
                waiting = _WaitingInsert(insert)
                inserts.waiting.append(waiting)
        if waiting is not None:
            outcome = self._wait(waiting, inserts)
            if not waiting.is_leader:
                return outcome or self._write(insert)
            with self._lock:
                group = inserts.take_group()
        try:
            return self._insert_group(insert, group) if group else self._write(insert)
        finally:
            self._hand_over(scope, inserts, 1 + len(group))
            for member in group:
                member.wake_lock.release()

    def _wait(self, waiting: _WaitingInsert, inserts: _ScopeInserts) -> Outcome | None:
        """Wait until another thread has inserted the record, or until this thread is to insert those that wait."""
        try:
            waiting.wake_lock.acquire()
        except BaseException:  # an interrupted thread must not become the leader
            with self._lock:
                if waiting in inserts.waiting:
                    inserts.waiting.remove(waiting)
            if waiting.is_leader:
                self._hand_over(waiting.insert.scope, inserts, 0)
            raise
        if waiting.error is not None:
            raise waiting.error
        return waiting.outcome

    def _insert_group(self, own: InsertSingle, others: Sequence[_WaitingInsert]) -> Outcome | None:
        group = InsertGroup([own, *(member.insert for member in others)])
        try:
            self._write(group)
        except BaseException as error:
            for member in others:
                member.error = error
            raise
        if not group.outcomes:
            return self._write(own)
        for member, outcome in zip(others, group.outcomes[1:], strict=True):
            member.outcome = outcome
        return group.outcomes[0]

    def _hand_over(self, scope: str, inserts: _ScopeInserts, record_count: int) -> None:
        """End a transaction of some records: the first thread that waits takes its place."""
        with self._lock:
            inserts.in_flight -= record_count
            if inserts.waiting:
                successor = inserts.waiting.pop(0)
                successor.is_leader = True
                successor.wake_lock.release()
                return
            inserts.transactions -= 1
            if not inserts.transactions:
                self._scopes.pop(scope, None)
