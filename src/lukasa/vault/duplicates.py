"""Near-duplicates: found among all memories of a scope without reading them all.

In a scope of at most ``FEW`` memories a text is compared with every one of them. In a larger one it is compared with
those that share a mark with it (``lukasa.likeness``): for the overlap of words the verdict is the same as comparing
with everything; for sequences of characters it is that for texts that also share two telling words. A mark that more
than ``EACH`` memories bear brings the newest of them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

from lukasa.engine import Query, Reader
from lukasa.likeness import MARK, folded, marks, overlap, sequence, words
from lukasa.record import Record
from lukasa.vault.rules import KIND, Rules

FEW = 128
EACH = 20


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
    """A text as it is compared: folded, with its words and marks. A record has its marks among its labels."""

    __slots__ = ("folded", "id", "marks", "scope", "words")

    def __init__(self, text: str, scope: str, id: str = "", known: list[str] | None = None) -> None:
        self.folded = folded(text)
        self.words = words(self.folded)
        self.marks = marks(self.words) if known is None else known
        self.scope = scope
        self.id = id


def likeness(text: Seen, other: Seen, rules: Rules) -> Likeness | None:
    """How alike two texts are, if that is enough to call them one."""
    shared = overlap(text.words, other.words)
    same = sequence(text.folded, other.folded, floor=rules.similarity_threshold)
    if shared >= rules.overlap_threshold or same >= rules.similarity_threshold:
        return Likeness(other.id, other.scope, shared, same or sequence(text.folded, other.folded))
    return None


class Company:
    """The memories that some texts are compared with, within one decision: those kept, and those it adds itself.

    The store is asked once for all of the texts: within a decision nobody else adds anything.
    """

    def __init__(self, reader: Reader, rules: Rules, texts: Iterable[Seen]) -> None:
        self._rules = rules
        self._few: dict[str, dict[str, Seen]] = {}
        self._bearers: dict[tuple[str, str], list[Seen]] = {}
        by_scope: dict[str, dict[str, None]] = {}
        for text in texts:
            by_scope.setdefault(text.scope, {}).update(dict.fromkeys(text.marks))
        live = {row.scope: row.live for row in reader.tally() if row.kind == KIND} if by_scope else {}
        for scope, marked in by_scope.items():
            if live.get(scope, 0) <= FEW:
                records = reader.read(Query(kinds=(KIND,), scopes=(scope,)))
                self._few[scope] = {record.id: seen_of(record) for record in records}
            else:
                labels = [MARK + mark for mark in marked]
                for record in reader.bearing(labels, scope, kind=KIND, each=EACH):
                    self._meet(seen_of(record), marked)

    def nearest(self, text: Seen, *, but: str = "") -> Likeness | None:
        """The memory that a text repeats, if there is one; ``but`` names one that does not count."""
        alike = (likeness(text, other, self._rules) for other in self._near(text) if other.id != but)
        found = [each for each in alike if each is not None]
        return max(found, key=lambda each: (each.likely, each.id), default=None)

    def add(self, text: Seen) -> None:
        """Counts a text that the decision is going to keep."""
        if text.scope in self._few:
            self._few[text.scope][text.id] = text
        else:
            self._meet(text, text.marks)

    def _meet(self, text: Seen, marked: Container[str]) -> None:
        for mark in text.marks:
            if mark in marked:
                self._bearers.setdefault((text.scope, mark), []).append(text)

    def _near(self, text: Seen) -> Iterable[Seen]:
        if text.scope in self._few:
            return self._few[text.scope].values()
        bearers = self._bearers
        return {other.id: other for mark in text.marks for other in bearers.get((text.scope, mark), ())}.values()


def seen_of(record: Record) -> Seen:
    known = [label[len(MARK) :] for label in record.labels if label.startswith(MARK)]
    return Seen(record.text, record.scope, record.id, known)
