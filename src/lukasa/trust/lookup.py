"""How far authors are believed: the one number that recall needs, for the few authors it has met."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from lukasa.clock import Clock
from lukasa.journal import Journal
from lukasa.trust.aggregate import TrustAggregate
from lukasa.trust.records import read_aggregate
from lukasa.trust.score import INITIAL_TRUST

MAX_AUTHORS = 100


class TrustLookup:
    """Tells the trust of authors that have a standing; nothing else of the books is told."""

    initial = INITIAL_TRUST
    """The trust of an author nobody has judged yet."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    def __call__(self, authors: Iterable[str]) -> dict[str, float]:
        """The trust of each author that has been judged, at most a hundred of them."""
        named = list(islice((author for author in authors if author), MAX_AUTHORS))
        if not named:
            return {}
        now = self._clock.now()
        with self._journal.snapshot() as look:
            found = {author: read_aggregate(look, author, today=now.date()) for author in named}
        return {author: standing.score(now).trust for author, standing in found.items() if standing is not None}

    def get_aggregate(self, agent: str) -> TrustAggregate | None:
        with self._journal.snapshot() as look:
            return read_aggregate(look, agent)
