"""Orders in records, and whether anybody but the author of a record stands by them.

A text that gives orders (``lukasa.text.orders``) is kept, and found by anybody who asks for it; but no snapshot, start of a session,
briefing or prompt shows it unasked before the owner or a second author stands by it. Whether it gives orders is not stored with
it but judged when it is shown: so the rule holds for every way into the store, for imports, and for records that are older than the rule.

A record that the owner writes is the owner's word and stands. A record that the owner only brings (an import, a sync) or has
made of others' records (consolidation, extraction) is judged like anybody's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lukasa.core.record import DERIVED_FROM, Key, Record
from lukasa.journal import Journal
from lukasa.storage.engine import Query, Reader
from lukasa.text.orders import find_order_in

CORROBORATION = "corroboration"
IMPORTED = "import"
CONSOLIDATED = "consolidation"
ORDERS = "orders"
"""Why a record is left out of a prompt: it gives orders, and nobody but its author stands by it."""


def find_unconfirmed_orders(journal: Journal, records: Iterable[Record]) -> dict[Key, str]:
    """Return the records with orders that only their author stands by, each with the reason why it is an order."""
    found = {record.key: (record, reason) for record in records if (reason := find_order_in(record))}
    if not found:
        return {}
    imported = journal.find_imports([record for record, _ in found.values() if not record.author])
    with journal.snapshot() as reader:
        return {
            key: reason
            for key, (record, reason) in found.items()
            if not is_confirmed(reader, record, is_imported=record.digest in imported)
        }


def split_by_reason(left_out: Iterable[tuple[Record, str]]) -> tuple[list[Key], list[Key]]:
    """Return the keys of records that a prompt leaves out: the expired ones, and those with unconfirmed orders."""
    entries = list(left_out)
    expired, orders = ([record.key for record, why in entries if why == reason] for reason in ("expired", ORDERS))
    return expired, orders


def is_confirmed(reader: Reader, record: Record, *, is_imported: bool = False) -> bool:
    """Tell whether the owner or two independent authors say the same as a record."""
    versions = []
    for version in reversed(reader.history(record.key)):
        if version.deleted or version.text != record.text:
            break
        versions.append(version)
    voices = {
        version.author for version in versions if version.author or not (is_imported or is_made_of_others(version))
    }
    numbers = {version.version for version in versions}
    voices |= {said.author for said in _read_corroborations(reader, record) if said.body.get("version") in numbers}
    if not record.author and record.origin == CONSOLIDATED:
        voices |= find_source_authors(reader, record)
    return "" in voices or len(voices) > 1


def is_confirmed_by_owner(reader: Reader, record: Record) -> bool:
    """Tell whether the owner has confirmed any version of a record that others' records were made into."""
    return any(not said.author for said in _read_corroborations(reader, record))


def _read_corroborations(reader: Reader, record: Record) -> Sequence[Record]:
    return reader.read(Query(kinds=(CORROBORATION,), scopes=(record.scope,), labels=(f"of={record.id}",)))


def is_made_of_others(record: Record) -> bool:
    """Tell whether a record without an author is not the owner's own words: it was imported or made of other records."""
    return record.origin == IMPORTED or any(link.relation == DERIVED_FROM for link in record.links)


def find_source_authors(reader: Reader, record: Record) -> set[str]:
    """Return the authors of the records that a record was made of."""
    links = (link.to for link in record.links if link.relation == DERIVED_FROM and link.to != record.key)
    return {source.author for key in links if (source := reader.get(key)) is not None}
