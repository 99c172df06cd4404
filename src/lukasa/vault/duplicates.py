"""Search for near-duplicates among the memories of a scope without reading them all.

A memory is similar to a text past one of the document's thresholds. It is a duplicate if, besides, the two state the same
fact (``lukasa.text.differences``); with the rule ``document`` every similar memory is a duplicate.

In a scope of at most ``COMPARE_ALL_LIMIT`` memories a text is compared with each of them. In a larger scope it is compared
with those that share a pair key with it (``lukasa.text.similarity``). For the overlap of words the verdict is the same as
comparing with everything; for sequences of characters it is the same for texts that also share two content words. Of a
key that more than ``MAX_CANDIDATES_PER_KEY`` memories share, the newest are compared, and those that share another key.
A text that is similar to so many memories and repeats none of them is also compared with those the text index finds.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from lukasa.storage.engine import Query, Reader
from lukasa.text.differences import TextDifference, find_difference
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
MAX_COMPARED_FACTS = 24
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class DuplicateMatch:
    """The similarity of a memory to a text by both measures, and what they say differently if the rule asks for it."""

    id: str
    scope: str
    overlap: float
    sequence: float
    difference: TextDifference | None = None

    @property
    def score(self) -> float:
        return max(self.overlap, self.sequence)

    @property
    def is_duplicate(self) -> bool:
        return self.difference is None


class ComparableText:
    """A text with the forms in which it is compared: folded text, words and pair keys."""

    def __init__(self, text: str, scope: str, id: str = "") -> None:
        self.text = text
        self.scope = scope
        self.id = id
        self.folded_text = normalise_text(text)

    @cached_property
    def words(self) -> frozenset[str]:
        return distinct_words(self.folded_text)

    @cached_property
    def digits(self) -> list[str]:
        return _DIGITS.findall(self.folded_text)

    @cached_property
    def pair_keys(self) -> tuple[int, ...]:
        return text_pair_keys(self.text, self.scope, MEMORY_KIND)


def find_similar(
    text: ComparableText, others: Sequence[ComparableText], settings: VaultSettings
) -> list[DuplicateMatch]:
    """Return the others that reach one of the thresholds of similarity to a text: duplicates first, most similar first.

    Facts are compared with the ``MAX_COMPARED_FACTS`` most similar texts, those with the same digits first, until one is a
    duplicate; the list holds no others.
    """
    similar = sequence_similarities(
        text.folded_text, [other.folded_text for other in others], settings.similarity_threshold
    )
    min_words = settings.overlap_threshold * len(text.words)
    found: list[tuple[DuplicateMatch, ComparableText]] = []
    for index, other in enumerate(others):
        folded = other.folded_text
        # A substring test is quick and rules out most texts before the other's words are extracted.
        if index in similar or sum([word in folded for word in text.words]) >= min_words:
            overlap = word_overlap(text.words, other.words)
            if index in similar or overlap >= settings.overlap_threshold:
                sequence = similar.get(index) or sequence_similarity(text.folded_text, folded)
                found.append((DuplicateMatch(other.id, other.scope, overlap, sequence), other))
    found.sort(key=lambda pair: (pair[0].score, pair[0].id), reverse=True)
    if settings.duplicates == "document":
        return [match for match, _ in found]
    found.sort(key=lambda pair: pair[1].digits != text.digits)
    different = []
    for match, other in found[:MAX_COMPARED_FACTS]:
        difference = find_difference(text.text, other.text) if text.folded_text != other.folded_text else None
        if difference is None:
            return [match]
        different.append(replace(match, difference=difference))
    return sorted(different, key=lambda match: (match.score, match.id), reverse=True)


class DuplicateIndex:
    """The memories that some texts are compared with inside one conditional append: stored ones and ones it adds.

    The store is queried once for all of the texts, because no other writer can add a memory meanwhile.
    """

    def __init__(self, reader: Reader, settings: VaultSettings, texts: Iterable[ComparableText]) -> None:
        self._reader = reader
        self._settings = settings
        self._indexed_scopes: set[str] = set()
        self._candidates_by_scope: dict[str, dict[str, ComparableText]] = {}
        self._texts_by_key: dict[int, list[ComparableText]] = {}
        by_scope: dict[str, list[ComparableText]] = {}
        for text in texts:
            by_scope.setdefault(text.scope, []).append(text)
        live = {row.scope: row.live for row in reader.tally() if row.kind == MEMORY_KIND} if by_scope else {}
        for scope, scope_texts in by_scope.items():
            if live.get(scope, 0) <= COMPARE_ALL_LIMIT:
                records = reader.read(Query(kinds=(MEMORY_KIND,), scopes=(scope,)))
                self._candidates_by_scope[scope] = {
                    record.id: ComparableText(record.text, scope, record.id) for record in records
                }
                continue
            self._indexed_scopes.add(scope)
            near = reader.near_duplicates(
                [text.pair_keys for text in scope_texts], scope, kind=MEMORY_KIND, limit_per_key=MAX_CANDIDATES_PER_KEY
            )
            if len(scope_texts) == 1:  # all of them share a key with this one text
                self._candidates_by_scope[scope] = {id: ComparableText(text, scope, id) for id, text, _ in near}
                continue
            for id, near_text, keys in near:
                self._index_text(ComparableText(near_text, scope, id), keys)

    def find_similar(self, text: ComparableText, *, exclude: Container[str] = ()) -> list[DuplicateMatch]:
        """Return the memories that are similar to a text, duplicates first; those whose ids are excluded do not count."""
        if text.scope in self._candidates_by_scope:
            candidates = self._candidates_by_scope[text.scope]
        else:
            by_key = self._texts_by_key
            candidates = {other.id: other for key in text.pair_keys if key in by_key for other in by_key[key]}
        others = [other for other in candidates.values() if other.id not in exclude and other.scope == text.scope]
        found = find_similar(text, others, self._settings)
        if text.scope not in self._indexed_scopes or len(found) < MAX_CANDIDATES_PER_KEY or found[0].is_duplicate:
            return found
        # So many memories are alike that the keys may not have found all of them: those with most of its words count too.
        query = Query(kinds=(MEMORY_KIND,), scopes=(text.scope,), limit=MAX_CANDIDATES_PER_KEY)
        matches = (match.record for match in self._reader.match_text(text.text, query))
        nearest = [ComparableText(record.text, text.scope, record.id) for record in matches if record.id not in exclude]
        repeated = [match for match in find_similar(text, nearest, self._settings) if match.is_duplicate]
        return repeated or found

    def add(self, text: ComparableText) -> None:
        """Add a text that the conditional append is going to write."""
        if text.scope in self._candidates_by_scope:
            self._candidates_by_scope[text.scope][text.id] = text
        else:
            self._index_text(text, text.pair_keys)

    def _index_text(self, text: ComparableText, keys: Iterable[int]) -> None:
        for key in keys:
            self._texts_by_key.setdefault(key, []).append(text)
