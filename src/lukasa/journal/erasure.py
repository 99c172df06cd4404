"""What an erasure removes: the named records whole, the versions derived from them, and the copies of either.

A version is derived from the version of its source that was the newest when it was written. So a link that an agent added
to a record of the owner costs that one version: the sound version before it becomes current again. A later version that
repeats what such a version said goes too, so that nobody keeps erased content by writing it once more without the link.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lukasa.core import canonical_json
from lukasa.core.record import DERIVED_FROM, Key, Record
from lukasa.journal.write_rules import PROPOSAL
from lukasa.storage.engine import SET_ASIDE, Query, Reader

SYNC_CONFLICT = "sync_conflict"
_KINDS_WITH_COPIES = (SYNC_CONFLICT, PROPOSAL, SET_ASIDE)


def choose_erased(reader: Reader, named: Iterable[Key]) -> list[Key | Record]:
    """Return the records that an erasure of the named ones removes whole, and the single versions of others."""
    whole = dict.fromkeys(named)
    histories = {key: reader.history(key, hidden=True) for key in reader.descendants(list(whole), hidden=True)}
    by_source: dict[Key, list[Record]] = {}
    for version in sorted((v for history in histories.values() for v in history), key=lambda version: version.seq):
        for link in dict.fromkeys(version.links):
            if link.relation == DERIVED_FROM:
                by_source.setdefault(link.to, []).append(version)
    erased: dict[Key, set[int]] = {key: set() for key in histories}
    pending = dict.fromkeys(whole)
    while pending:
        source, _ = pending.popitem()
        newest_before = None if source in whole else _NewestBefore(histories[source])
        for version in by_source.get(source, ()):
            key, positions = version.key, erased.get(version.key)
            if key in whole or positions is None or version.seq in positions:
                continue
            if newest_before is None or newest_before.find(version.seq) in erased[source]:
                positions.add(version.seq)
                positions.update(_find_repeats(histories[key], version, positions))
                pending[key] = None
                if len(positions) == len(histories[key]):
                    whole[key] = None
    versions = [
        v for key, positions in erased.items() if key not in whole for v in histories[key] if v.seq in positions
    ]
    whole.update(dict.fromkeys(_find_copies(reader, whole, versions)))
    return [*whole, *(version for version in versions if version.key not in whole)]


class _NewestBefore:
    """Finds the position of a record's newest version at an earlier moment, in the order in which they were written."""

    def __init__(self, history: Sequence[Record]) -> None:
        written = sorted(history, key=lambda version: version.seq)
        self._seqs = [version.seq for version in written]
        self._newest = written[:1]
        for version in written[1:]:
            self._newest.append(max(self._newest[-1], version, key=lambda version: version.version))

    def find(self, seq: int) -> int | None:
        place = bisect_left(self._seqs, seq)
        return self._newest[place - 1].seq if place else None


def _find_repeats(history: Sequence[Record], derived: Record, erased: set[int]) -> Iterator[int]:
    """Yield the positions of later versions that say what the derived one says, and of tombstones with nothing left below.

    What a sound version before said is no repetition.
    """
    kept = [version for version in history if version.version < derived.version and version.seq not in erased]
    was_said = any(_repeats(version, derived) for version in kept)
    for version in history:
        if version.version > derived.version and version.seq not in erased:
            if (version.deleted and not kept) or (_repeats(version, derived) and not was_said):
                yield version.seq
            else:
                kept.append(version)


def _repeats(version: Record, derived: Record) -> bool:
    """Return whether a version says little more than another: its text is half of this one's at least, or has its body."""
    words, said = (" ".join(record.text.casefold().split()) for record in (derived, version))
    if not words:
        return not said and bool(derived.body) and version.body == derived.body
    return 2 * len(words) >= len(said) and f" {words} " in f" {said} "


def _find_copies(reader: Reader, whole: Mapping[Key, None], versions: Sequence[Record]) -> Iterator[Key]:
    """Yield the records that hold a copy of erased content: conflicts of a sync, proposals, damaged entries set aside."""
    numbers = {(version.key, version.version) for version in versions}
    partly = {version.key for version in versions}
    query = Query(kinds=_KINDS_WITH_COPIES, every_version=True, hidden=True)
    for record in reader.read(query):
        for entry in _list_copied_entries(record):
            key = _parse_key(entry)
            if key in whole or (key, entry.get("version")) in numbers:
                yield record.key
            links = entry.get("links")
            for link in links if isinstance(links, list) else ():
                if isinstance(link, dict) and link.get("relation") == DERIVED_FROM:
                    source = _parse_key(link)
                    if source in whole or source in partly:
                        yield record.key


def _list_copied_entries(record: Record) -> Iterator[Mapping[str, Any]]:
    """Yield what a record copied of others, as fields of an entry; what is no entry is left out."""
    body: Mapping[str, Any] = record.body
    if record.kind == PROPOSAL:
        changes = body.get("changes")
        yield from (change for change in (changes if isinstance(changes, list) else ()) if isinstance(change, dict))
        return
    if record.kind == SET_ASIDE:
        yield body
    elif isinstance(about := body.get("record"), dict):
        yield {**about, "version": body.get("version")}
    for name in ("hub", "here", "entry"):
        try:
            entry = canonical_json.parse(body.get(name, ""))
        except (ValueError, TypeError, AttributeError):
            continue
        if isinstance(entry, dict):
            yield entry


def _parse_key(fields: Mapping[str, Any]) -> Key | None:
    scope, kind, id = fields.get("scope"), fields.get("kind"), fields.get("id")
    return Key(scope, kind, id) if isinstance(scope, str) and isinstance(kind, str) and isinstance(id, str) else None
