"""What a vault holds, in figures."""

from __future__ import annotations

from collections import Counter
from typing import Any

from lukasa.journal import Journal
from lukasa.record import Key
from lukasa.storage.engine import Query
from lukasa.vault.memory import parse_memory
from lukasa.vault.settings import MEMORY_KIND, REGISTER, VaultSettings


def compute_stats(journal: Journal, settings: VaultSettings) -> dict[str, Any]:
    """The document's figures, over all the caller may see."""
    rows = [row for row in journal.tally() if row.kind == MEMORY_KIND]
    active, lines = sum(row.live for row in rows), sum(row.versions for row in rows)
    tiers, categories, topics = Counter[str](), Counter[str](), set[tuple[str, str]]()
    for record in journal.read(Query(kinds=(MEMORY_KIND,))):
        memory = parse_memory(record)
        tiers[memory.tier] += 1
        categories[memory.category] += 1
        if memory.tier == REGISTER and memory.topic_id:
            topics.add((memory.scope, memory.topic_id))
    return {
        "active": active,
        "max": settings.capacity,
        "utilization": round(100 * active / settings.capacity, 1),
        "deleted": _count_deleted(journal) if lines > active else 0,
        "raw_lines": lines,
        "bloat_ratio": round(lines / active, 2) if active else float(lines > 0),
        "by_scope": {row.scope: row.live for row in rows if row.live},
        "by_tier": dict(sorted(tiers.items())),
        "by_category": dict(sorted(categories.items())),
        "register_topics": len(topics),
    }


def _count_deleted(journal: Journal) -> int:
    """How many memories were forgotten and not remembered again."""
    gone: set[Key] = set()
    for record in journal.read(Query(kinds=(MEMORY_KIND,), every_version=True)):
        if record.deleted:
            gone.add(record.key)
        else:
            gone.discard(record.key)
    return len(gone)
