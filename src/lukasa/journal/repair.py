"""Damaged entries taken out of the log: kept with their bytes, and tombstones where a statement would come back."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any

from lukasa.core.clock import to_iso
from lukasa.core.record import DERIVED_FROM, Draft, Key, Link, digest_of, encode_draft, entry_suffix, parse_entry
from lukasa.core.scope import SYSTEM
from lukasa.journal.gate import Gate
from lukasa.storage.engine import SET_ASIDE, DamagedEntry, Reader

_MAX_SET_ASIDE_BYTES = 20_000_000


def is_intact(entry: DamagedEntry, gate: Gate) -> bool:
    """Return whether an entry matches its digest and its kind, so that only its columns are damaged."""
    if digest_of(entry.line) != entry.digest:
        return False
    return gate.find_body_fault(parse_entry(entry.line, 0, entry.digest)) is None


def build_tombstones(
    reader: Reader, damaged: Iterable[DamagedEntry], gate: Gate, now: str
) -> Iterator[tuple[bytes, bytes]]:
    """Yield tombstones for the keys whose newest version is damaged while earlier ones are sound."""
    newest: dict[Key, int] = {}
    for entry in damaged:
        key = Key(entry.scope, entry.kind, entry.id)
        if key.scope != SYSTEM and not gate.falls_back(key.kind) and not is_intact(entry, gate):
            newest[key] = max(entry.version, newest.get(key, 0))
    positions = {entry.seq for entry in damaged}
    for key, version in newest.items():
        sound = [record for record in reader.history(key, hidden=True) if record.seq not in positions]
        if sound and sound[-1].version < version and not sound[-1].deleted:
            draft = Draft(key.kind, id=key.id, scope=key.scope, origin="repair", deleted=True)
            content = encode_draft(draft).content
            tombstone = content[:-1] + entry_suffix(version + 1, to_iso(sound[-1].created_at), now)
            yield tombstone, digest_of(tombstone)


def set_aside_draft(entry: DamagedEntry, author: str) -> Draft:
    """Return the record that keeps a damaged entry with its bytes."""
    line = entry.line[:_MAX_SET_ASIDE_BYTES]
    body: dict[str, Any] = {
        "position": entry.seq, "scope": entry.scope, "kind": entry.kind, "id": entry.id, "version": entry.version,
        "author": entry.author, "digest": entry.digest.hex(), "fault": entry.fault,
        "entry": line.decode("utf-8", "replace"),
    }  # fmt: skip
    if body["entry"].encode() != line:
        body["bytes"] = b64encode(line).decode()
    links = (Link(DERIVED_FROM, Key(entry.scope, entry.kind, entry.id)),)
    id = f"{entry.seq}-{digest_of(entry.line).hex()[:12]}"
    return Draft(SET_ASIDE, body=body, id=id, scope=SYSTEM, author=author, origin="repair", links=links)
