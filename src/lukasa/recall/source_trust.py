"""Whom to believe: the trust of authors, and of records that were made out of others.

A record is trusted as far as its author, and no further than the least trusted of its sources, however indirectly it was
derived from them. Only the hits that matter are looked into, and only so far; a source that cannot be seen, or that there
was no time to look at, is trusted like an author nobody has judged yet.

Where others have been judged, an author nobody has judged who wrote more than half of what could answer is trusted less the
more that is: whoever speaks that often has not only been lucky to be nearest to the question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from lukasa.journal import Journal
from lukasa.recall.ranking import MAX_AUTHOR_SHARE, RankedCandidate, with_trust
from lukasa.record import DERIVED_FROM, Key, Record

MAX_LOOKUPS = 64
"""So many sources are looked up for one recall."""
MAX_SOURCES_PER_HIT = 24
"""So many of them for one hit."""


class TrustProvider(Protocol):
    """Knows how far authors are trusted."""

    @property
    def initial(self) -> float:
        """The trust of an author nobody has judged yet."""

    def __call__(self, authors: Iterable[str]) -> Mapping[str, float]:
        """The trust of those who have been judged."""


class SourceTrust:
    """The trust of the records of one recall. It does not matter where nobody was judged and nothing was derived."""

    def __init__(self, journal: Journal, records: Iterable[Record], trust_provider: TrustProvider | None) -> None:
        self._journal = journal
        self._trust_provider = trust_provider
        self._records = {record.seq: record for record in records}
        authors = dict.fromkeys(record.author for record in self._records.values() if record.author)
        self._trust_by_author = dict(trust_provider(authors)) if trust_provider is not None else {}
        self._authors_asked = set(authors)
        self._lookups_left = MAX_LOOKUPS
        self._excess_shares = _excess_author_shares(self._records.values()) if self._trust_by_author else {}
        self._capped_trust: dict[int, float] = {}
        self.has_effect = bool(self._trust_by_author) or any(map(_source_keys, self._records.values()))

    def author_trust(self, record: Record) -> float | None:
        """How far a record's author is trusted; none for the owner, who is not judged."""
        if not record.author or self._trust_provider is None:
            return None
        return self._trust_by_author.get(
            record.author, self._trust_provider.initial * (1 - self._excess_shares.get(record.author, 0.0))
        )

    def trust_signal(self, record: Record) -> float:
        """The same as a number to rank by."""
        if not self.has_effect or self._trust_provider is None:
            return 0.0
        found = self.author_trust(record)
        return self._trust_provider.initial if found is None else found

    def displayed_trust(self, record: Record) -> float | None:
        """What to tell about a hit: its own trust, or that of its sources if it is less."""
        return self._capped_trust.get(record.seq, self.author_trust(record))

    def cap_by_sources(self, hits: Sequence[RankedCandidate], k: int) -> list[RankedCandidate]:
        """The hits in order, each of the best ``k`` trusted no more than its sources."""
        if self._trust_provider is None or not any(
            _source_keys(self._records[hit.candidate.seq]) for hit in hits[: 4 * k]
        ):
            return list(hits)
        ordered, repeated = (
            [hit for hit in hits if hit.repeats is None],
            [hit for hit in hits if hit.repeats is not None],
        )
        done: set[int] = set()
        while fresh := [at for at, hit in enumerate(ordered[:k]) if hit.candidate.seq not in done]:
            for at in fresh:
                ordered[at] = self._with_source_trust(ordered[at])
                done.add(ordered[at].candidate.seq)
            ordered.sort(key=lambda hit: -hit.score)
        return [*ordered, *repeated]

    def _with_source_trust(self, hit: RankedCandidate) -> RankedCandidate:
        record = self._records[hit.candidate.seq]
        if not _source_keys(record):
            return hit
        own = self.author_trust(record)
        least = min((found for found in self._list_source_trust(record)), default=1.0)
        if own is None or least < own:
            self._capped_trust[record.seq] = least
        return with_trust(hit, min(least, hit.candidate.trust))

    def _list_source_trust(self, record: Record) -> list[float]:
        """The trust of everything a record was derived from, as far as there is time to look."""
        assert self._trust_provider is not None
        found: list[float] = []
        seen: set[Key] = {record.key}
        waiting = _source_keys(record)
        looked = 0
        while waiting:
            key = waiting.pop(0)
            if key in seen:
                continue
            seen.add(key)
            source = None
            if self._lookups_left and looked < MAX_SOURCES_PER_HIT:
                self._lookups_left, looked = self._lookups_left - 1, looked + 1
                source = self._journal.get(key)
            if source is None:
                found.append(self._trust_provider.initial)
                continue
            if source.author:
                found.append(self._lookup_author_trust(source.author))
            waiting += _source_keys(source)
        return found

    def _lookup_author_trust(self, author: str) -> float:
        assert self._trust_provider is not None
        if author not in self._authors_asked:
            self._authors_asked.add(author)
            self._trust_by_author |= self._trust_provider((author,))
        return self._trust_by_author.get(author, self._trust_provider.initial)


def _excess_author_shares(records: Collection[Record]) -> dict[str, float]:
    """How far authors go beyond their share of what could answer: 0 within it, 1 for one who wrote all of it."""
    counted = Counter(record.author for record in records if record.author)
    if len(counted) <= 2:
        return {}
    return {
        author: (count / len(records) - MAX_AUTHOR_SHARE) / (1 - MAX_AUTHOR_SHARE)
        for author, count in counted.items()
        if count > MAX_AUTHOR_SHARE * len(records)
    }


def _source_keys(record: Record) -> list[Key]:
    return [link.to for link in record.links if link.relation == DERIVED_FROM]
