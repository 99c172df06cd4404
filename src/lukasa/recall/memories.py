"""Memories for a prompt: what the vault, knowledge and conversations say about a question, lasting facts first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, get_args

from lukasa.core.record import Record
from lukasa.errors import InvalidInput

if TYPE_CHECKING:
    from lukasa.recall.recall import LeftOutRecord, Recall

MemorySource = Literal["vault", "knowledge", "conversations"]
_KINDS: dict[MemorySource, tuple[str, ...]] = {
    "vault": ("memory",), "knowledge": ("pattern", "antipattern", "fact"), "conversations": ("turn",),
}  # fmt: skip
_MAX_MEMORIES = 12


def recall_memories(
    recall: Recall, query: str, sources: Iterable[MemorySource], conversation_id: str = ""
) -> tuple[list[Record], list[LeftOutRecord]]:
    """Return the records of the sources that answer a question, and those left out, each with the reason.

    Records of the conversation ``conversation_id`` are not among them. Canon comes first, then the others, each best first.
    """
    asked = list(sources)
    if unknown := [source for source in asked if source not in get_args(MemorySource)]:
        raise InvalidInput(f"{unknown[0]!r:.60} is no source of memories.", hint=f"Use {', '.join(_KINDS)}.")
    own = {f"session={conversation_id}", f"context={conversation_id}"} if conversation_id else set()
    kinds = [kind for source in asked for kind in _KINDS[source]]
    result = recall(query, 2 * _MAX_MEMORIES, kinds=kinds).without_orders()
    found = [record for record in result.records if own.isdisjoint(record.labels)][:_MAX_MEMORIES]
    found.sort(key=lambda record: record.body.get("tier") != "canon")
    return found, [entry for entry in result.left_out if own.isdisjoint(entry.record.labels)]
