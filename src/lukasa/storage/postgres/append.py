"""Appending to a PostgreSQL store: drafts, single inserts and replay of other logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import count, groupby
from operator import itemgetter
from struct import Struct
from typing import Any

from psycopg.errors import UniqueViolation

from lukasa.core.clock import to_iso, to_microseconds
from lukasa.core.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.core.record import DERIVED_FROM, Record, ValidatedDraft, checksum, digest_of, entry_suffix, parse_entry
from lukasa.core.scope import FULL_REACH, SYSTEM, Reach
from lukasa.storage import quarantine
from lukasa.storage.append import (
    KeyState,
    KeyTuple,
    Replay,
    VersionTuple,
    fingerprint_batch,
    hash_idempotency_key,
    parse_replayed_entries,
    refuse_closed_scope,
    resolve_batch,
)
from lukasa.storage.engine import QUARANTINE, ConditionalBatch, ImportReceiptDraft, ReplayResult
from lukasa.storage.postgres.batch import (
    IndexSettings,
    NewVersion,
    PostgresLogRow,
    PostgresPendingBatch,
    PostgresTallyChanges,
    format_integers,
    parse_key_state,
    parse_log_row,
)
from lukasa.storage.postgres.connection import WriterSnapshot, fetch_single_row
from lukasa.storage.postgres.pool import Database
from lukasa.storage.postgres.prepared import Parameter, encode_array, execute_prepared
from lukasa.storage.postgres.reader import PostgresReader
from lukasa.storage.postgres.sql import SQL
from lukasa.storage.postgres.text_index import index_text
from lukasa.storage.reader import LazyRecords

_COPY_THRESHOLD = 50
_TEXT, _BIGINT, _INTEGER, _BYTEA = 25, 20, 23, 17  # the server's numbers of these types
_GROUP_TYPES = (_TEXT, _TEXT, _TEXT, _BIGINT, _BIGINT, _INTEGER, _TEXT, _BYTEA, _TEXT, _BIGINT)
_NUL = "\0"
_pack_bigint, _pack_integer = Struct(">q").pack, Struct(">i").pack


class PostgresQuarantineBackend:
    """A PostgreSQL store inside a write transaction, for the quarantine rules."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def fetch_rows(self, name: str, *values: Any) -> list[Any]:
        return self.database.execute(SQL[name], values, binary=True).fetchall()

    def execute_many(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        with self.database.cursor() as cursor:
            cursor.executemany(SQL[name], list(rows))

    def mark_superseded(self, seq: int) -> None:
        self._set_current(seq, live=False)

    def mark_current(self, seq: int) -> None:
        self._set_current(seq, live=True)

    def _set_current(self, seq: int, *, live: bool) -> None:
        changes = PostgresTallyChanges()
        for scope, kind, token_count in self.fetch_rows("set_live", live, seq):
            changes.move_text(scope, kind, token_count, live=live)
        self.execute_many("add_to_tally", changes.rows())

    def add_live_count(self, scope: str, kind: str, live: int) -> None:
        self.execute_many("add_to_tally", [(scope, kind, live, 0, 0, 0, 0, 0, 0)])


class AppendOperation:
    """One append, run inside a transaction."""

    def __init__(
        self,
        settings: IndexSettings,
        reach: Reach,
        batch: Sequence[ValidatedDraft] | ConditionalBatch,
        key: str | None,
        now: datetime,
        *,
        as_role: bool = False,
    ) -> None:
        self._as_role = as_role
        self._settings = settings
        self._reach = reach
        self._batch = batch
        self._key = key
        self._now = now
        self._is_retry = False

    @staticmethod
    def should_commit(outcome: Outcome) -> bool:
        """Return whether the append wrote anything."""
        return isinstance(outcome, Accepted) and not outcome.repeated

    @staticmethod
    def is_written(database: Database, outcome: Outcome) -> bool:
        """Return whether the accepted records are in the log."""
        if not isinstance(outcome, Accepted) or not outcome.records:
            return True
        return find_position(database, outcome.records[0]) is not None

    def __call__(self, database: Database) -> Outcome:
        batch, reach, is_conditional = self._batch, self._reach, callable(self._batch)
        has_quarantines, positions = self._begin(database)
        answer = None
        if self._key is not None:
            key_hash = hash_idempotency_key(reach, self._key)
            answer = database.execute(SQL["find_idempotency"], (key_hash,)).fetchone()
        drafts = resolve_batch(PostgresReader(WriterSnapshot(database), reach), batch, answer)
        if isinstance(drafts, Accepted | Refused):
            return drafts
        if is_conditional and not self._as_role:
            (positions,) = fetch_single_row(database.execute(SQL["draw_positions"], (len(drafts),)))
        check_fresh_ids, self._is_retry = self._is_retry, True  # a retry may mean that a generated id was taken
        written = _write_batch(
            database, self._settings, drafts, positions, self._now, reach,
            has_quarantines=has_quarantines, check_fresh_ids=check_fresh_ids, as_role=self._as_role,
        )  # fmt: skip
        if not isinstance(written, list):
            return written
        if self._key is not None:
            seqs = [row.seq for row in written]
            values = (key_hash, fingerprint_batch(batch), seqs, to_microseconds(self._now))
            database.execute(SQL["insert_idempotency"], values)
        details = quarantine.note_quarantine(PostgresQuarantineBackend(database), drafts) if has_quarantines else {}
        return Accepted(LazyRecords(written, parse_log_row), details=details)

    def _begin(self, database: Database) -> tuple[bool, Iterable[int]]:
        """Lock scopes; return whether an author is in quarantine, and positions for a plain batch.

        The server decides both for a role. Its positions are drawn with the entries; the numbers returned are only
        distinct.
        """
        locked = (self._scopes_to_lock(), callable(self._batch))
        if self._as_role:
            database.execute(SQL["begin_role_write"], locked)
            return False, count(-1, -1)
        wanted = 0 if callable(self._batch) else len(self._batch)
        has_quarantines, positions = fetch_single_row(database.execute(SQL["begin_write"], (*locked, wanted)))
        return has_quarantines, positions

    def _scopes_to_lock(self) -> list[str] | None:
        """Return the scopes to lock, shared for a plain batch and exclusive for a conditional one; None for all."""
        if not callable(self._batch):
            if any(sealed.kind == QUARANTINE for sealed in self._batch):
                return None
            return sorted({sealed.scope for sealed in self._batch})
        if self._reach.readable is None or self._reach.writable is None:
            return None
        return sorted(self._reach.readable | self._reach.writable)


def find_single_insert(
    reach: Reach, batch: Sequence[ValidatedDraft], near_duplicate_kinds: frozenset[str]
) -> ValidatedDraft | None:
    """Return the draft of a batch for ``InsertSingle``: one new record with a generated id and nothing to derive; else None."""
    if len(batch) != 1:
        return None
    (sealed,) = batch
    draft = sealed.draft
    if draft.deleted or draft.expected or draft.links or draft.labels or not sealed.has_new_id:
        return None
    is_plain = sealed.kind != QUARANTINE and sealed.kind not in near_duplicate_kinds
    return sealed if is_plain and reach.writes(sealed.scope) else None


class InsertSingle:
    """The fast path for one new record without labels or links: one statement, one round trip."""

    __slots__ = ("digest", "entry", "id", "kind", "parameters", "scope", "version", "was_tried")

    def __init__(self, sealed: ValidatedDraft, now: datetime) -> None:
        draft, self.scope, self.kind, self.id, author, content, _ = sealed
        at, recorded_at = to_microseconds(now), to_iso(now)
        self.version = 1
        self.entry = entry = content[:-1] + entry_suffix(1, recorded_at, recorded_at)
        self.digest = digest = digest_of(entry)
        token_count, tsvector = index_text(draft.text)
        moment = at if draft.happened_at is None else to_microseconds(draft.happened_at)
        self.parameters: tuple[Parameter, ...] = (
            self.scope.encode(), self.kind.encode(), self.id.encode(), author.encode(), _pack_bigint(at), _pack_bigint(moment),
            None if token_count is None else _pack_integer(token_count), None if tsvector is None else tsvector.encode(),
            digest, entry, _pack_bigint(checksum(digest)),
        )  # fmt: skip
        self.was_tried = False

    def __call__(self, database: Database) -> Outcome | None:
        seq = find_position(database, self) if self.was_tried else None
        self.was_tried = True
        if seq is None:
            try:
                found = execute_prepared(database, "insert_single", self.parameters)
            except UniqueViolation:
                seq = find_position(database, self)  # written by an attempt whose answer was lost, or by another writer
            else:
                seq = None if found is None else int.from_bytes(found)
        return None if seq is None else self.accept(seq)

    def accept(self, seq: int) -> Accepted:
        """Return the outcome once the record has its position."""
        return Accepted(LazyRecords([(seq, self.entry, self.digest)], _parse_inserted))


def _parse_inserted(row: tuple[int, bytes, bytes]) -> Record:
    seq, entry, digest = row
    return parse_entry(entry, seq, digest)


def encode_group(inserts: Sequence[InsertSingle]) -> list[Parameter]:
    """Return the parameters of ``insert_group`` for records of one scope."""
    _, *columns = zip(*(insert.parameters for insert in inserts), strict=True)
    scope = inserts[0].parameters[0]
    return [scope, *(encode_array(type, column) for type, column in zip(_GROUP_TYPES, columns, strict=True))]


def find_position(database: Database, version: PostgresLogRow | Record | InsertSingle) -> int | None:
    """Return the position of a version, if the log holds it with the same digest."""
    values = {"scope": version.scope, "kind": version.kind, "id": version.id, "bound": version.version}
    found = database.execute(SQL["position_of_version"], values).fetchone()
    return found[0] if found is not None and found[1] == version.digest else None


def _write_batch(
    database: Database,
    settings: IndexSettings,
    batch: Sequence[ValidatedDraft],
    positions: Iterable[int],
    now: datetime,
    reach: Reach,
    *,
    has_quarantines: bool,
    check_fresh_ids: bool,
    as_role: bool = False,
) -> list[PostgresLogRow] | Refused | Conflict:
    """Write the next versions, all or none; on a refusal the caller rolls its transaction back."""
    for sealed in batch:
        if not reach.writes(sealed.scope):
            return refuse_closed_scope(sealed.scope)
    keys = [(sealed.scope, sealed.kind, sealed.id) for sealed in batch if check_fresh_ids or not sealed.has_new_id]
    pending = PostgresPendingBatch(settings, _read_key_states(database, keys))
    backend = PostgresQuarantineBackend(database)
    written: list[PostgresLogRow] = []
    quarantines = quarantine.ActiveQuarantines(backend) if has_quarantines else None
    for sealed, seq in zip(batch, positions, strict=False):
        new_version = pending.build_version(sealed, seq, now)
        if isinstance(new_version, Conflict):
            return new_version
        if quarantines is None:
            pending.add_version(new_version)
        else:  # a record can be hidden because of the one before it
            written += _add_maybe_hidden(backend, pending, quarantines, new_version)
    written += _flush_as_role(database, pending) if as_role else _flush(database, pending)
    for sealed, row in zip(batch, written, strict=True):
        if sealed.kind == QUARANTINE and sealed.scope == SYSTEM:
            quarantine.apply_quarantine(backend, sealed.draft.body, row.seq)
    return written


def write_receipt(
    database: Database, settings: IndexSettings, receipt: ValidatedDraft, now: datetime
) -> list[PostgresLogRow]:
    """Write a system record inside the transaction of an erasure; no quarantine hides system records."""
    (positions,) = fetch_single_row(database.execute(SQL["draw_positions"], (1,)))
    written = _write_batch(
        database, settings, [receipt], positions, now, FULL_REACH, has_quarantines=False, check_fresh_ids=True
    )
    return written if isinstance(written, list) else []


def _add_maybe_hidden(
    backend: PostgresQuarantineBackend,
    pending: PostgresPendingBatch,
    quarantines: quarantine.ActiveQuarantines,
    new_version: NewVersion,
) -> list[PostgresLogRow]:
    """Add a version that a quarantine may hide because of earlier entries; return the rows written meanwhile."""
    row = new_version.row
    is_derived = any(link.relation == DERIVED_FROM for link in row.links)
    if not is_derived and quarantines.start_of(row.author) is None:
        pending.add_version(new_version)
        return []
    written = _flush(backend.database, pending)
    hidden_by = quarantines.find_hiding_authors(row.scope, row.author, row.links, row.at)
    pending.add_version(new_version, hidden=bool(hidden_by))
    written += _flush(backend.database, pending)
    backend.execute_many("hide_version", [(row.seq, author) for author in hidden_by])
    return written


def _read_key_states(database: Database, keys: Iterable[KeyTuple]) -> list[tuple[KeyTuple, KeyState]]:
    wanted = list(set(keys))
    rows: Iterable[tuple[Any, ...]]
    if len(wanted) == 1:
        rows = database.execute(
            SQL["key_state"], dict(zip(("scope", "kind", "id"), wanted[0], strict=True)), binary=True
        )
    else:
        rows = _select_scope_by_scope(database, "key_states", ("kinds", "ids"), wanted)
    return [parse_key_state(row) for row in rows]


def _select_scope_by_scope(
    database: Database, name: str, columns: Sequence[str], wanted: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[Any, ...]]:
    """Run a statement once for each scope, so that each run touches the partitions of one scope."""
    for scope, rows in groupby(sorted(wanted), key=itemgetter(0)):
        _, *lists = map(list, zip(*rows, strict=True))
        yield from database.execute(SQL[name], {"scope": scope, **dict(zip(columns, lists, strict=True))}, binary=True)


def _flush(database: Database, pending: PostgresPendingBatch) -> list[PostgresLogRow]:
    """Write the pending rows and everything derived from them."""
    rows, superseded, changes = pending.drain()
    if not rows:
        return rows
    link_rows = [link_row for row in rows for link_row in row.link_rows]
    with database.cursor() as cursor:
        if superseded:
            cursor.executemany(SQL["supersede"], superseded)
        if len(rows) > _COPY_THRESHOLD:
            seqs_by_scope: dict[str, list[int]] = {}  # near-duplicate keys: added at once per scope, not row by row
            for row in rows:
                if row.pair_keys and row.live:
                    seqs_by_scope.setdefault(row.scope, []).append(row.seq)
            if seqs_by_scope:
                database.execute("SET LOCAL lukasa.adds_pair_keys = 'yes'")
            _copy_rows(database, "copy_entries", (row.copy_values for row in rows))
            for scope, seqs in seqs_by_scope.items():
                database.execute(SQL["insert_pair_keys"], (scope, seqs))
            if seqs_by_scope:
                database.execute("SET LOCAL lukasa.adds_pair_keys = 'no'")
            _copy_rows(database, "copy_links", link_rows)
        else:
            cursor.executemany(SQL["insert_entry"], [row.columns for row in rows])
            if link_rows:
                cursor.executemany(SQL["insert_link"], link_rows)
        cursor.executemany(SQL["add_to_tally"], changes.rows())
    return rows


def _flush_as_role(database: Database, pending: PostgresPendingBatch) -> list[PostgresLogRow]:
    """Hand the pending rows to the server, which checks them and derives the rest from the entries."""
    rows, _, _ = pending.drain()
    if not rows:
        return rows
    values = zip(
        *[(row.entry, row.token_count, row.tsvector, row.group_label, format_integers(row.pair_keys)) for row in rows],
        strict=True,
    )
    (positions,) = fetch_single_row(database.execute(SQL["append_entries"], [list(column) for column in values]))
    return [row._replace(seq=seq) for row, seq in zip(rows, positions, strict=True)]


def _copy_rows(database: Database, name: str, rows: Iterable[Sequence[Any]]) -> None:
    with database.cursor() as cursor, cursor.copy(SQL[name]) as copy:
        for row in rows:
            copy.write_row(row)


class ReplayOperation:
    """One replayed chunk of entries, parsed once and run inside a transaction, possibly more than once."""

    def __init__(
        self,
        settings: IndexSettings,
        reach: Reach,
        lines: Sequence[tuple[bytes, bytes]],
        receipt: ImportReceiptDraft | None,
        now: datetime,
    ) -> None:
        self._settings, self._receipt, self._now = settings, receipt, now
        self._entries: list[tuple[Record | str, bytes]] = []
        for record, line in parse_replayed_entries(reach, lines):
            if isinstance(record, Record):
                names = [record.scope, record.kind, record.id, record.author, *record.labels]
                for link in record.links:
                    names += (link.relation, link.to.scope, link.to.kind, link.to.id)
                if any(_NUL in name for name in names):
                    self._entries.append(("PostgreSQL cannot hold a NUL character in a name", line))
                    continue
            self._entries.append((record, line))

    def __call__(self, database: Database) -> list[ReplayResult]:
        replay = PostgresReplay(
            database, self._settings, [record for record, _ in self._entries if isinstance(record, Record)]
        )
        results = replay.run(self._entries)
        replay.flush()
        if self._receipt is not None and replay.added_digests:
            write_receipt(database, self._settings, self._receipt(replay.added_digests), self._now)
        return results


class PostgresReplay(Replay):
    """Replay into a PostgreSQL store; locks its scopes first."""

    def __init__(self, database: Database, settings: IndexSettings, records: Sequence[Record]) -> None:
        scopes = sorted({SYSTEM, *(record.scope for record in records)})
        has_quarantine_records = any(record.kind == QUARANTINE for record in records)
        has_quarantines, positions = fetch_single_row(
            database.execute(SQL["begin_write"], (None if has_quarantine_records else scopes, False, len(records)))
        )
        super().__init__(line for (line,) in database.execute(SQL["erasure_receipts"]))
        self._positions = iter(positions)
        self._backend = PostgresQuarantineBackend(database)
        self._quarantines = quarantine.ActiveQuarantines(self._backend) if has_quarantines else None
        keys = [(record.scope, record.kind, record.id) for record in records]
        self._pending = PostgresPendingBatch(settings, _read_key_states(database, keys))
        versions = [(*key, record.version) for key, record in zip(keys, records, strict=True)]
        rows = _select_scope_by_scope(database, "digests_of_versions", ("kinds", "ids", "versions"), versions)
        self._digests: dict[Any, bytes] = {row[:4]: row[4] for row in rows}

    def find_digest(self, version: VersionTuple) -> bytes | None:
        return self._digests.get(version)

    def add_record(self, record: Record, entry: bytes) -> None:
        seq, database = next(self._positions), self._backend.database
        before = self._pending.get_key_state((record.scope, record.kind, record.id))
        new_version = self._pending.build_replayed(parse_entry(entry, seq, record.digest), entry.decode())
        if self._quarantines is not None:
            _add_maybe_hidden(self._backend, self._pending, self._quarantines, new_version)
        else:
            self._pending.add_version(new_version)
        if record.kind == QUARANTINE and record.scope == SYSTEM and record.version > before.version:
            _flush(database, self._pending)
            quarantine.apply_quarantine(self._backend, record.body, seq)
            # Other records may be hidden or shown now.
            self._pending.key_states = dict(_read_key_states(database, self._pending.key_states))
            self._quarantines = quarantine.ActiveQuarantines(self._backend)

    def flush(self) -> None:
        """Write what is pending."""
        _flush(self._backend.database, self._pending)
