"""What each command does, run in the same process against a real store."""

import json
import os
import pty
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest
from typer.testing import CliRunner

import lukasa
from lukasa import Key, Link
from lukasa.clock import to_iso
from lukasa.interfaces.cli.app import app
from lukasa.interfaces.cli.maintenance import sqlite_check, wal_check
from lukasa.testing import CountingIds, FrozenClock

pytestmark = pytest.mark.requirement("DOO-2")

DAWN = datetime(2024, 5, 1, 6, tzinfo=UTC)
DAY = Key("shared", "note", "deploy-day")


@pytest.fixture
def store(tmp_path):
    """A store in which two agents wrote, one record an hour."""
    path, clock, ids = tmp_path / "agents.db", FrozenClock(DAWN), CountingIds()

    def write(agent, *words, **fields):
        with lukasa.open(path, agent=agent, clock=clock, new_id=ids) as memory:
            outcome = memory.journal.write(*words, **fields)
        assert outcome, outcome
        clock.advance(3600)

    write("orion", "note", "Deploys run on Tuesday.", id="deploy-day", labels=("team=ops",))
    write("elysia", "note", "The staging database is called heron.", id="staging", scope="elysia")
    write("elysia", "note", "Deploys run on Thursday.", id="deploy-day", labels=("team=ops",))
    write("orion", "fact", body={"port": 8080}, id="port", happened_at=DAWN - timedelta(days=30))
    write("orion", "pattern", "Ask before Thursdays.", id="ask", links=(Link("derived_from", DAY),))
    return path


@pytest.fixture
def run(store):
    """Runs a command line; ``expect`` is its exit code."""

    def run(*words, expect=0, on=store, input=None):
        result = CliRunner().invoke(app, ["--store", str(on), *map(str, words)], input=input, catch_exceptions=False)
        assert result.exit_code == expect, result.output
        return result

    return run


@pytest.fixture
def told(run):
    """What a command answers with ``--json``."""
    return lambda *words, **options: json.loads(run(*words, "--json", **options).stdout)


def ids(records):
    return [record["id"] for record in records]


def look(path):
    """The store as its owner sees it through the library."""
    return lukasa.open(path)


def hurt(path, statement):
    database = apsw.Connection(str(path))
    database.execute(statement)
    database.close()


# log


def test_log_shows_the_newest_records_first(told):
    assert ids(told("log")) == ["ask", "port", "deploy-day", "staging"]


def test_log_in_order_shows_the_oldest_first(told):
    assert ids(told("log", "--in-order")) == ["staging", "deploy-day", "port", "ask"]


def test_log_shows_at_most_so_many(told):
    assert ids(told("log", "--limit", 2)) == ["ask", "port"]


def test_log_shows_twenty_unless_told_otherwise(store, told):
    with look(store) as memory:
        memory.journal.append([lukasa.Draft("tick", id=str(at)) for at in range(25)])
    assert len(told("log")) == 20


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--kind", "fact"], ["port"]),
        (["--kind", "fact", "--kind", "pattern"], ["ask", "port"]),
        (["--author", "elysia"], ["deploy-day", "staging"]),
        (["--label", "team=ops"], ["deploy-day"]),
        (["--scope", "elysia"], ["staging"]),
        (["--since", "2024-05-01T08:00:00Z"], ["ask", "deploy-day"]),
        (["--since", "2024-05-01T10:00:00+02:00"], ["ask", "deploy-day"]),
        (["--until", "2024-04-30"], ["port"]),
        (["--kind", "nothing"], []),
    ],
)
def test_log_shows_only_what_was_asked_for(told, words, found):
    assert ids(told("log", *words)) == found


@pytest.mark.requirement("LOG-2")
def test_log_shows_the_store_as_it_was(told):
    (record,) = told("log", "--as-of", "2024-05-01T06:30:00Z")
    assert (record["id"], record["version"], record["text"]) == ("deploy-day", 1, "Deploys run on Tuesday.")


def test_log_of_all_versions_shows_superseded_and_deleted_ones(store, told):
    with look(store) as memory:
        memory.journal.delete(DAY)
    versions = [record for record in told("log", "--all-versions") if record["id"] == "deploy-day"]
    assert [(record["version"], record["deleted"]) for record in versions] == [(3, True), (2, False), (1, False)]


