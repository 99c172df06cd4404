"""What an undo writes: the last good version of each record that it reverts, or a tombstone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lukasa.core.record import DERIVED_FROM, Draft, Key, Record, draft_from
from lukasa.journal.log_access import QUARANTINE_QUERY, tombstone_draft
from lukasa.storage.engine import Reader


@dataclass(frozen=True, slots=True)
class UndoResult:
    """The result of an undo: the reverted records, and those left alone because another author wrote them since."""

    reverted: tuple[Key, ...]
    kept: tuple[Key, ...] = ()
    label: str = ""


def plan_undo(
    reader: Reader, written: Sequence[Record], label: str, *, author: str, is_owner: bool
) -> tuple[list[Draft], UndoResult]:
    """Return the drafts that revert these versions and all versions derived from them, and the records reverted and left alone.

    ``author`` is the caller of the undo. Only the owner reverts the writes of others.
    """
    drafts: list[Draft] = []
    kept: list[Key] = []
    in_quarantine = {
        record.body["author"] for record in reader.read(QUARANTINE_QUERY) if not record.body.get("released")
    }
    for key, positions in _positions_with_derived(reader, written).items():
        history = reader.history(key)
        if history[-1].seq in positions and (is_owner or history[-1].author == author):
            good = next((record for record in reversed(history) if record.seq not in positions), None)
            labels = (*(name for name in (good or history[-1]).labels if not name.startswith("undo=")), label)
            if good is None or good.deleted:
                reverted = tombstone_draft(history[-1], author, "undo")._replace(labels=labels)
            else:
                reverted = draft_from(good, origin="undo", labels=labels)
            if reverted.author in in_quarantine or not is_owner:  # it would be hidden, or refused
                reverted = reverted._replace(author=author)
            drafts.append(reverted)
        else:
            kept.append(key)
    return drafts, UndoResult(tuple(draft.key for draft in drafts), tuple(kept), label)


def _positions_with_derived(reader: Reader, records: Sequence[Record]) -> dict[Key, set[int]]:
    """Return the positions of these versions and of every version derived from them, directly or not.

    A version is derived from the version of its source that was the newest when it was written.
    """
    found: dict[Key, set[int]] = {}
    for record in records:
        found.setdefault(record.key, set()).add(record.seq)
    histories = {key: reader.history(key) for key in (*found, *reader.descendants(list(found)))}
    versions = (version for history in histories.values() for version in history)
    for version in sorted(versions, key=lambda version: version.seq):
        for link in version.links:
            if link.relation == DERIVED_FROM and link.to in found:
                earlier = [source.seq for source in histories[link.to] if source.seq < version.seq]
                if earlier and earlier[-1] in found[link.to]:
                    found.setdefault(version.key, set()).add(version.seq)
    return found


def without_reverts(reader: Reader, written: Sequence[Record]) -> list[Record]:
    """Return the versions without restored ones: those by which an undo brought back an earlier version, or a tombstone.

    The origin of a version is no proof: its writer chose it.
    """
    positions = {record.seq for record in written}

    def is_revert(record: Record) -> bool:
        if record.origin != "undo":
            return False
        earlier = (version for version in reversed(reader.history(record.key)) if version.seq < record.seq)
        good = next((version for version in earlier if version.seq not in positions), None)
        if record.deleted or good is None or good.deleted:
            return record.deleted and (good is None or good.deleted)
        return (record.text, record.body) == (good.text, good.body)

    return [record for record in written if not is_revert(record)]
