"""Damaged records are set aside: kept as they are, out of every read, and the store is sound again."""

from __future__ import annotations

import io
import json
from base64 import b64decode

import apsw
import psycopg
import pytest

import lukasa
from lukasa import Draft, Key, Link
from lukasa.core.record import encode_draft
from lukasa.core.scope import FULL_REACH, SYSTEM
from lukasa.errors import NotAllowed
from lukasa.storage.engine import SET_ASIDE, Query
from lukasa.storage.sqlite import vectors
from lukasa.transfer.copy import copy_log
from support.narrow import present

pytestmark = pytest.mark.requirement("LOG-5")


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path):
    """Name an empty store of either engine."""
    return tmp_path / "store.db" if request.param == "sqlite" else request.getfixturevalue("url")


def damage(place, column, value, id):
    """Overwrite a column of the newest version of a record; ``value`` is a fragment of SQL that both engines know."""
    statement = f"UPDATE log SET {column} = {value} WHERE id = '{id}' AND version = (SELECT max(version) FROM log WHERE id = '{id}')"
    if isinstance(place, str):
        with psycopg.connect(place, options="-c search_path=lukasa") as connection:
            assert connection.execute(statement).rowcount == 1
    else:
        database = apsw.Connection(str(place))
        database.execute(statement)
        assert database.changes() == 1
        database.close()


def alter_text(place, id="b"):
    damage(place, "line", "replace(line, 'Tuesday', 'Tuesdaz')", id)


def fill(place):
    """Write three notes about days, each with a label and a link."""
    with lukasa.open(place, embedder="hash") as memory:
        for id, day in (("a", "Monday"), ("b", "Tuesday"), ("c", "Friday")):
            links = (Link("about", Key("shared", "note", "a")),)
            assert memory.journal.write("note", f"the release is on {day}", id=id, labels=("day=yes",), links=links)
        memory.recall("release")


def test_a_damaged_record_is_set_aside_with_its_bytes_and_the_store_is_sound(place):
    fill(place)
    alter_text(place)
    with lukasa.open(place, embedder="hash") as memory:
        (finding,) = [finding for finding in memory.verify().findings if finding.position is not None]
        names = memory.journal.set_aside()
        assert names == [finding.where] == [f"shared/note/b version 1 (position {finding.position})"]
        report = memory.verify()
        assert (report.findings, report.set_aside) == ((), 1)
        assert [record.id for record in memory.journal.read(Query(kinds=("note",)))] == ["a", "c"]
        assert memory.journal.get(Key("shared", "note", "b")) is None
        result = memory.recall("When is the release?")
        assert (sorted(record.id for record in result.records), result.note) == (["a", "c"], "")
        (kept,) = memory.journal.read(Query(kinds=(SET_ASIDE,), scopes=(SYSTEM,)))
        assert "Tuesdaz" in json.loads(kept.body["entry"])["text"]
        assert (kept.body["id"], kept.body["version"], "digest" in kept.body["fault"]) == ("b", 1, True)
        assert memory.journal.set_aside() == []
        assert memory.journal.write("note", "the release is on Tuesday", id="b", expected=0)
        assert memory.verify().sound


def test_setting_aside_needs_the_owner(place):
    with lukasa.open(place, agent="ada", embedder="hash") as memory, pytest.raises(NotAllowed):
        memory.journal.set_aside()


@pytest.mark.parametrize(
    ("column", "value"),
    [("digest", "(SELECT digest FROM log WHERE id = 'a')"), ("line", "'{\"x'")],
    ids=["another digest", "no JSON"],
)
def test_any_damage_of_an_entry_can_be_set_aside(place, column, value):
    fill(place)
    damage(place, column, value, "b")
    with lukasa.open(place, embedder="hash") as memory:
        assert len(memory.journal.set_aside()) == 1
        assert memory.verify().findings == ()


@pytest.mark.parametrize(("column", "value"), [("author", "'mallory'"), ("at", "5")])
def test_an_entry_whose_columns_alone_are_damaged_is_written_again(place, column, value):
    fill(place)
    damage(place, column, value, "b")
    with lukasa.open(place, embedder="hash") as memory:
        assert not memory.verify().sound
        assert len(memory.journal.set_aside()) == 1
        assert memory.verify().findings == ()
        assert present(memory.journal.get(Key("shared", "note", "b"))).text == "the release is on Tuesday"


