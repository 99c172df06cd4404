"""The lexical profile: the document's scoring, word for word."""

from __future__ import annotations

from dataclasses import dataclass

from lukasa.engine import Query, Reader
from lukasa.likeness import coverage, folded, sequence, words
from lukasa.vault.item import VaultMemory, memory_of
from lukasa.vault.rules import KIND

_FEW = 500
SUBSTRING, SEQUENCE = 0.3, 0.4


@dataclass(frozen=True, slots=True)
class Found:
    """A memory that answers, and how well."""

    memory: VaultMemory
    score: float


def score(question: str, text: str) -> float:
    """How well a text answers by the document's measure; 0 when no word matches."""
    asked, told = folded(question), folded(text)
    shared = coverage(words(asked), words(told))
    if not shared:
        return 0.0
    return shared + SUBSTRING * (asked in told) + SEQUENCE * sequence(asked, told)


def lexically(reader: Reader, question: str, scopes: tuple[str, ...], k: int) -> list[Found]:
    """The best memories by that score: among all while there are few, else among the best by words."""
    query = Query(kinds=(KIND,), scopes=scopes, limit=_FEW)
    live = sum(row.live for row in reader.tally() if row.kind == KIND and (not scopes or row.scope in scopes))
    records = reader.read(query) if live <= _FEW else [match.record for match in reader.match_text(question, query)]
    scored = [Found(memory_of(record), found) for record in records if (found := score(question, record.text)) > 0]
    return sorted(scored, key=lambda hit: (-hit.score, hit.memory.id))[: max(k, 0)]
