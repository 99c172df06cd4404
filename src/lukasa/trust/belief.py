"""How far authors are believed: the one number that recall needs, for the few authors it has met."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from lukasa.clock import Clock
from lukasa.journal import Journal
from lukasa.trust.books import standing_of
from lukasa.trust.score import INITIAL
from lukasa.trust.standing import Standing

MOST_AUTHORS = 100


class Belief:
    """Tells the trust of authors that have a standing; nothing else of the books is told."""

    initial = INITIAL
    """The trust of an author nobody has judged yet."""

    def __init__(self, owner: Journal, clock: Clock) -> None:
        self._owner = owner
        self._clock = clock

    def __call__(self, authors: Iterable[str]) -> dict[str, float]:
        """The trust of each author that has been judged, at most a hundred of them."""
        named = list(islice((author for author in authors if author), MOST_AUTHORS))
        if not named:
            return {}
        now = self._clock.now()
        with self._owner.looking() as look:
            found = {author: standing_of(look, author, today=now.date()) for author in named}
        return {author: standing.score(now).trust for author, standing in found.items() if standing is not None}

    def standing(self, agent: str) -> Standing | None:
        with self._owner.looking() as look:
            return standing_of(look, agent)
