"""The vault as ``vault.jsonl``: one version of a memory per line, in the order of writing.

    {"id": "…", "text": "…", "scope": "shared", "category": "…", "tier": "canon", "topic_id": null, "tags": [],
     "created_at": "…", "updated_at": null, "source": "manual", "deleted_at": null, "version": 1}

A memory that expires or was confirmed has ``expires_at``, ``confirmed_at`` and ``stated_at`` too. A tombstone repeats the fields of the version that it ends. Import and export keep ids, versions and times.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from lukasa.core import canonical_json
from lukasa.core.clock import from_iso
from lukasa.core.outcome import Refused
from lukasa.errors import InvalidInput
from lukasa.journal import Journal
from lukasa.storage.engine import Progress, Query
from lukasa.storage.files import read_lines
from lukasa.transfer.jsonl import count_versions, track_progress
from lukasa.transfer.layouts import LayoutImportResult
from lukasa.vault import Vault, VaultMemory
from lukasa.vault.memory import parse_memory, parse_versions
from lukasa.vault.settings import MEMORY_KIND

_MAX_LINE_BYTES = 1_000_000


@dataclass(slots=True)
class VaultImportResult:
    """How many memories and versions an import added, how many memories were present, and the refused lines."""

    memories: int = 0
    versions: int = 0
    present: int = 0
    refused: list[tuple[int, Refused]] = field(default_factory=list)


def export_vault(journal: Journal, target: BinaryIO, progress: Progress | None = None) -> int:
    """Write every version of every memory that the caller may read; return their number."""
    total = count_versions(row for row in journal.tally() if row.kind == MEMORY_KIND)
    records = journal.read(Query(kinds=(MEMORY_KIND,), every_version=True))
    count = 0
    for record in track_progress(records, progress, total):
        memory = parse_memory(record)
        if record.deleted:
            versions = parse_versions(journal.history(record.key))
            memory = next(version for version in versions if version.version == record.version)
        target.write(json.dumps(memory.as_json(), ensure_ascii=False).encode() + b"\n")
        count += 1
    return count


def import_vault(vault: Vault, source: BinaryIO, progress: Progress | None = None) -> VaultImportResult:
    """Import a vault.jsonl. Every memory passes the gate; a refused memory is left out with its whole history."""
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
    answers = track_progress(vault.restore(histories.values()), progress, len(histories))
    for key, answer in zip(histories, answers, strict=True):
        if isinstance(answer, Refused):
            result.refused.append((last_lines[key], answer))
        elif answer:
            result.memories += 1
            result.versions += answer
        else:
            result.present += 1
    result.refused.sort(key=lambda refusal: refusal[0])
    return result


def read_folder(vault: Vault, source: Path, scope: str) -> LayoutImportResult:  # noqa: ARG001 - the file names the scopes
    """Import a vault.jsonl, or the one in a folder."""
    with (source / "vault.jsonl" if source.is_dir() else source).open("rb") as file:
        done = import_vault(vault, file)
    refused = [(f"line {line}", why.reason) for line, why in done.refused]
    return LayoutImportResult(done.versions, done.present, refused)


def read_versions(source: BinaryIO) -> Iterator[tuple[int, VaultMemory | Refused]]:
    """Yield every line with its number, as a version of a memory or with the reason why it is refused."""
    for number, line in enumerate(read_lines(source, _MAX_LINE_BYTES), 1):
        if not line.strip():
            continue
        try:
            yield number, _parse_version(canonical_json.decode(line.strip()))
        except (InvalidInput, KeyError, TypeError, ValueError) as error:
            yield number, Refused("bad_line", f"The line is not a memory: {error}")


def _parse_version(fields: Any) -> VaultMemory:
    if not isinstance(fields, dict) or any(not isinstance(fields.get(name), str) for name in ("id", "text")):
        raise InvalidInput("it needs an id and a text.")
    texts = {name: fields.get(name) for name in ("scope", "category", "tier", "topic_id", "source")}
    if any(value is not None and not isinstance(value, str) for value in texts.values()):
        raise InvalidInput("scope, category, tier, topic_id and source are text.")
    tags, version = fields.get("tags") or [], fields.get("version", 1)
    if not isinstance(tags, list) or version.__class__ is not int or not 0 < version < 2**31:
        raise InvalidInput("tags are a list, and the version is a number from 1 on.")
    optional = ("expires_at", "confirmed_at", "stated_at")
    values = {name: fields.get(name) for name in ("created_at", "updated_at", "deleted_at", *optional)}
    times = {name: None if value is None else from_iso(str(value)) for name, value in values.items()}
    created = times["created_at"] or times["updated_at"] or times["deleted_at"]
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
        updated_at=times["updated_at"],
        source=texts["source"],
        deleted_at=times["deleted_at"],
        version=version,
        distinct_from=tuple(id for id in fields.get("distinct_from") or () if isinstance(id, str)),
        expires_at=times["expires_at"],
        confirmed_at=times["confirmed_at"],
        stated_at=times["stated_at"],
    )
