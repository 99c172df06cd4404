"""A session store of the Claude Agent SDK on a Lukasa store: ``ClaudeAgentOptions(session_store=LukasaSessionStore(memory))``.

A line of a transcript is one record; a transcript has one more with its summary. Entries come back exactly as they were
given, each ``uuid`` once, in the order in which they were stored, by however many processes. ``delete`` writes tombstones, so
the history of a session stays in the log. The texts of messages are found by ``memory.recall``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lukasa.core.record import Draft, Key, Record
from lukasa.errors import MissingExtra
from lukasa.integrations import TRANSCRIPT, TRANSCRIPT_ENTRY
from lukasa.integrations.records import AdapterRecords, encode_json, hash_names, read_text
from lukasa.journal import ConditionalDrafts
from lukasa.memory import Memory
from lukasa.storage.engine import Query, Reader

try:
    from claude_agent_sdk import SessionStore, fold_session_summary
except ImportError as error:
    raise MissingExtra(
        "The Claude Agent SDK is not installed.", hint="Run: pip install 'lukasa[claude-agent]'"
    ) from error

if TYPE_CHECKING:
    from claude_agent_sdk.types import (
        SessionKey,
        SessionListSubkeysKey,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
    )


class LukasaSessionStore(SessionStore):
    """Stores the transcripts of Claude sessions in a Lukasa store."""

    def __init__(self, memory: Memory, *, scope: str | None = None) -> None:
        self._records = AdapterRecords(memory, scope)
        self._scope = self._records.scope

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Add entries to the end, all or none; those whose ``uuid`` is known are left out."""
        if entries:
            drafts = [self._draft(key, entry) for entry in entries]
            await self._records.append_if(self._add_new(key, entries, drafts))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return all entries of a transcript, or ``None`` if there is no such transcript."""
        found = await self._records.read(TRANSCRIPT_ENTRY, _transcript_label(key))
        return [json.loads(record.body["entry"]) for record in found] or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project with the times of their last changes."""
        found = await self._records.read(TRANSCRIPT, _project_label(project_key))
        return [{"session_id": record.body["session"], "mtime": _milliseconds(record)} for record in found]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the summaries of the sessions of a project."""
        found = await self._records.read(TRANSCRIPT, _project_label(project_key))
        return [_read_summary(record) for record in found]

    async def delete(self, key: SessionKey) -> None:
        """Delete a transcript; with the main one of a session, all its others."""
        label = _transcript_label(key) if key.get("subpath") else _session_label(key)

        def tombstones(reader: Reader) -> Sequence[Draft]:
            query = Query(kinds=(TRANSCRIPT, TRANSCRIPT_ENTRY), scopes=(self._scope,), labels=(label,))
            return [
                Draft(record.kind, id=record.id, scope=record.scope, deleted=True, origin="chat")
                for record in reader.read(query)
            ]

        await self._records.append_if(tombstones)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of a session."""
        found = await self._records.read(TRANSCRIPT, _session_label(key))
        return [record.body["subpath"] for record in found if record.body["subpath"]]

    def _add_new(
        self, key: SessionKey, entries: Sequence[SessionStoreEntry], drafts: Sequence[Draft]
    ) -> ConditionalDrafts:
        """Return the condition that adds the entries which are not known, and the summary that they lead to."""
        transcript = Key(self._scope, TRANSCRIPT, hash_names(*_names(key)))
        labels: tuple[str, ...] = (_transcript_label(key), _session_label(key))
        labels += () if key.get("subpath") else (_project_label(key["project_key"]),)

        def add_new(reader: Reader) -> Sequence[Draft]:
            new: list[tuple[SessionStoreEntry, Draft]] = []
            ids = set[str]()
            for entry, draft in zip(entries, drafts, strict=True):
                if draft.id and (draft.id in ids or reader.get(draft.key) is not None):
                    continue
                ids.add(draft.id)
                new.append((entry, draft))
            if not new:
                return []
            known = reader.get(transcript)
            body: dict[str, Any] = {"session": key["session_id"], "subpath": key.get("subpath") or ""}
            if not key.get("subpath"):
                earlier = None if known is None else _read_summary(known)
                summary = fold_session_summary(earlier, key, [entry for entry, _ in new])
                body["summary"] = encode_json(summary["data"])
            head = Draft(TRANSCRIPT, body=body, id=transcript.id, scope=self._scope, labels=labels, origin="chat")
            return [*(draft for _, draft in new), head]

        return add_new

    def _draft(self, key: SessionKey, entry: SessionStoreEntry) -> Draft:
        uuid = entry.get("uuid")
        id = hash_names(*_names(key), uuid) if uuid and isinstance(uuid, str) else ""
        body = {"entry": encode_json(entry), "session": key["session_id"]}
        labels = (_transcript_label(key), _session_label(key))
        text = read_text(entry.get("message"))
        return Draft(TRANSCRIPT_ENTRY, text, body, id, self._scope, labels=labels, origin="chat")


def _names(key: SessionKey) -> tuple[str, str, str]:
    return key["project_key"], key["session_id"], key.get("subpath") or ""


def _transcript_label(key: SessionKey) -> str:
    return f"transcript={hash_names(*_names(key))}"


def _session_label(key: SessionKey | SessionListSubkeysKey) -> str:
    return f"session={hash_names(key['project_key'], key['session_id'])}"


def _project_label(project: str) -> str:
    return f"project={hash_names(project)}"


def _milliseconds(record: Record) -> int:
    return int(record.recorded_at.timestamp() * 1_000)


def _read_summary(record: Record) -> SessionSummaryEntry:
    data = json.loads(record.body["summary"])
    return {"session_id": record.body["session"], "mtime": _milliseconds(record), "data": data}
