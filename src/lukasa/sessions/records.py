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
ORIGIN = "session"
_BLOCK_SIZE = 256
"""Number of changes with the same label: enough to read them quickly, few enough to skip old ones."""


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

    def append(self, *drafts: Draft) -> Outcome:
        return self._journal.append(drafts)

    def session_draft(self, agent_id: str, status: str, now: datetime, *, number: int, upto: int) -> Draft:
        """Draft the session's own record."""
        body = {"agent_id": agent_id, "status": status, "number": number, "upto": upto, "at": to_iso(now)}
        return Draft(SESSION, body=body, id=self.session, scope=self.scope, origin=ORIGIN)

    def checkpoint_draft(self, checkpoint: Checkpoint, expected: int) -> Draft:
        """Draft a checkpoint; ``expected`` is the version of the one before it."""
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
        self, now: datetime, *, damaged: Sequence[DamagedCheckpoint], lost: Sequence[int], why: str
    ) -> Draft:
        """Draft an incident. The same loss has the same id, however often it is found."""
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

    def session_record(self) -> Record | None:
        return self._journal.get(self.key)

    def checkpoint_record(self) -> Record | None:
        """Return the record of the newest checkpoint, or None."""
        return self._journal.get(Key(self.scope, CHECKPOINT, self.session))

    def find_newest_valid(self) -> Checkpoint | None:
        """Return the newest valid checkpoint in the log, or None."""
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
        """Yield the changes after a number in order, up to the first block of numbers without any."""
        block = (after + 1) // _BLOCK_SIZE
        while True:
            label = f"deltas={self._session_hash}.{block}"
            query = Query(kinds=(DELTA,), scopes=(self.scope,), labels=(label,))
            bodies = sorted((record.body for record in self._journal.read(query)), key=lambda body: int(body["n"]))
            for body in bodies:
                if body["n"] > after:
                    yield Delta(body["n"], body.get("at", ""), body["changes"])
            if not bodies:
                return
            block += 1

    def was_withdrawn(self, number: int) -> bool:
        """Return whether a change was in the log and was undone, deleted or hidden since."""
        return bool(self._journal.history(self._delta_key(number)))

    def _delta_key(self, number: int) -> Key:
        return Key(self.scope, DELTA, f"{self._session_hash}-{number}")

    def read_records(self, kind: str, limit: int | None = None) -> list[Record]:
        """Return the session's newest records of a kind, oldest first."""
        query = Query(kinds=(kind,), scopes=(self.scope,), labels=self._labels, newest_first=True, limit=limit)
        return list(self._journal.read(query))[::-1]
