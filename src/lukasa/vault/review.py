"""Reports on a vault: statistics, similar memories and deletion candidates. Nothing is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import combinations
from typing import Any

from lukasa.core.record import Key, Record
from lukasa.errors import InvalidInput
from lukasa.journal import Journal
from lukasa.models.embedder import Embedder
from lukasa.pii.detector import describe_findings, find_pii
from lukasa.storage.engine import Query
from lukasa.text.differences import TextDifference, find_difference
from lukasa.text.similarity import sequence_similarity, word_overlap
from lukasa.text.terms import distinct_words, normalise_text
from lukasa.vault.checks import ComparableText, find_noise_signal
from lukasa.vault.memory import VaultMemory, parse_memory
from lukasa.vault.settings import MEMORY_KIND, REGISTER, VaultSettings

_COMPARE_ALL_LIMIT = 1_500
_MIN_WORDS = 3
_STALE_AFTER = timedelta(days=90)
_MEANING_BLOCK = 512
MEANING_FLOOR = 0.60
"""The cosine from which two memories are proposed for merging by meaning alone."""
_UNMERGEABLE_KINDS = frozenset(("number", "date", "weekday", "unit", "antonym", "order"))


@dataclass(frozen=True, slots=True)
class SimilarMemoryPair:
    """Two memories, their similarity by words, characters and meaning, and the first difference in what they state.

    ``meaning`` is the cosine of their vectors, 0 where it was not compared.
    """

    one: VaultMemory
    other: VaultMemory
    overlap: float
    sequence: float
    meaning: float = 0.0
    difference: TextDifference | None = None

    @property
    def score(self) -> float:
        return max(self.overlap, self.sequence, self.meaning)

    @property
    def is_declared_distinct(self) -> bool:
        """Whether a writer said that the two state different facts."""
        return self.one.id in self.other.distinct_from or self.other.id in self.one.distinct_from


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


def find_similar_pairs(
    journal: Journal, scope: str, floor: float, embedder: Embedder | None = None
) -> list[SimilarMemoryPair]:
    """Return the pairs at or above the floor by words or characters, and those alike in meaning; most similar first.

    In a large scope only memories that share a pair key are compared by words. Meaning is compared if there is an embedder
    that knows it; a pair that is alike in meaning alone is left out if the two name different numbers or days.
    """
    if not 0 < floor <= 1:
        raise InvalidInput("The floor must lie above 0 and be at most 1.")
    records = {record.id: record for record in journal.read(Query(kinds=(MEMORY_KIND,), scopes=(scope,)))}
    texts = {id: ComparableText(record.text, scope, id) for id, record in records.items()}
    found: dict[tuple[str, str], SimilarMemoryPair] = {}
    for one, other in _candidate_pairs(texts):
        a, b = texts[one], texts[other]
        overlap = word_overlap(a.words, b.words)
        sequence = sequence_similarity(a.folded_text, b.folded_text, floor=floor)
        if overlap >= floor or sequence >= floor:
            sequence = sequence or sequence_similarity(a.folded_text, b.folded_text)
            found[one, other] = SimilarMemoryPair(
                parse_memory(records[one]),
                parse_memory(records[other]),
                overlap,
                sequence,
                difference=find_difference(a.text, b.text),
            )
    for one, other, meaning in _find_pairs_by_meaning(texts, embedder):
        if (known := found.get((one, other))) is not None:
            found[one, other] = replace(known, meaning=meaning)
            continue
        a, b = texts[one], texts[other]
        difference = find_difference(a.text, b.text)
        if difference is None or difference.kind not in _UNMERGEABLE_KINDS:
            found[one, other] = SimilarMemoryPair(
                parse_memory(records[one]),
                parse_memory(records[other]),
                word_overlap(a.words, b.words),
                sequence_similarity(a.folded_text, b.folded_text),
                meaning,
                difference,
            )
    pairs = (pair for pair in found.values() if not pair.is_declared_distinct)
    return sorted(pairs, key=lambda pair: (-pair.score, pair.one.id, pair.other.id))


def _find_pairs_by_meaning(
    texts: Mapping[str, ComparableText], embedder: Embedder | None
) -> Iterator[tuple[str, str, float]]:
    """Yield the ids and the cosine of every two texts that are alike in meaning."""
    if embedder is None or not knows_meaning(embedder) or len(texts) < 2:
        return
    import numpy as np

    ids = list(texts)
    vectors = embedder.embed([texts[id].text for id in ids])
    for start in range(0, len(ids), _MEANING_BLOCK):
        block = vectors[start : start + _MEANING_BLOCK] @ vectors.T
        for row, column in np.argwhere(block >= MEANING_FLOOR).tolist():
            if start + row < column:
                yield ids[start + row], ids[column], float(block[row, column])


def knows_meaning(embedder: Embedder) -> bool:
    """Tell whether an embedder compares meanings, not only words."""
    return not embedder.name.startswith("hash")


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
        if settings.duplicates == "facts" and pair.difference is not None:
            continue
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
