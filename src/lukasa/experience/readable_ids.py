"""Ids that people can read, such as ``sem-001``: choosing the next free one, and finding the record behind one."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from lukasa.core.names import find_number
from lukasa.core.record import Key, Record
from lukasa.core.scope import SHARED, SYSTEM
from lukasa.storage.engine import Query, Reader

_NEWEST_CHECKED = 8


def free_ids(reader: Reader, kind: str, prefix: str, scope: str, *, labels: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield ids ``prefix001``, ``prefix002``, … that no record of the kind ever had in the scope.

    Numbers continue after the newest records of the kind; ``labels`` narrow down which records count. Call this inside
    a conditional append, so that no other writer takes the same id.
    """
    newest = reader.read(
        Query(kinds=(kind,), labels=labels, every_version=True, newest_first=True, limit=_NEWEST_CHECKED)
    )
    last = max((find_number(record.id, prefix) or 0 for record in newest), default=0)
    for number in itertools.count(last + 1):
        id = f"{prefix}{number:03d}"
        if not reader.history(Key(scope, kind, id)):
            yield id


def find_by_id(
    reader: Reader, kinds: Iterable[str], id: str, *, scope: str | None = None, own_scope: str = ""
) -> Record | None:
    """Return the current record with an id, or None.

    Without ``scope``, the caller's own scope is searched first, then the shared scope, then the others by name.
    """
    if not id:
        return None
    wanted = tuple(kinds)
    scopes = dict.fromkeys(row.scope for row in reader.tally() if row.kind in wanted and row.scope != SYSTEM)
    ordered = (scope,) if scope else sorted(scopes, key=lambda name: (name != own_scope, name != SHARED, name))
    for name, kind in itertools.product(ordered, wanted):
        if name in scopes and (record := reader.get(Key(name, kind, id))) is not None:
            return record
    return None
