"""Looking a vault over: which memories are alike, which might be deleted. Only proposals; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations

from lukasa.errors import InvalidInput
from lukasa.journal import Journal
from lukasa.pii.detector import describe_findings, find_pii
from lukasa.record import Record
from lukasa.storage.engine import Query
from lukasa.text.similarity import distinct_words, normalise_text, sequence_similarity, word_overlap
from lukasa.vault.duplicates import ComparableText
from lukasa.vault.memory import VaultMemory, parse_memory
from lukasa.vault.noise import find_noise_signal
from lukasa.vault.settings import MEMORY_KIND, REGISTER, VaultSettings

_COMPARE_ALL_LIMIT = 1_500
_MIN_WORDS = 3
_STALE_AFTER = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class SimilarMemoryPair:
    """Two memories that are alike, by both measures."""

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


def find_similar_pairs(journal: Journal, scope: str, floor: float) -> list[SimilarMemoryPair]:
    """Pairs at or above the floor, most alike first. In a large scope only those that share a mark are compared."""
    if not 0 < floor <= 1:
        raise InvalidInput("The floor must lie above 0 and be at most 1.")
    records = list(journal.read(Query(kinds=(MEMORY_KIND,), scopes=(scope,))))
    seen = {record.id: ComparableText(record.text, scope, record.id) for record in records}
    by_id = {record.id: record for record in records}
    found = []
    for one, other in _candidate_pairs(records, seen):
        a, b = seen[one], seen[other]
        shared, same = word_overlap(a.words, b.words), sequence_similarity(a.folded_text, b.folded_text, floor=floor)
        if shared >= floor or same >= floor:
            same = same or sequence_similarity(a.folded_text, b.folded_text)
            found.append(SimilarMemoryPair(parse_memory(by_id[one]), parse_memory(by_id[other]), shared, same))
    return sorted(found, key=lambda pair: (-pair.score, pair.one.id, pair.other.id))


def _candidate_pairs(records: list[Record], texts: dict[str, ComparableText]) -> Iterator[tuple[str, str]]:
    if len(records) <= _COMPARE_ALL_LIMIT:
        yield from combinations((record.id for record in records), 2)
        return
    bearers: dict[int, list[str]] = {}
    met: set[tuple[str, str]] = set()
    for record in records:
        for mark in texts[record.id].pair_keys:
            for other in bearers.setdefault(mark, []):
                pair = (other, record.id)
                if pair not in met:
                    met.add(pair)
                    yield pair
            bearers[mark].append(record.id)


def suggest_deletions(journal: Journal, scope: str, settings: VaultSettings, now: datetime) -> list[DeletionSuggestion]:
    """What might go: near-duplicates of something older, noise, secrets, scraps, registers nobody has touched."""
    found = []
    for pair in find_similar_pairs(journal, scope, min(settings.overlap_threshold, settings.similarity_threshold)):
        if pair.overlap >= settings.overlap_threshold or pair.sequence >= settings.similarity_threshold:
            older, newer = sorted((pair.one, pair.other), key=lambda memory: (memory.created_at, memory.id))
            told = f"It says nearly the same as {older.id} (overlap {pair.overlap:.2f}, sequence {pair.sequence:.2f})."
            found.append(DeletionSuggestion(newer, "duplicate", told))
    for record in journal.read(Query(kinds=(MEMORY_KIND,), scopes=(scope,))):
        found += [
            DeletionSuggestion(parse_memory(record), *reason) for reason in _deletion_reasons(record, settings, now)
        ]
    once = {suggestion.memory.id: suggestion for suggestion in reversed(found)}
    return list(reversed(once.values()))


def _deletion_reasons(record: Record, settings: VaultSettings, now: datetime) -> Iterator[tuple[str, str]]:
    if spotted := find_pii(record.text):
        yield (
            "pii",
            f"It holds what looks like {describe_findings(spotted)}; consider `lukasa erase`, which leaves no trace.",
        )
    if signal := find_noise_signal(record.text, settings.signals):
        yield "noise", f"It reads like a passing event (“{signal}”)."
    if len(distinct_words(normalise_text(record.text))) < _MIN_WORDS:
        yield "scrap", "It is too short to say anything by itself."
    if record.body.get("tier") == REGISTER:
        if not record.body.get("topic_id"):
            yield "no_topic", "It is a register without a topic, so nothing ever updates it."
        elif now - record.recorded_at > _STALE_AFTER:
            yield "stale", f"Nobody has updated it for {(now - record.recorded_at).days} days."
