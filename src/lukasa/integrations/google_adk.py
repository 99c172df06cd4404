"""A memory service of Google ADK on a Lukasa store: ``Runner(…, memory_service=LukasaMemoryService(memory))``.

An event of a session is one record, however often its session is added. A search is a recall of the sessions of one user of one
app, by words and by meaning. What was deleted once does not come back when its session is added again.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lukasa.core.record import Draft, Key
from lukasa.errors import MissingExtra
from lukasa.integrations import AGENT_EVENT
from lukasa.integrations.records import choose_scope, encode_json, hash_names, read_text, run_to_end
from lukasa.memory import Memory
from lukasa.recall.relevance import DEFAULT_CUTOFF
from lukasa.storage.engine import Reader

try:
    from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.genai.types import Content
except ImportError as error:
    raise MissingExtra("Google ADK is not installed.", hint="Run: pip install 'lukasa[google-adk]'") from error

if TYPE_CHECKING:
    from google.adk.events.event import Event
    from google.adk.sessions.session import Session

MAX_RESULTS = 10


class LukasaMemoryService(BaseMemoryService):
    """Stores what was said in sessions in a Lukasa store."""

    def __init__(self, memory: Memory, *, scope: str | None = None) -> None:
        self._memory = memory
        self._journal = memory.valid_journal
        self._scope = choose_scope(memory, scope)

    async def add_session_to_memory(self, session: Session) -> None:
        """Add the events of a session that are not stored yet."""
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,  # noqa: ARG002 - no key is supported
    ) -> None:
        """Add events that are not stored yet and were not deleted; those without content are left out."""
        labels = (f"session={hash_names(app_name, user_id, session_id)}",) if session_id else ()
        drafts = [
            self._draft(app_name, user_id, event.id, event.content, event.author, labels)._replace(
                happened_at=datetime.fromtimestamp(event.timestamp, UTC)
            )
            for event in events
            if event.content and event.content.parts
        ]
        await self._add(drafts)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,  # noqa: ARG002 - no key is supported
    ) -> None:
        """Add memories that are not stored yet and were not deleted."""
        drafts = []
        for entry in memories:
            draft = self._draft(app_name, user_id, entry.id or str(uuid.uuid4()), entry.content, entry.author, ())
            more = {"timestamp": entry.timestamp, "metadata": encode_json(entry.custom_metadata)}
            drafts.append(draft._replace(body={**draft.body, **more}))
        await self._add(drafts)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Recall what was said in the sessions of one user of one app."""
        label = f"user={hash_names(app_name, user_id)}"
        answer = await asyncio.to_thread(
            lambda: self._memory.recall(
                query,
                MAX_RESULTS,
                kinds=(AGENT_EVENT,),
                scopes=(self._scope,),
                labels=(label,),
                min_relevance=DEFAULT_CUTOFF,
            )
        )
        entries = []
        for record in answer.records:
            body: Mapping[str, Any] = record.body
            happened = None if record.happened_at is None else record.happened_at.isoformat()
            entry = MemoryEntry(
                id=body["event"],
                content=Content.model_validate_json(body["content"]),
                author=body["author"],
                timestamp=body.get("timestamp") or happened,
                custom_metadata=json.loads(body.get("metadata") or "{}"),
            )
            entries.append(entry)
        return SearchMemoryResponse(memories=entries)

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Delete a memory for good: it does not come back with its session. Its history stays in the log."""
        if not memory_id:
            return
        key = self._key(app_name, user_id, memory_id)

        def tombstone(reader: Reader) -> Sequence[Draft]:
            known = reader.get(key) is not None
            return [Draft(key.kind, id=key.id, scope=key.scope, deleted=True, origin="chat")] if known else []

        await run_to_end(lambda: self._journal.append_if(tombstone).unwrap_all())

    async def _add(self, drafts: Sequence[Draft]) -> None:
        by_key = {draft.key: draft for draft in reversed(drafts)}

        def add_new(reader: Reader) -> Sequence[Draft]:
            return [by_key[key] for key in reversed(by_key) if not reader.history(key)]

        if by_key:
            await run_to_end(lambda: self._journal.append_if(add_new).unwrap_all())

    def _key(self, app: str, user: str, id: str) -> Key:
        return Key(self._scope, AGENT_EVENT, hash_names(app, user, id))

    def _draft(
        self, app: str, user: str, id: str, content: Content, author: str | None, labels: tuple[str, ...]
    ) -> Draft:
        key, dumped = self._key(app, user, id), content.model_dump(mode="json", exclude_none=True)
        body = {"event": id, "content": encode_json(dumped), "author": author}
        labels = (f"user={hash_names(app, user)}", *labels)
        text = read_text({"content": dumped.get("parts")})
        return Draft(key.kind, text, body, key.id, key.scope, labels=labels, origin="chat")
