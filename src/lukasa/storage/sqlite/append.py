"""Appending: sealed drafts and lines of other logs become lines of this one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import datetime

import apsw

from lukasa.clock import to_iso, to_microseconds
from lukasa.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.record import Record, ValidatedDraft, digest_of, entry_suffix, parse_entry
from lukasa.scope import SYSTEM, Reach
from lukasa.storage import quarantine
from lukasa.storage.append import KEY_REUSED, LazyRecords, fingerprint_batch, hash_idempotency_key, refuse_closed_scope
from lukasa.storage.engine import QUARANTINE, ConditionalBatch, ReplayResult
from lukasa.storage.integrity import ErasedKeys, checksum
from lukasa.storage.sqlite.batch import LogRow, SqlitePendingBatch, SqliteQuarantineBackend
from lukasa.storage.sqlite.reader import SqliteReader
from lukasa.storage.sqlite.sql import SQL

_NO_AUTHORS: frozenset[str] = frozenset()


def _parse_row(row: LogRow) -> Record:
    return parse_entry(row[9], row[0], row[8])


def append_batch(
    pending: SqlitePendingBatch,
    now: datetime,
    reach: Reach,
    batch: Sequence[ValidatedDraft] | ConditionalBatch,
    key: str | None,
) -> Outcome:
    """Stages a batch whole, or answers why not and leaves the stage as it was."""
    asked = b""
    if key is not None or callable(batch):
        pending.flush()  # a decision sees what came before it
        if key is not None:
            asked = b"" if callable(batch) else fingerprint_batch(batch)
            if (earlier := _find_earlier_answer(pending.database, reach, key, asked)) is not None:
                return earlier
        if callable(batch):
            answer = batch(SqliteReader(pending.database, reach))
            if isinstance(answer, Refused):
                return answer
            batch = answer
    written = (
        _add_batch(pending, now, reach, batch)
        if not pending.has_quarantines
        else _add_batch_quarantined(pending, now, reach, batch)
    )
    if not isinstance(written, list):
        return written
    if QUARANTINE in {sealed.kind for sealed in batch}:
        _apply_quarantines(pending, batch, written)
    if key is not None:
        seqs = json.dumps([row[0] for row in written])
        pending.take_connection().execute(
            SQL["insert_answered"], (hash_idempotency_key(reach, key), asked, seqs, to_microseconds(now))
        )
    return Accepted(LazyRecords(written, _parse_row))


def insert_single(database: apsw.Connection, now: datetime, sealed: ValidatedDraft) -> Outcome | None:
    """Writes such a record without a stage; ``None`` when an author is quarantined, which takes a closer look."""
    draft, scope, kind, id, author, content, _ = sealed
    tip, veiled = database.execute(SQL["tip_and_veils"]).get
    if veiled:
        return None
    at, recorded_at = to_microseconds(now), to_iso(now)
    line = content[:-1] + entry_suffix(1, recorded_at, recorded_at)
    digest = digest_of(line)
    moment = at if draft.happened_at is None else to_microseconds(draft.happened_at)
    row = (tip + 1, scope, kind, id, 1, author, at, moment, digest, line.decode())
    database.execute(SQL["insert_line"], row)
    if draft.text:
        database.execute(SQL["add_words"], (tip + 1, draft.text))
    database.execute(SQL["add_to_tally"], (scope, kind, 1, 1, checksum(digest)))
    return Accepted(LazyRecords([row], _parse_row))


def _add_batch(
    pending: SqlitePendingBatch, now: datetime, reach: Reach, batch: Sequence[ValidatedDraft]
) -> list[LogRow] | Refused | Conflict:
    mark = pending.create_savepoint()
    try:
        hindrance = _add_versions(pending, now, reach, batch)
    except BaseException:
        pending.roll_back_to(mark)
        raise
    if hindrance is not None:
        pending.roll_back_to(mark)
        return hindrance
    return pending.rows_since(mark)


def _add_batch_quarantined(
    pending: SqlitePendingBatch, now: datetime, reach: Reach, batch: Sequence[ValidatedDraft]
) -> list[LogRow] | Refused | Conflict:
    """The same, one by one, so that a record can be hidden for what was put down just before it."""
    database, start = pending.take_connection(), pending.next_seq
    written: list[LogRow] = []
    database.execute("SAVEPOINT veiled")
    for sealed in batch:
        rows = _add_batch(pending, now, reach, [sealed])
        if not isinstance(rows, list):
            database.execute("ROLLBACK TO veiled")
            database.execute("RELEASE veiled")
            pending.reset_to(start)
            return rows
        written += rows
        pending.flush()
    database.execute("RELEASE veiled")
    return written


def _apply_quarantines(pending: SqlitePendingBatch, batch: Sequence[ValidatedDraft], written: list[LogRow]) -> None:
    database = pending.take_connection()
    for sealed, row in zip(batch, written, strict=True):
        if sealed.kind == QUARANTINE and sealed.scope == SYSTEM:
            quarantine.apply_quarantine(SqliteQuarantineBackend(database), sealed.draft.body, row[0])
            pending.has_quarantines = True


def _add_versions(
    pending: SqlitePendingBatch, now: datetime, reach: Reach, batch: Sequence[ValidatedDraft]
) -> Refused | Conflict | None:
    at, recorded_at = to_microseconds(now), to_iso(now)
    veils = quarantine.ActiveQuarantines(SqliteQuarantineBackend(pending.database)) if pending.has_quarantines else None
    first_stamp = entry_suffix(1, recorded_at, recorded_at)
    writable, looks_new = reach.writable, veils is None and not pending.checks_fresh_ids
    add_new, sha256 = pending.add_first_version, hashlib.sha256
    for sealed in batch:
        draft, scope, kind, id, author, content, fresh = sealed
        if writable is not None and scope not in writable:
            return refuse_closed_scope(scope)
        moment = at if draft.happened_at is None else to_microseconds(draft.happened_at)
        if draft.labels or draft.links:
            pending.note_indexed_parts(labels=bool(draft.labels), links=bool(draft.links))
        if fresh and looks_new and not draft.deleted and not draft.expected:
            line = content[:-1] + first_stamp
            digest = sha256(line).digest()
            add_new(scope, kind, id, author, at, moment, digest, line, draft.text)
        else:
            place = (scope, kind, id)
            before = pending.get_key_state(place)
            expected = 0 if fresh and draft.expected is None else draft.expected
            if expected is not None and expected != (0 if before.deleted and expected == 0 else before.version):
                return Conflict(sealed.key, expected, before.version)
            version, created_at = before.highest_version + 1, before.created_at or recorded_at
            line = content[:-1] + entry_suffix(version, created_at, recorded_at)
            digest = digest_of(line)
            over = veils.find_hiding_authors(scope, author, draft.links, at) if veils is not None else _NO_AUTHORS
            pending.add_version(
                place, version, author, at, moment, digest, line, draft.text,
                before=before, created_at=created_at, deleted=draft.deleted, hidden_by=over,
            )  # fmt: skip
    return None


def _find_earlier_answer(
    database: apsw.Connection, reach: Reach, key: str, batch_fingerprint: bytes
) -> Accepted | Refused | None:
    """What this key answered before; decisions have no fingerprint, so for them the key alone counts."""
    row = database.execute(SQL["answered"], (hash_idempotency_key(reach, key),)).get
    if row is None:
        return None
    earlier, seqs = row
    if earlier and batch_fingerprint and earlier != batch_fingerprint:
        return KEY_REUSED
    return Accepted(SqliteReader(database, reach).records(json.loads(seqs)), repeated=True)


class SqliteReplay:
    """Takes lines of another log into this one, in one transaction."""

    def __init__(self, pending: SqlitePendingBatch, reach: Reach) -> None:
        self._db = pending.take_connection()
        self._reach = reach
        self._pending = pending
        self._erased_keys = ErasedKeys(line for (line,) in self._db.execute(SQL["receipts"]))
        self._new_digests: dict[tuple[str, str, str, int], bytes] = {}

    def run(self, lines: Iterable[tuple[bytes, bytes]]) -> list[ReplayResult]:
        return [self._add_entry(line, digest) for line, digest in lines]

    def _add_entry(self, line: bytes, digest: bytes) -> ReplayResult:
        if digest_of(line) != digest:
            return ReplayResult("refused", "the line does not match its digest")
        record = parse_entry(line, 0, digest)
        if not self._reach.writes(record.scope):
            return ReplayResult("refused", f"the scope {record.scope!r} is closed to this caller")
        known = self._find_digest(record)
        if known is not None:
            if known == digest:
                return ReplayResult("present")
            return ReplayResult("refused", "another record has this key and version")
        if record in self._erased_keys:
            return ReplayResult("refused", "this record was erased here")
        seq, before = self._pending.next_seq, self._pending.get_key_state((record.scope, record.kind, record.id))
        self._add_record(record, line)
        if self._pending.has_quarantines:
            self._pending.flush()  # what follows may have to be hidden for it
        if record.kind == QUARANTINE and record.scope == SYSTEM and record.version > before.version:
            self._pending.flush()
            quarantine.apply_quarantine(SqliteQuarantineBackend(self._db), record.body, seq)
            self._pending.has_quarantines = True
        return ReplayResult("added")

    def _find_digest(self, record: Record) -> bytes | None:
        place = (record.scope, record.kind, record.id, record.version)
        if (staged := self._new_digests.get(place)) is not None:
            return staged
        found: bytes | None = self._db.execute(SQL["digest_of_version"], place).get
        return found

    def _add_record(self, record: Record, line: bytes) -> None:
        at = to_microseconds(record.recorded_at)
        place = (record.scope, record.kind, record.id)
        self._new_digests[*place, record.version] = record.digest
        veils = _NO_AUTHORS
        if self._pending.has_quarantines:
            veils = quarantine.ActiveQuarantines(SqliteQuarantineBackend(self._db)).find_hiding_authors(
                record.scope, record.author, record.links, at
            )
        self._pending.note_indexed_parts(labels=bool(record.labels), links=bool(record.links))
        self._pending.add_version(
            place,
            record.version,
            record.author,
            at,
            to_microseconds(record.moment),
            record.digest,
            line,
            record.text,
            before=self._pending.get_key_state(place),
            created_at=to_iso(record.created_at),
            deleted=record.deleted,
            hidden_by=veils,
        )
