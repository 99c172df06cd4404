"""Near-duplicates: found among all memories of a scope without reading them all.

In a scope of at most ``FEW`` memories a text is compared with every one of them. In a larger one it is compared with
those that share a mark with it (``lukasa.text.similarity``): for the overlap of words the verdict is the same as comparing
with everything; for sequences of characters it is that for texts that also share two telling words. A mark that more
than ``EACH`` memories bear brings the newest of them, and those that share another mark besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from lukasa.storage.engine import Query, Reader
from lukasa.text.similarity import (
    distinct_words,
    normalise_text,
    sequence_similarities,
    sequence_similarity,
    text_pair_keys,
    word_overlap,
)
from lukasa.vault.settings import MEMORY_KIND, VaultSettings

COMPARE_ALL_LIMIT = 128
MAX_CANDIDATES_PER_KEY = 8


@dataclass(frozen=True, slots=True)
class DuplicateMatch:
    """How alike a memory is to a text, by both measures."""

    id: str
    scope: str
    overlap: float
    sequence: float

    @property
    def score(self) -> float:
        return max(self.overlap, self.sequence)


class ComparableText:
    """A text as it is compared: folded, with its words and marks."""

    def __init__(self, text: str, scope: str, id: str = "") -> None:
        self.text = text
        self.scope = scope
        self.id = id
        self.folded_text = normalise_text(text)

    @cached_property
    def words(self) -> frozenset[str]:
        return distinct_words(self.folded_text)

    @cached_property
    def pair_keys(self) -> tuple[int, ...]:
        return text_pair_keys(self.text, self.scope, MEMORY_KIND)


def find_duplicates(
    text: ComparableText, others: Sequence[ComparableText], settings: VaultSettings
) -> list[DuplicateMatch]:
    """Which of the others are so much like a text that they can be called one, and how much."""
    same = sequence_similarities(
        text.folded_text, [other.folded_text for other in others], settings.similarity_threshold
    )
    found = []
    for at, other in enumerate(others):
        if at in same or _may_overlap(text, other, settings.overlap_threshold):
            shared = word_overlap(text.words, other.words)
            if at in same or shared >= settings.overlap_threshold:
                found.append(
                    DuplicateMatch(
                        other.id,
                        other.scope,
                        shared,
                        same.get(at) or sequence_similarity(text.folded_text, other.folded_text),
                    )
                )
    return found


def _may_overlap(text: ComparableText, other: ComparableText, threshold: float) -> bool:
    """A quick look before the words of the other are taken apart: it must have enough of these somewhere in it."""
    there = other.folded_text
    return sum([word in there for word in text.words]) >= threshold * len(text.words)


class DuplicateIndex:
    """The memories that some texts are compared with, within one decision: those kept, and those it adds itself.

    The store is asked once for all of the texts: within a decision nobody else adds anything.
    """

    def __init__(self, reader: Reader, settings: VaultSettings, texts: Iterable[ComparableText]) -> None:
        self._settings = settings
        self._candidates_by_scope: dict[str, dict[str, ComparableText]] = {}
        self._texts_by_key: dict[int, list[ComparableText]] = {}
        by_scope: dict[str, list[ComparableText]] = {}
        for text in texts:
            by_scope.setdefault(text.scope, []).append(text)
        live = {row.scope: row.live for row in reader.tally() if row.kind == MEMORY_KIND} if by_scope else {}
        for scope, asked in by_scope.items():
            if live.get(scope, 0) <= COMPARE_ALL_LIMIT:
                records = reader.read(Query(kinds=(MEMORY_KIND,), scopes=(scope,)))
                self._candidates_by_scope[scope] = {
                    record.id: ComparableText(record.text, scope, record.id) for record in records
                }
                continue
            bearers = reader.near_duplicates(
                [text.pair_keys for text in asked], scope, kind=MEMORY_KIND, limit_per_key=MAX_CANDIDATES_PER_KEY
            )
            if len(asked) == 1:  # then all of them bear a mark of this one
                self._candidates_by_scope[scope] = {id: ComparableText(said, scope, id) for id, said, _ in bearers}
                continue
            for id, said, borne in bearers:
                self._index_text(ComparableText(said, scope, id), borne)

    def find_nearest(self, text: ComparableText, *, exclude_id: str = "") -> DuplicateMatch | None:
        """The memory that a text repeats, if there is one; ``but`` names one that does not count."""
        found = find_duplicates(
            text, [other for other in self._candidates(text) if other.id != exclude_id], self._settings
        )
        return max(found, key=lambda each: (each.score, each.id), default=None)

    def add(self, text: ComparableText) -> None:
        """Counts a text that the decision is going to keep."""
        if text.scope in self._candidates_by_scope:
            self._candidates_by_scope[text.scope][text.id] = text
        else:
            self._index_text(text, text.pair_keys)

    def _index_text(self, text: ComparableText, keys: Iterable[int]) -> None:
        for mark in keys:
            self._texts_by_key.setdefault(mark, []).append(text)

    def _candidates(self, text: ComparableText) -> Iterable[ComparableText]:
        if text.scope in self._candidates_by_scope:
            return self._candidates_by_scope[text.scope].values()
        bearers = self._texts_by_key
        near = {other.id: other for mark in text.pair_keys if mark in bearers for other in bearers[mark]}
        return [other for other in near.values() if other.scope == text.scope]
