"""Quarantine: hiding what an author wrote, and what was made of it, without touching the log.

A veil is derived from a ``quarantine`` record: ``{"author": …, "since": …}`` draws it, a later version with
``"released": true`` lifts it. A version is hidden when its author is veiled and it was written at or after ``since``,
or when it was derived from a version that is hidden. The system's own scope is never hidden.

The rules are the same for every engine; the statements they run are each engine's own, found by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from lukasa import canonical
from lukasa.clock import from_iso, microseconds
from lukasa.record import DERIVED_FROM, Key, Link, unfold
from lukasa.scope import SYSTEM

_ALWAYS = -(2**62)
_NEVER = 2**63 - 1


class Ground(Protocol):
    """A store in the middle of a write: its named statements, and what counts as present."""

    def rows(self, name: str, *values: Any) -> list[Any]:
        """What a named statement yields."""

    def each(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Runs a named statement once per row of values."""

    def to_past(self, seq: int) -> None:
        """A version stops being the present one."""

    def to_present(self, seq: int) -> None:
        """A version becomes the present one again."""

    def count(self, scope: str, kind: str, live: int) -> None:
        """So many records of a kind became live, or with a minus ceased to be."""


class Veils:
    """The quarantines in force, as one transaction sees them."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._known: dict[str, int | None] = {}

    def _since(self, author: str) -> int | None:
        """From when on an author is in quarantine, if they are."""
        if author not in self._known:
            self._known[author] = next((since for (since,) in self._ground.rows("veil_of", author)), None)
        return self._known[author]

    def may_hide(self, author: str, links: Iterable[Link]) -> bool:
        """Whether a new version could be hidden at all, told without looking at what it was made of."""
        return self._since(author) is not None or any(link.relation == DERIVED_FROM for link in links)

    def over(self, scope: str, author: str, links: Iterable[Link], at: int, *, before: int = _NEVER) -> frozenset[str]:
        """Which quarantines hide a new version: its author's, and those that hide all of something it came from."""
        if scope == SYSTEM:
            return frozenset()
        found: set[str] = set()
        since = self._since(author)
        if since is not None and at >= since:
            found.add(author)
        for link in links:
            if link.relation == DERIVED_FROM:
                to = link.to
                hiding = self._ground.rows("key_is_only_hidden", to.scope, to.kind, to.id, before)
                found.update(author for (author,) in hiding)
        return frozenset(found)


def apply(ground: Ground, body: Mapping[str, Any], position: int) -> None:
    """Brings the quarantine recorded at a position into force, or lifts it."""
    _settle(ground, _draw(ground, body, position))


def lift(ground: Ground, book: Key) -> None:
    """Lifts the veil of a quarantine whose record is about to be erased."""
    for (line,) in ground.rows("lines_of_key", book.scope, book.kind, book.id):
        _settle(ground, _reveal(ground, canonical.parse(line)["body"]["author"]))


def derive(ground: Ground) -> None:
    """Rebuilds the hidden versions of the whole log, quarantine by quarantine, as they came to be."""
    events, newest = [], dict[str, int]()
    for seq, id, version, line in ground.rows("quarantines"):
        if version > newest.get(id, 0):  # a version that came late changed nothing
            newest[id] = version
            events.append((seq, canonical.parse(line)["body"]))
    ends = [seq for seq, _ in events[1:]] + [_NEVER]
    for (position, body), end in zip(events, ends, strict=False):
        _draw(ground, body, position)
        veils = Veils(ground)
        for seq, line, digest, at in ground.rows("maybe_hidden", position, end):
            record = unfold(line, seq, digest)
            over = veils.over(record.scope, record.author, record.links, at, before=seq)
            ground.each("hide", [(seq, author) for author in over])


def _draw(ground: Ground, body: Mapping[str, Any], position: int) -> set[int]:
    """Draws or lifts one veil over what was written before it; returns every version it covered or covers."""
    author = body["author"]
    touched = _reveal(ground, author)
    if body.get("released"):
        return touched
    since = microseconds(from_iso(body["since"])) if body.get("since") else _ALWAYS
    ground.each("put_veil", [(author, since)])
    covered: set[int] = set()
    frontier = [seq for (seq,) in ground.rows("written_by", author, since, position)]
    while frontier:
        seq = frontier.pop()
        if seq not in covered:
            covered.add(seq)
            frontier += [made for (made,) in ground.rows("made_from", seq, position)]
    ground.each("hide", [(seq, author) for seq in sorted(covered)])
    return touched | covered


def _reveal(ground: Ground, author: str) -> set[int]:
    """Takes a veil away; returns every version it covered."""
    touched = {seq for (seq,) in ground.rows("hidden_by", author)}
    ground.each("reveal", [(author,)])
    ground.each("drop_veil", [(author,)])
    return touched


def _settle(ground: Ground, seqs: Iterable[int]) -> None:
    """Puts exactly the newest visible version of each key touched in the present, unless it is a tombstone."""
    counts: dict[tuple[str, str], int] = {}
    for key in {Key(*row) for seq in seqs for row in ground.rows("key_of_seq", seq)}:
        versions = ground.rows("versions_of_key", key.scope, key.kind, key.id)
        newest = next(((seq, deleted) for seq, deleted, hidden, _ in reversed(versions) if not hidden), None)
        live = newest[0] if newest is not None and not newest[1] else None
        shift = 0
        for seq, _, _, past in versions:
            if seq != live and not past:
                ground.to_past(seq)
                shift -= 1
            elif seq == live and past:
                ground.to_present(seq)
                shift += 1
        pair = (key.scope, key.kind)
        counts[pair] = counts.get(pair, 0) + shift
    for (scope, kind), shift in sorted(counts.items()):
        if shift:
            ground.count(scope, kind, shift)
