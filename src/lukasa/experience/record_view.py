"""Views of experience records: a record's body under typed names, and the lookup of a record by its id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lukasa.core.outcome import Outcome, Refused
from lukasa.core.record import Draft, Record
from lukasa.experience.readable_ids import find_by_id
from lukasa.journal import Journal
from lukasa.storage.engine import Reader


@dataclass(frozen=True, slots=True)
class RecordView:
    """A record with an id."""

    record: Record

    @property
    def id(self) -> str:
        return self.record.id


def order_fields(body: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return a body with the named fields first and all others after them."""
    return {name: body[name] for name in (*names, *body) if name in body}


def read_by_id(journal: Journal, kind: str, id: str, scope: str | None = None) -> Record | None:
    """Return the current record of a kind with an id, the caller's own before others, or None."""
    with journal.snapshot() as reader:
        return find_by_id(reader, (kind,), id, scope=scope, own_scope=journal.author)


def change_by_id(
    journal: Journal, kind: str, id: str, change: Callable[[Reader, Record], Sequence[Draft] | Refused],
    *, scope: str | None = None,
) -> Outcome:  # fmt: skip
    """Append the drafts that ``change`` builds from the record with an id, inside the write lock, or refuse."""

    def build_drafts(reader: Reader) -> Sequence[Draft] | Refused:
        record = find_by_id(reader, (kind,), id, scope=scope, own_scope=journal.author)
        return not_found(kind, id) if record is None else change(reader, record)

    return journal.append_if(build_drafts)


def not_found(kind: str, id: str) -> Refused:
    return Refused("not_found", f"There is no {kind} {id!r:.80}.")
