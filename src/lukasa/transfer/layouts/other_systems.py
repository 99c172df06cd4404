"""Memory files of other systems, read as proposals for the vault: to audit them, or to bring in what passes.

- ``vault.jsonl``: the newest version of each memory, unless it is a tombstone;
- the knowledge graph of MCP's memory server (``memory.json``): every observation with its entity, every relation;
- an export of mem0: every memory with its text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lukasa.errors import FormatError
from lukasa.outcome import Refused
from lukasa.transfer.layouts.vault_jsonl import read_versions
from lukasa.vault import MemoryProposal, VaultMemory

_MAX_FILE_BYTES = 512 * 1024 * 1024


def read_proposals(path: Path) -> tuple[str, list[MemoryProposal]]:
    """The name of a file's format, and what it would have the vault keep."""
    if path.stat().st_size > _MAX_FILE_BYTES:
        raise FormatError(f"{path} is larger than {_MAX_FILE_BYTES:,} bytes.")
    raw = path.read_bytes()
    whole = _parse_json(raw)
    if whole is not None and not (isinstance(whole, dict) and ("id" in whole or "type" in whole)):
        found = _graph_proposals(whole) or _mem0_proposals(whole)
    else:
        lines = [_parse_json(line) for line in raw.splitlines() if line.strip()]
        entities = [line for line in lines if isinstance(line, dict) and line.get("type") in ("entity", "relation")]
        found = _graph_proposals(_group_by_type(entities)) if entities else _vault_proposals(path)
    if found is None:
        raise FormatError(
            f"{path} is neither a vault.jsonl, nor a knowledge graph of MCP's memory server, nor an export of mem0."
        )
    return found


def _parse_json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def _group_by_type(lines: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "entities": [line for line in lines if line["type"] == "entity"],
        "relations": [line for line in lines if line["type"] == "relation"],
    }


def _graph_proposals(document: Any) -> tuple[str, list[MemoryProposal]] | None:
    if not isinstance(document, dict) or not isinstance(document.get("entities"), list):
        return None
    found: list[MemoryProposal] = []
    for entity in document["entities"]:
        if isinstance(entity, dict):
            name, kind = str(entity.get("name", "")), str(entity.get("entityType") or "entity")
            observations = entity.get("observations")
            for said in observations if isinstance(observations, list) else ():
                found.append(
                    MemoryProposal(f"{name}: {said}", category=kind[:100].strip() or "entity", source="import")
                )
    for relation in document.get("relations") or ():
        if isinstance(relation, dict):
            words = (relation.get("from"), relation.get("relationType"), relation.get("to"))
            found.append(
                MemoryProposal(" ".join(str(word) for word in words if word), category="relation", source="import")
            )
    return "knowledge graph", found


def _mem0_proposals(document: Any) -> tuple[str, list[MemoryProposal]] | None:
    items = document
    if isinstance(document, dict):
        items = next(
            (document[name] for name in ("results", "memories", "data") if isinstance(document.get(name), list)), None
        )
    if not isinstance(items, list):
        return None
    texts = [_mem0_text(item) for item in items]
    if items and not any(texts):
        return None
    return "mem0 export", [MemoryProposal(text, source="import") for text in texts if text]


def _mem0_text(item: Any) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, dict):
        return next(
            (item[name] for name in ("memory", "data", "text", "content") if isinstance(item.get(name), str)), ""
        )
    return ""


def _vault_proposals(path: Path) -> tuple[str, list[MemoryProposal]] | None:
    newest: dict[str, VaultMemory] = {}
    readable = False
    with path.open("rb") as source:
        for _, memory in read_versions(source):
            if isinstance(memory, Refused):
                continue
            readable = True
            if memory.id not in newest or newest[memory.id].version <= memory.version:
                newest[memory.id] = memory
    return ("vault.jsonl", list(_current_proposals(newest))) if readable else None


def _current_proposals(newest: dict[str, VaultMemory]) -> Iterator[MemoryProposal]:
    for told in newest.values():
        if told.deleted_at is None:
            yield MemoryProposal(told.text, told.scope, told.category, told.tier, told.topic_id, told.tags, told.source)
