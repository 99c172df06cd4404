"""Memory files of other systems, read as proposals for the vault, to audit or to import them.

- ``vault.jsonl``: the newest version of each memory, unless it is a tombstone;
- the knowledge graph of MCP's memory server (``memory.json``): every observation with its entity, and every relation;
- an export of mem0: every memory with its text.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lukasa.canonical_json import find_bracket_fault
from lukasa.errors import FormatError
from lukasa.outcome import Refused
from lukasa.storage.files import read_limited
from lukasa.transfer.layouts.vault_jsonl import read_versions
from lukasa.vault import MemoryProposal, VaultMemory

_MAX_FILE_BYTES = 512 * 1024 * 1024


def read_proposals(path: Path) -> tuple[str, list[MemoryProposal]]:
    """Return the format of a file and the memories in it."""
    raw = read_limited(path, _MAX_FILE_BYTES)
    document = _parse_json(raw)
    if document is not None and not (isinstance(document, dict) and ("id" in document or "type" in document)):
        found = _graph_proposals(document) or _mem0_proposals(document)
    else:
        lines = [line for line in map(_parse_json, raw.splitlines()) if isinstance(line, dict)]
        entities, relations = ([line for line in lines if line.get("type") == type] for type in ("entity", "relation"))
        is_graph = entities or relations
        found = _graph_proposals({"entities": entities, "relations": relations}) if is_graph else _vault_proposals(path)
    if found is None:
        raise FormatError(
            f"{path} is neither a vault.jsonl, nor a knowledge graph of MCP's memory server, nor an export of mem0."
        )
    return found


def _parse_json(raw: bytes) -> Any:
    try:
        text = raw.decode("utf-8-sig")
        return json.loads(text) if find_bracket_fault(text) is None else None
    except (ValueError, RecursionError):
        return None


def _graph_proposals(document: Any) -> tuple[str, list[MemoryProposal]] | None:
    if not isinstance(document, dict) or not isinstance(document.get("entities"), list):
        return None
    found: list[MemoryProposal] = []
    for entity in document["entities"]:
        if isinstance(entity, dict) and isinstance(entity.get("observations"), list):
            name, kind = str(entity.get("name", "")), str(entity.get("entityType") or "entity")
            category = kind[:100].strip() or "entity"
            texts = [f"{name}: {observation}" for observation in entity["observations"]]
            found += [MemoryProposal(text, category=category, source="import") for text in texts]
    for relation in document.get("relations") or ():
        if isinstance(relation, dict):
            words = (relation.get("from"), relation.get("relationType"), relation.get("to"))
            text = " ".join(str(word) for word in words if word)
            found.append(MemoryProposal(text, category="relation", source="import"))
    return "knowledge graph", found


def _mem0_proposals(document: Any) -> tuple[str, list[MemoryProposal]] | None:
    items = document
    if isinstance(document, dict):
        lists = (document.get(name) for name in ("results", "memories", "data"))
        items = next((value for value in lists if isinstance(value, list)), None)
    if not isinstance(items, list):
        return None
    texts = [_mem0_text(item) for item in items]
    if items and not any(texts):
        return None
    return "mem0 export", [MemoryProposal(text, source="import") for text in texts if text]


def _mem0_text(item: Any) -> str:
    fields = item if isinstance(item, dict) else {"memory": item}
    texts = (fields.get(name) for name in ("memory", "data", "text", "content"))
    return next((text for text in texts if isinstance(text, str)), "")


def _vault_proposals(path: Path) -> tuple[str, list[MemoryProposal]] | None:
    newest: dict[str, VaultMemory] = {}
    with path.open("rb") as source:
        for _, memory in read_versions(source):
            if isinstance(memory, Refused):
                continue
            if memory.id not in newest or newest[memory.id].version <= memory.version:
                newest[memory.id] = memory
    proposals = [
        MemoryProposal(
            memory.text, memory.scope, memory.category, memory.tier, memory.topic_id, memory.tags, memory.source
        )
        for memory in newest.values()
        if memory.deleted_at is None
    ]
    return ("vault.jsonl", proposals) if newest else None