def test_a_record_as_json_has_every_field_of_the_record(store, told):
    with look(store) as memory:
        record = memory.journal.get(Key("shared", "pattern", "ask"))
    (shown,) = told("log", "--kind", "pattern")
    assert shown == {
        "kind": "pattern",
        "id": "ask",
        "scope": "shared",
        "author": "orion",
        "origin": "manual",
        "version": 1,
        "seq": record.seq,
        "created_at": "2024-05-01T10:00:00Z",
        "recorded_at": "2024-05-01T10:00:00Z",
        "happened_at": None,
        "deleted": False,
        "body": {},
        "text": "Ask before Thursdays.",
        "links": [{"relation": "derived_from", "to": {"scope": "shared", "kind": "note", "id": "deploy-day"}}],
        "labels": [],
        "digest": record.digest.hex(),
    }


def test_json_may_be_asked_for_before_the_command(run):
    assert run("--json", "log").stdout == run("log", "--json").stdout


def test_log_for_people_is_a_table(run):
    shown = run("log", "--kind", "note", "--scope", "shared").stdout
    assert "recorded" in shown.splitlines()[0]
    assert "2024-05-01T08:00:00Z  shared  note  deploy-day        2  elysia  Deploys run on Thursday." in shown


def test_log_says_so_when_there_is_nothing(run):
    assert run("log", "--kind", "nothing").stdout == "No records.\n"


# reach


@pytest.mark.requirement("LOG-4")
def test_an_agent_sees_the_shared_scope_and_its_own(run, store):
    def seen(*words):
        return ids(json.loads(run(*words, "--json", "log").stdout))

    assert "staging" in seen("--agent", "elysia")
    assert "staging" not in seen("--agent", "orion")
    assert seen("--scope", "elysia") == ["staging"]
    assert seen("--scope", "elysia", "--scope", "shared") == seen()


@pytest.mark.requirement("LOG-4")
@pytest.mark.parametrize("command", ["show", "history"])
def test_what_is_out_of_reach_is_not_there(run, command):
    hidden = run("--agent", "orion", command, "note", "staging", expect=5)
    absent = run("--agent", "orion", command, "note", "nothing", expect=5)
    assert hidden.stderr.replace("staging", "nothing") == absent.stderr


@pytest.mark.requirement("LOG-4")
def test_an_agent_may_not_do_what_only_the_owner_may(run):
    for words in (["compact"], ["quarantine", "elysia"], ["erase", "fact", "port", "--yes"]):
        assert "Only the owner" in run("--agent", "orion", *words, expect=3).stderr


# history, show


@pytest.mark.requirement("LOG-2")
def test_history_shows_every_version_oldest_first(told, run):
    assert [record["text"] for record in told("history", "note", "deploy-day")] == [
        "Deploys run on Tuesday.",
        "Deploys run on Thursday.",
    ]
    assert run("history", "note", "deploy-day").stdout.startswith("shared/note/deploy-day: 2 versions\n")


@pytest.mark.requirement("LOG-2")
@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "Deploys run on Thursday."),
        (["--version", "1"], "Deploys run on Tuesday."),
        (["--as-of", "2024-05-01T07:00:00Z"], "Deploys run on Tuesday."),
    ],
)
def test_show_shows_one_version_in_full(told, run, words, text):
    assert told("show", "note", "deploy-day", *words)["text"] == text
    assert run("show", "note", "deploy-day", *words).stdout.splitlines()[-1] == f"text      {text}"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["note", "nothing"], "There is no record note/nothing."),
        (["note", "staging", "--scope", "shared"], "There is no record shared/note/staging."),
        (["note", "deploy-day", "--version", "9"], "There is no record shared/note/deploy-day version 9."),
        (
            ["note", "deploy-day", "--as-of", "2020-01-01"],
            "There is no record shared/note/deploy-day as of 2020-01-01.",
        ),
    ],
)
def test_show_says_what_is_not_there(run, words, said):
    assert said in run("show", *words, expect=5).stderr


def test_an_id_that_stands_in_two_scopes_needs_its_scope(store, run, told):
    with look(store) as memory:
        memory.journal.write("note", "Elysia deploys at night.", id="deploy-day", scope="elysia")
    assert "several scopes: elysia, shared" in run("show", "note", "deploy-day", expect=2).stderr
    assert told("show", "note", "deploy-day", "--scope", "elysia")["text"] == "Elysia deploys at night."


