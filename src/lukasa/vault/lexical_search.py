"""The lexical profile: the document's scoring, word for word."""

from __future__ import annotations

from dataclasses import dataclass

from lukasa.storage.engine import Query, Reader
from lukasa.text.similarity import distinct_words, normalise_text, query_coverage, sequence_similarity
from lukasa.vault.memory import VaultMemory, parse_memory
from lukasa.vault.settings import MEMORY_KIND

_SCAN_LIMIT = 500
SUBSTRING_WEIGHT, SEQUENCE_WEIGHT = 0.3, 0.4


@dataclass(frozen=True, slots=True)
class VaultHit:
    """A memory that answers, and how well."""

    memory: VaultMemory
    score: float


def lexical_score(question: str, text: str) -> float:
    """How well a text answers by the document's measure; 0 when no word matches."""
    asked, told = normalise_text(question), normalise_text(text)
    shared = query_coverage(distinct_words(asked), distinct_words(told))
    if not shared:
        return 0.0
    return shared + SUBSTRING_WEIGHT * (asked in told) + SEQUENCE_WEIGHT * sequence_similarity(asked, told)


def search_lexically(reader: Reader, question: str, scopes: tuple[str, ...], k: int) -> list[VaultHit]:
    """The best memories by that score: among all while there are few, else among the best by words."""
    query = Query(kinds=(MEMORY_KIND,), scopes=scopes, limit=_SCAN_LIMIT)
    live = sum(row.live for row in reader.tally() if row.kind == MEMORY_KIND and (not scopes or row.scope in scopes))
    records = (
        reader.read(query) if live <= _SCAN_LIMIT else [match.record for match in reader.match_text(question, query)]
    )
    scored = [
        VaultHit(parse_memory(record), found)
        for record in records
        if (found := lexical_score(question, record.text)) > 0
    ]
    return sorted(scored, key=lambda hit: (-hit.score, hit.memory.id))[: max(k, 0)]
