"""Search for near-duplicates among the memories of a scope without reading them all.

A memory is similar to a text past one of the document's thresholds. It is a duplicate if, besides, the two state the same
fact (``lukasa.text.differences``); with the rule ``document`` every similar memory is a duplicate. A memory that states the
same fact is also a duplicate if its overlap is two thirds of the threshold: in the passive voice many small words differ.

In a scope of at most ``COMPARE_ALL_LIMIT`` memories a text is compared with each of them. In a larger scope it is compared
with those that share a pair key with it (``lukasa.text.similarity``). For the overlap of words the verdict is the same as
comparing with everything; for sequences of characters it is the same for texts that also share two content words. Of a
key that more than ``MAX_CANDIDATES_PER_KEY`` memories share, the newest are compared, and those that share another key.
A text that is similar to so many memories and repeats none of them is also compared with those that hold the words it
shares with the fewest of them, so that the cost of a verdict stays bounded however many memories are alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import nlargest

from lukasa.storage.engine import Query, Reader
from lukasa.text.differences import TextDifference, find_difference
from lukasa.text.similarity import sequence_similarity, word_overlap
from lukasa.text.terms import distinct_words, max_shared_words, normalise_text, pair_keys
from lukasa.vault.settings import MEMORY_KIND, VaultSettings

COMPARE_ALL_LIMIT = 128
MAX_CANDIDATES_PER_KEY = 8
MAX_COMPARED_FACTS = 24
MAX_SCANNED_PER_KEY = 64
MAX_OWN_WORDS = 3


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

    @property
    def digits(self) -> list[str]:
        return "".join([each if each.isdecimal() else " " for each in self.folded_text]).split()

    @cached_property
    def pair_keys(self) -> tuple[int, ...]:
        return pair_keys(self.words, self.scope, MEMORY_KIND)


def find_similar(
    text: ComparableText, others: Sequence[ComparableText], settings: VaultSettings
) -> list[DuplicateMatch]:
    """Return the others that reach one of the thresholds of similarity to a text: duplicates first, most similar first.

    Facts are compared with the ``MAX_COMPARED_FACTS`` most similar texts, those with the same digits first, until one is a
    duplicate; the list holds no others.
    """
    if not others:
        return []
    from rapidfuzz import process  # the import takes longer than opening a store
    from rapidfuzz.distance import Indel

    folded_others = [other.folded_text for other in others]
    matches = process.extract(
        text.folded_text,
        folded_others,
        scorer=Indel.normalized_similarity,
        processor=None,
        score_cutoff=settings.similarity_threshold,
        limit=None,
    )
    similar = {index: score for _, score, index in matches}
    threshold = settings.overlap_threshold
    is_document_rule = settings.duplicates == "document"
    floor = threshold if is_document_rule or threshold >= 1 else threshold * 2 / 3
    words = text.words
    min_words = floor * len(words)
    found: list[tuple[DuplicateMatch, ComparableText]] = []
    for index, other in enumerate(others):
        folded = other.folded_text
        if index in similar or max_shared_words(words, folded) >= min_words:
            overlap = word_overlap(words, other.words)
            if index in similar or overlap >= floor:
                sequence = similar.get(index) or sequence_similarity(text.folded_text, folded)
                found.append((DuplicateMatch(other.id, other.scope, overlap, sequence), other))
    found.sort(key=lambda pair: (pair[0].score, pair[0].id), reverse=True)
    if is_document_rule:
        return [match for match, _ in found]
    if len(found) > MAX_COMPARED_FACTS:
        digits = text.digits
        found.sort(key=lambda pair: pair[1].digits != digits)
    different = []
    for match, other in found[:MAX_COMPARED_FACTS]:
        difference = find_difference(text.text, other.text) if text.folded_text != other.folded_text else None
        if difference is None:
            return [match]
        if match.overlap >= threshold or match.sequence >= settings.similarity_threshold:
            different.append(DuplicateMatch(match.id, match.scope, match.overlap, match.sequence, difference))
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
        self._texts_by_word: dict[tuple[str, str], list[ComparableText]] = {}
        by_scope: dict[str, list[ComparableText]] = {}
        for text in texts:
            by_scope.setdefault(text.scope, []).append(text)
        self._batch_scopes = {scope for scope, scope_texts in by_scope.items() if len(scope_texts) > 1}
        live = {row.scope: row.live for row in reader.tally() if row.kind == MEMORY_KIND}
        self.active = sum(live.values())
        """How many memories were active before."""
        for scope, scope_texts in by_scope.items():
            if live.get(scope, 0) <= COMPARE_ALL_LIMIT:
                records = reader.read(Query(kinds=(MEMORY_KIND,), scopes=(scope,)))
                self._candidates_by_scope[scope] = {}
                for record in records:
                    self._add_candidate(ComparableText(record.text, scope, record.id))
                continue
            self._indexed_scopes.add(scope)
            near = reader.near_duplicates(
                [text.pair_keys for text in scope_texts], scope, kind=MEMORY_KIND, limit_per_key=MAX_CANDIDATES_PER_KEY
            )
            if len(scope_texts) == 1:  # all of them share a key with this one text
                self._candidates_by_scope[scope] = {id: ComparableText(text, scope, id) for id, text, _ in near}
                continue
            for id, near_text, keys in near:
                other = ComparableText(near_text, scope, id)
                for key in keys:
                    self._texts_by_key.setdefault(key, []).append(other)

    def find_similar(self, text: ComparableText, *, exclude: Container[str] = ()) -> list[DuplicateMatch]:
        """Return the memories that are similar to a text, duplicates first; those whose ids are excluded do not count."""
        candidates = self._candidates_by_scope.get(text.scope)
        is_indexed = text.scope in self._indexed_scopes
        if candidates is None or (len(candidates) > COMPARE_ALL_LIMIT and not is_indexed):
            candidates, is_indexed = self._find_candidates(text), True
        others = [other for other in candidates.values() if other.id not in exclude]
        found = find_similar(text, others, self._settings)
        if not is_indexed or len(found) < MAX_CANDIDATES_PER_KEY or found[0].is_duplicate:
            return found
        # So many memories are alike that the keys may not have found all of them: those with its own words count too.
        common = Counter(word for match in found for word in candidates[match.id].words)
        own_words = sorted(text.words, key=lambda word: (common[word], word))[:MAX_OWN_WORDS]
        query = Query(kinds=(MEMORY_KIND,), scopes=(text.scope,), limit=MAX_CANDIDATES_PER_KEY)
        matches = self._reader.match_text(" ".join(own_words), query, ranks_only=True)
        nearest = [ComparableText(match.record.text, text.scope, match.record.id) for match in matches]
        for word in own_words:
            nearest += self._texts_by_word.get((text.scope, word), ())[-MAX_SCANNED_PER_KEY:]
        others = [other for other in nearest if other.id not in exclude]
        repeated = [match for match in find_similar(text, others, self._settings) if match.is_duplicate]
        return repeated or found

    def _find_candidates(self, text: ComparableText) -> dict[str, ComparableText]:
        """Return the texts that share a key with a text; of very many, those that share most of its keys."""
        found: dict[str, ComparableText] = {}
        shared_keys: Counter[str] = Counter()
        for key in text.pair_keys:
            for other in self._texts_by_key.get(key, ())[-MAX_SCANNED_PER_KEY:]:
                if other.scope == text.scope:
                    found[other.id] = other
                    shared_keys[other.id] += 1
        if len(found) <= MAX_SCANNED_PER_KEY:
            return found
        return {id: found[id] for id in nlargest(MAX_SCANNED_PER_KEY, found, key=shared_keys.__getitem__)}

    def add(self, text: ComparableText) -> None:
        """Add a text that the conditional append is going to write."""
        if text.scope in self._batch_scopes:
            self._add_candidate(text)

    def _add_candidate(self, text: ComparableText) -> None:
        if text.scope in self._candidates_by_scope:
            self._candidates_by_scope[text.scope][text.id] = text
        if text.scope in self._batch_scopes:
            for key in text.pair_keys:
                self._texts_by_key.setdefault(key, []).append(text)
            for word in text.words:
                self._texts_by_word.setdefault((text.scope, word), []).append(text)
