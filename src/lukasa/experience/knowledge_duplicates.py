"""Which patterns say the same: groups around the most confident one, found through marks instead of all pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lukasa.experience.knowledge_items import KnowledgeItem
from lukasa.text.similarity import distinct_words, normalise_text, pair_keys, sequence_similarity, word_overlap

_MAX_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class DuplicatePatterns:
    """One pattern that stays, and those that say the same."""

    primary: KnowledgeItem
    others: tuple[KnowledgeItem, ...]


def find_duplicate_patterns(items: Sequence[KnowledgeItem], threshold: float) -> list[DuplicatePatterns]:
    """Groups at a similarity of at least ``threshold``, each around its most confident member; the oldest id on a tie."""
    ordered = sorted(items, key=lambda item: (-item.confidence, item.record.created_at, item.id))
    leaders: list[tuple[KnowledgeItem, str, frozenset[str], list[KnowledgeItem]]] = []
    marked: dict[int, list[int]] = {}
    for item in ordered:
        text = normalise_text(item.record.text[:_MAX_CHARS])
        bag = distinct_words(text)
        own = pair_keys(bag)
        near = sorted({at for mark in own for at in marked.get(mark, ())})
        home = next(
            (at for at in near if text_similarity(text, bag, leaders[at][1], leaders[at][2]) >= threshold), None
        )
        if home is not None:
            leaders[home][3].append(item)
            continue
        for mark in own:
            marked.setdefault(mark, []).append(len(leaders))
        leaders.append((item, text, bag, []))
    return [DuplicatePatterns(leader, tuple(others)) for leader, _, _, others in leaders if others]


def text_similarity(text: str, bag: frozenset[str], other: str, other_bag: frozenset[str]) -> float:
    """How far two texts say the same: by their words or by their letters, whichever is more.

    Texts whose words differ in a denial say the opposite, however alike they look.
    """
    if (bag ^ other_bag) & _NEGATIONS:
        return 0.0
    return max(word_overlap(bag, other_bag), sequence_similarity(text, other))


_NEGATIONS = frozenset(
    {"not", "no", "never", "don't", "cannot", "without", "avoid", "doesn't", "isn't", "won't", "can't"}
)