@pytest.mark.parametrize("id", ["../../etc/passwd", "メモ-1", "user:agent:123", "CON", "a b", "-", "x" * 200, "[red]"])
def test_any_id_that_the_store_takes_can_be_named(store, told, id):
    with look(store) as memory:
        assert memory.journal.write("note", "found", id=id)
    assert told("show", "note", id)["id"] == id
    assert [record["id"] for record in told("history", "note", id)] == [id]
    assert told("erase", "note", id, "--yes")["erased"]["records"] == 1
    told("show", "note", id, expect=5)


# stats


def test_stats_count_what_is_live_and_every_version(told, run):
    answer = told("stats")
    assert {(row["scope"], row["kind"]): (row["live"], row["versions"]) for row in answer["tally"]} == {
        ("elysia", "note"): (1, 1),
        ("shared", "fact"): (1, 1),
        ("shared", "note"): (1, 2),
        ("shared", "pattern"): (1, 1),
    }
    assert (answer["live"], answer["versions"]) == (4, 5)
    assert answer["store"]["file_mode"] == "0600"
    assert "4 live records, 5 versions in the log." in run("stats").stdout


# undo


@pytest.mark.requirement("LOG-6")
def test_undo_reverts_an_author_and_names_the_label_that_takes_it_back(store, run, told):
    undone = told("undo", "--author", "elysia")
    assert {key["id"] for key in undone["reverted"]} == {"deploy-day", "staging", "ask"}
    assert told("show", "note", "deploy-day")["text"] == "Deploys run on Tuesday."
    assert "Reverted 3 records:" in run("undo", "--label", undone["label"]).stdout
    assert told("show", "note", "deploy-day")["text"] == "Deploys run on Thursday."


@pytest.mark.requirement("LOG-6")
def test_undo_reaches_back_only_as_far_as_it_is_told(told):
    undone = told("undo", "--author", "elysia", "--since", "2024-05-01T07:30:00Z")
    assert "staging" not in [key["id"] for key in undone["reverted"]]


def test_undo_tells_what_it_kept_because_somebody_else_wrote_since(run, told):
    assert [key["id"] for key in told("undo", "--author", "orion", "--since", "2024-05-01")["kept"]] == ["deploy-day"]


def test_undo_of_nothing_says_so(run):
    assert run("undo", "--author", "nobody").stdout == "Nothing to undo.\n"


def test_undo_needs_to_know_what(run):
    assert "Name an author or a label." in run("undo", expect=2).stderr


# quarantine


@pytest.mark.requirement("LOG-6")
def test_quarantine_hides_an_author_until_released(run, told):
    run("quarantine", "elysia", "--reason", "writes nonsense")
    assert told("show", "note", "deploy-day")["text"] == "Deploys run on Tuesday."
    assert "ask" not in ids(told("log"))
    (held,) = told("quarantine", "--list")
    assert (held["author"], held["since"], held["reason"]) == ("elysia", None, "writes nonsense")
    assert "elysia" in run("quarantine", "--list").stdout
    run("release", "elysia")
    assert told("show", "note", "deploy-day")["text"] == "Deploys run on Thursday."
    assert told("quarantine", "--list") == []
    assert run("quarantine", "--list").stdout == "Nobody is in quarantine.\n"


@pytest.mark.requirement("LOG-6")
def test_quarantine_since_a_time_leaves_what_came_before(told):
    assert told("quarantine", "elysia", "--since", "2024-05-01T07:30:00Z")["since"] == "2024-05-01T07:30:00Z"
    assert "staging" in ids(told("log"))


def test_releasing_somebody_who_is_not_held_finds_nobody(told):
    assert told("release", "orion", expect=5)["error"]["code"] == "not_found"


@pytest.mark.parametrize("words", [[], ["elysia", "--list"]])
def test_quarantine_needs_an_author_or_a_list(run, words):
    run("quarantine", *words, expect=2)


# erase


@pytest.mark.requirement("LOG-5")
def test_erase_shows_what_would_go_and_leaves_it(run, told):
    shown = run("erase", "note", "deploy-day", "--dry-run").stdout
    assert shown == "This would erase 2 records for good:\n  shared/note/deploy-day\n  shared/pattern/ask\n"
    assert [key["id"] for key in told("erase", "--subject", "HERON", "--dry-run")["would_erase"]] == ["staging"]
    assert len(told("log")) == 4


