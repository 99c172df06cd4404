"""The file of the reference MCP memory server (``memory.json``, ``memory.jsonl``): one entity or relation per line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lukasa.core.canonical_json import decode
from lukasa.core.clock import Clock, IdMaker
from lukasa.core.outcome import Refused
from lukasa.errors import InvalidInput
from lukasa.journal import Journal
from lukasa.memory_graph import Entity, MemoryGraph, Relation
from lukasa.storage.files import open_output_file, read_lines
from lukasa.transfer.layouts import LayoutImportResult

_MAX_LINE_BYTES = 50_000_000


def read(journal: Journal, clock: Clock, new_id: IdMaker, source: Path, scope: str) -> LayoutImportResult:  # noqa: ARG001 - as every layout
    """Import a file line by line. Known entities get their new observations; what is present is not written again."""
    graph, result = MemoryGraph(journal, scope), LayoutImportResult()
    with source.open("rb") as file:
        for number, line in enumerate(read_lines(file, _MAX_LINE_BYTES), 1):
            if not line.strip():
                continue
            try:
                item = _parse_item(decode(line.strip()))
            except (InvalidInput, KeyError, TypeError, ValueError) as error:
                reason = str(error) if isinstance(error, InvalidInput) else "not a node"
                result.refused.append((f"line {number}", reason))
                continue
            added: Any
            if isinstance(item, Relation):
                added = graph.create_relations([item])
            else:
                added = graph.create_entities([item])
                if not added and not isinstance(added, Refused):  # a known entity gets its new observations
                    added = graph.add_observations([(item.name, item.observations)])
                    added = added if isinstance(added, Refused) else added[0][1]
            if isinstance(added, Refused):
                result.refused.append((f"line {number}", added.reason))
            elif added:
                result.added += 1
            else:
                result.present += 1
    return result


def write(journal: Journal, target: Path, scope: str) -> int:
    """Write the graph of a scope as the reference server does; return the number of lines."""
    if target.is_dir():
        raise InvalidInput(f"{target} is a folder.", hint="Name a file, such as memory.json.")
    found = MemoryGraph(journal, scope).read_graph()
    lines: list[dict[str, Any]] = [
        {"type": "entity", "name": item.name, "entityType": item.entity_type, "observations": item.observations}
        for item in found.entities
    ]
    lines += [
        {"type": "relation", "from": item.source, "to": item.target, "relationType": item.relation_type}
        for item in found.relations
    ]
    with open_output_file(target.absolute()) as file:
        file.write("\n".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in lines).encode())
    return len(lines)


def _parse_item(fields: Any) -> Entity | Relation:
    if fields["type"] == "entity":
        texts = (fields["name"], fields["entityType"], *fields["observations"])
        item: Entity | Relation = Entity(texts[0], texts[1], tuple(texts[2:]))
    elif fields["type"] == "relation":
        texts = (fields["from"], fields["to"], fields["relationType"])
        item = Relation(*texts)
    else:
        raise ValueError("neither entity nor relation")
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("names and observations are texts")
    return item
