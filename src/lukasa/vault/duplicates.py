"""Near-duplicates: found among all memories of a scope without reading them all.

In a scope of at most ``FEW`` memories a text is compared with every one of them. In a larger one it is compared with
those that share a mark with it (``lukasa.likeness``): for the overlap of words the verdict is the same as comparing
with everything; for sequences of characters it is that for texts that also share two telling words. A mark that more
than ``EACH`` memories bear brings the newest of them, and those that share another mark besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from lukasa.engine import Query, Reader
from lukasa.likeness import folded, marks_of, overlap, sequence, sequences, words
from lukasa.vault.rules import KIND, Rules

FEW = 128
EACH = 8


@dataclass(frozen=True, slots=True)
class Likeness:
    """How alike a memory is to a text, by both measures."""

    id: str
    scope: str
    overlap: float
    sequence: float

    @property
    def likely(self) -> float:
        return max(self.overlap, self.sequence)


class Seen:
    """A text as it is compared: folded, with its words and marks."""

    def __init__(self, text: str, scope: str, id: str = "") -> None:
        self.text = text
        self.scope = scope
        self.id = id
        self.folded = folded(text)

    @cached_property
    def words(self) -> frozenset[str]:
        return words(self.folded)

    @cached_property
    def marks(self) -> tuple[int, ...]:
        return marks_of(self.text, self.scope, KIND)


def alike(text: Seen, others: Sequence[Seen], rules: Rules) -> list[Likeness]:
    """Which of the others are so much like a text that they can be called one, and how much."""
    same = sequences(text.folded, [other.folded for other in others], rules.similarity_threshold)
    found = []
    for at, other in enumerate(others):
        if at in same or _may_overlap(text, other, rules.overlap_threshold):
            shared = overlap(text.words, other.words)
            if at in same or shared >= rules.overlap_threshold:
                found.append(
                    Likeness(other.id, other.scope, shared, same.get(at) or sequence(text.folded, other.folded))
                )
    return found


def _may_overlap(text: Seen, other: Seen, threshold: float) -> bool:
    """A quick look before the words of the other are taken apart: it must have enough of these somewhere in it."""
    there = other.folded
    return sum([word in there for word in text.words]) >= threshold * len(text.words)


class Company:
    """The memories that some texts are compared with, within one decision: those kept, and those it adds itself.

    The store is asked once for all of the texts: within a decision nobody else adds anything.
    """

    def __init__(self, reader: Reader, rules: Rules, texts: Iterable[Seen]) -> None:
        self._rules = rules
        self._few: dict[str, dict[str, Seen]] = {}
        self._bearers: dict[int, list[Seen]] = {}
        by_scope: dict[str, list[Seen]] = {}
        for text in texts:
            by_scope.setdefault(text.scope, []).append(text)
        live = {row.scope: row.live for row in reader.tally() if row.kind == KIND} if by_scope else {}
        for scope, asked in by_scope.items():
            if live.get(scope, 0) <= FEW:
                records = reader.read(Query(kinds=(KIND,), scopes=(scope,)))
                self._few[scope] = {record.id: Seen(record.text, scope, record.id) for record in records}
                continue
            bearers = reader.bearing([text.marks for text in asked], scope, kind=KIND, each=EACH)
            if len(asked) == 1:  # then all of them bear a mark of this one
                self._few[scope] = {id: Seen(said, scope, id) for id, said, _ in bearers}
                continue
            for id, said, borne in bearers:
                self._meet(Seen(said, scope, id), borne)

    def nearest(self, text: Seen, *, but: str = "") -> Likeness | None:
        """The memory that a text repeats, if there is one; ``but`` names one that does not count."""
        found = alike(text, [other for other in self._near(text) if other.id != but], self._rules)
        return max(found, key=lambda each: (each.likely, each.id), default=None)

    def add(self, text: Seen) -> None:
        """Counts a text that the decision is going to keep."""
        if text.scope in self._few:
            self._few[text.scope][text.id] = text
        else:
            self._meet(text, text.marks)

    def _meet(self, text: Seen, marks: Iterable[int]) -> None:
        for mark in marks:
            self._bearers.setdefault(mark, []).append(text)

    def _near(self, text: Seen) -> Iterable[Seen]:
        if text.scope in self._few:
            return self._few[text.scope].values()
        bearers = self._bearers
        near = {other.id: other for mark in text.marks if mark in bearers for other in bearers[mark]}
        return [other for other in near.values() if other.scope == text.scope]
