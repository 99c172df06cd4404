"""Quarantine: hiding what an author wrote, and what was made of it, without touching the log.

A veil is derived from a ``quarantine`` record: ``{"author": …, "since": …}`` draws it, a later version with
``"released": true`` lifts it. A version is hidden when its author is veiled and it was written at or after ``since``,
or when it was derived from a version that is hidden. The system's own scope is never hidden.

The rules are the same for every engine; the statements they run are each engine's own, found by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from lukasa import canonical_json
from lukasa.clock import from_iso, to_microseconds
from lukasa.record import DERIVED_FROM, Key, Link, parse_entry
from lukasa.scope import SYSTEM

_SINCE_EVER = -(2**62)
_NO_POSITION_LIMIT = 2**63 - 1


class QuarantineBackend(Protocol):
    """A store in the middle of a write: its named statements, and what counts as present."""

    def fetch_rows(self, name: str, *values: Any) -> list[Any]:
        """What a named statement yields."""

    def execute_many(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Runs a named statement once per row of values."""

    def mark_superseded(self, seq: int) -> None:
        """A version stops being the present one."""

    def mark_current(self, seq: int) -> None:
        """A version becomes the present one again."""

    def add_live_count(self, scope: str, kind: str, live: int) -> None:
        """So many records of a kind became live, or with a minus ceased to be."""


class ActiveQuarantines:
    """The quarantines in force, as one transaction sees them."""

    def __init__(self, backend: QuarantineBackend) -> None:
        self._backend = backend
        self._starts: dict[str, int | None] = {}

    def _quarantine_start(self, author: str) -> int | None:
        """From when on an author is in quarantine, if they are."""
        if author not in self._starts:
            self._starts[author] = next((since for (since,) in self._backend.fetch_rows("veil_of", author)), None)
        return self._starts[author]

    def may_hide(self, author: str, links: Iterable[Link]) -> bool:
        """Whether a new version could be hidden at all, told without looking at what it was made of."""
        return self._quarantine_start(author) is not None or any(link.relation == DERIVED_FROM for link in links)

    def find_hiding_authors(
        self, scope: str, author: str, links: Iterable[Link], at: int, *, before: int = _NO_POSITION_LIMIT
    ) -> frozenset[str]:
        """Which quarantines hide a new version: its author's, and those that hide all of something it came from."""
        if scope == SYSTEM:
            return frozenset()
        found: set[str] = set()
        since = self._quarantine_start(author)
        if since is not None and at >= since:
            found.add(author)
        for link in links:
            if link.relation == DERIVED_FROM:
                to = link.to
                hiding = self._backend.fetch_rows("key_is_only_hidden", to.scope, to.kind, to.id, before)
                found.update(author for (author,) in hiding)
        return frozenset(found)


def apply_quarantine(backend: QuarantineBackend, body: Mapping[str, Any], position: int) -> None:
    """Brings the quarantine recorded at a position into force, or lifts it."""
    _update_current_versions(backend, _update_quarantine(backend, body, position))


def lift_quarantine(backend: QuarantineBackend, key: Key) -> None:
    """Lifts the veil of a quarantine whose record is about to be erased."""
    for (line,) in backend.fetch_rows("lines_of_key", key.scope, key.kind, key.id):
        _update_current_versions(backend, _drop_quarantine(backend, canonical_json.parse(line)["body"]["author"]))


def rebuild_hidden(backend: QuarantineBackend) -> None:
    """Rebuilds the hidden versions of the whole log, quarantine by quarantine, as they came to be."""
    events, newest = [], dict[str, int]()
    for seq, id, version, line in backend.fetch_rows("quarantines"):
        if version > newest.get(id, 0):  # a version that came late changed nothing
            newest[id] = version
            events.append((seq, canonical_json.parse(line)["body"]))
    ends = [seq for seq, _ in events[1:]] + [_NO_POSITION_LIMIT]
    for (position, body), end in zip(events, ends, strict=False):
        _update_quarantine(backend, body, position)
        veils = ActiveQuarantines(backend)
        for seq, line, digest, at in backend.fetch_rows("maybe_hidden", position, end):
            record = parse_entry(line, seq, digest)
            over = veils.find_hiding_authors(record.scope, record.author, record.links, at, before=seq)
            backend.execute_many("hide", [(seq, author) for author in over])


def _update_quarantine(backend: QuarantineBackend, body: Mapping[str, Any], position: int) -> set[int]:
    """Draws or lifts one veil over what was written before it; returns every version it covered or covers."""
    author = body["author"]
    touched = _drop_quarantine(backend, author)
    if body.get("released"):
        return touched
    since = to_microseconds(from_iso(body["since"])) if body.get("since") else _SINCE_EVER
    backend.execute_many("put_veil", [(author, since)])
    covered: set[int] = set()
    frontier = [seq for (seq,) in backend.fetch_rows("written_by", author, since, position)]
    while frontier:
        seq = frontier.pop()
        if seq not in covered:
            covered.add(seq)
            frontier += [made for (made,) in backend.fetch_rows("made_from", seq, position)]
    backend.execute_many("hide", [(seq, author) for seq in sorted(covered)])
    return touched | covered


def _drop_quarantine(backend: QuarantineBackend, author: str) -> set[int]:
    """Takes a veil away; returns every version it covered."""
    touched = {seq for (seq,) in backend.fetch_rows("hidden_by", author)}
    backend.execute_many("reveal", [(author,)])
    backend.execute_many("drop_veil", [(author,)])
    return touched


def _update_current_versions(backend: QuarantineBackend, seqs: Iterable[int]) -> None:
    """Puts exactly the newest visible version of each key touched in the present, unless it is a tombstone."""
    counts: dict[tuple[str, str], int] = {}
    for key in {Key(*row) for seq in seqs for row in backend.fetch_rows("key_of_seq", seq)}:
        versions = backend.fetch_rows("versions_of_key", key.scope, key.kind, key.id)
        newest = next(((seq, deleted) for seq, deleted, hidden, _ in reversed(versions) if not hidden), None)
        live = newest[0] if newest is not None and not newest[1] else None
        shift = 0
        for seq, _, _, past in versions:
            if seq != live and not past:
                backend.mark_superseded(seq)
                shift -= 1
            elif seq == live and past:
                backend.mark_current(seq)
                shift += 1
        pair = (key.scope, key.kind)
        counts[pair] = counts.get(pair, 0) + shift
    for (scope, kind), shift in sorted(counts.items()):
        if shift:
            backend.add_live_count(scope, kind, shift)
