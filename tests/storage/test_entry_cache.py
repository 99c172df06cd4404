"""What was read before is kept within bounds, and no longer than the store keeps it."""

from __future__ import annotations

import pytest

import lukasa
from lukasa.core.record import digest_of
from lukasa.storage.engine import Query
from lukasa.storage.reader import EntryCache

ENTRY = (
    '{"author":"a","id":"%s","kind":"note","origin":"manual","scope":"shared","text":"%s",'
    '"created_at":"2026-01-01T00:00:00Z","recorded_at":"2026-01-01T00:00:00Z","version":1}'
)


def make_row(seq: int, size: int):
    entry = (ENTRY % (seq, "x" * size)).encode()
    return seq, entry, digest_of(entry)


@pytest.mark.requirement("LOG-5")
def test_a_million_characters_are_kept_and_no_long_entry() -> None:
    cache = EntryCache()
    rows = [make_row(seq, 1000) for seq in range(2000)]
    for _ in range(3):
        assert [cache.parse(row).id for row in rows] == [str(row[0]) for row in rows]
        assert sum(len(known[0]) for known in cache.values()) <= 1_000_000
        assert cache
    long = make_row(3000, 50_000)
    for _ in range(3):
        assert len(cache.parse(long).text) == cache.parse_text(long).count("x") == 50_000
    assert 3000 not in cache


@pytest.mark.requirement("LOG-5")
def test_what_is_erased_is_not_kept(tmp_path) -> None:
    with lukasa.open(tmp_path / "store.db", embedder="none") as memory:
        memory.journal.write("note", "the secret of the heron", id="a")
        for _ in range(3):
            assert [*memory.journal.read(Query(kinds=("note",)))]
        entries = memory._parts.engine._entries  # type: ignore[attr-defined]
        assert "heron" in str(entries)
        memory.journal.erase(lukasa.Key("shared", "note", "a"))
        assert "heron" not in str(entries)
