"""Files with memories: an export of mem0, the knowledge graph of MCP's memory server, and a vault.jsonl."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from lukasa.core.outcome import Refused
from lukasa.errors import FormatError
from lukasa.storage.files import read_limited
from lukasa.transfer.layouts.vault_jsonl import read_versions
from lukasa.transfer.sources import MAX_FILE_BYTES, SourceItem, SourceMemory, Unreadable, make_memory, parse_moment
from lukasa.transfer.sources.files import modified_at, read_json
from lukasa.vault import VaultMemory

_MEM0_LISTS = ("results", "memories", "data")
_MEM0_TEXTS = ("memory", "data", "text", "content")
_MEM0_NAMES = ("user_id", "agent_id", "app_id", "run_id")


def detect_file(path: Path) -> str | None:
    """Return the format of a file with memories."""
    if not path.is_file():
        return None
    document = _parse(path)
    if isinstance(document, Mapping) and isinstance(document.get("entities"), list):
        return "knowledge-graph"
    if _find_mem0_items(document) is not None:
        return "mem0"
    with path.open("rb") as source:
        if any(not isinstance(memory, Refused) for _, memory in read_versions(source)):
            return "vault"
    return None


def read_mem0(path: Path) -> Iterator[SourceItem]:
    """Yield the memories of an export of mem0, with their times, categories and the names they belong to."""
    items = _find_mem0_items(_parse(path))
    if items is None:
        raise FormatError(f"{path} is not an export of mem0.")
    changed = modified_at(path)
    for number, item in enumerate(items, 1):
        fields = item if isinstance(item, dict) else {"memory": item}
        text = next((fields[name] for name in _MEM0_TEXTS if isinstance(fields.get(name), str)), "")
        if not text:
            yield Unreadable(f"entry {number}", "It has no text.")
            continue
        categories = [name for name in fields.get("categories") or () if isinstance(name, str)]
        memory = make_memory(
            "mem0",
            str(fields.get("id") or text),
            text,
            parse_moment(fields.get("created_at")) or changed,
            updated_at=parse_moment(fields.get("updated_at")),
            category=categories[0] if categories else "general",
            tags=[*categories[1:], *(f"{name}={fields[name]}" for name in _MEM0_NAMES if fields.get(name))],
        )
        yield SourceMemory(f"entry {number}", memory)


def read_graph(path: Path) -> Iterator[SourceItem]:
    """Yield every observation with its entity, and every relation, as a sentence."""
    document, changed = _parse(path), modified_at(path)
    if not isinstance(document, Mapping) or not isinstance(document.get("entities"), list):
        raise FormatError(f"{path} is not a knowledge graph of MCP's memory server.")
    for entity in document["entities"]:
        if isinstance(entity, dict) and isinstance(entity.get("observations"), list):
            name, kind = str(entity.get("name", "")), str(entity.get("entityType") or "entity")
            for observation in entity["observations"]:
                yield _graph_memory(f"{name}: {observation}", kind[:100].strip() or "entity", changed)
    for relation in document.get("relations") or ():
        if isinstance(relation, dict):
            words = (relation.get("from"), relation.get("relationType"), relation.get("to"))
            yield _graph_memory(" ".join(str(word) for word in words if word), "relation", changed)


def _graph_memory(text: str, category: str, changed: datetime) -> SourceMemory:
    return SourceMemory(
        f"{category} {text[:60]!r}", make_memory("knowledge-graph", text, text, changed, category=category)
    )


def read_vault(path: Path) -> Iterator[SourceItem]:
    """Yield the newest version of each memory of a vault.jsonl, unless it was deleted."""
    newest: dict[tuple[str, str], tuple[int, VaultMemory]] = {}
    with path.open("rb") as source:
        for number, memory in read_versions(source):
            if isinstance(memory, Refused):
                yield Unreadable(f"line {number}", memory.reason)
                continue
            key = (memory.scope, memory.id)
            if key not in newest or newest[key][1].version <= memory.version:
                newest[key] = (number, memory)
    for number, memory in newest.values():
        if memory.deleted_at is None:
            yield SourceMemory(f"line {number}", memory)


def _parse(path: Path) -> Any:
    """Return the document in a JSON file, or the entities and relations of a file with one of them per line."""
    raw = read_limited(path, MAX_FILE_BYTES)
    try:
        document = read_json(raw, str(path))
        if not (isinstance(document, dict) and "type" in document):
            return document
    except FormatError:
        document = None
    lines: list[Any] = []
    for line in raw.splitlines():
        try:
            lines.append(read_json(line, str(path)) if line.strip() else None)
        except FormatError:
            return None
    kinds: dict[str, list[Any]] = {"entity": [], "relation": []}
    for item in lines:
        if isinstance(item, dict) and item.get("type") in kinds:
            kinds[item["type"]].append(item)
    return {"entities": kinds["entity"], "relations": kinds["relation"]} if any(kinds.values()) else None


def _find_mem0_items(document: Any) -> list[Any] | None:
    """Return the memories of an export of mem0; ``None`` if the document is none."""
    lists = [document.get(name) for name in _MEM0_LISTS] if isinstance(document, dict) else [document]
    items = next((value for value in lists if isinstance(value, list)), None)
    if items is None:
        return None
    has_text = any(
        isinstance(item, str)
        or (isinstance(item, dict) and any(isinstance(item.get(name), str) for name in _MEM0_TEXTS))
        for item in items
    )
    return items if has_text or not items else None