@pytest.mark.requirement("LOG-5")
def test_erase_does_nothing_when_nobody_can_be_asked(run, told):
    assert "Add --yes." in run("erase", "note", "deploy-day", expect=3, input="y\n").stderr
    assert told("erase", "note", "deploy-day", expect=3)["error"]["code"] == "not_confirmed"
    assert len(told("log")) == 4


@pytest.mark.requirement("LOG-5")
def test_erase_removes_a_record_with_what_was_derived_and_leaves_a_receipt(store, told):
    erased = told("erase", "note", "deploy-day", "--yes", "--reason", "asked to")["erased"]
    assert (erased["records"], erased["versions"], erased["by_kind"]) == (2, 3, {"note": 1, "pattern": 1})
    told("history", "note", "deploy-day", expect=5)
    receipt = told("show", "erasure", erased["receipt"])
    assert receipt["body"]["reason"] == "asked to"
    assert b"Thursday" not in store.read_bytes()


@pytest.mark.requirement("LOG-5")
def test_erase_takes_all_that_names_a_subject(run, told):
    assert "Erased 1 record (1 version). Receipt: " in run("erase", "--subject", "heron", "--yes").stdout
    told("show", "note", "staging", expect=5)


@pytest.mark.requirement("LOG-5")
def test_erase_finds_what_is_in_quarantine(run, told):
    run("quarantine", "elysia")
    told("show", "note", "staging", expect=5)
    assert told("erase", "note", "staging", "--yes")["erased"]["records"] == 1
    told("erase", "note", "port", "--scope", "elysia", "--yes", expect=5)


@pytest.mark.parametrize("words", [["note", "nothing"], ["--subject", "nobody at all"], ["--subject", ""]])
def test_erase_of_what_is_not_there_finds_nothing(told, words):
    assert told("erase", *words, "--yes", expect=5)["error"]["code"] == "not_found"


@pytest.mark.parametrize("words", [[], ["note"], ["note", "port", "--subject", "heron"]])
def test_erase_needs_to_know_exactly_what(run, words):
    run("erase", *words, "--yes", expect=2)


@pytest.mark.requirement("LOG-5")
@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 2), ("n\n", 3, 4), ("\n", 3, 4), ("\x04", 3, 4)])
def test_erase_asks_a_person_and_takes_only_yes_for_a_yes(store, told, answer, code, left):
    person, terminal = pty.openpty()
    os.write(person, answer.encode())
    command = [sys.executable, "-m", "lukasa.interfaces.cli", "--store", store, "erase", "note", "deploy-day"]
    done = subprocess.run(command, stdin=terminal, capture_output=True, timeout=60, text=True)
    os.close(terminal)
    os.close(person)
    assert done.returncode == code, done.stderr
    assert "shared/note/deploy-day" in done.stdout
    assert "Erase them?" in done.stderr
    assert len([record for record in told("log") if record["scope"] != "_lukasa"]) == left


# verify, compact, doctor


@pytest.mark.requirement("LOG-5")
def test_verify_proves_a_sound_store(run, told):
    assert run("verify").stdout == "Sound: 5 versions proved, indexes true to the log.\n"
    assert told("verify") == {"sound": True, "versions": 5, "findings": []}


@pytest.mark.requirement("LOG-5")
def test_verify_names_what_is_damaged(store, run, told):
    hurt(store, "UPDATE log SET line = replace(line, 'Tuesday', 'Wednesday')")
    answer = told("verify", expect=6)
    assert answer["sound"] is False
    assert "shared/note/deploy-day version 1" in answer["findings"][0]["where"]
    assert "does not match its digest" in run("verify", expect=6).stdout


@pytest.mark.requirement("LOG-5")
def test_compact_drops_superseded_versions(run, told):
    assert told("compact", "--before", "2024-05-01T07:00:00Z")["versions"] == 0
    assert told("compact")["versions"] == 1
    assert [record["version"] for record in told("history", "note", "deploy-day")] == [2]
    assert run("compact").stdout.startswith("Dropped 0 superseded versions: from ")


