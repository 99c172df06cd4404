"""The vault as the document keeps it: ``vault.jsonl``, one version of a memory per line, in the order they were written.

    {"id": "…", "text": "…", "scope": "shared", "category": "…", "tier": "canon", "topic_id": null, "tags": [],
     "created_at": "…", "updated_at": null, "source": "manual", "deleted_at": null, "version": 1}

A tombstone repeats the fields of what it ends. Ids, versions and times survive the way in and out again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from lukasa import canonical_json
from lukasa.clock import from_iso
from lukasa.errors import FormatError, InvalidInput
from lukasa.journal import Journal
from lukasa.outcome import Refused
from lukasa.storage.engine import Progress, Query
from lukasa.vault import Vault, VaultMemory
from lukasa.vault.memory import parse_memory, parse_versions
from lukasa.vault.settings import MEMORY_KIND

_MAX_LINE_BYTES = 1_000_000
_PROGRESS_INTERVAL = 500
_REQUIRED_FIELDS = ("id", "text")


@dataclass(slots=True)
class VaultImportResult:
    """What an import did: memories and versions taken in, those that were there, and the refused with their lines."""

    memories: int = 0
    versions: int = 0
    present: int = 0
    refused: list[tuple[int, Refused]] = field(default_factory=list)


def export_vault(journal: Journal, target: BinaryIO, progress: Progress | None = None) -> int:
    """Writes every version of every memory the caller may see; returns how many."""
    total = sum(row.versions for row in journal.tally() if row.kind == MEMORY_KIND)
    count = 0
    for record in journal.read(Query(kinds=(MEMORY_KIND,), every_version=True)):
        memory = parse_memory(record)
        if record.deleted:
            memory = next(
                told for told in parse_versions(journal.history(record.key)) if told.version == record.version
            )
        target.write(encode_memory(memory))
        count += 1
        if progress is not None and count % _PROGRESS_INTERVAL == 0:
            progress(count, total)
    return count


def encode_memory(memory: VaultMemory) -> bytes:
    return json.dumps(memory.as_json(), ensure_ascii=False).encode() + b"\n"


def import_vault(vault: Vault, source: BinaryIO, progress: Progress | None = None) -> VaultImportResult:
    """Takes in a vault.jsonl. Each memory passes the gate as it is now; a refused one stays out with its whole history."""
    histories: dict[tuple[str, str], list[VaultMemory]] = {}
    last_lines: dict[tuple[str, str], int] = {}
    result = VaultImportResult()
    for number, memory in read_versions(source):
        if isinstance(memory, Refused):
            result.refused.append((number, memory))
            continue
        key = (memory.scope, memory.id)
        histories.setdefault(key, []).append(memory)
        last_lines[key] = number
    for done, (key, answer) in enumerate(zip(histories, vault.restore(histories.values()), strict=True), 1):
        if isinstance(answer, Refused):
            result.refused.append((last_lines[key], answer))
        elif answer:
            result.memories += 1
            result.versions += answer
        else:
            result.present += 1
        if progress is not None and done % _PROGRESS_INTERVAL == 0:
            progress(done, len(histories))
    result.refused.sort(key=lambda refusal: refusal[0])
    return result


def read_versions(source: BinaryIO) -> Iterator[tuple[int, VaultMemory | Refused]]:
    """Every line with its number, as a version of a memory or with the reason why it is none."""
    for number, raw in enumerate(_read_bounded_lines(source), 1):
        if not raw.strip():
            continue
        try:
            yield number, _parse_version(canonical_json.decode(raw.strip()))
        except (InvalidInput, KeyError, TypeError, ValueError) as error:
            yield number, Refused("bad_line", f"The line is not a memory: {error}")


def _read_bounded_lines(source: BinaryIO) -> Iterator[bytes]:
    while raw := source.readline(_MAX_LINE_BYTES):
        if len(raw) == _MAX_LINE_BYTES and not raw.endswith(b"\n"):
            raise FormatError(f"A line is longer than {_MAX_LINE_BYTES:,} bytes; this is no vault.jsonl.")
        yield raw


def _parse_version(fields: Any) -> VaultMemory:
    if not isinstance(fields, dict) or any(not isinstance(fields.get(name), str) for name in _REQUIRED_FIELDS):
        raise InvalidInput("it needs an id and a text.")
    texts = {name: fields.get(name) for name in ("scope", "category", "tier", "topic_id", "source")}
    if any(value is not None and not isinstance(value, str) for value in texts.values()):
        raise InvalidInput("scope, category, tier, topic_id and source are text.")
    tags, version = fields.get("tags") or [], fields.get("version", 1)
    if not isinstance(tags, list) or version.__class__ is not int or not 0 < version < 2**31:
        raise InvalidInput("tags are a list, and the version is a number from 1 on.")
    times = {name: fields.get(name) for name in ("created_at", "updated_at", "deleted_at")}
    moments = {name: None if value is None else from_iso(str(value)) for name, value in times.items()}
    created = moments["created_at"] or moments["updated_at"] or moments["deleted_at"]
    if created is None:
        raise InvalidInput("it has no created_at.")
    return VaultMemory(
        id=fields["id"],
        text=fields["text"],
        scope=texts["scope"] or "shared",
        category=texts["category"] or "general",
        tier=texts["tier"] or "canon",
        topic_id=texts["topic_id"],
        tags=tuple(tags),
        created_at=created,
        updated_at=moments["updated_at"],
        source=texts["source"],
        deleted_at=moments["deleted_at"],
        version=version,
    )
