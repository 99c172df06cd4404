"""The lexical search profile: the document's scoring."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lukasa.core.freshness import is_expired
from lukasa.storage.engine import Query, Reader
from lukasa.storage.reader import MAX_QUERY_LENGTH
from lukasa.text.similarity import query_coverage, sequence_similarity
from lukasa.text.terms import distinct_words, normalise_text
from lukasa.vault.memory import VaultMemory, parse_memory
from lukasa.vault.settings import MEMORY_KIND

_SCAN_LIMIT = 500
SUBSTRING_WEIGHT, SEQUENCE_WEIGHT = 0.3, 0.4


@dataclass(frozen=True, slots=True)
class VaultHit:
    """A memory that answers a question, and its score."""

    memory: VaultMemory
    score: float
    superseded_by: str | None = None
    """The id of the newest later record about the same subject that says otherwise."""
    contradicts: str | None = None
    """The id of an earlier record that says otherwise and comes from an author who is trusted clearly more."""


def lexical_score(question: str, text: str) -> float:
    """Score a text by the document's formula; 0 when no word matches."""
    folded_question, folded_text = normalise_text(question), normalise_text(text)
    coverage = query_coverage(distinct_words(folded_question), distinct_words(folded_text))
    if not coverage:
        return 0.0
    sequence = sequence_similarity(folded_question, folded_text)
    return coverage + SUBSTRING_WEIGHT * (folded_question in folded_text) + SEQUENCE_WEIGHT * sequence


def search_lexically(
    reader: Reader, question: str, scopes: tuple[str, ...], k: int, now: datetime | None = None
) -> list[VaultHit]:
    """Return the ``k`` best memories by lexical score; a large vault is narrowed down by the text index first.

    Memories that have expired at ``now`` are left out.
    """
    question = question[:MAX_QUERY_LENGTH]
    query = Query(kinds=(MEMORY_KIND,), scopes=scopes, limit=_SCAN_LIMIT)
    live = sum(row.live for row in reader.tally() if row.kind == MEMORY_KIND and (not scopes or row.scope in scopes))
    is_large = live > _SCAN_LIMIT
    records = (
        [match.record for match in reader.match_text(question, query, ranks_only=True)]
        if is_large
        else reader.read(query)
    )
    current = (record for record in records if now is None or not is_expired(record, now))
    hits = (VaultHit(parse_memory(record), lexical_score(question, record.text)) for record in current)
    return sorted((hit for hit in hits if hit.score > 0), key=lambda hit: (-hit.score, hit.memory.id))[: max(k, 0)]
