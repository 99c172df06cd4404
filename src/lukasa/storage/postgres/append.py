"""Appending: sealed drafts and lines of other logs become lines of this one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from psycopg.errors import UniqueViolation

from lukasa.clock import to_iso, to_microseconds
from lukasa.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.record import Record, ValidatedDraft, digest_of, entry_suffix, parse_entry
from lukasa.scope import FULL_REACH, SYSTEM, Reach
from lukasa.storage import quarantine
from lukasa.storage.append import KEY_REUSED, LazyRecords, fingerprint_batch, hash_idempotency_key, refuse_closed_scope
from lukasa.storage.engine import QUARANTINE, ConditionalBatch, ReplayResult
from lukasa.storage.integrity import ErasedKeys, checksum
from lukasa.storage.postgres.batch import (
    NewVersion,
    PostgresLogRow,
    PostgresPendingBatch,
    PostgresTallyChanges,
    index_text,
    parse_key_state,
    parse_row,
)
from lukasa.storage.postgres.connection import WriterSnapshot, fetch_single_row
from lukasa.storage.postgres.pool import Database
from lukasa.storage.postgres.reader import PostgresReader
from lukasa.storage.postgres.sql import SQL

_COPY_THRESHOLD = 50
_NUL = "\0"


class PostgresQuarantineBackend:
    """The store in the middle of a write, for the rules that are the same on every engine."""

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
        books = PostgresTallyChanges()
        for scope, kind, tokens in self.fetch_rows("set_live", live, seq):
            books.move_text(scope, kind, tokens, live=live)
        self.execute_many("keep_books", books.rows())

    def add_live_count(self, scope: str, kind: str, live: int) -> None:
        self.execute_many("keep_books", [(scope, kind, live, 0, 0, 0, 0, 0, 0)])


class AppendOperation:
    """One append, inside a transaction of its own."""

    def __init__(
        self, reach: Reach, batch: Sequence[ValidatedDraft] | ConditionalBatch, key: str | None, now: datetime
    ) -> None:
        self._reach = reach
        self._batch = batch
        self._key = key
        self._now = now
        self._is_retry = False

    @staticmethod
    def should_commit(outcome: Outcome) -> bool:
        """Whether there is something to commit."""
        return isinstance(outcome, Accepted) and not outcome.repeated

    @staticmethod
    def is_written(database: Database, outcome: Outcome) -> bool:
        """Whether what was written stands in the log."""
        if not isinstance(outcome, Accepted) or not outcome.records:
            return True
        record = outcome.records[0]
        values = (record.scope, record.kind, record.id, record.version)
        found = database.execute(SQL["position_of_version"], values).fetchone()
        return found is not None and found[1] == record.digest

    def __call__(self, database: Database) -> Outcome:
        batch, reach = self._batch, self._reach
        deciding = callable(batch)
        veiled, positions = fetch_single_row(
            database.execute(SQL["enter"], (self._scopes_to_lock(), deciding, 0 if callable(batch) else len(batch)))
        )
        asked = b""
        if self._key is not None:
            asked = b"" if callable(batch) else fingerprint_batch(batch)
            if (earlier := self._find_earlier_answer(database, asked)) is not None:
                return earlier
        if callable(batch):
            answer = batch(PostgresReader(WriterSnapshot(database), reach))
            if isinstance(answer, Refused):
                return answer
            batch = answer
            (positions,) = fetch_single_row(database.execute(SQL["positions"], (len(batch),)))
        careful, self._is_retry = self._is_retry, True  # a made-up id may be taken after all
        written = _write_batch(
            database, batch, positions, self._now, reach, has_quarantines=veiled, check_fresh_ids=careful
        )
        if not isinstance(written, list):
            return written
        if self._key is not None:
            seqs = [row.seq for row in written]
            values = (hash_idempotency_key(reach, self._key), asked, seqs, to_microseconds(self._now))
            database.execute(SQL["insert_answered"], values)
        return Accepted(LazyRecords(written, parse_row))

    def _scopes_to_lock(self) -> list[str] | None:
        """The scopes that others must not write to meanwhile, or must not have to themselves; ``None`` for all."""
        if not callable(self._batch):
            if any(sealed.kind == QUARANTINE for sealed in self._batch):
                return None
            return sorted({sealed.scope for sealed in self._batch})
        if self._reach.readable is None or self._reach.writable is None:
            return None
        return sorted(self._reach.readable | self._reach.writable)

    def _find_earlier_answer(self, database: Database, batch_fingerprint: bytes) -> Accepted | Refused | None:
        """What this key answered before; decisions have no fingerprint, so for them the key alone counts."""
        assert self._key is not None
        row = database.execute(SQL["answered"], (hash_idempotency_key(self._reach, self._key),)).fetchone()
        if row is None:
            return None
        earlier, seqs = row
        if earlier and batch_fingerprint and earlier != batch_fingerprint:
            return KEY_REUSED
        return Accepted(PostgresReader(WriterSnapshot(database), self._reach).records(seqs), repeated=True)


class InsertSingle:
    """The short way for one new and plain record: one step on the server, one way there and back."""

    def __init__(self, sealed: ValidatedDraft, now: datetime) -> None:
        draft, scope, kind, id, author, content, _ = sealed
        at, recorded_at = to_microseconds(now), to_iso(now)
        line = content[:-1] + entry_suffix(1, recorded_at, recorded_at)
        digest = digest_of(line)
        length, words = index_text(draft.text)
        moment = at if draft.happened_at is None else to_microseconds(draft.happened_at)
        self._row = PostgresLogRow(
            0,
            scope,
            kind,
            id,
            1,
            author,
            at,
            moment,
            False,
            True,
            length,
            [],
            None,
            [],
            words,
            digest,
            line.decode(),
            (),
        )
        self._was_tried = False

    def __call__(self, database: Database) -> Outcome | None:
        row = self._row
        if self._was_tried and (seq := find_position(database, row)) is not None:
            return self._accept_at(seq)
        self._was_tried = True
        values = (
            row.scope, row.kind, row.id, row.author, row.at, row.moment, row.token_count, row.tsvector, row.digest, row.entry,
            checksum(row.digest),
        )  # fmt: skip
        try:
            (seq,) = fetch_single_row(database.execute(SQL["add_sole"], values))
        except UniqueViolation:
            seq = find_position(database, row)  # written by an attempt whose answer was lost, or by somebody else
        return None if seq is None else self._accept_at(seq)

    def _accept_at(self, seq: int) -> Accepted:
        return Accepted(LazyRecords([self._row._replace(seq=seq)], parse_row))


def find_position(database: Database, row: PostgresLogRow) -> int | None:
    """Where a row stands in the log, if it is this very one that stands there."""
    found = database.execute(SQL["position_of_version"], (row.scope, row.kind, row.id, row.version)).fetchone()
    return found[0] if found is not None and found[1] == row.digest else None


def _write_batch(
    database: Database,
    batch: Sequence[ValidatedDraft],
    positions: Sequence[int],
    now: datetime,
    reach: Reach,
    *,
    has_quarantines: bool,
    check_fresh_ids: bool,
) -> list[PostgresLogRow] | Refused | Conflict:
    """Writes the next versions, all or none; the caller's transaction is rolled back when something is in the way."""
    for sealed in batch:
        if not reach.writes(sealed.scope):
            return refuse_closed_scope(sealed.scope)
    sheet = PostgresPendingBatch(
        _read_key_states(database, [(s.scope, s.kind, s.id) for s in batch if check_fresh_ids or not s.has_new_id])
    )
    ground = PostgresQuarantineBackend(database)
    written: list[PostgresLogRow] = []
    veils = quarantine.ActiveQuarantines(ground) if has_quarantines else None
    for sealed, seq in zip(batch, positions, strict=True):
        drawn = sheet.build_version(sealed, seq, now, reach)
        if not isinstance(drawn, NewVersion):
            return drawn
        if veils is None:
            sheet.add_version(drawn)
        else:  # a record can be hidden for what was put down just before it
            written += _add_maybe_hidden(ground, sheet, veils, drawn)
    written += _flush(database, sheet)
    for sealed, row in zip(batch, written, strict=True):
        if sealed.kind == QUARANTINE and sealed.scope == SYSTEM:
            quarantine.apply_quarantine(ground, sealed.draft.body, row.seq)
    return written


