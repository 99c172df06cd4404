"""Quarantine: hiding what an author wrote, and what was made of it, without touching the log.

A veil is derived from a ``quarantine`` record: ``{"author": …, "since": …}`` draws it, a later version with
``"released": true`` lifts it. A version is hidden when its author is veiled and it was written at or after ``since``,
or when it was derived from a version that is hidden. The system's own scope is never hidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import apsw

from lukasa import canonical
from lukasa.clock import from_iso, microseconds
from lukasa.engines.sqlite.sql import SQL, rows
from lukasa.engines.sqlite.stage import Books, to_past, to_present
from lukasa.record import DERIVED_FROM, Key, Link, unfold
from lukasa.scope import SYSTEM

_ALWAYS = -(2**62)


class Veils:
    """The quarantines in force, as one transaction sees them."""

    def __init__(self, database: apsw.Connection) -> None:
        self._db = database
        self._since = dict(database.execute(SQL["veils"]))

    def over(
        self, scope: str, author: str, links: Iterable[Link], at: int, *, before: int = 2**63 - 1
    ) -> frozenset[str]:
        """Which quarantines hide a new version: its author's, and those that hide all of something it came from."""
        if scope == SYSTEM:
            return frozenset()
        found: set[str] = set()
        since = self._since.get(author)
        if since is not None and at >= since:
            found.add(author)
        for link in links:
            if link.relation == DERIVED_FROM:
                to = link.to
                source = (to.scope, to.kind, to.id, before)
                found.update(author for (author,) in self._db.execute(SQL["key_is_only_hidden"], source))
        return frozenset(found)


def apply(database: apsw.Connection, body: Mapping[str, Any], position: int) -> None:
    """Brings the quarantine recorded at a position into force, or lifts it."""
    settle(database, _keys_of(database, _draw(database, body, position)))


def lift(database: apsw.Connection, book: Key) -> None:
    """Lifts the veil of a quarantine whose record is about to be erased."""
    for (line,) in list(rows(database, "lines_of_key", (book.scope, book.kind, book.id))):
        author = canonical.parse(line)["body"]["author"]
        touched = {seq for (seq,) in database.execute(SQL["hidden_by"], (author,))}
        database.execute(SQL["reveal"], (author,))
        database.execute(SQL["drop_veil"], (author,))
        settle(database, _keys_of(database, touched))


def derive(database: apsw.Connection) -> None:
    """Rebuilds the hidden versions of the whole log, quarantine by quarantine, as they came to be."""
    events, newest = [], dict[str, int]()
    for seq, id, version, line in rows(database, "quarantines"):
        if version > newest.get(id, 0):  # a version that came late changed nothing
            newest[id] = version
            events.append((seq, canonical.parse(line)["body"]))
    ends = [seq for seq, _ in events[1:]] + [2**63 - 1]
    for (position, body), end in zip(events, ends, strict=False):
        _draw(database, body, position)
        veils = Veils(database)
        for seq, line, digest, at in list(rows(database, "maybe_hidden", (position, end))):
            record = unfold(line, seq, digest)
            over = veils.over(record.scope, record.author, record.links, at, before=seq)
            database.executemany(SQL["hide"], [(seq, author) for author in over])


def _draw(database: apsw.Connection, body: Mapping[str, Any], position: int) -> set[int]:
    """Draws or lifts one veil over what was written before it; returns every version it covered or covers."""
    author = body["author"]
    touched = {seq for (seq,) in database.execute(SQL["hidden_by"], (author,))}
    database.execute(SQL["reveal"], (author,))
    if body.get("released"):
        database.execute(SQL["drop_veil"], (author,))
        return touched
    since = microseconds(from_iso(body["since"])) if body.get("since") else _ALWAYS
    database.execute(SQL["put_veil"], (author, since))
    covered: set[int] = set()
    frontier = [seq for (seq,) in database.execute(SQL["written_by"], (author, since, position))]
    while frontier:
        seq = frontier.pop()
        if seq not in covered:
            covered.add(seq)
            frontier += [made for (made,) in database.execute(SQL["made_from"], {"seq": seq, "end": position})]
    database.executemany(SQL["hide"], [(seq, author) for seq in sorted(covered)])
    return touched | covered


def settle(database: apsw.Connection, keys: Iterable[Key]) -> None:
    """Puts exactly the newest visible version of each key in the present, unless it is a tombstone."""
    books = Books(database)
    for key in keys:
        versions = list(database.execute(SQL["versions_of_key"], (key.scope, key.kind, key.id)))
        newest = next(((seq, deleted) for seq, deleted, hidden, _ in reversed(versions) if not hidden), None)
        live = newest[0] if newest is not None and not newest[1] else None
        for seq, _, _, past in versions:
            if seq != live and not past:
                to_past(database, seq)
                books.shift(key.scope, key.kind, -1)
            elif seq == live and past:
                to_present(database, seq)
                books.shift(key.scope, key.kind, +1)
    books.close()


def _keys_of(database: apsw.Connection, seqs: Iterable[int]) -> set[Key]:
    return {Key(*database.execute(SQL["key_of_seq"], (seq,)).get) for seq in seqs}
