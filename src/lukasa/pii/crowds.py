"""Crowds: a text of nothing but tokens or passwords is not taken apart one by one.

Where a stretch of a text has more than ``MOST_FINDS`` finds of one sort, or one find and more than ``MOST_SEEN`` values that are
spelled like some, the rest of the stretch, from the first find or value on, is one find. So nothing secret gets past, and no text is
refused for a crowd: where nothing is found one by one, nothing is found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field

from lukasa.pii.normalize import Span

STRETCH, MOST_FINDS, MOST_SEEN = 8_192, 64, 256
_LONGEST = 320
"""No password is longer, with all that announces it; longer tokens have no spaces."""
_REST_OF_WORD = re.compile(r"\S{0,8192}")

Matches = Callable[[int], Iterable["re.Match[str]"]]
"""The matches from a place on."""
Judge = Callable[["re.Match[str]"], Span | None]


@dataclass(slots=True)
class _Stretch:
    end: int
    first: int
    finds: int = 0
    seen: int = 0
    crowded: bool = False

    def is_crowded(self) -> bool:
        return self.finds > MOST_FINDS or (self.finds > 0 and self.seen > MOST_SEEN)


@dataclass(frozen=True, slots=True)
class Crowds:
    """The finds of one sort in a text, of which many in one stretch are one."""

    text: str
    _stretches: dict[int, _Stretch] = field(default_factory=dict)

    def finds(self, matches: Matches, judge: Judge) -> Iterator[Span]:
        """What the judge makes of the matches, until they are too many."""
        at: int | None = 0
        while at is not None:
            at = yield from self._until_crowded(matches(at), judge)

    def _until_crowded(self, matches: Iterable[re.Match[str]], judge: Judge) -> Generator[Span, None, int | None]:
        """The finds up to a crowd; where to go on after it."""
        stretch = _Stretch(-1, -1)
        for match in matches:
            start = match.start()
            if start >= stretch.end:
                stretch = self._stretch(start)
            in_tail = start >= stretch.end - _LONGEST
            if stretch.crowded and start >= stretch.first and not in_tail:
                return stretch.end - _LONGEST
            span = judge(match)
            stretch.seen += 1
            if span is not None:
                stretch.finds += 1
                stretch.first = min(stretch.first, start)
                yield span
            elif stretch.crowded:
                continue
            if stretch.is_crowded() and not in_tail:
                stretch.crowded = True
                stretch.first = min(stretch.first, start)
                yield stretch.first, self._end(stretch)
                return stretch.end - _LONGEST
        return None

    def _stretch(self, at: int) -> _Stretch:
        which = at // STRETCH
        if which not in self._stretches:
            end = (which + 1) * STRETCH
            self._stretches[which] = _Stretch(end, end)
        return self._stretches[which]

    def _end(self, stretch: _Stretch) -> int:
        rest = _REST_OF_WORD.match(self.text, stretch.end)
        return rest.end() if rest else stretch.end
