"""The extent of an erasure: the named records whole, the versions derived from them, and the copies of either.

A version is derived from the version of its source that was the newest when it was written. So a link that an agent added
to a record of the owner costs that one version: the sound version before it becomes current again. A later version that
repeats what such a version said goes too, so that nobody keeps erased content by writing it once more without the link.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lukasa.core import canonical_json
from lukasa.core.record import DERIVED_FROM, Key, Record, entry_bytes
from lukasa.core.scope import SYSTEM
from lukasa.errors import InvalidInput
from lukasa.journal.write_rules import PROPOSAL
from lukasa.storage.engine import (
    API_TOKEN,
    IMPORT,
    PAGE_SESSION,
    QUARANTINE,
    RESERVED_KINDS,
    SET_ASIDE,
    TOKEN_USE,
    EraseResult,
    Query,
    Reader,
    hash_erased_key,
)
from lukasa.storage.reader import names_subject

SYNC_CONFLICT = "sync_conflict"
_MAX_SUBJECT_LENGTH = 10_000
_KINDS_WITH_COPIES = (SYNC_CONFLICT, PROPOSAL, SET_ASIDE)


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """The receipt of an erasure, without content: its record's id, what was removed, and what is still on disk.

    ``records`` and ``by_kind`` count what was removed whole, ``restored`` the records that lost only versions which were
    derived from it, and ``versions`` both. ``id`` is ``None`` when there was nothing to erase; nothing was recorded then.
    ``files`` names the files that were deleted: those of sessions, and copies of the store that were left next to it. The
    record in the log has their number.
    """

    id: str | None
    records: int
    versions: int
    by_kind: Mapping[str, int]
    residue: str | None
    files: tuple[str, ...] = ()
    restored: int = 0


DeleteFiles = Callable[[Sequence[Key], str | None, bool], Sequence[str]]
"""Deletes the files of records and of a subject, whose letter case may count, and returns their names."""


def choose_erased(reader: Reader, keys: Sequence[Key], subject: str | None, exact: bool) -> list[Key | Record]:
    """Return what an erasure of the named records, or of a subject, removes: records whole, and single versions of others."""
    if subject and len(subject) > _MAX_SUBJECT_LENGTH:
        raise InvalidInput(
            f"The subject has {len(subject):,} characters; at most {_MAX_SUBJECT_LENGTH:,} are allowed.",
            hint="Name a record, or give the first words of the text.",
        )
    chosen = dict.fromkeys(keys)
    if subject:
        mentioning = reader.read(Query(mentions=subject, every_version=True, hidden=True))
        named = (record.key for record in mentioning if names_subject(entry_bytes(record), subject, exact=exact))
        chosen.update(dict.fromkeys(named))
    protected = RESERVED_KINDS - ({QUARANTINE, SET_ASIDE, IMPORT} if subject else {SET_ASIDE})
    protected |= {API_TOKEN, PAGE_SESSION, TOKEN_USE}  # a hash may hold any letters; tokens are revoked, not erased
    return [entry for entry in _find_erased(reader, chosen) if entry.scope != SYSTEM or entry.kind not in protected]


def receipt_body(
    chosen: Iterable[Key | Record], erased: EraseResult, *, reason: str, salt: str, files: int
) -> dict[str, Any]:
    """Return the body that the log keeps of an erasure: counts, and salted hashes of the erased keys."""
    marks = {
        hash_erased_key(entry, salt) if isinstance(entry, Key) else hash_erased_key(entry.key, salt, entry.version)
        for entry in chosen
    }
    body = {
        "records": erased.records, "versions": erased.versions, "by_kind": dict(erased.by_kind),
        "reason": reason, "salt": salt, "marks": sorted(marks),
    }  # fmt: skip
    body |= {"restored": erased.restored} if erased.restored else {}
    return body | ({"files": files} if files else {})


def _find_erased(reader: Reader, named: Iterable[Key]) -> list[Key | Record]:
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
    """Yield the positions of later versions that repeat the derived one, and of tombstones with no version left below them.

    A text that an earlier sound version had already is no repetition.
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
    """Yield the copies of other records in a record, as fields of an entry; anything that is no entry is left out."""
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
