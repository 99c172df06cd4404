"""Quarantine: hide what an author wrote, and what was derived from it, without changing the log.

A quarantine is a record of kind ``quarantine``: ``{"author": …, "since": …}`` starts it, a later version with
``"released": true`` ends it. A version is hidden when its author is in quarantine and it was written at or after ``since``,
or when it was derived from a hidden version. The system scope is never hidden.

The rules are the same for every engine; each engine runs its own named statements.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from lukasa.core import canonical_json
from lukasa.core.clock import from_iso, to_microseconds
from lukasa.core.record import DERIVED_FROM, Key, Link, ValidatedDraft, parse_entry
from lukasa.core.scope import SYSTEM
from lukasa.storage.engine import QUARANTINE

_BEGINNING_OF_TIME = -(2**62)
_NO_POSITION_LIMIT = 2**63 - 1


class QuarantineBackend(Protocol):
    """A store inside a write transaction."""

    def fetch_rows(self, name: str, *values: Any) -> list[Any]:
        """Run a named statement and return its rows."""

    def execute_many(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Run a named statement once per row of values."""

    def mark_superseded(self, seq: int) -> None:
        """Mark a version as not current."""

    def mark_current(self, seq: int) -> None:
        """Mark a version as current again."""

    def add_live_count(self, scope: str, kind: str, live: int) -> None:
        """Add to the number of current records of a kind, or subtract."""


class ActiveQuarantines:
    """The quarantines in force, cached for one transaction."""

    def __init__(self, backend: QuarantineBackend) -> None:
        self._backend = backend
        self._starts: dict[str, int | None] = {}

    def start_of(self, author: str) -> int | None:
        """Return since when an author is in quarantine, which hides what it writes; ``None`` if it is not."""
        if author not in self._starts:
            rows = self._backend.fetch_rows("quarantine_start", author)
            self._starts[author] = rows[0][0] if rows else None
        return self._starts[author]

    def find_hiding_authors(
        self, scope: str, author: str, links: Iterable[Link], at: int, *, before: int = _NO_POSITION_LIMIT
    ) -> frozenset[str]:
        """Return the authors whose quarantines hide a new version.

        These are its own author, and the authors whose quarantines hide every version of a source it was derived from.
        """
        if scope == SYSTEM:
            return frozenset()
        authors: set[str] = set()
        since = self.start_of(author)
        if since is not None and at >= since:
            authors.add(author)
        for link in links:
            if link.relation == DERIVED_FROM:
                source = link.to
                rows = self._backend.fetch_rows("authors_hiding_key", source.scope, source.kind, source.id, before)
                authors.update(hiding for (hiding,) in rows)
        return frozenset(authors)


def note_quarantine(backend: QuarantineBackend, batch: Iterable[ValidatedDraft]) -> dict[str, Any]:
    """Return the details of a write by an author in quarantine; its records are hidden at once."""
    quarantines = ActiveQuarantines(backend)
    return {QUARANTINE: {}} if any(quarantines.start_of(sealed.author) is not None for sealed in batch) else {}


def apply_quarantine(backend: QuarantineBackend, body: Mapping[str, Any], position: int) -> None:
    """Start or end the quarantine that is recorded at a position."""
    _update_current_versions(backend, _update_quarantine(backend, body, position))


def lift_quarantine(backend: QuarantineBackend, key: Key) -> None:
    """End the quarantine whose record is about to be erased."""
    for (line,) in backend.fetch_rows("entries_of_key", key.scope, key.kind, key.id):
        _update_current_versions(backend, _end_quarantine(backend, canonical_json.parse(line)["body"]["author"]))


def restore_current(backend: QuarantineBackend, keys: Sequence[Key]) -> None:
    """Make the newest visible version of each key current, after versions of it were erased.

    A version derived from such a record may be hidden now, if only the erased versions of the record were visible.
    """
    touched: set[int] = set()
    if keys:
        entries = [canonical_json.parse(line) for _, _, _, line in backend.fetch_rows("quarantine_records")]
        authors = {entry["body"]["author"] for entry in entries}
        for author in authors:
            touched |= _end_quarantine(backend, author)
        rebuild_hidden(backend)
        touched.update(seq for author in authors for (seq,) in backend.fetch_rows("hidden_by_author", author))
    _update_current_versions(backend, touched, keys)


def rebuild_hidden(backend: QuarantineBackend) -> None:
    """Rebuild which versions are hidden, quarantine by quarantine in log order."""
    events, newest = [], dict[str, int]()
    for seq, id, version, line in backend.fetch_rows("quarantine_records"):
        if version > newest.get(id, 0):  # an older version that was replayed later had no effect
            newest[id] = version
            events.append((seq, canonical_json.parse(line)["body"]))
    ends = [seq for seq, _ in events[1:]] + [_NO_POSITION_LIMIT]
    for (position, body), end in zip(events, ends, strict=False):
        _update_quarantine(backend, body, position)
        quarantines = ActiveQuarantines(backend)
        for seq, line, digest, at in backend.fetch_rows("maybe_hidden", position, end):
            record = parse_entry(line, seq, digest)
            authors = quarantines.find_hiding_authors(record.scope, record.author, record.links, at, before=seq)
            backend.execute_many("hide_version", [(seq, author) for author in authors])


def _update_quarantine(backend: QuarantineBackend, body: Mapping[str, Any], position: int) -> set[int]:
    """Hide or show the versions before a position; return every version that was or is hidden by this author."""
    author = body["author"]
    touched = _end_quarantine(backend, author)
    if body.get("released"):
        return touched
    since = to_microseconds(from_iso(body["since"])) if body.get("since") else _BEGINNING_OF_TIME
    backend.execute_many("put_quarantine", [(author, since)])
    covered: set[int] = set()
    frontier = [seq for (seq,) in backend.fetch_rows("versions_by_author", author, since, position)]
    while frontier:
        seq = frontier.pop()
        if seq not in covered:
            covered.add(seq)
            frontier += [derived for (derived,) in backend.fetch_rows("versions_derived_from", seq, position)]
    backend.execute_many("hide_version", [(seq, author) for seq in sorted(covered)])
    return touched | covered


def _end_quarantine(backend: QuarantineBackend, author: str) -> set[int]:
    """Show the versions that an author's quarantine hides, and return them."""
    touched = {seq for (seq,) in backend.fetch_rows("hidden_by_author", author)}
    backend.execute_many("unhide_by_author", [(author,)])
    backend.execute_many("delete_quarantine", [(author,)])
    return touched


def _update_current_versions(backend: QuarantineBackend, seqs: Iterable[int], keys: Iterable[Key] = ()) -> None:
    """Make the newest visible version of each touched key its only current one, unless it is a tombstone."""
    changes: dict[tuple[str, str], int] = {}
    for key in {*keys, *(Key(*row) for seq in seqs for row in backend.fetch_rows("key_at", seq))}:
        versions = backend.fetch_rows("versions_of_key", key.scope, key.kind, key.id)
        newest = next(((seq, deleted) for seq, deleted, hidden, _ in reversed(versions) if not hidden), None)
        current = newest[0] if newest is not None and not newest[1] else None
        change = 0
        for seq, _, _, not_current in versions:
            if seq != current and not not_current:
                backend.mark_superseded(seq)
                change -= 1
            elif seq == current and not_current:
                backend.mark_current(seq)
                change += 1
        pair = (key.scope, key.kind)
        changes[pair] = changes.get(pair, 0) + change
    for (scope, kind), change in sorted(changes.items()):
        if change:
            backend.add_live_count(scope, kind, change)
