"""Duplicate patterns: which patterns say the same, in the same or in other words.

The similarity of two patterns is the largest of three: the overlap of their words, of their characters, and the cosine of
their vectors if the store's embedder knows meaning. Patterns that differ in a number, name, date, unit, negation or
antonym, or in one word of texts that are otherwise the same, are never duplicates, however similar they look.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lukasa.text.differences import find_difference
from lukasa.text.similarity import sequence_similarity, word_overlap
from lukasa.text.terms import distinct_words, normalise_text, pair_keys

if TYPE_CHECKING:
    from lukasa.experience.knowledge import KnowledgeItem
    from lukasa.models.embedder import Embedder

_MAX_COMPARED_CHARS = 2_000
_WORDING_KINDS = frozenset(("word", "order", "tense", "person"))
"""Differences that a rewording makes."""
_SAME_WORDS = 0.8


def find_duplicate_patterns(
    items: Iterable[KnowledgeItem], threshold: float, embedder: Embedder | None = None
) -> list[tuple[KnowledgeItem, list[KnowledgeItem]]]:
    """Group patterns that are at least ``threshold`` similar; the module says how.

    Each group is the pattern that stays, the most confident one or the oldest of several, and its duplicates. Candidates
    by words are found by near-duplicate keys instead of comparing all pairs.
    """
    ordered = sorted(items, key=lambda item: (-item.confidence, item.record.created_at, item.id))
    texts = [item.record.text[:_MAX_COMPARED_CHARS] for item in ordered]
    vectors = None
    if embedder is not None and not embedder.name.startswith("hash") and len(texts) > 1:
        vectors = embedder.embed(texts)
    groups: dict[int, list[int]] = {}
    groups_by_key: dict[int, list[int]] = {}
    for index, text in enumerate(texts):
        keys = pair_keys(distinct_words(normalise_text(text)))
        near = {group: 0.0 for key in keys for group in groups_by_key.get(key, ())}
        if vectors is not None and groups:
            cosines = (vectors[list(groups)] @ vectors[index]).tolist()
            near |= {group: cosine for group, cosine in zip(groups, cosines, strict=True) if cosine >= threshold}
        for group in sorted(near):
            if max(_compare_words(text, texts[group]), near[group]) >= threshold and is_rewording(text, texts[group]):
                groups[group].append(index)
                break
        else:
            groups[index] = []
            for key in keys:
                groups_by_key.setdefault(key, []).append(index)
    return [(ordered[group], [ordered[index] for index in same]) for group, same in groups.items() if same]


def _compare_words(a: str, b: str) -> float:
    text, other = normalise_text(a), normalise_text(b)
    return max(word_overlap(distinct_words(text), distinct_words(other)), sequence_similarity(text, other))


def is_rewording(a: str, b: str) -> bool:
    """Return whether two texts differ in their wording only."""
    difference = find_difference(a, b)
    if difference is not None and difference.kind == "name":  # the first word of a sentence looks like a name
        difference = find_difference(a[:1].lower() + a[1:], b[:1].lower() + b[1:])
    if difference is None:
        return True
    if difference.kind not in _WORDING_KINDS:
        return False
    is_substitution = difference.kind == "word" and bool(difference.here and difference.there)
    return not is_substitution or _compare_words(a, b) < _SAME_WORDS
