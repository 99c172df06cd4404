"""Near-duplicates: found among all memories of a scope without reading them all.

In a scope of at most ``FEW`` memories a text is compared with every one of them. In a larger one it is compared with
those that share a mark with it (``lukasa.likeness``): for the overlap of words the verdict is the same as comparing
with everything; for sequences of characters it is that for texts that also share two telling words. A mark that more
than ``EACH`` memories bear brings the newest of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lukasa.engine import Query, Reader
from lukasa.likeness import MARK, folded, marks, overlap, sequence, words
from lukasa.record import Record
from lukasa.vault.rules import KIND, Rules

FEW = 128
EACH = 50


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

    __slots__ = ("folded", "id", "marks", "scope", "words")

    def __init__(self, text: str, scope: str, id: str = "") -> None:
        self.folded = folded(text)
        self.words = words(self.folded)
        self.marks = marks(self.words)
        self.scope = scope
        self.id = id


def likeness(text: Seen, other_text: str, other: Seen | None, id: str, scope: str, rules: Rules) -> Likeness | None:
    """How alike two texts are, if that is enough to call them one."""
    plain = other.folded if other is not None else folded(other_text)
    known = other.words if other is not None else words(plain)
    shared = overlap(text.words, known)
    same = sequence(text.folded, plain, floor=rules.similarity_threshold)
    if shared >= rules.overlap_threshold or same >= rules.similarity_threshold:
        return Likeness(id, scope, shared, same or sequence(text.folded, plain))
    return None


class Company:
    """The memories a text is compared with, within one decision: those kept, and those the decision adds itself."""

    def __init__(self, reader: Reader, rules: Rules) -> None:
        self._reader = reader
        self._rules = rules
        self._few: dict[str, dict[str, Seen] | None] = {}
        self._added: dict[tuple[str, str], list[Seen]] = {}

    def nearest(self, text: Seen, *, but: str = "") -> Likeness | None:
        """The memory that a text repeats, if there is one; ``but`` names one that does not count."""
        found: dict[str, Likeness] = {}
        for other_text, other, id in self._near(text):
            if id != but and id not in found:
                alike = likeness(text, other_text, other, id, text.scope, self._rules)
                if alike is not None:
                    found[id] = alike
        return max(found.values(), key=lambda alike: (alike.likely, alike.id), default=None)

    def add(self, text: Seen) -> None:
        """Counts a text that the decision is going to keep."""
        few = self._few.get(text.scope)
        if few is not None:
            few[text.id] = text
        for mark in text.marks:
            self._added.setdefault((text.scope, mark), []).append(text)

    def _near(self, text: Seen) -> Iterable[tuple[str, Seen | None, str]]:
        few = self._everything(text.scope)
        if few is not None:
            return [("", other, id) for id, other in few.items()]
        labels = [MARK + mark for mark in text.marks]
        kept = self._reader.bearing(labels, text.scope, kind=KIND, each=EACH)
        added = {other.id: other for mark in text.marks for other in self._added.get((text.scope, mark), ())}
        return [*((record.text, None, record.id) for record in kept), *(("", other, id) for id, other in added.items())]

    def _everything(self, scope: str) -> dict[str, Seen] | None:
        """All memories of a scope, if they are few."""
        if scope not in self._few:
            live = sum(row.live for row in self._reader.tally() if row.scope == scope and row.kind == KIND)
            if live > FEW:
                self._few[scope] = None
            else:
                query = Query(kinds=(KIND,), scopes=(scope,))
                self._few[scope] = {record.id: seen_of(record) for record in self._reader.read(query)}
        return self._few[scope]


def seen_of(record: Record) -> Seen:
    return Seen(record.text, record.scope, record.id)
