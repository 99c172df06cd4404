"""Records of a session in the log.

    session             the session, whether it is open or closed, and its newest checkpoint
    checkpoint          its whole state, sealed like a checkpoint file; versions are the checkpoints
    session_delta       one small change of the state; numbered, so that one of two writers gets a conflict
    session_event       started, resumed, recovered, closed, backed up
    session_incident    data that was damaged or lost
    session_archive     items that left the state to keep it within its budget

All but the first are derived from it, so that erasing the session erases everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from lukasa.core import canonical_json
from lukasa.core.clock import to_iso
from lukasa.core.outcome import Outcome, Refused
from lukasa.core.record import DERIVED_FROM, Draft, Key, Link, Record, digest_of, entry_bytes
from lukasa.errors import InvalidInput, StoreDamaged, StoreError
from lukasa.journal import Journal
from lukasa.sessions.checkpoint_files import (
    Checkpoint,
    DamagedCheckpoint,
    Delta,
    decode_checkpoint,
    encode_checkpoint,
    short_hash,
)
from lukasa.sessions.recovery import apply_delta
from lukasa.sessions.state import SessionState
from lukasa.storage.engine import AsOf, Query
from lukasa.storage.parsed_records import ParsedRecords

SESSION, CHECKPOINT, DELTA = "session", "checkpoint", "session_delta"
EVENT, INCIDENT, ARCHIVE = "session_event", "session_incident", "session_archive"
KINDS = (SESSION, CHECKPOINT, DELTA, EVENT, INCIDENT, ARCHIVE)
ORIGIN = "session"
_BLOCK_SIZE = 256
"""Number of changes with the same label: enough to read them quickly, few enough to skip old ones."""
_MAX_OLDER_VERSIONS = 200


class ParsedSessions:
    """Records of sessions that were parsed before."""

    def __init__(self) -> None:
        self.sessions = ParsedRecords(lambda record: record)
        self.checkpoints = ParsedRecords(_decode_checkpoint_record, max_bytes=32_000_000)
        self.deltas = ParsedRecords(
            lambda record: Delta(record.body["n"], record.body.get("at", ""), record.body["changes"])
        )


@dataclass(frozen=True, slots=True)
class ReplayedLog:
    """A state that the log alone proves: a checkpoint, and every change since."""

    checkpoint: Checkpoint
    deltas: Sequence[Delta]
    state: SessionState

    @property
    def upto(self) -> int:
        """Number of the last change in the state."""
        return self.checkpoint.upto + len(self.deltas)


class SessionRecords:
    """Reads and writes the records of one session.

    A record that is damaged reads as missing; ``damage`` names those that were met by kind or number, with the reason.
    """

    def __init__(self, journal: Journal, session: str, scope: str, parsed: ParsedSessions | None = None) -> None:
        self._journal = journal
        self._parsed = parsed or ParsedSessions()
        self.session = session
        self.scope = scope
        self.key = Key(scope, SESSION, session)
        self._session_hash = short_hash(session)
        self._links = (Link(DERIVED_FROM, self.key),)
        self._labels = (f"of_session={self._session_hash}",)
        self.damage: dict[str, str] = {}

    def __str__(self) -> str:
        """Name the store and the caller, for people."""
        return str(self._journal)

    def append(self, *drafts: Draft) -> Outcome:
        """Append drafts. Where a damaged record refuses its next version, the others are appended without it."""
        try:
            return self._journal.append(drafts)
        except (StoreError, ValueError):
            writable = [draft for draft in drafts if draft.kind not in self.damage]
            if not writable or len(writable) == len(drafts):
                raise
            return self._journal.append(writable)

    def check_agent(self, name: str, known: str) -> Refused | None:
        """Refuse a state that makes another agent the session's; a session that is another's already stays it."""
        return None if name == known else self._journal.check_author(name)

    def session_draft(self, agent_id: str, status: str, now: datetime, *, number: int, upto: int) -> Draft:
        """Draft the session's own record."""
        body = {"agent_id": agent_id, "status": status, "number": number, "upto": upto, "at": to_iso(now)}
        return Draft(SESSION, body=body, id=self.session, scope=self.scope, origin=ORIGIN)

    def checkpoint_draft(self, checkpoint: Checkpoint, expected: int | None) -> Draft:
        """Draft a checkpoint; ``expected`` is the version of the one before it, None when that is unknown."""
        body = canonical_json.parse(encode_checkpoint(checkpoint))
        return self._draft(CHECKPOINT, body, self.session, expected=expected)

    def delta_draft(self, delta: Delta) -> Draft:
        """Draft a change; there can be only one of its number."""
        body: dict[str, Any] = {"n": delta.number, "changes": delta.changes}
        if delta.at:
            body["at"] = delta.at
        draft = self._draft(DELTA, body, self._delta_key(delta.number).id, expected=0)
        return draft._replace(labels=(f"deltas={self._session_hash}.{delta.number // _BLOCK_SIZE}",))

    def event_draft(self, name: str, now: datetime, **facts: Any) -> Draft:
        return self._draft(EVENT, {"event": name, "at": to_iso(now), **facts})

    def archive_draft(self, section: str, items: Any, now: datetime, why: str) -> Draft:
        return self._draft(ARCHIVE, {"section": section, "items": items, "at": to_iso(now), "why": why})

    def incident_draft(
        self,
        now: datetime,
        *,
        damaged: Sequence[DamagedCheckpoint],
        lost: Sequence[int],
        disagreements: Sequence[int],
        why: str,
    ) -> Draft:
        """Draft an incident. The same loss has the same id, however often it is found."""
        log = [f"{name}: {reason}" for name, reason in self.damage.items()]
        files = [
            {"number": damage.number, "file": damage.moved_to or damage.name, "reason": damage.reason}
            for damage in damaged
        ]
        found = [*(f"{damage.moved_to}" for damage in damaged), *map(str, lost), *log, *map(str, disagreements)]
        id = short_hash(self._session_hash, *found)
        body: dict[str, Any] = {"damaged": files, "lost_changes": list(lost), "why": why, "at": to_iso(now)}
        if log:
            body["damaged_records"] = log
        if disagreements:
            body["disagreements"] = list(disagreements)
        return self._draft(INCIDENT, body, f"{self._session_hash}-{id}")

    def _draft(self, kind: str, body: Mapping[str, Any], id: str = "", expected: int | None = None) -> Draft:
        return Draft(
            kind, body=dict(body), id=id, scope=self.scope, origin=ORIGIN, links=self._links, labels=self._labels,
            expected=expected,
        )  # fmt: skip

    def session_record(self) -> Record | None:
        return self._read_whole(self.key, "session")

    def exists(self) -> bool:
        """Return whether the log has a record of the session, damaged or not."""
        try:
            return self._journal.get_parsed(self.key, self._parsed.sessions) is not None
        except StoreDamaged:
            return True

    def replay(self, known: ReplayedLog | None) -> ReplayedLog | None:
        """Apply all changes since the newest checkpoint, or those since ``known``; None if anything is damaged or missing."""
        checkpoint_key = Key(self.scope, CHECKPOINT, self.session)
        try:
            with self._journal.snapshot() as reader:
                session = reader.get_parsed(self.key, self._parsed.sessions)
                checkpoint = reader.get_parsed(checkpoint_key, self._parsed.checkpoints)
                if session is None or checkpoint is None:
                    return None
                deltas: list[Delta] = []
                block = (checkpoint.upto + 1) // _BLOCK_SIZE
                while page := reader.read_parsed(self._block_query(block), self._parsed.deltas):
                    deltas += [delta for delta in page if delta.number > checkpoint.upto]
                    block += 1
                if reader.damaged:
                    return None
            state, done = checkpoint.state, 0
            if known is not None and known.checkpoint is checkpoint and deltas[: len(known.deltas)] == known.deltas:
                state, done = known.state, len(known.deltas)
            for number, delta in enumerate(deltas[done:], checkpoint.upto + done + 1):
                if delta.number != number or delta.changes is None:
                    return None
                state = apply_delta(state, delta)
        except (StoreDamaged, InvalidInput):
            return None
        replayed = ReplayedLog(checkpoint, deltas, state)
        return replayed if replayed.upto >= session.body["upto"] else None

    def checkpoint_record(self) -> Record | None:
        """Return the record of the newest checkpoint, or None."""
        return self._read_whole(Key(self.scope, CHECKPOINT, self.session), "checkpoint")

    def _read_whole(self, key: Key, name: str, version: int | None = None) -> Record | None:
        """Return a record as it was written, or None; note it in ``damage`` if it is damaged."""
        try:
            record = self._journal.get(key, version=version)
        except StoreDamaged as error:
            self.damage[name] = error.message
            return None
        return record if record is None or self._is_whole(record, name) else None

    def _is_whole(self, record: Record, name: str) -> bool:
        is_whole = digest_of(entry_bytes(record)) == record.digest
        if not is_whole:
            self.damage[name] = "its checksum does not match its content"
        return is_whole

    def find_newest_valid(self) -> Checkpoint | None:
        """Return the newest valid checkpoint in the log, or None."""
        newest = self.checkpoint_record()
        if newest is not None and (found := self._parse_checkpoint(newest)) is not None:
            return found
        if newest is None and "checkpoint" not in self.damage:
            return None
        session = self.session_record()
        version = newest.version if newest is not None else session.body["number"] if session is not None else 0
        for older in range(version - 1, max(version - _MAX_OLDER_VERSIONS, 0), -1):
            record = self._read_whole(
                Key(self.scope, CHECKPOINT, self.session), f"version {older} of the checkpoint", older
            )
            if record is not None and (found := self._parse_checkpoint(record)) is not None:
                return found
        return None

    def find_checkpoint(self, number: int) -> Checkpoint | None:
        """Return the valid checkpoint of a number in the log, or None."""
        key = Key(self.scope, CHECKPOINT, self.session)
        try:
            versions = self._journal.history(key)
        except StoreDamaged as error:
            self.damage["checkpoint"] = error.message
            return None
        numbered = (
            record for record in reversed(versions) if record.body.get("checkpoint", {}).get("number") == number
        )
        return next(filter(None, map(self._parse_checkpoint, numbered)), None)

    def _parse_checkpoint(self, record: Record) -> Checkpoint | None:
        """Return the checkpoint in a record, or None if the record is damaged."""
        try:
            return _decode_checkpoint_record(record)
        except InvalidInput as error:
            self.damage["checkpoint"] = error.message
            return None

    def find_checkpoint_of(self, as_of: AsOf) -> Checkpoint | None:
        """Return the checkpoint that was the newest one at an earlier time or position, or None."""
        record = self._journal.get(Key(self.scope, CHECKPOINT, self.session), as_of=as_of)
        return None if record is None else self._parse_checkpoint(record)

    def read_deltas(self, after: int, as_of: AsOf | None = None) -> Iterator[Delta]:
        """Yield the changes after a number in order, up to the first block of numbers without any."""
        block = (after + 1) // _BLOCK_SIZE
        while records := self._read_block(block, after, as_of):
            for number, record in sorted(records.items()):
                if number > after and record is not None:
                    yield Delta(number, record.body.get("at", ""), record.body["changes"])
            block += 1

    def _read_block(self, block: int, after: int, as_of: AsOf | None) -> dict[int, Record | None]:
        """Return the changes of a block by number; None stands for one that is damaged, if it is after a number."""
        query = replace(self._block_query(block), as_of=as_of)
        try:
            with self._journal.snapshot() as reader:
                records = {int(record.body["n"]): record for record in reader.read(query)}
                is_whole = not reader.damaged
        except (StoreDamaged, KeyError, ValueError, TypeError):
            is_whole = False
        if not is_whole:  # one of them is damaged: read each alone
            numbers = range(max(block * _BLOCK_SIZE, after + 1), (block + 1) * _BLOCK_SIZE)
            read = {number: self._read_whole(self._delta_key(number), f"change {number}") for number in numbers}
            return {
                number: record
                for number, record in read.items()
                if record is not None or f"change {number}" in self.damage
            }
        return {
            number: record if number <= after or self._is_whole(record, f"change {number}") else None
            for number, record in records.items()
        }

    def _block_query(self, block: int) -> Query:
        return Query(kinds=(DELTA,), scopes=(self.scope,), labels=(f"deltas={self._session_hash}.{block}",))

    def was_withdrawn(self, number: int) -> bool:
        """Return whether a change was in the log and was undone, deleted or hidden since."""
        try:
            return f"change {number}" not in self.damage and bool(self._journal.history(self._delta_key(number)))
        except StoreDamaged as error:
            self.damage[f"change {number}"] = error.message
            return False

    def _delta_key(self, number: int) -> Key:
        return Key(self.scope, DELTA, f"{self._session_hash}-{number}")

    def read_newest(self, limit: int, before: int | None = None) -> list[Record]:
        """Return the newest events, incidents, archived items and changes of the session before a position."""
        page = Query(scopes=(self.scope,), newest_first=True, limit=limit, before=before)
        found = list(self._journal.read(replace(page, kinds=(EVENT, INCIDENT, ARCHIVE), labels=self._labels)))
        session = self.session_record()
        block = 0 if session is None else session.body["upto"] // _BLOCK_SIZE + 1
        changes: list[Record] = []
        while block >= 0 and len(changes) < limit and session is not None:
            changes += self._journal.read(replace(page, kinds=(DELTA,), labels=self._block_query(block).labels))
            block -= 1
        return found + changes[:limit]

    def read_records(self, kind: str) -> list[Record]:
        """Return the session's records of a kind, oldest first."""
        query = Query(kinds=(kind,), scopes=(self.scope,), labels=self._labels, newest_first=True)
        return list(self._journal.read(query))[::-1]


def _decode_checkpoint_record(record: Record) -> Checkpoint:
    return decode_checkpoint(canonical_json.encode(record.body) + b"\n", record.id, record.scope)
