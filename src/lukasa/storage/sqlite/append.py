"""Batches of a SQLite store: pending entries, the indexes derived from them, and replay of other logs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

import apsw

from lukasa.core.clock import to_iso, to_microseconds
from lukasa.core.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.core.record import Link, Record, ValidatedDraft, digest_of, entry_suffix
from lukasa.core.scope import FULL_REACH, SYSTEM, Reach
from lukasa.storage import quarantine
from lukasa.storage.append import (
    NO_KEY_STATE,
    KeyState,
    KeyTuple,
    Replay,
    TallyChanges,
    VersionTuple,
    build_next_version,
    fingerprint_batch,
    hash_idempotency_key,
    parse_replayed_entries,
    refuse_closed_scope,
    resolve_batch,
)
from lukasa.storage.engine import QUARANTINE, ConditionalBatch, ImportReceiptDraft, ReplayResult
from lukasa.storage.reader import LazyRecords
from lukasa.storage.sqlite.reader import SqliteReader
from lukasa.storage.sqlite.sql import SQL
from lukasa.storage.sqlite.unindexed_texts import MAX_CHARACTERS, MAX_POSITIONS, index_texts
from lukasa.storage.sqlite.writer import LogRow, WriteStart, insert_pair_keys, insert_rows, parse_log_row
from lukasa.text.terms import to_index_form

Savepoint = tuple[int, int, int, int, int, int, int, int]
LabelRow = tuple[str, str, int]

_NO_AUTHORS: frozenset[str] = frozenset()
_MIN_BATCH = 16  # the keys of so many new records are looked up together


class SqlitePendingBatch:
    """The entries of one transaction, collected in memory and written at once with everything derived from them.

    Several jobs may share a batch: each creates a savepoint first and can roll back to it.
    """

    def __init__(
        self,
        database: apsw.Connection,
        near_duplicate_kinds: frozenset[str],
        *,
        check_fresh_ids: bool = False,
        start: WriteStart | None = None,
    ) -> None:
        self.database = database
        self.checks_fresh_ids = check_fresh_ids  # look up even new ids, in case an id generator repeats itself
        self.has_direct_writes = False
        self.near_duplicate_kinds = near_duplicate_kinds
        self._unindexed_from: int | None
        tip, quarantines, self._unindexed_from = start or database.execute(SQL["start_of_write"]).get
        self.next_seq: int = tip + 1
        self.has_quarantines = bool(quarantines)
        self._clear()

    def write_through(self) -> apsw.Connection:
        """Write everything pending and return the connection, for statements that have nothing to do with texts."""
        self.flush()
        self.has_direct_writes = True
        return self.database

    def take_connection(self) -> apsw.Connection:
        """Write everything pending, index all texts and return the connection, for work that does more than append."""
        self.write_through()
        self._index_waiting_texts()
        return self.database

    def _index_waiting_texts(self) -> None:
        """Index the texts that earlier writes left to a later one."""
        if self._unindexed_from is not None:
            index_texts(self.database)
            self._unindexed_from = None

    def _clear(self) -> None:
        self.first_seq = self.next_seq
        self._rows: list[LogRow] = []
        self._texts: list[tuple[int, str]] = []
        self._labels: list[LabelRow] = []
        self._live_corrections: list[tuple[str, str, int]] = []
        self._not_current: list[int] = []
        self._superseded: list[int] = []
        self._hidden: list[tuple[int, str]] = []
        self._replaced_states: list[tuple[KeyTuple, KeyState | None]] = []
        self._key_states: dict[KeyTuple, KeyState] = {}
        self._has_links = False

    def get_key_state(self, key: KeyTuple) -> KeyState:
        """Return the state of a key, pending versions included."""
        if (known := self._key_states.get(key)) is not None:
            return known
        newest = self.database.execute(SQL["newest_of_key"], key).get
        if newest is None:
            return NO_KEY_STATE
        seq, version, created_at, deleted, hidden = newest
        if not hidden:
            return KeyState(seq, version, version, created_at, bool(deleted))
        visible = self.database.execute(SQL["newest_visible_of_key"], key).get
        if visible is None:
            return KeyState(0, 0, version, created_at, True)
        return KeyState(visible[0], visible[1], version, visible[2], bool(visible[3]))

    def has_any_key(self, keys: Sequence[KeyTuple]) -> bool:
        """Return whether any of some keys has a version, pending ones included, or is given twice."""
        if len(set(keys)) < len(keys) or not self._key_states.keys().isdisjoint(keys):
            return True
        return any(
            self.database.execute(SQL["has_any_key"], (*scope_and_kind, json.dumps([key[2] for key in group]))).get
            for scope_and_kind, group in groupby(keys, itemgetter(0, 1))
        )

    def add_first_versions(self, batch: Iterable[ValidatedDraft], at: int, recorded_at: str) -> None:
        """Add the first versions of records whose keys are new."""
        suffix, sha256 = entry_suffix(1, recorded_at, recorded_at), hashlib.sha256
        rows, texts = self._rows, self._texts
        for seq, (draft, scope, kind, id, author, content, _) in enumerate(batch, self.next_seq):
            happened_at = draft.happened_at
            moment = at if happened_at is None else to_microseconds(happened_at)
            entry = content[:-1] + suffix
            rows.append((seq, scope, kind, id, 1, author, at, moment, sha256(entry).digest(), entry.decode()))
            if draft.text:
                texts.append((seq, draft.text))
            for label in draft.labels:
                self._labels.append((label, scope, seq))
            if draft.links:
                self._has_links = True
        self.next_seq = self.first_seq + len(rows)

    def add_version(
        self,
        key: KeyTuple,
        version: int,
        author: str,
        at: int,
        moment: int,
        digest: bytes,
        entry: bytes,
        text: str,
        *,
        before: KeyState,
        created_at: str,
        deleted: bool,
        hidden_by: frozenset[str],
    ) -> None:
        """Add a version that is newer or older than the newest of its key."""
        seq = self.next_seq
        self.next_seq = seq + 1
        self._rows.append((seq, *key, version, author, at, moment, digest, entry.decode()))
        if text:
            self._texts.append((seq, text))
        state = before.with_version(seq, version, created_at, deleted=deleted, hidden=bool(hidden_by))
        live = 0
        if state.seq != seq:
            self._not_current.append(seq)
            self._hidden += [(seq, hiding) for hiding in hidden_by]
        else:
            live = before.deleted - deleted
            if not before.deleted:
                (self._not_current if before.seq >= self.first_seq else self._superseded).append(before.seq)
            if deleted:
                self._not_current.append(seq)
        if live != 1:
            self._live_corrections.append((key[0], key[1], live - 1))
        self._replaced_states.append((key, self._key_states.get(key)))
        self._key_states[key] = state

    def reset_to(self, position: int) -> None:
        """Continue from a position after the database was rolled back to it; all texts before it are indexed."""
        self.next_seq = position
        self._unindexed_from = None
        self._clear()

    def note_indexed_parts(self, scope: str, labels: Sequence[str], links: Sequence[Link]) -> None:
        """Note the labels and links of the entry that is added next, so that their indexes get them."""
        if labels:
            self._labels += [(label, scope, self.next_seq) for label in labels]
        if links:
            self._has_links = True

    def create_savepoint(self) -> Savepoint:
        return (
            len(self._rows), len(self._texts), len(self._labels), len(self._live_corrections),
            len(self._not_current), len(self._superseded), len(self._hidden), len(self._replaced_states),
        )  # fmt: skip

    def roll_back_to(self, savepoint: Savepoint) -> None:
        """Remove everything that was added since the savepoint."""
        rows, texts, labels, live_corrections, not_current, superseded, hidden, states = savepoint
        for key, state in reversed(self._replaced_states[states:]):
            if state is None:
                del self._key_states[key]
            else:
                self._key_states[key] = state
        del self._rows[rows:], self._texts[texts:], self._labels[labels:], self._live_corrections[live_corrections:]
        del self._not_current[not_current:], self._superseded[superseded:], self._hidden[hidden:]
        del self._replaced_states[states:]
        self.next_seq = self.first_seq + len(self._rows)

    def rows_since(self, savepoint: Savepoint) -> list[LogRow]:
        """Return the rows that were added since the savepoint."""
        return self._rows[savepoint[0] :]

    def _may_leave_texts(self) -> bool:
        """Tell whether the pending texts can be left to a later write: they are few, short and current."""
        if not self._texts or self._not_current or self._superseded:
            return False
        first = self._texts[0][0] if self._unindexed_from is None else self._unindexed_from
        if self.next_seq - first > MAX_POSITIONS:
            return False
        return all(len(text) <= MAX_CHARACTERS for _, text in self._texts)

    def _note_waiting_texts(self) -> None:
        """Leave the pending texts to a later write."""
        if self._unindexed_from is None:
            self._unindexed_from = self._texts[0][0]
            self.database.execute(SQL["note_unindexed"], (self._unindexed_from,))

    def _index_pending_texts(self) -> None:
        indexed = [row if row[1].isascii() else (row[0], to_index_form(row[1])) for row in self._texts]
        if not self._not_current:
            self.database.executemany(SQL["index_text"], indexed)
            return
        not_current = set(self._not_current)
        self.database.executemany(SQL["index_text"], [row for row in indexed if row[0] not in not_current])
        self.database.executemany(SQL["index_past_text"], [row for row in indexed if row[0] in not_current])

    def flush(self) -> None:
        """Insert the pending rows and index entries, then clear the batch."""
        if not self._rows:
            return
        leaves_texts = self._may_leave_texts()
        if not leaves_texts and (self._texts or self._superseded):
            self._index_waiting_texts()
        for seq in self._superseded:
            SqliteQuarantineBackend(self.database).mark_superseded(seq)
        self.database.executemany(SQL["insert_entry"], self._rows)
        if self._not_current:
            self.database.executemany(SQL["insert_not_current"], [(seq,) for seq in self._not_current])
            self.database.executemany(SQL["hide_version"], self._hidden)
        if leaves_texts:
            self._note_waiting_texts()
        elif self._texts:
            self._index_pending_texts()
        span = (self.first_seq, self.next_seq - 1)
        insert_rows(self.database, "insert_label", sorted(self._labels))
        changes, kinds, kinds_written = TallyChanges(), self.near_duplicate_kinds, set[str]()
        for (scope, kind), rows in groupby(self._rows, itemgetter(1, 2)):
            changes.add_versions(scope, kind, list(map(itemgetter(8), rows)))
            kinds_written.add(kind)
        if not kinds.isdisjoint(kinds_written):
            texts = ((self._rows[seq - self.first_seq], text) for seq, text in self._texts)
            insert_pair_keys(self.database, ((row[0], row[1], row[2], text) for row, text in texts if row[2] in kinds))
        if self._has_links:
            self.database.execute(SQL["derive_links"], span)
        for scope, kind, live in self._live_corrections:
            changes.add_live(scope, kind, live)
        self.database.executemany(SQL["add_to_tally"], changes.rows())
        self._clear()


class SqliteQuarantineBackend:
    """A SQLite store inside a write transaction, for the quarantine rules."""

    def __init__(self, database: apsw.Connection) -> None:
        self._db = database

    def fetch_rows(self, name: str, *values: Any) -> list[Any]:
        return self._db.execute(SQL[name], values).fetchall()

    def execute_many(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        self._db.executemany(SQL[name], rows)

    def mark_superseded(self, seq: int) -> None:
        for name in ("unindex_text", "insert_not_current", "index_past_text_of_version"):
            self._db.execute(SQL[name], (seq,))
        self._db.execute(SQL["note_residue"])

    def mark_current(self, seq: int) -> None:
        for name in ("unindex_past_text", "delete_not_current", "index_text_of_version"):
            self._db.execute(SQL[name], (seq,))
        self._db.execute(SQL["note_residue"])

    def add_live_count(self, scope: str, kind: str, live: int) -> None:
        self._db.execute(SQL["add_to_tally"], (scope, kind, live, 0, 0))


def append_batch(
    pending: SqlitePendingBatch,
    now: datetime,
    reach: Reach,
    batch: Sequence[ValidatedDraft] | ConditionalBatch,
    key: str | None,
) -> Outcome:
    """Add a batch whole, or return the reason why not and leave the pending entries as they were."""
    answer = None
    if key is not None or callable(batch):
        pending.flush()  # the condition and the idempotency lookup must see earlier jobs of the group
        if key is not None:
            row = pending.database.execute(SQL["find_idempotency"], (hash_idempotency_key(reach, key),)).get
            answer = None if row is None else (row[0], json.loads(row[1]))
        reader = SqliteReader(pending.database, reach)
        if not pending.has_quarantines:  # a quarantine may hide what is added
            reader.position = pending.next_seq - 1
        drafts = resolve_batch(reader, batch, answer)
        if isinstance(drafts, Accepted | Refused):
            return drafts
    else:
        drafts = batch
    outcome = add_drafts(pending, now, reach, drafts)
    if key is not None and isinstance(outcome, Accepted):
        values = (
            hash_idempotency_key(reach, key),
            fingerprint_batch(batch),
            json.dumps(outcome.seqs),
            to_microseconds(now),
        )
        pending.write_through().execute(SQL["insert_idempotency"], values)
    return outcome


def add_drafts(pending: SqlitePendingBatch, now: datetime, reach: Reach, drafts: Sequence[ValidatedDraft]) -> Outcome:
    """Add drafts to the pending entries, all or none; a quarantine among them takes effect at once."""
    add = _add_batch_quarantined if pending.has_quarantines else _add_batch
    written = add(pending, now, reach, drafts)
    if not isinstance(written, list):
        return written
    if QUARANTINE in {sealed.kind for sealed in drafts}:
        database = pending.take_connection()
        for sealed, row in zip(drafts, written, strict=True):
            if sealed.kind == QUARANTINE and sealed.scope == SYSTEM:
                quarantine.apply_quarantine(SqliteQuarantineBackend(database), sealed.draft.body, row[0])
                pending.has_quarantines = True
    details = {}
    if pending.has_quarantines:
        details = quarantine.note_quarantine(SqliteQuarantineBackend(pending.database), drafts)
    return Accepted(LazyRecords(written, parse_log_row), details=details)


def _add_batch_quarantined(
    pending: SqlitePendingBatch, now: datetime, reach: Reach, batch: Sequence[ValidatedDraft]
) -> list[LogRow] | Refused | Conflict:
    """Add drafts one by one, so that a record can be hidden because of the one before it."""
    database, start = pending.take_connection(), pending.next_seq
    written: list[LogRow] = []
    database.execute("SAVEPOINT quarantined")
    for sealed in batch:
        rows = _add_batch(pending, now, reach, [sealed])
        if not isinstance(rows, list):
            database.execute("ROLLBACK TO quarantined")
            database.execute("RELEASE quarantined")
            pending.reset_to(start)
            return rows
        written += rows
        pending.flush()
    database.execute("RELEASE quarantined")
    return written


def _add_batch(
    pending: SqlitePendingBatch, now: datetime, reach: Reach, batch: Sequence[ValidatedDraft]
) -> list[LogRow] | Refused | Conflict:
    savepoint = pending.create_savepoint()
    at, recorded_at = to_microseconds(now), to_iso(now)
    quarantines = None
    if pending.has_quarantines:
        quarantines = quarantine.ActiveQuarantines(SqliteQuarantineBackend(pending.database))
    writable = reach.writable
    obstacle: Refused | Conflict | None = None
    try:
        if quarantines is None and not pending.checks_fresh_ids and _are_all_new(pending, reach, batch):
            pending.add_first_versions(batch, at, recorded_at)
            written = pending.rows_since(savepoint)
            if not all(sealed.has_new_id for sealed in batch):
                pending.write_through()  # later jobs of the group must find these keys
            return written
        for sealed in batch:
            draft, scope, kind, id, author, _, _ = sealed
            if writable is not None and scope not in writable:
                obstacle = refuse_closed_scope(scope)
                break
            moment = at if draft.happened_at is None else to_microseconds(draft.happened_at)
            pending.note_indexed_parts(scope, draft.labels, draft.links)
            key = (scope, kind, id)
            before = pending.get_key_state(key)
            following = build_next_version(sealed, before, recorded_at)
            if isinstance(following, Conflict):
                obstacle = following
                break
            version, created_at, entry = following
            hidden_by = _NO_AUTHORS
            if quarantines is not None:
                hidden_by = quarantines.find_hiding_authors(scope, author, draft.links, at)
            pending.add_version(
                key, version, author, at, moment, digest_of(entry), entry, draft.text,
                before=before, created_at=created_at, deleted=draft.deleted, hidden_by=hidden_by,
            )  # fmt: skip
    except BaseException:
        pending.roll_back_to(savepoint)
        raise
    if obstacle is not None:
        pending.roll_back_to(savepoint)
        return obstacle
    return pending.rows_since(savepoint)


def _are_all_new(pending: SqlitePendingBatch, reach: Reach, batch: Sequence[ValidatedDraft]) -> bool:
    """Return whether a batch that the caller may write consists of new records, so that each is a first version.

    Few records with ids that the caller chose are looked up one by one instead: then this returns False.
    """
    if not batch:
        return False
    drafts, scopes, _, _, _, _, have_new_ids = zip(*batch, strict=True)
    if not all(map(reach.writes, set(scopes))) or any(draft.deleted or draft.expected for draft in drafts):
        return False
    if all(have_new_ids):
        return True
    keys = [sealed[1:4] for sealed in batch if not sealed.has_new_id]
    return len(batch) >= _MIN_BATCH and not pending.has_any_key(keys)


def replay_entries(
    pending: SqlitePendingBatch,
    *,
    now: datetime,
    reach: Reach,
    lines: Iterable[tuple[bytes, bytes]],
    receipt: ImportReceiptDraft | None,
) -> list[ReplayResult]:
    """Replay entries of another log, given with their digests, and write the receipt for those that were added."""
    replay = SqliteReplay(pending)
    results = replay.run(parse_replayed_entries(reach, lines))
    if receipt is not None and replay.added_digests:
        append_batch(pending, now, FULL_REACH, [receipt(replay.added_digests)], None)
    return results


class SqliteReplay(Replay):
    """Replay into a SQLite store."""

    def __init__(self, pending: SqlitePendingBatch) -> None:
        self._db = pending.take_connection()
        self._pending = pending
        super().__init__(str(line) for (line,) in self._db.execute(SQL["erasure_receipts"]))

    def find_digest(self, version: VersionTuple) -> bytes | None:
        digest: bytes | None = self._db.execute(SQL["digest_of_version"], version).get
        return digest

    def add_record(self, record: Record, entry: bytes) -> None:
        pending, backend = self._pending, SqliteQuarantineBackend(self._db)
        at, created_at = to_microseconds(record.recorded_at), to_iso(record.created_at)
        moment = at if record.happened_at is None else to_microseconds(record.happened_at)
        key = (record.scope, record.kind, record.id)
        seq, before = pending.next_seq, pending.get_key_state(key)
        hidden_by = _NO_AUTHORS
        if pending.has_quarantines:
            quarantines = quarantine.ActiveQuarantines(backend)
            hidden_by = quarantines.find_hiding_authors(record.scope, record.author, record.links, at)
        pending.note_indexed_parts(record.scope, record.labels, record.links)
        pending.add_version(
            key, record.version, record.author, at, moment, record.digest, entry, record.text,
            before=before, created_at=created_at, deleted=record.deleted, hidden_by=hidden_by,
        )  # fmt: skip
        if pending.has_quarantines:
            pending.flush()  # later entries may be hidden because of this one
        if record.kind == QUARANTINE and record.scope == SYSTEM and record.version > before.version:
            pending.take_connection()  # what a quarantine hides leaves the text index
            quarantine.apply_quarantine(backend, record.body, seq)
            pending.has_quarantines = True