def test_a_superseded_version_does_not_come_back_when_the_newest_is_set_aside(place):
    with lukasa.open(place, embedder="hash") as memory:
        memory.journal.write("note", "the release is on Monday", id="b")
        memory.journal.write("note", "the release is on Tuesday", id="b")
        exported = io.BytesIO()
        memory.export(exported)
    alter_text(place)
    with lukasa.open(place, embedder="hash") as memory:
        assert len(memory.journal.set_aside()) == 1
        assert memory.journal.get(Key("shared", "note", "b")) is None
        assert [(record.version, record.deleted) for record in memory.journal.history(Key("shared", "note", "b"))] == [
            (1, False),
            (3, True),
        ]
        assert memory.verify().sound
        assert memory.import_(io.BytesIO(exported.getvalue())).added == 1  # an old export has the version
        assert present(memory.journal.get(Key("shared", "note", "b"), version=2)).text == "the release is on Tuesday"


def test_an_earlier_state_takes_the_place_of_a_damaged_one(place):
    with lukasa.open(place, embedder="hash") as memory:
        memory.context.append("s", "user", "Hello")
        for status in ("Monday", "Tuesday"):
            assert memory.context.task("s", "t", "Release", status=status)
    alter_text(place, "s")
    with lukasa.open(place, embedder="hash") as memory:
        assert len(memory.journal.set_aside()) == 1
        assert memory.context.load("s").active_tasks[0]["status"] == "Monday"


def test_a_body_that_does_not_fit_is_reported_and_set_aside(place):
    with lukasa.open(place, embedder="hash") as memory:
        draft = Draft("episode", "Fix it", {"context": 5}, id="bad")
        assert memory._parts.engine.append(FULL_REACH, [encode_draft(draft, "bad")])
        (finding,) = memory.verify().findings
        assert "context must be an object" in finding.what
        assert memory.journal.set_aside() == [finding.where]
        assert memory.verify().sound


def test_what_is_missing_is_still_reported(tmp_path):
    fill(tmp_path / "store.db")
    alter_text(tmp_path / "store.db")
    database = apsw.Connection(str(tmp_path / "store.db"))
    database.execute("DELETE FROM log WHERE id = 'c'")
    database.close()
    with lukasa.open(tmp_path / "store.db", embedder="hash") as memory:
        assert len(memory.journal.set_aside()) == 1
        (finding,) = memory.verify().findings
        assert finding.what == "1 versions are in the log, 2 were written"


def test_bytes_that_are_not_text_are_kept(tmp_path):
    fill(tmp_path / "store.db")
    damage(tmp_path / "store.db", "line", "CAST(x'7b22ff' || substr(CAST(line AS BLOB), 4) AS TEXT)", "b")
    with lukasa.open(tmp_path / "store.db", embedder="hash") as memory:
        memory.journal.set_aside()
        (kept,) = memory.journal.read(Query(kinds=(SET_ASIDE,), scopes=(SYSTEM,)))
        assert b64decode(kept.body["bytes"]).startswith(b'{"\xff')


def test_erasing_a_record_erases_what_was_set_aside_of_it(place):
    fill(place)
    alter_text(place)
    with lukasa.open(place, embedder="hash") as memory:
        memory.journal.set_aside()
        memory.journal.erase(Key("shared", "note", "b"))
        assert list(memory.journal.read(Query(kinds=(SET_ASIDE,), scopes=(SYSTEM,)))) == []
    fill(place)
    alter_text(place)
    with lukasa.open(place, embedder="hash") as memory:
        memory.journal.set_aside()
        memory.journal.erase(subject="Tuesdaz")
        assert list(memory.journal.read(Query(kinds=(SET_ASIDE,), scopes=(SYSTEM,)))) == []


@pytest.mark.requirement("LOG-7")
def test_export_and_copy_leave_out_what_is_damaged_and_name_it(place, tmp_path):
    fill(place)
    alter_text(place)
    with (
        lukasa.open(place, embedder="hash") as memory,
        lukasa.open(tmp_path / "other.db") as other,
        lukasa.open(tmp_path / "third.db") as third,
    ):
        exported = io.BytesIO()
        versions = memory.export(exported)
        (name,) = memory.journal.list_damaged()
        assert name.startswith("shared/note/b version 1 (position ")
        assert other.import_(io.BytesIO(exported.getvalue())).added == versions
        done = copy_log(memory.journal, third.journal)
        assert (done.added, done.left_out, done.proof.holds) == (versions, [name], True)
        assert sorted(record.id for record in third.journal.read(Query(kinds=("note",)))) == ["a", "c"]


