"""A session of the OpenAI Agents SDK on a Lukasa store: ``Runner.run(agent, text, session=LukasaSession("chat-1", memory))``.

Items come back exactly as they were given. ``pop_item`` and ``clear_session`` write tombstones, so the history of the
session stays in the log. The texts of messages are found by ``memory.recall`` like any other turn.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lukasa.core.outcome import Refused
from lukasa.core.record import Draft, Record
from lukasa.errors import MissingExtra
from lukasa.integrations import SESSION_ITEM
from lukasa.integrations.records import choose_scope, encode_json, read_text, run_to_end
from lukasa.journal.read_cache import ReadCache
from lukasa.memory import Memory
from lukasa.storage.engine import Query, Reader
from lukasa.storage.parsed_records import ParsedRecords

try:
    from agents import SessionSettings
    from agents.memory.session import SessionABC
except ImportError as error:
    raise MissingExtra(
        "The OpenAI Agents SDK is not installed.", hint="Run: pip install 'lukasa[openai-agents]'"
    ) from error

if TYPE_CHECKING:
    from agents import TResponseInputItem

_MAX_LABEL = 150


class LukasaSession(SessionABC):
    """The history of one session, in a Lukasa store."""

    def __init__(
        self,
        session_id: str,
        memory: Memory,
        *,
        scope: str | None = None,
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self._journal = memory.valid_journal
        self._scope = choose_scope(memory, scope)
        is_plain = session_id.isprintable() and 0 < len(session_id) <= _MAX_LABEL
        name = session_id if is_plain else hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()
        self._label = f"session={name}"
        self._items: ParsedRecords[str] = ParsedRecords(lambda record: record.body["item"])
        self._read: ReadCache[list[str]] = ReadCache(memory.journal, 2, measure=lambda items: sum(map(len, items)))

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the latest items in the order they were added; all of them without a limit."""
        limit = self.session_settings.limit if limit is None and self.session_settings else limit
        if limit is not None and limit <= 0:
            return []
        items = self._read.find(limit)
        if items is None:
            items = await asyncio.to_thread(self._read.read, limit, lambda: self._read_items(limit))
        return [json.loads(item) for item in items]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items to the end, all or none."""
        drafts = [self._draft(item) for item in items]
        if drafts:
            await run_to_end(lambda: self._journal.append(drafts if drafts[1:] else drafts[0]).unwrap_all())

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item and return it."""
        return await run_to_end(self._pop)

    async def clear_session(self) -> None:
        """Remove all items."""

        def tombstones(reader: Reader) -> Sequence[Draft] | Refused:
            return [self._tombstone(record) for record in reader.read(self._query())]

        await run_to_end(lambda: self._journal.append_if(tombstones).unwrap_all())

    def _query(self, limit: int | None = None) -> Query:
        newest = limit is not None
        kinds, scopes, labels = (SESSION_ITEM,), (self._scope,), (self._label,)
        return Query(kinds=kinds, scopes=scopes, labels=labels, newest_first=newest, limit=limit)

    def _read_items(self, limit: int | None) -> list[str]:
        items = self._journal.read_parsed(self._query(limit), self._items)
        return items if limit is None else items[::-1]

    def _pop(self) -> TResponseInputItem | None:
        popped: list[Record] = []

        def tombstone(reader: Reader) -> Sequence[Draft] | Refused:
            popped[:] = reader.read(self._query(1))
            return [self._tombstone(record) for record in popped]

        self._journal.append_if(tombstone).unwrap_all()
        return json.loads(popped[0].body["item"]) if popped else None

    def _draft(self, item: TResponseInputItem) -> Draft:
        body = {"item": encode_json(item), "session_id": self.session_id}
        return Draft(SESSION_ITEM, read_text(item), body, scope=self._scope, labels=(self._label,), origin="chat")

    @staticmethod
    def _tombstone(record: Record) -> Draft:
        return Draft(
            record.kind, id=record.id, scope=record.scope, deleted=True, expected=record.version, origin="chat"
        )
