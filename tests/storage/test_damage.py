"""Damage stays where it is: a damaged record or vector is left out, and every answer that lacks it says so."""

from __future__ import annotations

import io
from typing import Any

import apsw
import pytest

import lukasa
from lukasa.core.record import Key
from lukasa.core.scope import FULL_REACH
from lukasa.errors import StoreDamaged
from lukasa.storage.engine import Query
from lukasa.storage.sqlite import SqliteEngine
from lukasa.testing.contract.base import nearest_ids, write_note
from lukasa.transfer.jsonl import export_log


@pytest.fixture
def store(tmp_path):
    """Make a store of three notes, and alter a byte of the second."""
    path = tmp_path / "store.db"
    with lukasa.open(path, embedder="hash") as memory:
        for id, day in (("a", "Monday"), ("b", "Tuesday"), ("c", "Friday")):
            memory.journal.write("note", f"the release is on {day}", id=id)
        memory.recall("release")
    database = apsw.Connection(str(path))
    database.execute("UPDATE log SET line = replace(line, 'Tuesday', 'Tuesdaz') WHERE id = 'b'")
    assert database.changes() == 1
    database.close()
    return path


@pytest.mark.requirement("LOG-5")
def test_recall_leaves_a_damaged_record_out_and_says_so(store):
    with lukasa.open(store, embedder="hash") as memory:
        result = memory.recall("When is the release?")
        assert sorted(record.id for record in result.records) == ["a", "c"]
        assert "1 damaged" in result.note
        assert "lukasa verify" in result.note
        assert [record.id for record in memory.journal.read(Query(kinds=("note",)))] == ["a", "c"]
        assert memory.journal.damaged == {2}
        with pytest.raises(StoreDamaged, match="position 2"):
            memory.journal.get(Key("shared", "note", "b"))


@pytest.mark.requirement("LOG-5", "LOG-7")
def test_a_log_with_a_damaged_record_is_exported_without_it(store):
    with lukasa.open(store, embedder="hash") as memory:
        export_log(memory.journal, io.BytesIO())
        assert memory.journal.list_damaged() == ["shared/note/b version 1 (position 2)"]


@pytest.mark.requirement("LOG-5")
@pytest.mark.parametrize("damage", [b"\x00\x7e", b"\xff\x7b", b"\x00\x7c"], ids=["not a number", "huge", "infinite"])
def test_a_damaged_vector_is_left_out(tmp_path, damage):
    engine = SqliteEngine(tmp_path / "store.db")
    records = [write_note(engine, id, id) for id in ("a", "b", "c")]
    engine.put_vectors("m", [(record.seq, 0, [1.0, 2.0, 2.0]) for record in records])
    engine.put_vectors("m", [(records[2].seq, 0, [0.0, 0.0, 0.0])])
    with engine._borrow_connection() as database:
        vector = damage + b"\0\0\0\0"  # as stores of earlier versions hold it, without a checksum
        database.execute("UPDATE vector SET vector = ? WHERE seq = ?", (vector, records[1].seq))
        assert database.changes() == 1
    assert nearest_ids(engine, [1.0, 2.0, 2.0]) == ["a", "c"]
    with engine.snapshot(FULL_REACH) as reader:
        assert set(reader.cosines("m", [1.0, 2.0, 2.0], range(9))) == {records[0].seq, records[2].seq}
    engine.close()


@pytest.mark.requirement("LOG-5")
@pytest.mark.parametrize("place", [0, 1, 63, 127, 130])
def test_a_flipped_byte_of_a_vector_is_noticed_and_the_vector_made_anew(tmp_path, place):
    with lukasa.open(tmp_path / "store.db", embedder="hash") as memory:
        for day in ("Monday", "Tuesday", "Friday"):
            memory.journal.write("note", f"the release is on {day}", id=day)
        expected = memory.recall("When is the release?")
        engine: Any = memory._parts.engine
        with engine._borrow_connection() as database:
            ((seq, vector),) = database.execute("SELECT seq, vector FROM vector ORDER BY seq LIMIT 1")
            broken = bytes([*vector[:place], vector[place] ^ 0x40, *vector[place + 1 :]])
            database.execute("UPDATE vector SET vector = ? WHERE seq = ?", (broken, seq))
    with lukasa.open(
        tmp_path / "store.db"
    ) as memory:  # a process that has read the vectors of a small store keeps them
        engine = memory._parts.engine
        with memory.journal.snapshot() as reader:
            model = memory.recall.index.embedder.name
            found = reader.cosines(model, memory.recall.index.question_vector("release"), [seq, seq + 1])
            assert (list(found), reader.damaged_vectors) == ([seq + 1], {seq})
        memory.recall("When is the release?")
        with engine._borrow_connection() as database:
            assert database.execute("SELECT vector FROM vector WHERE seq = ?", (seq,)).get == vector
        again = memory.recall("When is the release?")
        assert [hit.record.id for hit in again.hits] == [hit.record.id for hit in expected.hits]


@pytest.mark.requirement("LOG-5")
@pytest.mark.parametrize("value", ["CAST({} AS TEXT)", "17", "1.5"], ids=["text", "integer", "number"])
def test_a_vector_whose_type_is_damaged_stops_no_recall(tmp_path, value):
    path = tmp_path / "store.db"
    with lukasa.open(path, embedder="hash") as memory:
        for day in ("Monday", "Tuesday", "Friday"):
            memory.journal.write("note", f"the release is on {day}", id=day)
        expected = sorted(hit.record.id for hit in memory.recall("When is the release?").hits)
    with apsw.Connection(str(path)) as database:
        database.execute(
            f"UPDATE vector SET vector = {value.format('vector')} WHERE seq = (SELECT min(seq) FROM vector)"
        )
        assert database.changes() == 1
    with lukasa.open(path, embedder="hash") as memory:
        assert sorted(hit.record.id for hit in memory.recall("When is the release?").hits) == expected
        memory.verify()
