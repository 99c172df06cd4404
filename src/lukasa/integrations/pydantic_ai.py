"""A conversation store of Pydantic AI on a Lukasa store: ``await LukasaConversations(memory).save(result)``.

A message is one record, stored once, however many conversations share it; a conversation is one more, whose versions say
where its history ended after each save. A save is one step: its messages and its conversation are there, or none of them.
``delete`` writes tombstones for the conversation and for the messages that no other conversation shares; ``memory.journal.erase``
removes them for good. The texts of messages are found by ``memory.recall``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from lukasa.core.record import Draft, Key, Record
from lukasa.errors import MissingExtra
from lukasa.integrations import CONVERSATION_HEAD, CONVERSATION_MESSAGE
from lukasa.integrations.records import AdapterRecords, encode_json, hash_names, read_text
from lukasa.memory import Memory
from lukasa.storage.engine import Query, Reader

try:
    from pydantic_ai.conversation import Conversation, ConversationTypeAdapter
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )
    from pydantic_ai.messages import ModelMessagesTypeAdapter
except ImportError as error:
    raise MissingExtra(
        "Pydantic AI with conversation stores is not installed.", hint="Run: pip install 'lukasa[pydantic-ai]'"
    ) from error

_SPOKEN = ("user-prompt", "text")
"""The parts of a message that are said, and not instructions, thoughts or calls of tools."""


class LukasaConversations(ConversationStore):
    """Stores the conversations of agents in a Lukasa store."""

    def __init__(self, memory: Memory, *, scope: str | None = None) -> None:
        self._records = AdapterRecords(memory, scope)
        self._journal, self._scope = self._records.journal, self._records.scope

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation."""
        record = await asyncio.to_thread(self._journal.get, self._head_key(conversation_id))
        return None if record is None else _to_conversation_record(record)

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """Return the records of conversations, the newest first."""
        labels = () if scope is None else (f"owner={hash_names(scope)}",)
        stored = await self._records.read(CONVERSATION_HEAD, *labels)
        records = sorted(map(_to_conversation_record, stored), key=lambda record: record.updated_at, reverse=True)
        return records[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and the entries that its history adds, in one step."""
        messages = [encode_json(ModelMessagesTypeAdapter.dump_python([e.message], mode="json")[0]) for e in new_entries]
        carried = Conversation(
            usage=record.usage,
            conversation_id=record.conversation_id,
            deferred_tool_requests=record.deferred_tool_requests,
        )
        body = {
            "carried": ConversationTypeAdapter.dump_json(carried).decode(), "head": record.head_id, "owner": record.scope,
            "forked_from": record.forked_from, "forked_at": record.forked_at, "branches": list(record.branches),
            "revision": record.revision, "updated_at": record.updated_at.isoformat(),
        }  # fmt: skip
        owner = () if record.scope is None else (f"owner={hash_names(record.scope)}",)

        def save(reader: Reader) -> Sequence[Draft]:
            stored = reader.get(self._head_key(record.conversation_id))
            _check_revision(stored, record.conversation_id, expected_revision)
            new_ids = {entry.id for entry in new_entries}
            before = new_entries[0].parent_id if new_entries else record.head_id
            earlier = None if before is None else reader.get(self._entry_key(before))
            if record.head_id is not None and record.head_id not in new_ids and earlier is None:
                raise ConversationConflict(record.conversation_id)
            known = stored or earlier
            tree = hash_names(record.conversation_id) if known is None else str(known.body["tree"])
            label = f"tree={tree}"
            drafts = [
                Draft(
                    CONVERSATION_MESSAGE,
                    "\n".join(read_text(part) for part in json.loads(message)["parts"] if part["part_kind"] in _SPOKEN),
                    {"entry": entry.id, "parent": entry.parent_id, "message": message, "tree": tree},
                    self._entry_key(entry.id).id,
                    self._scope,
                    labels=(label,),
                    origin="chat",
                )
                for entry, message in zip(new_entries, messages, strict=True)
            ]
            key = self._head_key(record.conversation_id)
            head = Draft(key.kind, "", {**body, "tree": tree}, key.id, key.scope, labels=(label, *owner), origin="chat")
            return [*drafts, head]

        await self._records.append_if(save)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a conversation, and the messages that no other conversation shares."""

        def tombstones(reader: Reader) -> Sequence[Draft]:
            stored = reader.get(self._head_key(conversation_id))
            _check_revision(stored, conversation_id, expected_revision)
            if stored is None:
                raise ConversationConflict(conversation_id)
            tree = str(stored.body["tree"])
            entries = self._read_tree(reader, tree)
            heads = reader.read(self._query(CONVERSATION_HEAD, tree))
            kept = set[str]()
            for head in heads:
                if head.key != stored.key:
                    for tip in (head.body["head"], *head.body["branches"]):
                        kept |= {str(entry.body["entry"]) for entry in _walk(entries, tip, kept)}
            gone = [stored, *(entry for id, entry in entries.items() if id not in kept)]
            return [Draft(r.kind, id=r.id, scope=r.scope, deleted=True, origin="chat") for r in gone]

        await self._records.append_if(tombstones)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return an entry; raise ``KeyError`` if it is not there."""
        record = await asyncio.to_thread(self._journal.get, self._entry_key(entry_id))
        if record is None:
            raise KeyError(entry_id)
        return _to_entry(record)

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """Return the entries up to a head, oldest first."""
        if head_id is None or limit == 0:
            return []
        if limit is not None:
            entries: list[ConversationEntry] = await super().read_history(head_id, limit=limit)
            return entries
        return await asyncio.to_thread(self._read_history, head_id)

    def _read_history(self, head_id: str) -> list[ConversationEntry]:
        with self._journal.snapshot() as reader:
            head = reader.get(self._entry_key(head_id))
            if head is None:
                raise KeyError(head_id)
            entries = self._read_tree(reader, head.body["tree"])
        return [_to_entry(record) for record in reversed([*_walk(entries, head_id)])]

    def _read_tree(self, reader: Reader, tree: str) -> dict[str, Record]:
        """Return the entries of a conversation and of all that were forked from it, by their ids."""
        return {record.body["entry"]: record for record in reader.read(self._query(CONVERSATION_MESSAGE, tree))}

    def _query(self, kind: str, tree: str) -> Query:
        return Query(kinds=(kind,), scopes=(self._scope,), labels=(f"tree={tree}",))

    def _head_key(self, conversation_id: str) -> Key:
        return Key(self._scope, CONVERSATION_HEAD, hash_names(conversation_id))

    def _entry_key(self, entry_id: str) -> Key:
        return Key(self._scope, CONVERSATION_MESSAGE, hash_names(entry_id))


def _check_revision(stored: Record | None, conversation_id: str, expected: str | None) -> None:
    if (None if stored is None else stored.body["revision"]) != expected:
        raise ConversationConflict(conversation_id)


def _walk(entries: Mapping[str, Record], tip: str | None, known: set[str] | None = None) -> Iterable[Record]:
    """Yield the entries from a tip back to the first one, or to one that is known already."""
    while tip is not None and (known is None or tip not in known):
        record = entries[tip]
        yield record
        tip = record.body["parent"]


def _to_entry(record: Record) -> ConversationEntry:
    (message,) = ModelMessagesTypeAdapter.validate_json(f"[{record.body['message']}]")
    return ConversationEntry(id=record.body["entry"], parent_id=record.body["parent"], message=message)


def _to_conversation_record(record: Record) -> ConversationRecord:
    body = record.body
    carried = ConversationTypeAdapter.validate_json(body["carried"])
    return ConversationRecord(
        conversation_id=carried.conversation_id,
        head_id=body["head"],
        usage=carried.usage,
        deferred_tool_requests=carried.deferred_tool_requests,
        scope=body["owner"],
        forked_from=body["forked_from"],
        forked_at=body["forked_at"],
        branches=list(body["branches"]),
        revision=body["revision"],
        updated_at=datetime.fromisoformat(body["updated_at"]),
    )
