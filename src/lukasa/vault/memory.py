"""Memories of the vault: the document's fields, parsed from a record and written as a draft."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from lukasa.core.clock import to_iso
from lukasa.core.freshness import CONFIRMED_AT, EXPIRES_AT, STATED_AT, read_time
from lukasa.core.record import Draft, Record, digest_of, encode_draft, entry_suffix
from lukasa.vault.checks import DISTINCT_FROM, UNKNOWN_SOURCE, MemoryProposal, memory_draft
from lukasa.vault.settings import CANON, MEMORY_KIND

_OPTIONAL_TIMES = (EXPIRES_AT, CONFIRMED_AT, STATED_AT)


@dataclass(frozen=True, slots=True)
class VaultMemory:
    """A memory as the vault returns it."""

    id: str
    text: str
    scope: str
    category: str
    tier: str
    topic_id: str | None
    tags: tuple[str, ...]
    created_at: datetime
    updated_at: datetime | None
    source: str | None
    deleted_at: datetime | None
    version: int
    author: str = ""
    distinct_from: tuple[str, ...] = ()
    expires_at: datetime | None = None
    confirmed_at: datetime | None = None
    """When it was last confirmed; its text was stated earlier."""
    stated_at: datetime | None = None
    """When its text was stated, if it was confirmed since."""

    def to_proposal(self) -> MemoryProposal:
        """Return the proposal that would keep the same memory, without its author."""
        return MemoryProposal(
            self.text, self.scope, self.category, self.tier, self.topic_id, self.tags, self.source,
            distinct_from=self.distinct_from, expires_at=self.expires_at,
        )  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        """Return the document's fields in its order, times in ISO 8601; fields beyond the document only where they say something."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "author"}
        values = {name: value for name, value in values.items() if value is not None or name not in _OPTIONAL_TIMES}
        if distinct_from := values.pop("distinct_from"):
            values["distinct_from"] = list(distinct_from)
        times = {name: to_iso(value) for name, value in values.items() if isinstance(value, datetime)}
        return values | times | {"tags": list(self.tags)}


def parse_memory(record: Record, before: Record | None = None) -> VaultMemory:
    """Parse the memory that a record holds; a tombstone has the content of the version ``before`` it, if given."""
    content = before if record.deleted and before is not None else record
    tags = content.body.get("tags")
    updated_at = before.recorded_at if before is not None and before.version > 1 else None
    if record.version > 1 and not record.deleted:
        updated_at = record.recorded_at
    return VaultMemory(
        id=record.id,
        text=content.text,
        scope=record.scope,
        category=_text_field(content, "category") or "general",
        tier=_text_field(content, "tier") or CANON,
        topic_id=_text_field(content, "topic_id"),
        tags=tuple(tags) if isinstance(tags, list) else (),
        created_at=record.created_at,
        updated_at=updated_at,
        source=None if content.origin == UNKNOWN_SOURCE else content.origin,
        deleted_at=record.recorded_at if record.deleted else None,
        version=record.version,
        author=record.author,
        distinct_from=tuple(link.to.id for link in content.links if link.relation == DISTINCT_FROM),
        expires_at=read_time(content, EXPIRES_AT),
        confirmed_at=read_time(content, CONFIRMED_AT),
        stated_at=read_time(content, STATED_AT),
    )


def parse_versions(history: Sequence[Record]) -> list[VaultMemory]:
    """Parse all versions of a memory; each tombstone has the content of the version it ended."""
    versions, last = [], None
    for record in history:
        versions.append(parse_memory(record, last))
        if not record.deleted:
            last = record
    return versions


def encode_version(memory: VaultMemory, author: str = "") -> tuple[bytes, bytes]:
    """Return the log entry, with its digest, of one version of a memory with the memory's times."""
    if memory.deleted_at is not None:
        draft = Draft(
            MEMORY_KIND, id=memory.id, scope=memory.scope, origin=memory.source or UNKNOWN_SOURCE, deleted=True
        )
    else:
        times = {CONFIRMED_AT: memory.confirmed_at, STATED_AT: memory.stated_at}
        notes: dict[str, Any] = {name: to_iso(moment) for name, moment in times.items() if moment is not None}
        draft = memory_draft(memory.to_proposal(), memory.id, expected=None, **notes)
    recorded = memory.deleted_at or memory.updated_at or memory.created_at
    content = encode_draft(draft, author=author).content
    entry = content[:-1] + entry_suffix(memory.version, to_iso(memory.created_at), to_iso(recorded))
    return entry, digest_of(entry)


def proposal_from_record(record: Record) -> MemoryProposal:
    """Return the proposal that would keep the memory as it is, with its author."""
    memory = parse_memory(record)
    return replace(memory.to_proposal(), author=memory.author)


def _text_field(record: Record, name: str) -> str | None:
    value = record.body.get(name)
    return value if isinstance(value, str) else None
