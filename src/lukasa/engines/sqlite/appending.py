"""Appending: sealed drafts and lines of other logs become lines of this one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import datetime

import apsw

from lukasa.clock import microseconds, to_iso
from lukasa.engine import QUARANTINE, Decision, Replayed
from lukasa.engines import veil
from lukasa.engines.appending import KEY_REUSED, Written, answer_key, fingerprint, scope_closed
from lukasa.engines.proof import Marks, checksum
from lukasa.engines.sqlite.reader import SqliteReader
from lukasa.engines.sqlite.sql import SQL
from lukasa.engines.sqlite.stage import Row, SqliteGround, Stage
from lukasa.outcome import Accepted, Conflict, Outcome, Refused
from lukasa.record import Record, Sealed, digest_of, stamp, unfold
from lukasa.scope import SYSTEM, Reach

_NO_VEILS: frozenset[str] = frozenset()


def _record(row: Row) -> Record:
    return unfold(row[9], row[0], row[8])


def append(stage: Stage, now: datetime, reach: Reach, batch: Sequence[Sealed] | Decision, key: str | None) -> Outcome:
    """Stages a batch whole, or answers why not and leaves the stage as it was."""
    asked = b""
    if key is not None or callable(batch):
        stage.write()  # a decision sees what came before it
        if key is not None:
            asked = b"" if callable(batch) else fingerprint(batch)
            if (earlier := _answered(stage.database, reach, key, asked)) is not None:
                return earlier
        if callable(batch):
            answer = batch(SqliteReader(stage.database, reach))
            if isinstance(answer, Refused):
                return answer
            batch = answer
    written = _put_down(stage, now, reach, batch) if not stage.veiled else _put_down_veiled(stage, now, reach, batch)
    if not isinstance(written, list):
        return written
    if QUARANTINE in {sealed.kind for sealed in batch}:
        _draw_veils(stage, batch, written)
    if key is not None:
        seqs = json.dumps([row[0] for row in written])
        stage.settled().execute(SQL["insert_answered"], (answer_key(reach, key), asked, seqs, microseconds(now)))
    return Accepted(Written(written, _record))


def add_sole(database: apsw.Connection, now: datetime, sealed: Sealed) -> Outcome | None:
    """Writes such a record without a stage; ``None`` when an author is quarantined, which takes a closer look."""
    draft, scope, kind, id, author, content, _ = sealed
    tip, veiled = database.execute(SQL["tip_and_veils"]).get
    if veiled:
        return None
    at, recorded_at = microseconds(now), to_iso(now)
    line = content[:-1] + stamp(1, recorded_at, recorded_at)
    digest = digest_of(line)
    moment = at if draft.happened_at is None else microseconds(draft.happened_at)
    row = (tip + 1, scope, kind, id, 1, author, at, moment, digest, line.decode())
    database.execute(SQL["insert_line"], row)
    if draft.text:
        database.execute(SQL["add_words"], (tip + 1, draft.text))
    database.execute(SQL["add_to_tally"], (scope, kind, 1, 1, checksum(digest)))
    return Accepted(Written([row], _record))


def _put_down(stage: Stage, now: datetime, reach: Reach, batch: Sequence[Sealed]) -> list[Row] | Refused | Conflict:
    mark = stage.mark()
    try:
        hindrance = _stage(stage, now, reach, batch)
    except BaseException:
        stage.back(mark)
        raise
    if hindrance is not None:
        stage.back(mark)
        return hindrance
    return stage.since(mark)


def _put_down_veiled(
    stage: Stage, now: datetime, reach: Reach, batch: Sequence[Sealed]
) -> list[Row] | Refused | Conflict:
    """The same, one by one, so that a record can be hidden for what was put down just before it."""
    database, start = stage.settled(), stage.next
    written: list[Row] = []
    database.execute("SAVEPOINT veiled")
    for sealed in batch:
        rows = _put_down(stage, now, reach, [sealed])
        if not isinstance(rows, list):
            database.execute("ROLLBACK TO veiled")
            database.execute("RELEASE veiled")
            stage.restart(start)
            return rows
        written += rows
        stage.write()
    database.execute("RELEASE veiled")
    return written


def _draw_veils(stage: Stage, batch: Sequence[Sealed], written: list[Row]) -> None:
    database = stage.settled()
    for sealed, row in zip(batch, written, strict=True):
        if sealed.kind == QUARANTINE and sealed.scope == SYSTEM:
            veil.apply(SqliteGround(database), sealed.draft.body, row[0])
            stage.veiled = True


def _stage(stage: Stage, now: datetime, reach: Reach, batch: Sequence[Sealed]) -> Refused | Conflict | None:
    at, recorded_at = microseconds(now), to_iso(now)
    veils = veil.Veils(SqliteGround(stage.database)) if stage.veiled else None
    first_stamp = stamp(1, recorded_at, recorded_at)
    writable, looks_new = reach.writable, veils is None and not stage.careful
    add_new, sha256 = stage.add_new, hashlib.sha256
    for sealed in batch:
        draft, scope, kind, id, author, content, fresh = sealed
        if writable is not None and scope not in writable:
            return scope_closed(scope)
        moment = at if draft.happened_at is None else microseconds(draft.happened_at)
        if draft.labels or draft.links:
            stage.note(labels=bool(draft.labels), links=bool(draft.links))
        if fresh and looks_new and not draft.deleted and not draft.expected:
            line = content[:-1] + first_stamp
            digest = sha256(line).digest()
            add_new(scope, kind, id, author, at, moment, digest, line, draft.text)
        else:
            place = (scope, kind, id)
            before = stage.standing(place)
            expected = 0 if fresh and draft.expected is None else draft.expected
            if expected is not None and expected != (0 if before.deleted and expected == 0 else before.version):
                return Conflict(sealed.key, expected, before.version)
            version, created_at = before.taken + 1, before.created_at or recorded_at
            line = content[:-1] + stamp(version, created_at, recorded_at)
            digest = digest_of(line)
            over = veils.over(scope, author, draft.links, at) if veils is not None else _NO_VEILS
            stage.add(
                place, version, author, at, moment, digest, line, draft.text,
                before=before, created_at=created_at, deleted=draft.deleted, veils=over,
            )  # fmt: skip
    return None


def _answered(database: apsw.Connection, reach: Reach, key: str, asked: bytes) -> Accepted | Refused | None:
    """What this key answered before; decisions have no fingerprint, so for them the key alone counts."""
    row = database.execute(SQL["answered"], (answer_key(reach, key),)).get
    if row is None:
        return None
    earlier, seqs = row
    if earlier and asked and earlier != asked:
        return KEY_REUSED
    return Accepted(SqliteReader(database, reach).records(json.loads(seqs)), repeated=True)


class Replay:
    """Takes lines of another log into this one, in one transaction."""

    def __init__(self, stage: Stage, reach: Reach) -> None:
        self._db = stage.settled()
        self._reach = reach
        self._stage = stage
        self._marks = Marks(line for (line,) in self._db.execute(SQL["receipts"]))
        self._staged: dict[tuple[str, str, str, int], bytes] = {}

    def run(self, lines: Iterable[tuple[bytes, bytes]]) -> list[Replayed]:
        return [self._take(line, digest) for line, digest in lines]

    def _take(self, line: bytes, digest: bytes) -> Replayed:
        if digest_of(line) != digest:
            return Replayed("refused", "the line does not match its digest")
        record = unfold(line, 0, digest)
        if not self._reach.writes(record.scope):
            return Replayed("refused", f"the scope {record.scope!r} is closed to this caller")
        known = self._known(record)
        if known is not None:
            if known == digest:
                return Replayed("present")
            return Replayed("refused", "another record has this key and version")
        if record in self._marks:
            return Replayed("refused", "this record was erased here")
        seq, before = self._stage.next, self._stage.standing((record.scope, record.kind, record.id))
        self._add(record, line)
        if self._stage.veiled:
            self._stage.write()  # what follows may have to be hidden for it
        if record.kind == QUARANTINE and record.scope == SYSTEM and record.version > before.version:
            self._stage.write()
            veil.apply(SqliteGround(self._db), record.body, seq)
            self._stage.veiled = True
        return Replayed("added")

    def _known(self, record: Record) -> bytes | None:
        place = (record.scope, record.kind, record.id, record.version)
        if (staged := self._staged.get(place)) is not None:
            return staged
        found: bytes | None = self._db.execute(SQL["digest_of_version"], place).get
        return found

    def _add(self, record: Record, line: bytes) -> None:
        at = microseconds(record.recorded_at)
        place = (record.scope, record.kind, record.id)
        self._staged[*place, record.version] = record.digest
        veils = _NO_VEILS
        if self._stage.veiled:
            veils = veil.Veils(SqliteGround(self._db)).over(record.scope, record.author, record.links, at)
        self._stage.note(labels=bool(record.labels), links=bool(record.links))
        self._stage.add(
            place,
            record.version,
            record.author,
            at,
            microseconds(record.moment),
            record.digest,
            line,
            record.text,
            before=self._stage.standing(place),
            created_at=to_iso(record.created_at),
            deleted=record.deleted,
            veils=veils,
        )
