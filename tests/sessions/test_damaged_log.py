"""Recovery of a session whose records in the log are damaged: the files stand in, and a disagreement is an incident."""

import re
from pathlib import Path

import apsw
import psycopg
import pytest

from lukasa.core.record import digest_of
from lukasa.sessions import NEVER

pytestmark = pytest.mark.requirement("CHK-9")


@pytest.fixture
def location(request, tmp_path):
    return str(tmp_path / "agents.db")


def abandon_session(memory, changes=5):
    """Make a session that is not closed, and return its state."""
    session = memory.sessions.start("demo", significance=NEVER)
    for number in range(changes):
        session.update(f"/configuration/x{number}", number)
    state = session.state
    session.abandon()
    return state


def rewrite_newest(location, kind, change, *, is_resealed=False):
    """Change the bytes of the newest record of a kind behind the program's back."""
    database = apsw.Connection(location)
    seq, line = database.execute("SELECT seq, line FROM log WHERE kind = ? ORDER BY seq DESC LIMIT 1", (kind,)).get
    changed = change(line)
    assert changed != line
    database.execute("UPDATE log SET line = ? WHERE seq = ?", (changed, seq))
    if is_resealed:
        database.execute("UPDATE log SET digest = ? WHERE seq = ?", (digest_of(changed.encode()), seq))
    database.close()


DAMAGES = {
    "not JSON": lambda line: line.replace('"body"', '"b\x01dy', 1),
    "another name": lambda line: line.replace('"body"', '"bodx"', 1),
    "altered": lambda line: re.sub(r"(\d)(\D*)$", lambda match: f"{(int(match[1]) + 1) % 10}{match[2]}", line),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", ["session_delta", "checkpoint", "session"])
def test_the_files_stand_in_for_a_damaged_record(location, open_store, clock, kind, damage):
    memory = open_store(location, clock=clock)
    state = abandon_session(memory)
    memory.close()
    rewrite_newest(location, kind, DAMAGES[damage])
    memory = open_store(location, clock=clock)
    assert memory.sessions.state("demo")["configuration"] == state["configuration"]
    report = memory.sessions.recover("demo").unwrap()
    assert (report.mode, report.lost) == ("corruption", ())
    assert report.state["configuration"] == state["configuration"]
    assert report.damaged_records
    (incident,) = memory.sessions.incidents("demo")
    assert incident["damaged_records"] == list(report.damaged_records)
    with memory.sessions.start("demo") as session:
        assert session.update("/configuration/after", 1)
    again = memory.sessions.recover("demo").unwrap()
    if (kind, damage) not in {("checkpoint", "not JSON"), ("session", "not JSON")}:  # these take no next version
        assert again.mode == "normal"
    assert again.state["configuration"] == state["configuration"] | {"after": 1}
    assert len(memory.sessions.incidents("demo")) <= 2


def test_without_files_a_damaged_change_and_what_follows_is_lost_and_said(location, open_store, clock, tmp_path):
    memory = open_store(location, clock=clock)
    abandon_session(memory)
    memory.close()
    rewrite_newest(location, "session_delta", DAMAGES["not JSON"])
    for file in (tmp_path / "files/sessions/demo").glob("deltas_*"):
        file.unlink()
    report = open_store(location, clock=clock).sessions.recover("demo")
    assert report.mode == "corruption"
    assert "x3" in report.state["configuration"]
    assert "x4" not in report.state["configuration"]
    assert report.damaged_records


def test_a_change_that_differs_in_both_copies_is_an_incident_and_the_log_counts(location, open_store, clock, tmp_path):
    memory = open_store(location, clock=clock)
    abandon_session(memory)
    memory.close()
    rewrite_newest(location, "session_delta", lambda line: line.replace("/x4", "/y4"), is_resealed=True)
    memory = open_store(location, clock=clock)
    report = memory.sessions.recover("demo").unwrap()
    assert report.disagreements == (5,)
    assert "y4" in report.state["configuration"]
    (incident,) = memory.sessions.incidents("demo")
    assert (incident["why"], incident["disagreements"]) == ("log and files differ", [5])
    assert memory.sessions.recover("demo").unwrap().disagreements == ()


def test_a_change_that_vanished_from_the_log_is_taken_from_the_files_and_told(location, open_store, clock):
    memory = open_store(location, clock=clock)
    state = abandon_session(memory)
    memory.close()
    database = apsw.Connection(location)
    database.execute("DELETE FROM log WHERE seq = (SELECT max(seq) FROM log WHERE kind = 'session_delta')")
    database.close()
    memory = open_store(location, clock=clock)
    report = memory.sessions.recover("demo").unwrap()
    assert report.state["configuration"] == state["configuration"]
    assert memory.sessions.incidents("demo")[0]["disagreements"] == [5]


def test_files_stand_in_on_postgresql_too(url, open_store, clock):
    memory = open_store(url, clock=clock)
    state = abandon_session(memory)
    with psycopg.connect(url) as connection:
        statement = "SELECT seq, line FROM lukasa.log WHERE kind = 'session_delta' ORDER BY seq DESC LIMIT 1"
        row = connection.execute(statement).fetchone()
        assert row is not None
        seq, line = row
        old = b'"body"' if isinstance(line, bytes) else '"body"'
        new = b'"bodx"' if isinstance(line, bytes) else '"bodx"'
        connection.execute("UPDATE lukasa.log SET line = %s WHERE seq = %s", (line.replace(old, new), seq))
    report = memory.sessions.recover("demo").unwrap()
    assert report.state["configuration"] == state["configuration"]
    assert memory.sessions.incidents("demo")


def test_checkpoint_files_of_the_test_are_where_it_looks(location, open_store, tmp_path):
    abandon_session(open_store(location))
    assert Path(tmp_path / "files/sessions/demo/deltas_001.jsonl").exists()
