"""Ids that people read, such as ``sem-001``: the next free one, and the record that one means."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from lukasa.record import Key, Record
from lukasa.scope import SHARED, SYSTEM
from lukasa.storage.engine import Query, Reader

_NEWEST_CHECKED = 8


def free_ids(reader: Reader, kind: str, prefix: str, scope: str, *, labels: tuple[str, ...] = ()) -> Iterator[str]:
    """Ids ``prefix001``, ``prefix002``, … that no record of the kind ever had there, beginning after the newest.

    ``labels`` narrow down where the newest is looked for. Ask inside a decision: then nobody else takes the same one.
    """
    newest = reader.read(
        Query(kinds=(kind,), labels=labels, every_version=True, newest_first=True, limit=_NEWEST_CHECKED)
    )
    last = max((parse_id_number(record.id, prefix) or 0 for record in newest), default=0)
    for number in itertools.count(last + 1):
        id = f"{prefix}{number:03d}"
        if not reader.history(Key(scope, kind, id)):
            yield id


def parse_id_number(id: str, prefix: str) -> int | None:
    """The number in an id with this prefix."""
    rest = id.removeprefix(prefix)
    return int(rest) if rest != id and len(rest) < 10 and rest.isascii() and rest.isdigit() else None


def find_by_id(
    reader: Reader, kinds: Iterable[str], id: str, *, scope: str | None = None, own_scope: str = ""
) -> Record | None:
    """The live record that an id means: in the scope that is said, else in the caller's own, the shared, any other."""
    if not id:
        return None
    wanted = tuple(kinds)
    scopes = dict.fromkeys(row.scope for row in reader.tally() if row.kind in wanted and row.scope != SYSTEM)
    places = (scope,) if scope else sorted(scopes, key=lambda name: (name != own_scope, name != SHARED, name))
    for place, kind in itertools.product(places, wanted):
        if place in scopes and (record := reader.get(Key(place, kind, id))) is not None:
            return record
    return None
