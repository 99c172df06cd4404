"""Whom to believe: the trust of authors, and of records that were made out of others.

A record is trusted as far as its author, and no further than the least trusted of its sources, however indirectly it was
derived from them. Only the hits that matter are looked into, and only so far; a source that cannot be seen, or that there
was no time to look at, is trusted like an author nobody has judged yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from lukasa.journal import Journal
from lukasa.recall.ranking import Hit, with_trust
from lukasa.record import DERIVED_FROM, Key, Record

LOOKUPS = 64
"""So many sources are looked up for one recall."""
SOURCES = 24
"""So many of them for one hit."""


class Believing(Protocol):
    """Knows how far authors are trusted."""

    @property
    def initial(self) -> float:
        """The trust of an author nobody has judged yet."""

    def __call__(self, authors: Iterable[str]) -> Mapping[str, float]:
        """The trust of those who have been judged."""


class Trusted:
    """The trust of the records of one recall. It does not matter where nobody was judged and nothing was derived."""

    def __init__(self, journal: Journal, records: Iterable[Record], believing: Believing | None) -> None:
        self._journal = journal
        self._believing = believing
        self._records = {record.seq: record for record in records}
        authors = dict.fromkeys(record.author for record in self._records.values() if record.author)
        self._known = dict(believing(authors)) if believing is not None else {}
        self._authors = set(authors)
        self._left = LOOKUPS
        self._vetted: dict[int, float] = {}
        self.matters = bool(self._known) or any(map(_sources, self._records.values()))

    def of(self, record: Record) -> float | None:
        """How far a record's author is trusted; none for the owner, who is not judged."""
        if not record.author or self._believing is None:
            return None
        return self._known.get(record.author, self._believing.initial)

    def signal(self, record: Record) -> float:
        """The same as a number to rank by."""
        if not self.matters or self._believing is None:
            return 0.0
        found = self.of(record)
        return self._believing.initial if found is None else found

    def shown(self, record: Record) -> float | None:
        """What to tell about a hit: its own trust, or that of its sources if it is less."""
        return self._vetted.get(record.seq, self.of(record))

    def vetted(self, hits: Sequence[Hit], k: int) -> list[Hit]:
        """The hits in order, each of the best ``k`` trusted no more than its sources."""
        if self._believing is None or not any(_sources(self._records[hit.candidate.seq]) for hit in hits[: 4 * k]):
            return list(hits)
        ordered, repeated = (
            [hit for hit in hits if hit.repeats is None],
            [hit for hit in hits if hit.repeats is not None],
        )
        done: set[int] = set()
        while fresh := [at for at, hit in enumerate(ordered[:k]) if hit.candidate.seq not in done]:
            for at in fresh:
                ordered[at] = self._lowered(ordered[at])
                done.add(ordered[at].candidate.seq)
            ordered.sort(key=lambda hit: -hit.score)
        return [*ordered, *repeated]

    def _lowered(self, hit: Hit) -> Hit:
        record = self._records[hit.candidate.seq]
        if not _sources(record):
            return hit
        own = self.of(record)
        least = min((found for found in self._of_sources(record)), default=1.0)
        if own is None or least < own:
            self._vetted[record.seq] = least
        return with_trust(hit, min(least, hit.candidate.trust))

    def _of_sources(self, record: Record) -> list[float]:
        """The trust of everything a record was derived from, as far as there is time to look."""
        assert self._believing is not None
        found: list[float] = []
        seen: set[Key] = {record.key}
        waiting = _sources(record)
        looked = 0
        while waiting:
            key = waiting.pop(0)
            if key in seen:
                continue
            seen.add(key)
            source = None
            if self._left and looked < SOURCES:
                self._left, looked = self._left - 1, looked + 1
                source = self._journal.get(key)
            if source is None:
                found.append(self._believing.initial)
                continue
            if source.author:
                found.append(self._trust(source.author))
            waiting += _sources(source)
        return found

    def _trust(self, author: str) -> float:
        assert self._believing is not None
        if author not in self._authors:
            self._authors.add(author)
            self._known |= self._believing((author,))
        return self._known.get(author, self._believing.initial)


def _sources(record: Record) -> list[Key]:
    return [link.to for link in record.links if link.relation == DERIVED_FROM]
