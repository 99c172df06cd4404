"""What a vault holds, in figures."""

from __future__ import annotations

from collections import Counter
from typing import Any

from lukasa.engine import Query
from lukasa.journal import Journal
from lukasa.record import Key
from lukasa.vault.item import memory_of
from lukasa.vault.rules import KIND, REGISTER, Rules


def stats_of(journal: Journal, rules: Rules) -> dict[str, Any]:
    """The document's figures, over all the caller may see."""
    rows = [row for row in journal.tally() if row.kind == KIND]
    active, lines = sum(row.live for row in rows), sum(row.versions for row in rows)
    tiers, categories, topics = Counter[str](), Counter[str](), set[tuple[str, str]]()
    for record in journal.read(Query(kinds=(KIND,))):
        memory = memory_of(record)
        tiers[memory.tier] += 1
        categories[memory.category] += 1
        if memory.tier == REGISTER and memory.topic_id:
            topics.add((memory.scope, memory.topic_id))
    return {
        "active": active,
        "max": rules.capacity,
        "utilization": round(100 * active / rules.capacity, 1),
        "deleted": _deleted(journal) if lines > active else 0,
        "raw_lines": lines,
        "bloat_ratio": round(lines / active, 2) if active else float(lines > 0),
        "by_scope": {row.scope: row.live for row in rows if row.live},
        "by_tier": dict(sorted(tiers.items())),
        "by_category": dict(sorted(categories.items())),
        "register_topics": len(topics),
    }


def _deleted(journal: Journal) -> int:
    """How many memories were forgotten and not remembered again."""
    gone: set[Key] = set()
    for record in journal.read(Query(kinds=(KIND,), every_version=True)):
        if record.deleted:
            gone.add(record.key)
        else:
            gone.discard(record.key)
    return len(gone)
