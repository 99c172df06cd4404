"""Reports on a vault: statistics, similar memories and deletion candidates. Nothing is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations
from typing import Any

from lukasa.errors import InvalidInput
from lukasa.journal import Journal
from lukasa.pii.detector import describe_findings, find_pii
from lukasa.record import Key, Record
from lukasa.storage.engine import Query
from lukasa.text.similarity import distinct_words, normalise_text, sequence_similarity, word_overlap
from lukasa.vault.checks import find_noise_signal
from lukasa.vault.duplicates import ComparableText
from lukasa.vault.memory import VaultMemory, parse_memory
from lukasa.vault.settings import MEMORY_KIND, REGISTER, VaultSettings

_COMPARE_ALL_LIMIT = 1_500
_MIN_WORDS = 3
_STALE_AFTER = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class SimilarMemoryPair:
    """Two memories and their similarity, by both measures."""

    one: VaultMemory
    other: VaultMemory
    overlap: float
    sequence: float

    @property
    def score(self) -> float:
        return max(self.overlap, self.sequence)


@dataclass(frozen=True, slots=True)
class DeletionSuggestion:
    """A memory that might be deleted, and why."""

    memory: VaultMemory
    code: str
    reason: str


def compute_stats(journal: Journal, settings: VaultSettings) -> dict[str, Any]:
    """Return the document's figures over everything the caller may read."""
    rows = [row for row in journal.tally() if row.kind == MEMORY_KIND]
    active, versions = sum(row.live for row in rows), sum(row.versions for row in rows)
    tiers, categories, topics = Counter[str](), Counter[str](), set[tuple[str, str]]()
    for record in journal.read(Query(kinds=(MEMORY_KIND,))):
        memory = parse_memory(record)
        tiers[memory.tier] += 1
        categories[memory.category] += 1
        if memory.tier == REGISTER and memory.topic_id:
            topics.add((memory.scope, memory.topic_id))
    deleted: set[Key] = set()
    if versions > active:
        for record in journal.read(Query(kinds=(MEMORY_KIND,), every_version=True)):
            if record.deleted:
                deleted.add(record.key)
            else:
                deleted.discard(record.key)
    return {
        "active": active,
        "max": settings.capacity,
        "utilization": round(100 * active / settings.capacity, 1),
        "deleted": len(deleted),
        "raw_lines": versions,
        "bloat_ratio": round(versions / active, 2) if active else float(versions > 0),
        "by_scope": {row.scope: row.live for row in rows if row.live},
        "by_tier": dict(sorted(tiers.items())),
        "by_category": dict(sorted(categories.items())),
        "register_topics": len(topics),
    }


def find_similar_pairs(journal: Journal, scope: str, floor: float) -> list[SimilarMemoryPair]:
    """Return the pairs at or above the floor, most similar first.

    In a large scope only memories that share a pair key are compared.
    """
    if not 0 < floor <= 1:
        raise InvalidInput("The floor must lie above 0 and be at most 1.")
    records = {record.id: record for record in journal.read(Query(kinds=(MEMORY_KIND,), scopes=(scope,)))}
    texts = {id: ComparableText(record.text, scope, id) for id, record in records.items()}
    found = []
    for one, other in _candidate_pairs(texts):
        a, b = texts[one], texts[other]
        overlap = word_overlap(a.words, b.words)
        sequence = sequence_similarity(a.folded_text, b.folded_text, floor=floor)
        if overlap >= floor or sequence >= floor:
            sequence = sequence or sequence_similarity(a.folded_text, b.folded_text)
            found.append(SimilarMemoryPair(parse_memory(records[one]), parse_memory(records[other]), overlap, sequence))
    return sorted(found, key=lambda pair: (-pair.score, pair.one.id, pair.other.id))


def _candidate_pairs(texts: dict[str, ComparableText]) -> Iterator[tuple[str, str]]:
    """Yield the ids of all pairs, or, of many texts, of those that share a pair key; each pair once."""
    if len(texts) <= _COMPARE_ALL_LIMIT:
        yield from combinations(texts, 2)
        return
    ids_by_key: dict[int, list[str]] = {}
    seen: set[tuple[str, str]] = set()
    for id, text in texts.items():
        for key in text.pair_keys:
            for other in ids_by_key.setdefault(key, []):
                pair = (other, id)
                if pair not in seen:
                    seen.add(pair)
                    yield pair
            ids_by_key[key].append(id)


def suggest_deletions(journal: Journal, scope: str, settings: VaultSettings, now: datetime) -> list[DeletionSuggestion]:
    """Suggest near-duplicates of older memories, noise, secrets, scraps and stale registers; each memory once."""
    suggestions: dict[str, DeletionSuggestion] = {}
    for pair in find_similar_pairs(journal, scope, min(settings.overlap_threshold, settings.similarity_threshold)):
        if pair.overlap >= settings.overlap_threshold or pair.sequence >= settings.similarity_threshold:
            older, newer = sorted((pair.one, pair.other), key=lambda memory: (memory.created_at, memory.id))
            figures = f"overlap {pair.overlap:.2f}, sequence {pair.sequence:.2f}"
            reason = f"It says nearly the same as {older.id} ({figures})."
            suggestions.setdefault(newer.id, DeletionSuggestion(newer, "duplicate", reason))
    for record in journal.read(Query(kinds=(MEMORY_KIND,), scopes=(scope,))):
        if (found := next(_deletion_reasons(record, settings, now), None)) is not None:
            suggestions.setdefault(record.id, DeletionSuggestion(parse_memory(record), *found))
    return list(suggestions.values())


def _deletion_reasons(record: Record, settings: VaultSettings, now: datetime) -> Iterator[tuple[str, str]]:
    if findings := find_pii(record.text):
        what = describe_findings(findings)
        yield "pii", f"It holds what looks like {what}; consider `lukasa erase`, which leaves no trace."
    if signal := find_noise_signal(record.text, settings.signals):
        yield "noise", f"It reads like a passing event (“{signal}”)."
    if len(distinct_words(normalise_text(record.text))) < _MIN_WORDS:
        yield "scrap", "It is too short to say anything by itself."
    if record.body.get("tier") == REGISTER:
        if not record.body.get("topic_id"):
            yield "no_topic", "It is a register without a topic, so nothing ever updates it."
        elif now - record.recorded_at > _STALE_AFTER:
            yield "stale", f"It was last updated {(now - record.recorded_at).days} days ago."
