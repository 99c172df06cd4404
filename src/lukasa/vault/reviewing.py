"""Looking a vault over: which memories are alike, which might be deleted. Only proposals; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations

from lukasa.engine import Query
from lukasa.errors import InvalidInput
from lukasa.gate.guard import named, scan
from lukasa.journal import Journal
from lukasa.likeness import folded, overlap, sequence, words
from lukasa.record import Record
from lukasa.vault.duplicates import Seen
from lukasa.vault.item import VaultMemory, memory_of
from lukasa.vault.noise import signal_in
from lukasa.vault.rules import KIND, REGISTER, Rules

_FEW = 1_500
_FEWEST_WORDS = 3
_STALE = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two memories that are alike, by both measures."""

    one: VaultMemory
    other: VaultMemory
    overlap: float
    sequence: float

    @property
    def score(self) -> float:
        return max(self.overlap, self.sequence)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A memory that might be deleted, and why."""

    memory: VaultMemory
    code: str
    reason: str


def alike_pairs(journal: Journal, scope: str, floor: float) -> list[Pair]:
    """Pairs at or above the floor, most alike first. In a large scope only those that share a mark are compared."""
    if not 0 < floor <= 1:
        raise InvalidInput("The floor must lie above 0 and be at most 1.")
    records = list(journal.read(Query(kinds=(KIND,), scopes=(scope,))))
    seen = {record.id: Seen(record.text, scope, record.id) for record in records}
    by_id = {record.id: record for record in records}
    found = []
    for one, other in _pairs(records, seen):
        a, b = seen[one], seen[other]
        shared, same = overlap(a.words, b.words), sequence(a.folded, b.folded, floor=floor)
        if shared >= floor or same >= floor:
            same = same or sequence(a.folded, b.folded)
            found.append(Pair(memory_of(by_id[one]), memory_of(by_id[other]), shared, same))
    return sorted(found, key=lambda pair: (-pair.score, pair.one.id, pair.other.id))


def _pairs(records: list[Record], seen: dict[str, Seen]) -> Iterator[tuple[str, str]]:
    if len(records) <= _FEW:
        yield from combinations((record.id for record in records), 2)
        return
    bearers: dict[int, list[str]] = {}
    met: set[tuple[str, str]] = set()
    for record in records:
        for mark in seen[record.id].marks:
            for other in bearers.setdefault(mark, []):
                pair = (other, record.id)
                if pair not in met:
                    met.add(pair)
                    yield pair
            bearers[mark].append(record.id)


def suggestions(journal: Journal, scope: str, rules: Rules, now: datetime) -> list[Suggestion]:
    """What might go: near-duplicates of something older, noise, secrets, scraps, registers nobody has touched."""
    found = []
    for pair in alike_pairs(journal, scope, min(rules.overlap_threshold, rules.similarity_threshold)):
        if pair.overlap >= rules.overlap_threshold or pair.sequence >= rules.similarity_threshold:
            older, newer = sorted((pair.one, pair.other), key=lambda memory: (memory.created_at, memory.id))
            told = f"It says nearly the same as {older.id} (overlap {pair.overlap:.2f}, sequence {pair.sequence:.2f})."
            found.append(Suggestion(newer, "duplicate", told))
    for record in journal.read(Query(kinds=(KIND,), scopes=(scope,))):
        found += [Suggestion(memory_of(record), *reason) for reason in _reasons(record, rules, now)]
    once = {suggestion.memory.id: suggestion for suggestion in reversed(found)}
    return list(reversed(once.values()))


def _reasons(record: Record, rules: Rules, now: datetime) -> Iterator[tuple[str, str]]:
    if spotted := scan(record.text):
        yield "pii", f"It holds what looks like {named(spotted)}; consider `lukasa erase`, which leaves no trace."
    if signal := signal_in(record.text, rules.signals):
        yield "noise", f"It reads like a passing event (“{signal}”)."
    if len(words(folded(record.text))) < _FEWEST_WORDS:
        yield "scrap", "It is too short to say anything by itself."
    if record.body.get("tier") == REGISTER:
        if not record.body.get("topic_id"):
            yield "no_topic", "It is a register without a topic, so nothing ever updates it."
        elif now - record.recorded_at > _STALE:
            yield "stale", f"Nobody has updated it for {(now - record.recorded_at).days} days."
