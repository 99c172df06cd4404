"""Appending: sealed drafts and lines of other logs become lines of this one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from psycopg.errors import UniqueViolation

from lukasa.clock import microseconds, to_iso
from lukasa.engine import QUARANTINE, Decision, Replayed
from lukasa.engines import veil
from lukasa.engines.appending import KEY_REUSED, Written, answer_key, fingerprint, scope_closed
from lukasa.engines.postgres.connecting import Inside, first
from lukasa.engines.postgres.lines import Books, Drawn, Row, Sheet, indexed, record_of, standing_of
from lukasa.engines.postgres.pooling import Database
from lukasa.engines.postgres.reader import PostgresReader
from lukasa.engines.postgres.sql import SQL
from lukasa.engines.proof import Marks, checksum
from lukasa.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.record import Record, Sealed, digest_of, stamp, unfold
from lukasa.scope import EVERYTHING, SYSTEM, Reach

_MANY = 50
_NUL = "\0"


class PostgresGround:
    """The store in the middle of a write, for the rules that are the same on every engine."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def rows(self, name: str, *values: Any) -> list[Any]:
        return self.database.execute(SQL[name], values, binary=True).fetchall()

    def each(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        with self.database.cursor() as cursor:
            cursor.executemany(SQL[name], list(rows))

    def to_past(self, seq: int) -> None:
        self._move(seq, live=False)

    def to_present(self, seq: int) -> None:
        self._move(seq, live=True)

    def _move(self, seq: int, *, live: bool) -> None:
        books = Books()
        for scope, kind, tokens in self.rows("set_live", live, seq):
            books.moved(scope, kind, tokens, live=live)
        self.each("keep_books", books.rows())

    def count(self, scope: str, kind: str, live: int) -> None:
        self.each("keep_books", [(scope, kind, live, 0, 0, 0, 0, 0, 0)])


class Append:
    """One append, inside a transaction of its own."""

    def __init__(self, reach: Reach, batch: Sequence[Sealed] | Decision, key: str | None, now: datetime) -> None:
        self._reach = reach
        self._batch = batch
        self._key = key
        self._now = now
        self._again = False

    @staticmethod
    def keeps(outcome: Outcome) -> bool:
        """Whether there is something to commit."""
        return isinstance(outcome, Accepted) and not outcome.repeated

    @staticmethod
    def is_there(database: Database, outcome: Outcome) -> bool:
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
        veiled, positions = first(
            database.execute(SQL["enter"], (self._guarded(), deciding, 0 if callable(batch) else len(batch)))
        )
        asked = b""
        if self._key is not None:
            asked = b"" if callable(batch) else fingerprint(batch)
            if (earlier := self._answered(database, asked)) is not None:
                return earlier
        if callable(batch):
            answer = batch(PostgresReader(Inside(database), reach))
            if isinstance(answer, Refused):
                return answer
            batch = answer
            (positions,) = first(database.execute(SQL["positions"], (len(batch),)))
        careful, self._again = self._again, True  # a made-up id may be taken after all
        written = _write(database, batch, positions, self._now, reach, veiled=veiled, careful=careful)
        if not isinstance(written, list):
            return written
        if self._key is not None:
            seqs = [row.seq for row in written]
            values = (answer_key(reach, self._key), asked, seqs, microseconds(self._now))
            database.execute(SQL["insert_answered"], values)
        return Accepted(Written(written, record_of))

    def _guarded(self) -> list[str] | None:
        """The scopes that others must not write to meanwhile, or must not have to themselves; ``None`` for all."""
        if not callable(self._batch):
            if any(sealed.kind == QUARANTINE for sealed in self._batch):
                return None
            return sorted({sealed.scope for sealed in self._batch})
        if self._reach.readable is None or self._reach.writable is None:
            return None
        return sorted(self._reach.readable | self._reach.writable)

    def _answered(self, database: Database, asked: bytes) -> Accepted | Refused | None:
        """What this key answered before; decisions have no fingerprint, so for them the key alone counts."""
        assert self._key is not None
        row = database.execute(SQL["answered"], (answer_key(self._reach, self._key),)).fetchone()
        if row is None:
            return None
        earlier, seqs = row
        if earlier and asked and earlier != asked:
            return KEY_REUSED
        return Accepted(PostgresReader(Inside(database), self._reach).records(seqs), repeated=True)


class AddSole:
    """The short way for one new and plain record: one step on the server, one way there and back."""

    def __init__(self, sealed: Sealed, now: datetime) -> None:
        draft, scope, kind, id, author, content, _ = sealed
        at, recorded_at = microseconds(now), to_iso(now)
        line = content[:-1] + stamp(1, recorded_at, recorded_at)
        digest = digest_of(line)
        length, words = indexed(draft.text)
        moment = at if draft.happened_at is None else microseconds(draft.happened_at)
        self._row = Row(
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
        self._tried = False

    def __call__(self, database: Database) -> Outcome | None:
        row = self._row
        if self._tried and (seq := position_of(database, row)) is not None:
            return self._accepted(seq)
        self._tried = True
        values = (
            row.scope, row.kind, row.id, row.author, row.at, row.moment, row.tokens, row.words, row.digest, row.line,
            checksum(row.digest),
        )  # fmt: skip
        try:
            (seq,) = first(database.execute(SQL["add_sole"], values))
        except UniqueViolation:
            seq = position_of(database, row)  # written by an attempt whose answer was lost, or by somebody else
        return None if seq is None else self._accepted(seq)

    def _accepted(self, seq: int) -> Accepted:
        return Accepted(Written([self._row._replace(seq=seq)], record_of))


def position_of(database: Database, row: Row) -> int | None:
    """Where a row stands in the log, if it is this very one that stands there."""
    found = database.execute(SQL["position_of_version"], (row.scope, row.kind, row.id, row.version)).fetchone()
    return found[0] if found is not None and found[1] == row.digest else None


def _write(
    database: Database,
    batch: Sequence[Sealed],
    positions: Sequence[int],
    now: datetime,
    reach: Reach,
    *,
    veiled: bool,
    careful: bool,
) -> list[Row] | Refused | Conflict:
    """Writes the next versions, all or none; the caller's transaction is rolled back when something is in the way."""
    for sealed in batch:
        if not reach.writes(sealed.scope):
            return scope_closed(sealed.scope)
    sheet = Sheet(_standing(database, [(s.scope, s.kind, s.id) for s in batch if careful or not s.fresh]))
    ground = PostgresGround(database)
    written: list[Row] = []
    veils = veil.Veils(ground) if veiled else None
    for sealed, seq in zip(batch, positions, strict=True):
        drawn = sheet.draw(sealed, seq, now, reach)
        if not isinstance(drawn, Drawn):
            return drawn
        if veils is None:
            sheet.put(drawn)
        else:  # a record can be hidden for what was put down just before it
            written += _put_veiled(ground, sheet, veils, drawn)
    written += _flush(database, sheet)
    for sealed, row in zip(batch, written, strict=True):
        if sealed.kind == QUARANTINE and sealed.scope == SYSTEM:
            veil.apply(ground, sealed.draft.body, row.seq)
    return written


def write_receipt(database: Database, receipt: Sealed, now: datetime) -> list[Row]:
    """Writes a line of the store's own books inside somebody else's transaction; no quarantine hides those."""
    (positions,) = first(database.execute(SQL["positions"], (1,)))
    written = _write(database, [receipt], positions, now, EVERYTHING, veiled=False, careful=True)
    return written if isinstance(written, list) else []


def _put_veiled(ground: PostgresGround, sheet: Sheet, veils: veil.Veils, drawn: Drawn) -> list[Row]:
    """Puts down a version that a quarantine may hide, for what is in the log by then; returns the rows written."""
    row = drawn.row
    if not veils.may_hide(row.author, row.links):
        sheet.put(drawn)
        return []
    written = _flush(ground.database, sheet)
    over = veils.over(row.scope, row.author, row.links, row.at)
    sheet.put(drawn, hidden=bool(over))
    written += _flush(ground.database, sheet)
    ground.each("hide", [(row.seq, author) for author in over])
    return written


def _standing(database: Database, places: Sequence[tuple[str, str, str]]) -> list[Any]:
    if not places:
        return []
    columns = [list(column) for column in zip(*sorted(set(places)), strict=True)]
    return [standing_of(row) for row in database.execute(SQL["standing"], columns, binary=True)]


def _flush(database: Database, sheet: Sheet) -> list[Row]:
    """Writes what was put down, and everything derived from it."""
    rows, superseded, books = sheet.take()
    if not rows:
        return rows
    arrows = [arrow for row in rows for arrow in row.arrows]
    with database.cursor() as cursor:
        if superseded:
            cursor.executemany(SQL["supersede"], superseded)
        if len(rows) > _MANY:
            _copy(database, "copy_lines", (row.copied for row in rows))
            _copy(database, "copy_links", arrows)
        else:
            cursor.executemany(SQL["insert_line"], [row.columns for row in rows])
            if arrows:
                cursor.executemany(SQL["insert_link"], arrows)
        cursor.executemany(SQL["keep_books"], books.rows())
    return rows


def _copy(database: Database, name: str, rows: Iterable[Sequence[Any]]) -> None:
    with database.cursor() as cursor, cursor.copy(SQL[name]) as copy:
        for row in rows:
            copy.write_row(row)


class Replay:
    """Takes lines of another log into this one, in one transaction."""

    def __init__(self, reach: Reach, lines: Sequence[tuple[bytes, bytes]]) -> None:
        self._reach = reach
        self._lines = lines
        self._records: list[Record | str] = [self._read(line, digest) for line, digest in lines]

    def _read(self, line: bytes, digest: bytes) -> Record | str:
        """The record of a line, or why it cannot be taken."""
        if digest_of(line) != digest:
            return "the line does not match its digest"
        record = unfold(line, 0, digest)
        if not self._reach.writes(record.scope):
            return f"the scope {record.scope!r} is closed to this caller"
        names = (record.scope, record.kind, record.id, record.author, *record.labels)
        if any(_NUL in name for name in names) or any(
            _NUL in name for link in record.links for name in (link.relation, link.to.scope, link.to.kind, link.to.id)
        ):
            return "PostgreSQL cannot hold a NUL character in a name"
        return record

    def __call__(self, database: Database) -> list[Replayed]:
        good = [record for record in self._records if isinstance(record, Record)]
        scopes = sorted({record.scope for record in good})
        books = any(record.kind == QUARANTINE for record in good)
        veiled, positions = first(database.execute(SQL["enter"], (None if books else scopes, False, len(good))))
        known = self._known(database, good)
        marks = Marks(line for (line,) in database.execute(SQL["receipts"]))
        sheet = Sheet(_standing(database, [(r.scope, r.kind, r.id) for r in good]))
        ground = PostgresGround(database)
        veils = veil.Veils(ground) if veiled else None
        places = iter(positions)
        answers: list[Replayed] = []
        for record, (line, _) in zip(self._records, self._lines, strict=True):
            if isinstance(record, str):
                answers.append(Replayed("refused", record))
                continue
            seq, version = next(places), (record.scope, record.kind, record.id, record.version)
            if (there := known.get(version)) is not None:
                same = there == record.digest
                answers.append(
                    Replayed("present") if same else Replayed("refused", "another record has this key and version")
                )
            elif record in marks:
                answers.append(Replayed("refused", "this record was erased here"))
            else:
                known[version] = record.digest
                veils = self._take(ground, sheet, unfold(line, seq, record.digest), line.decode(), veils)
                answers.append(Replayed("added"))
        _flush(database, sheet)
        return answers

    def _take(
        self, ground: PostgresGround, sheet: Sheet, record: Record, line: str, veils: veil.Veils | None
    ) -> veil.Veils | None:
        """Takes one record in; returns the quarantines that are in force then."""
        before = sheet.standing((record.scope, record.kind, record.id))
        if veils is not None:
            _put_veiled(ground, sheet, veils, Drawn.of(record, line))
        else:
            sheet.put(Drawn.of(record, line))
        if record.kind == QUARANTINE and record.scope == SYSTEM and record.version > before.version:
            _flush(ground.database, sheet)
            veil.apply(ground, record.body, record.seq)
            sheet.stand_anew(_standing(ground.database, sheet.places))  # others may be hidden or shown now
            return veil.Veils(ground)
        return veils

    def _known(self, database: Database, records: Sequence[Record]) -> dict[tuple[str, str, str, int], bytes]:
        if not records:
            return {}
        columns = [list(column) for column in zip(*((r.scope, r.kind, r.id, r.version) for r in records), strict=True)]
        return {row[:4]: row[4] for row in database.execute(SQL["digests_of_versions"], columns, binary=True)}
