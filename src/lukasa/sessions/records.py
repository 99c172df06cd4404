"""A session's records in the log: itself, its checkpoints, the changes in between, its events.

    session             that there is one, whether it is open or closed, and its newest checkpoint
    checkpoint          its whole state, with the seal that a file has; versions are the checkpoints
    session_delta       one small change of the state; numbered, so that of two writers one comes second
    session_event       what happened to it: started, resumed, recovered, closed, backed up
    session_incident    data that was damaged or lost
    session_archive     what was taken out of the state to keep it within its budget

All but the first are derived from it, so that erasing the session takes everything along.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from lukasa import canonical_json
from lukasa.clock import to_iso
from lukasa.errors import InvalidInput
from lukasa.journal import Journal
from lukasa.outcome import Outcome
from lukasa.record import DERIVED_FROM, Draft, Key, Link, Record
from lukasa.sessions.checkpoint_files import (
    Checkpoint,
    DamagedCheckpoint,
    Delta,
    decode_checkpoint,
    encode_checkpoint,
    short_hash,
)
from lukasa.storage.engine import Query

SESSION, CHECKPOINT, DELTA = "session", "checkpoint", "session_delta"
EVENT, INCIDENT, ARCHIVE = "session_event", "session_incident", "session_archive"
KINDS = (SESSION, CHECKPOINT, DELTA, EVENT, INCIDENT, ARCHIVE)
_BLOCK_SIZE = 256
"""So many changes carry the same label: enough to read them quickly, few enough to skip what is long past."""

ORIGIN = "session"


class SessionRecords:
    """Reads and writes the records of one session."""

    def __init__(self, journal: Journal, session: str, scope: str) -> None:
        self._journal = journal
        self.session = session
        self.scope = scope
        self.key = Key(scope, SESSION, session)
        self._session_hash = short_hash(session)
        self._links = (Link(DERIVED_FROM, self.key),)
        self._labels = (f"of_session={self._session_hash}",)

    # Writing

    def append(self, *drafts: Draft) -> Outcome:
        return self._journal.append(drafts)

    def session_draft(
        self, agent_id: str, status: str, now: datetime, *, number: int, upto: int, expected: int | None
    ) -> Draft:
        """The session itself, as it stands now."""
        body = {"agent_id": agent_id, "status": status, "number": number, "upto": upto, "at": to_iso(now)}
        return Draft(SESSION, body=body, id=self.session, scope=self.scope, origin=ORIGIN, expected=expected)

    def checkpoint_draft(self, checkpoint: Checkpoint, expected: int) -> Draft:
        """A checkpoint; ``expected`` is the version of the one before it."""
        body = canonical_json.parse(encode_checkpoint(checkpoint))
        return self._draft(CHECKPOINT, body, self.session, expected=expected)

    def delta_draft(self, delta: Delta) -> Draft:
        """A change; there can be only one of its number."""
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
        self, now: datetime, *, damaged: Sequence[DamagedCheckpoint], lost: Sequence[int], why: str
    ) -> Draft:
        """A loss of data. The same loss has the same id, however often it is found."""
        files = [
            {"number": damage.number, "file": damage.moved_to or damage.name, "reason": damage.reason}
            for damage in damaged
        ]
        id = short_hash(self._session_hash, *(f"{damage.moved_to}" for damage in damaged), *map(str, lost))
        body = {"damaged": files, "lost_changes": list(lost), "why": why, "at": to_iso(now)}
        return self._draft(INCIDENT, body, f"{self._session_hash}-{id}")

    def _draft(self, kind: str, body: Mapping[str, Any], id: str = "", expected: int | None = None) -> Draft:
        return Draft(
            kind, body=dict(body), id=id, scope=self.scope, origin=ORIGIN, links=self._links, labels=self._labels,
            expected=expected,
        )  # fmt: skip

    # Reading

    def session_record(self) -> Record | None:
        return self._journal.get(self.key)

    def checkpoint_record(self) -> Record | None:
        """The newest checkpoint's record."""
        return self._journal.get(Key(self.scope, CHECKPOINT, self.session))

    def find_newest_valid(self) -> Checkpoint | None:
        """The newest checkpoint in the log that proves itself."""
        newest = self.checkpoint_record()
        if newest is None:
            return None
        try:
            return self._parse_checkpoint(newest)
        except InvalidInput:
            versions = self._journal.history(newest.key)
        for record in reversed(versions[:-1]):
            try:
                return self._parse_checkpoint(record)
            except InvalidInput:
                continue
        return None

    def _parse_checkpoint(self, record: Record) -> Checkpoint:
        return decode_checkpoint(canonical_json.encode(record.body) + b"\n", self.session, self.scope)

    def read_deltas(self, after: int) -> Iterator[Delta]:
        """The changes after a number, in order, as far as they go on without a gap in their blocks."""
        block = (after + 1) // _BLOCK_SIZE
        while True:
            found = sorted(self._read_block(block), key=lambda delta: delta.number)
            yield from (delta for delta in found if delta.number > after)
            if not found:
                return
            block += 1

    def _read_block(self, block: int) -> Iterator[Delta]:
        query = Query(kinds=(DELTA,), scopes=(self.scope,), labels=(f"deltas={self._session_hash}.{block}",))
        for record in self._journal.read(query):
            yield Delta(record.body["n"], record.body.get("at", ""), record.body["changes"])

    def was_withdrawn(self, number: int) -> bool:
        """Whether a change was in the log and is not any more, because somebody undid or hid it."""
        return bool(self._journal.history(self._delta_key(number)))

    def _delta_key(self, number: int) -> Key:
        return Key(self.scope, DELTA, f"{self._session_hash}-{number}")

    def read_records(self, kind: str, limit: int | None = None) -> list[Record]:
        """The session's newest records of a kind, oldest first."""
        query = Query(kinds=(kind,), scopes=(self.scope,), labels=self._labels, newest_first=True, limit=limit)
        return list(self._journal.read(query))[::-1]