@pytest.mark.requirement("OPS-4")
def test_doctor_finds_a_sound_store_healthy(told, run, store):
    answer = told("doctor")
    assert answer["healthy"]
    said = {check["name"]: (check["state"], check["said"]) for check in answer["checks"]}
    assert set(said) == {
        "store", "SQLite", "schema", "file mode", "write-ahead log", "log and indexes", "quarantine",
    }  # fmt: skip
    assert {state for state, _ in said.values()} == {"fine"}
    assert str(store) in said["store"][1]
    assert "without the WAL-reset bug" in said["SQLite"][1]
    assert run("doctor").stdout.endswith("Healthy.\n")


@pytest.mark.requirement("OPS-4")
@pytest.mark.parametrize(
    ("version", "state"), [("3.51.2", "wrong"), ("3.51.3", "fine"), ("3.9.0", "wrong"), ("4.0", "fine")]
)
def test_doctor_knows_the_sqlite_versions_that_can_damage_a_store(version, state):
    assert sqlite_check(version).state == state


@pytest.mark.requirement("OPS-4")
def test_doctor_notes_a_write_ahead_log_that_cannot_be_emptied():
    assert [wal_check(held).state for held in (0, 64_000_000, 64_000_001)] == ["fine", "fine", "note"]


@pytest.mark.requirement("OPS-4")
def test_doctor_notes_who_is_in_quarantine(run, told):
    run("quarantine", "elysia")
    assert {"name": "quarantine", "state": "note", "said": "elysia"} in told("doctor")["checks"]


@pytest.mark.requirement("OPS-4")
def test_doctor_notices_and_closes_a_store_that_others_can_read(store, told):
    store.chmod(0o644)
    answer = told("doctor", expect=6)
    assert any(check["name"] == "file mode" and check["state"] == "wrong" for check in answer["checks"])
    answer = told("doctor", "--repair")
    assert answer["repaired"] == ["closed the store's files to others (mode 0600)"]
    assert store.stat().st_mode & 0o777 == 0o600


@pytest.mark.requirement("OPS-4", "RCL-5")
@pytest.mark.parametrize(
    "damage",
    ["DELETE FROM label", "DELETE FROM link", "DELETE FROM past", "UPDATE tally SET live = live + 1"],
)
def test_doctor_rebuilds_indexes_that_differ_from_the_log(store, run, told, damage):
    hurt(store, damage)
    assert not told("doctor", expect=6)["healthy"]
    assert "Repaired: rebuilt every index from the log." in run("doctor", "--repair").stdout
    assert told("verify")["sound"]


@pytest.mark.requirement("OPS-4")
def test_doctor_rebuilds_indexes_but_does_not_cover_up_a_damaged_log(store, told):
    hurt(store, "DELETE FROM log WHERE seq = 1; DELETE FROM label")
    lost = [finding for finding in told("verify", expect=6)["findings"] if not finding["repairable"]]
    answer = told("doctor", "--repair", expect=6)
    assert answer["repaired"] == ["rebuilt every index from the log"]
    assert [check["said"] for check in answer["checks"] if check["state"] == "wrong"] == [
        f"{finding['where']}: {finding['what']} (cannot be repaired: restore a backup)" for finding in lost
    ]
    assert told("verify", expect=6)["findings"] == lost != []


@pytest.mark.requirement("OPS-4")
def test_doctor_tells_of_a_store_that_cannot_be_opened(store, told):
    store.write_bytes(store.read_bytes()[:3000])
    answer = told("doctor", "--repair", expect=6)
    assert answer["checks"] == [
        {"name": "store", "state": "wrong", "said": f"{store} is too damaged to be opened. Restore a backup."}
    ]


# export, import, backup


@pytest.mark.requirement("LOG-7")
def test_what_is_exported_and_imported_is_the_same_log(run, told, tmp_path):
    here, there, copy = tmp_path / "here.jsonl", tmp_path / "there.jsonl", tmp_path / "copy.db"
    assert told("export", here) == {"file": str(here), "versions": 5}
    assert told("import", here, on=copy) == {"added": 5, "present": 0, "refused": []}
    assert told("import", here, on=copy) == {"added": 0, "present": 5, "refused": []}
    assert run("export", there, on=copy).stdout == f"Exported 5 versions to {there}.\n"
    assert here.read_bytes() == there.read_bytes()


@pytest.mark.requirement("LOG-7")
def test_export_and_import_go_through_pipes(run, tmp_path):
    exported = run("export", "-").stdout_bytes
    assert run("import", "-", on=tmp_path / "copy.db", input=exported).stdout.startswith("5 versions added")
    assert run("export", "-", on=tmp_path / "copy.db").stdout_bytes == exported


