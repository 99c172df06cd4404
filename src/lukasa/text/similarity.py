"""Similarity of two texts: two exact measures.

``word_overlap`` is the Jaccard index of their words. ``sequence_similarity`` is ``2 · LCS / (|a| + |b|)``, where LCS is the
length of their longest common subsequence of characters (the normalised Indel similarity of ``rapidfuzz``). Python's
``SequenceMatcher.ratio`` takes greedy blocks instead of the longest subsequence, depends on the order of its arguments
and ignores frequent letters of long texts; it is never higher.
"""

from __future__ import annotations


def word_overlap(a: frozenset[str], b: frozenset[str]) -> float:
    """Return the share of all their words that two texts have in common; 0 for texts without words."""
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared) if shared else 0.0


def sequence_similarity(a: str, b: str, *, floor: float = 0.0) -> float:
    """Return the similarity of two normalised texts as sequences of characters; 0 when it is below the floor."""
    from rapidfuzz.distance import Indel  # the import takes longer than opening a store

    return float(Indel.normalized_similarity(a, b, score_cutoff=floor))


def query_coverage(query_words: frozenset[str], text_words: frozenset[str]) -> float:
    """Return the share of the words of a query that a text has."""
    return len(query_words & text_words) / len(query_words) if query_words else 0.0