@pytest.mark.requirement("LOG-5")
def test_a_damaged_store_is_backed_up_and_restored_as_it_is(place, tmp_path):
    fill(place)
    alter_text(place)
    with lukasa.open(place, embedder="hash") as memory:
        manifest = memory.backup((tmp_path / "backups").as_uri())
        (name,) = present(manifest).facts["damaged"]
        assert name.startswith("shared/note/b version 1 (position ")
    lukasa.restore((tmp_path / "backups").as_uri(), tmp_path / "restored.db")
    with lukasa.open(tmp_path / "restored.db", embedder="hash") as memory:
        assert [record.id for record in memory.journal.read(Query(kinds=("note",)))] == ["a", "c"]


@pytest.mark.requirement("CTX-1")
def test_a_damaged_turn_is_left_out_of_the_transcript(place):
    with lukasa.open(place, embedder="hash") as memory:
        for day in ("Monday", "Tuesday", "Friday"):
            memory.context.append("s", "user", f"It is {day}")
        (_, id, _) = (record.id for record in memory.journal.read(Query(kinds=("turn",))))
    alter_text(place, id)
    with lukasa.open(place, embedder="hash") as memory:
        assert [turn.content for turn in memory.context.transcript("s")] == ["It is Monday", "It is Friday"]
        assert memory.context.list_sessions() == ["s"]
        assert memory.journal.list_damaged()


@pytest.mark.parametrize("part", ["vector", "checksum", "sketch"])
def test_verify_finds_a_damaged_vector_and_a_repair_lets_recall_make_it_anew(place, part, monkeypatch):
    monkeypatch.setattr(vectors, "_POSITIONS_IN_BLOCK", 1)
    with lukasa.open(place, embedder="hash") as memory:
        for day in ("Monday", "Tuesday", "Friday"):
            memory.journal.write("note", f"the release is on {day}", id=day)
        expected = [hit.score for hit in memory.recall("When is the release?").hits]
        assert memory.verify().sound
        damage_vector(place, part, present(memory.journal.get(Key("shared", "note", "Tuesday"))).seq)
        found = [(finding.where, finding.repairable) for finding in memory.verify().findings]
        assert set(found) == {("vectors", True)}, "a changed sign differs from the sign-bit code too"
        memory.journal.reindex()
        assert memory.verify().sound
        assert [hit.score for hit in memory.recall("When is the release?").hits] == expected
        assert memory.verify().sound


def damage_vector(place, part, seq):
    """Alter a vector, its checksum or its sketch, which PostgreSQL has not: there the vector is altered instead."""
    if isinstance(place, str):
        values = {"checksum": "'\\x0011223344556677'::bytea"}
        vector = "('[' || rtrim(repeat('0.5,', 64), ',') || ']')::halfvec"
        column = part if part in values else "vector"
        with psycopg.connect(place, options="-c search_path=lukasa,public") as connection:
            statement = f"UPDATE vector_1 SET {column} = {values.get(part, vector)} WHERE seq = %s"
            assert connection.execute(statement, (seq,)).rowcount == 1
        return
    database = apsw.Connection(str(place))
    if part == "sketch":
        ((data,),) = database.execute("SELECT sketches FROM sketch_block")
        database.execute("UPDATE sketch_block SET sketches = ?", (bytes(255 - byte for byte in data),))
    else:
        ((data,),) = database.execute("SELECT vector FROM vector WHERE seq = ?", (seq,))
        altered = {"vector": bytes([data[0] ^ 1, *data[1:]]), "checksum": data[:-1] + bytes([data[-1] ^ 16])}
        database.execute("UPDATE vector SET vector = ? WHERE seq = ?", (altered[part], seq))
    database.close()


def test_vectors_of_older_stores_have_no_checksum_and_are_sound(place):
    with lukasa.open(place, embedder="hash") as memory:
        assert memory.remember("All invoices are planned by the office in Kinshasa.")
        assert memory.recall("Who plans invoices?").hits
        if isinstance(place, str):
            with psycopg.connect(place, options="-c search_path=lukasa,public") as connection:
                assert connection.execute("UPDATE vector_1 SET checksum = NULL").rowcount == 1
        else:
            database = apsw.Connection(str(place))
            database.execute("UPDATE vector SET vector = substr(vector, 1, length(vector) - 8)")
            assert database.changes() == 1
            database.close()
        assert memory.verify().sound
