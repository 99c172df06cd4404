"""The reference MCP memory server's file (``memory.json``, ``memory.jsonl``): one entity or relation a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lukasa.canonical_json import decode
from lukasa.clock import Clock, IdMaker
from lukasa.errors import FormatError, InvalidInput
from lukasa.journal import Journal
from lukasa.memory_graph import Entity, MemoryGraph, Relation
from lukasa.outcome import Refused
from lukasa.storage.files import atomic_write
from lukasa.transfer.layouts import LayoutImportResult

_MAX_LINE_BYTES = 50_000_000


def read(journal: Journal, clock: Clock, new_id: IdMaker, source: Path, scope: str) -> LayoutImportResult:  # noqa: ARG001 - as every layout
    """Takes in a file, line by line. What is there already is not written again; new observations are added to it."""
    graph, taken = MemoryGraph(journal, scope), LayoutImportResult()
    with source.open("rb") as file:
        for number, line in _read_lines(file):
            try:
                item = _parse_item(decode(line))
            except (InvalidInput, KeyError, TypeError, ValueError) as error:
                taken.refused.append(
                    (f"line {number}", str(error) if isinstance(error, InvalidInput) else "not a node")
                )
                continue
            new = _add_entity(graph, item) if isinstance(item, Entity) else graph.create_relations([item])
            if isinstance(new, Refused):
                taken.refused.append((f"line {number}", new.reason))
            elif new:
                taken.added += 1
            else:
                taken.present += 1
    return taken


def write(journal: Journal, target: Path, scope: str) -> int:
    """Writes the graph of a scope as the reference server does; how many lines."""
    if target.is_dir():
        raise InvalidInput(f"{target} is a folder.", hint="Name a file, such as memory.json.")
    found = MemoryGraph(journal, scope).read_graph()
    lines = [
        {"type": "entity", "name": each.name, "entityType": each.entity_type, "observations": list(each.observations)}
        for each in found.entities
    ]
    lines += [
        {"type": "relation", "from": each.source, "to": each.target, "relationType": each.relation_type}
        for each in found.relations
    ]
    with atomic_write(target.absolute()) as file:
        file.write("\n".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in lines).encode())
    return len(lines)


def _read_lines(file: Any) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := file.readline(_MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > _MAX_LINE_BYTES:
            raise FormatError(f"Line {number} is longer than {_MAX_LINE_BYTES:,} bytes.")
        if line.strip():
            yield number, line.strip()


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


def _add_entity(graph: MemoryGraph, entity: Entity) -> Any:
    """Makes an entity, or adds what is new of it; what that was."""
    made = graph.create_entities([entity])
    if made or isinstance(made, Refused):
        return made
    added = graph.add_observations([(entity.name, entity.observations)])
    return added if isinstance(added, Refused) else added[0][1]