@pytest.mark.requirement("LOG-7")
def test_import_names_the_lines_it_refused(run, told, tmp_path):
    file = tmp_path / "old.jsonl"
    run("export", file)
    run("erase", "note", "staging", "--yes")
    answer = told("import", file, expect=3)
    assert [refused["line"] for refused in answer["refused"]] == [3]
    assert "1 refused." in run("import", file, expect=3).stdout


@pytest.mark.parametrize("content", [b"", b"hello\n", b'{"lukasa":"log","format":1}\n'])
def test_import_refuses_a_file_that_is_not_a_whole_log(told, tmp_path, content):
    file = tmp_path / "odd.jsonl"
    file.write_bytes(content)
    assert told("import", file, expect=6)["error"]["code"] == "format_error"


def test_import_of_a_missing_file_makes_no_store(run, tmp_path):
    assert "missing.jsonl" in run("import", tmp_path / "missing.jsonl", on=tmp_path / "new.db", expect=5).stderr
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize("end", ["", "-wal"])
def test_export_never_overwrites_the_store_itself(store, run, told, end, monkeypatch):
    monkeypatch.chdir(store.parent)
    assert "is the store itself" in run("export", f"./{store.name}{end}", expect=2).stderr
    assert told("verify")["sound"]


def test_a_backup_is_a_store_with_the_same_log(run, told, tmp_path):
    copy = tmp_path / "copy.db"
    assert told("backup", copy)["bytes"] == copy.stat().st_size
    assert run("export", "-", on=copy).stdout_bytes == run("export", "-").stdout_bytes


def test_a_backup_never_overwrites(run, tmp_path):
    copy = tmp_path / "copy.db"
    copy.write_text("precious")
    assert "already there" in run("backup", copy, expect=2).stderr
    assert copy.read_text() == "precious"


# which store


def test_a_new_store_is_made_and_said_so_once(run, tmp_path):
    new = tmp_path / "new.db"
    first = run("log", on=new)
    assert (first.stdout, first.stderr) == ("No records.\n", f"Made a new store: {new}\n")
    assert run("log", on=new).stderr == ""


@pytest.mark.parametrize("words", [["verify"], ["doctor"], ["export", "-"], ["backup", "copy.db"]])
def test_commands_that_vouch_for_a_store_do_not_make_one(told, tmp_path, words):
    assert told(*words, on=tmp_path / "typo.db", expect=5)["error"]["code"] == "store_missing"
    assert not (tmp_path / "typo.db").exists()


@pytest.mark.parametrize("content", [b"not a database, but a longer text than that" * 100, None])
def test_a_foreign_file_is_refused_and_left_untouched(told, tmp_path, content):
    foreign = tmp_path / "foreign.db"
    if content is None:
        hurt(foreign, "CREATE TABLE theirs (x)")
    else:
        foreign.write_bytes(content)
    before = foreign.read_bytes()
    assert told("log", on=foreign, expect=7)["error"]["code"] == "store_foreign"
    assert foreign.read_bytes() == before


def test_a_store_of_a_newer_lukasa_is_refused(store, told):
    hurt(store, "PRAGMA user_version = 9999")
    assert told("log", expect=7)["error"]["code"] == "store_newer"


def test_the_store_is_found_by_environment_then_by_folder(store, tmp_path, monkeypatch):
    def run(**env):
        return CliRunner(env={"LUKASA_STORE": None, "XDG_DATA_HOME": str(tmp_path / "data"), **env}).invoke(
            app, ["log"]
        )

    deep = tmp_path / "project" / "src"
    deep.mkdir(parents=True)
    (tmp_path / "project" / ".lukasa").mkdir()
    monkeypatch.chdir(deep)
    assert "deploy-day" in run(LUKASA_STORE=str(store)).stdout
    assert run().stderr == f"Made a new store: {tmp_path / 'project' / '.lukasa' / 'memory.db'}\n"
    monkeypatch.chdir(tmp_path)
    assert Path(run().stderr.removeprefix("Made a new store: ").strip()).is_relative_to(tmp_path / "data")


def test_times_are_told_as_they_are_kept(store, told):
    with look(store) as memory:
        kept = [to_iso(record.recorded_at) for record in memory.journal.read()]
    assert [record["recorded_at"] for record in told("log", "--in-order")] == kept