def write_receipt(database: Database, receipt: ValidatedDraft, now: datetime) -> list[PostgresLogRow]:
    """Writes a line of the store's own books inside somebody else's transaction; no quarantine hides those."""
    (positions,) = fetch_single_row(database.execute(SQL["positions"], (1,)))
    written = _write_batch(database, [receipt], positions, now, FULL_REACH, has_quarantines=False, check_fresh_ids=True)
    return written if isinstance(written, list) else []


def _add_maybe_hidden(
    backend: PostgresQuarantineBackend,
    pending: PostgresPendingBatch,
    quarantines: quarantine.ActiveQuarantines,
    new_version: NewVersion,
) -> list[PostgresLogRow]:
    """Puts down a version that a quarantine may hide, for what is in the log by then; returns the rows written."""
    row = new_version.row
    if not quarantines.may_hide(row.author, row.links):
        pending.add_version(new_version)
        return []
    written = _flush(backend.database, pending)
    over = quarantines.find_hiding_authors(row.scope, row.author, row.links, row.at)
    pending.add_version(new_version, hidden=bool(over))
    written += _flush(backend.database, pending)
    backend.execute_many("hide", [(row.seq, author) for author in over])
    return written


def _read_key_states(database: Database, keys: Sequence[tuple[str, str, str]]) -> list[Any]:
    if not keys:
        return []
    columns = [list(column) for column in zip(*sorted(set(keys)), strict=True)]
    return [parse_key_state(row) for row in database.execute(SQL["standing"], columns, binary=True)]


def _flush(database: Database, pending: PostgresPendingBatch) -> list[PostgresLogRow]:
    """Writes what was put down, and everything derived from it."""
    rows, superseded, books = pending.drain()
    if not rows:
        return rows
    arrows = [arrow for row in rows for arrow in row.link_rows]
    with database.cursor() as cursor:
        if superseded:
            cursor.executemany(SQL["supersede"], superseded)
        if len(rows) > _COPY_THRESHOLD:
            _copy_rows(database, "copy_lines", (row.copy_values for row in rows))
            _copy_rows(database, "copy_links", arrows)
        else:
            cursor.executemany(SQL["insert_line"], [row.columns for row in rows])
            if arrows:
                cursor.executemany(SQL["insert_link"], arrows)
        cursor.executemany(SQL["keep_books"], books.rows())
    return rows


def _copy_rows(database: Database, name: str, rows: Iterable[Sequence[Any]]) -> None:
    with database.cursor() as cursor, cursor.copy(SQL[name]) as copy:
        for row in rows:
            copy.write_row(row)


class PostgresReplay:
    """Takes lines of another log into this one, in one transaction."""

    def __init__(self, reach: Reach, lines: Sequence[tuple[bytes, bytes]]) -> None:
        self._reach = reach
        self._lines = lines
        self._records: list[Record | str] = [self._parse_entry(line, digest) for line, digest in lines]

    def _parse_entry(self, line: bytes, digest: bytes) -> Record | str:
        """The record of a line, or why it cannot be taken."""
        if digest_of(line) != digest:
            return "the line does not match its digest"
        record = parse_entry(line, 0, digest)
        if not self._reach.writes(record.scope):
            return f"the scope {record.scope!r} is closed to this caller"
        names = (record.scope, record.kind, record.id, record.author, *record.labels)
        if any(_NUL in name for name in names) or any(
            _NUL in name for link in record.links for name in (link.relation, link.to.scope, link.to.kind, link.to.id)
        ):
            return "PostgreSQL cannot hold a NUL character in a name"
        return record

    def __call__(self, database: Database) -> list[ReplayResult]:
        good = [record for record in self._records if isinstance(record, Record)]
        scopes = sorted({record.scope for record in good})
        books = any(record.kind == QUARANTINE for record in good)
        veiled, positions = fetch_single_row(
            database.execute(SQL["enter"], (None if books else scopes, False, len(good)))
        )
        known = self._find_digests(database, good)
        marks = ErasedKeys(line for (line,) in database.execute(SQL["receipts"]))
        sheet = PostgresPendingBatch(_read_key_states(database, [(r.scope, r.kind, r.id) for r in good]))
        ground = PostgresQuarantineBackend(database)
        veils = quarantine.ActiveQuarantines(ground) if veiled else None
        places = iter(positions)
        answers: list[ReplayResult] = []
        for record, (line, _) in zip(self._records, self._lines, strict=True):
            if isinstance(record, str):
                answers.append(ReplayResult("refused", record))
                continue
            seq, version = next(places), (record.scope, record.kind, record.id, record.version)
            if (there := known.get(version)) is not None:
                same = there == record.digest
                answers.append(
                    ReplayResult("present")
                    if same
                    else ReplayResult("refused", "another record has this key and version")
                )
            elif record in marks:
                answers.append(ReplayResult("refused", "this record was erased here"))
            else:
                known[version] = record.digest
                veils = self._add_record(ground, sheet, parse_entry(line, seq, record.digest), line.decode(), veils)
                answers.append(ReplayResult("added"))
        _flush(database, sheet)
        return answers

    def _add_record(
        self,
        backend: PostgresQuarantineBackend,
        pending: PostgresPendingBatch,
        record: Record,
        line: str,
        quarantines: quarantine.ActiveQuarantines | None,
    ) -> quarantine.ActiveQuarantines | None:
        """Takes one record in; returns the quarantines that are in force then."""
        before = pending.get_key_state((record.scope, record.kind, record.id))
        if quarantines is not None:
            _add_maybe_hidden(backend, pending, quarantines, NewVersion.from_record(record, line))
        else:
            pending.add_version(NewVersion.from_record(record, line))
        if record.kind == QUARANTINE and record.scope == SYSTEM and record.version > before.version:
            _flush(backend.database, pending)
            quarantine.apply_quarantine(backend, record.body, record.seq)
            pending.replace_key_states(
                _read_key_states(backend.database, pending.keys)
            )  # others may be hidden or shown now
            return quarantine.ActiveQuarantines(backend)
        return quarantines

    def _find_digests(self, database: Database, records: Sequence[Record]) -> dict[tuple[str, str, str, int], bytes]:
        if not records:
            return {}
        columns = [list(column) for column in zip(*((r.scope, r.kind, r.id, r.version) for r in records), strict=True)]
        return {row[:4]: row[4] for row in database.execute(SQL["digests_of_versions"], columns, binary=True)}
