"""Commands on records and stores, run in this process against a real store."""

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
from lukasa.core.clock import to_iso
from lukasa.interfaces.cli.app import app
from lukasa.interfaces.doctor import sqlite_check, wal_check
from lukasa.testing import CountingIds, FrozenClock

pytestmark = pytest.mark.requirement("DOO-2")

DAWN = datetime(2024, 5, 1, 6, tzinfo=UTC)
DAY = Key("shared", "note", "deploy-day")


@pytest.fixture
def store(tmp_path):
    """Create a store in which two agents wrote one record per hour."""
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
    """Run a command line and check that it ends with the exit code ``expect``."""

    def run(*words, expect=0, on=store, input=None):
        result = CliRunner().invoke(app, ["--store", str(on), *map(str, words)], input=input, catch_exceptions=False)
        assert result.exit_code == expect, result.output
        return result

    return run


@pytest.fixture
def run_json(run):
    """Run a command line with ``--json`` and parse the answer."""
    return lambda *words, **options: json.loads(run(*words, "--json", **options).stdout)


def ids(records):
    return [record["id"] for record in records]


def open_store(path):
    """Open a store as its owner."""
    return lukasa.open(path)


def execute_sql(path, statement):
    database = apsw.Connection(str(path))
    database.execute(statement)
    database.close()


# log


def test_log_shows_the_newest_records_first(run_json):
    assert ids(run_json("log")) == ["ask", "port", "deploy-day", "staging"]


def test_log_in_order_shows_the_oldest_first(run_json):
    assert ids(run_json("log", "--in-order")) == ["staging", "deploy-day", "port", "ask"]


def test_log_limit_cuts_the_list(run_json):
    assert ids(run_json("log", "--limit", 2)) == ["ask", "port"]


def test_log_shows_twenty_records_by_default(store, run_json):
    with open_store(store) as memory:
        memory.journal.append([lukasa.Draft("tick", id=str(number)) for number in range(25)])
    assert len(run_json("log")) == 20


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
def test_log_filters_by_kind_author_label_scope_and_time(run_json, words, found):
    assert ids(run_json("log", *words)) == found


@pytest.mark.requirement("LOG-2")
def test_log_as_of_a_time_shows_the_store_at_that_time(run_json):
    (record,) = run_json("log", "--as-of", "2024-05-01T06:30:00Z")
    assert (record["id"], record["version"], record["text"]) == ("deploy-day", 1, "Deploys run on Tuesday.")


def test_log_with_all_versions_includes_superseded_and_deleted_ones(store, run_json):
    with open_store(store) as memory:
        memory.journal.delete(DAY)
    versions = [record for record in run_json("log", "--all-versions") if record["id"] == "deploy-day"]
    assert [(record["version"], record["deleted"]) for record in versions] == [(3, True), (2, False), (1, False)]


def test_the_json_of_a_record_has_every_field(store, run_json):
    with open_store(store) as memory:
        record = memory.journal.get(Key("shared", "pattern", "ask"))
    (shown,) = run_json("log", "--kind", "pattern")
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


def test_the_json_option_works_before_and_after_the_command(run):
    assert run("--json", "log").stdout == run("log", "--json").stdout


def test_log_prints_a_table(run):
    shown = run("log", "--kind", "note", "--scope", "shared").stdout
    assert "recorded" in shown.splitlines()[0]
    assert "2024-05-01T08:00:00Z  shared  note  deploy-day        2  elysia  Deploys run on Thursday." in shown


def test_log_without_records_prints_a_sentence(run):
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
def test_a_record_out_of_reach_is_reported_like_a_missing_one(run, command):
    hidden = run("--agent", "orion", command, "note", "staging", expect=5)
    absent = run("--agent", "orion", command, "note", "nothing", expect=5)
    assert hidden.stderr.replace("staging", "nothing") == absent.stderr


@pytest.mark.requirement("LOG-4")
def test_an_agent_may_not_run_commands_of_the_owner(run):
    for words in (["compact"], ["quarantine", "elysia"], ["erase", "fact", "port", "--yes"]):
        assert "Only the owner" in run("--agent", "orion", *words, expect=3).stderr


# history, show


@pytest.mark.requirement("LOG-2")
def test_history_shows_every_version_oldest_first(run_json, run):
    assert [record["text"] for record in run_json("history", "note", "deploy-day")] == [
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
def test_show_prints_all_fields_of_one_version(run_json, run, words, text):
    assert run_json("show", "note", "deploy-day", *words)["text"] == text
    assert run("show", "note", "deploy-day", *words).stdout.splitlines()[-1] == f"text      {text}"


@pytest.mark.parametrize(
    ("words", "message"),
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
def test_show_names_the_record_that_does_not_exist(run, words, message):
    assert message in run("show", *words, expect=5).stderr


def test_an_id_in_two_scopes_needs_the_scope_option(store, run, run_json):
    with open_store(store) as memory:
        memory.journal.write("note", "Elysia deploys at night.", id="deploy-day", scope="elysia")
    assert "elysia/note/deploy-day, shared/note/deploy-day" in run("show", "note", "deploy-day", expect=2).stderr
    assert run_json("show", "note", "deploy-day", "--scope", "elysia")["text"] == "Elysia deploys at night."


@pytest.mark.parametrize("id", ["../../etc/passwd", "メモ-1", "user:agent:123", "CON", "a b", "-", "x" * 200, "[red]"])
def test_any_id_of_the_store_can_be_an_argument(store, run_json, id):
    with open_store(store) as memory:
        assert memory.journal.write("note", "found", id=id)
    assert run_json("show", "note", id)["id"] == id
    assert [record["id"] for record in run_json("history", "note", id)] == [id]
    assert run_json("erase", "note", id, "--yes")["erased"]["records"] == 1
    run_json("show", "note", id, expect=5)


# stats


def test_stats_count_live_records_and_versions(run_json, run):
    answer = run_json("stats")
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
def test_undo_reverts_an_author_and_names_the_label_that_reverts_the_undo(store, run, run_json):
    undone = run_json("undo", "--author", "elysia")
    assert {key["id"] for key in undone["reverted"]} == {"deploy-day", "staging", "ask"}
    assert run_json("show", "note", "deploy-day")["text"] == "Deploys run on Tuesday."
    assert "Reverted 3 records:" in run("undo", "--label", undone["label"]).stdout
    assert run_json("show", "note", "deploy-day")["text"] == "Deploys run on Thursday."


@pytest.mark.requirement("LOG-6")
def test_undo_since_a_time_leaves_earlier_records(run_json):
    undone = run_json("undo", "--author", "elysia", "--since", "2024-05-01T07:30:00Z")
    assert "staging" not in [key["id"] for key in undone["reverted"]]


def test_undo_lists_records_that_another_author_wrote_since(run, run_json):
    assert [key["id"] for key in run_json("undo", "--author", "orion", "--since", "2024-05-01")["kept"]] == [
        "deploy-day"
    ]


def test_undo_without_matches_prints_a_sentence(run):
    assert run("undo", "--author", "nobody").stdout == "Nothing to undo.\n"


def test_undo_needs_an_author_or_a_label(run):
    assert "Name an author or a label." in run("undo", expect=2).stderr


# quarantine


@pytest.mark.requirement("LOG-6")
def test_quarantine_hides_an_author_until_released(run, run_json):
    run("quarantine", "elysia", "--reason", "writes nonsense")
    assert run_json("show", "note", "deploy-day")["text"] == "Deploys run on Tuesday."
    assert "ask" not in ids(run_json("log"))
    (held,) = run_json("quarantined")
    assert (held["author"], held["since"], held["reason"]) == ("elysia", None, "writes nonsense")
    assert "elysia" in run("quarantined").stdout
    run("release", "elysia")
    assert run_json("show", "note", "deploy-day")["text"] == "Deploys run on Thursday."
    assert run_json("quarantined") == []
    assert run("quarantined").stdout == "No author is in quarantine.\n"


@pytest.mark.requirement("LOG-6")
def test_quarantine_since_a_time_leaves_earlier_records_visible(run_json):
    assert run_json("quarantine", "elysia", "--since", "2024-05-01T07:30:00Z")["since"] == "2024-05-01T07:30:00Z"
    assert "staging" in ids(run_json("log"))


def test_releasing_an_author_who_is_not_in_quarantine_ends_as_not_found(run_json):
    assert run_json("release", "orion", expect=5)["error"]["code"] == "not_found"


@pytest.mark.parametrize("words", [[], ["elysia", "--list"]])
def test_quarantine_needs_an_author_or_a_list(run, words):
    run("quarantine", *words, expect=2)


# erase


@pytest.mark.requirement("LOG-5")
def test_erase_with_dry_run_lists_the_records_and_keeps_them(run, run_json):
    shown = run("erase", "note", "deploy-day", "--dry-run").stdout
    assert shown == (
        "This would erase 2 records for good:\n  shared/note/deploy-day  Deploys run on Thursday.\n"
        "  shared/pattern/ask  Ask before Thursdays.\n"
    )
    assert [key["id"] for key in run_json("erase", "--subject", "HERON", "--dry-run")["would_erase"]] == ["staging"]
    assert len(run_json("log")) == 4


@pytest.mark.requirement("LOG-5")
def test_erase_names_the_records_that_lose_only_versions_and_restores_them(run, run_json, store):
    with lukasa.open(store) as memory:
        rumour = memory.journal.write("note", "We move to Berlin.", id="rumour").unwrap()
        memory.journal.write("note", "The desks stay here.", id="plan")
        source = lukasa.Link("derived_from", rumour.key)
        memory.journal.write("note", "The desks go to Berlin.", id="plan", links=(source,))
    assert run("erase", "note", "rumour", "--dry-run").stdout == (
        "This would erase 1 record for good:\n  shared/note/rumour  We move to Berlin.\n"
        "Of these, it would erase only the versions that were derived from it:\n  shared/note/plan  version 2\n"
    )
    plan = {"scope": "shared", "kind": "note", "id": "plan"}
    assert run_json("erase", "note", "rumour", "--dry-run")["would_restore"] == [{"record": plan, "versions": [2]}]
    done = run("erase", "note", "rumour", "--yes").stdout
    assert "Restored 1 record of which later versions were derived from it." in done
    assert "The desks stay here." in run("show", "note", "plan").stdout


@pytest.mark.requirement("LOG-5")
def test_erase_without_a_terminal_needs_yes(run, run_json):
    assert "Add --yes." in run("erase", "note", "deploy-day", expect=3, input="y\n").stderr
    assert run_json("erase", "note", "deploy-day", expect=3)["error"]["code"] == "not_confirmed"
    assert len(run_json("log")) == 4


@pytest.mark.requirement("LOG-5")
def test_erase_removes_a_record_and_derived_ones_and_leaves_a_receipt(store, run_json):
    erased = run_json("erase", "note", "deploy-day", "--yes", "--reason", "asked to")["erased"]
    assert (erased["records"], erased["versions"], erased["by_kind"]) == (2, 3, {"note": 1, "pattern": 1})
    run_json("history", "note", "deploy-day", expect=5)
    receipt = run_json("show", "erasure", erased["receipt"])
    assert receipt["body"]["reason"] == "asked to"
    assert b"Thursday" not in store.read_bytes()


@pytest.mark.requirement("LOG-5")
def test_erase_by_subject_removes_every_record_that_names_it(run, run_json):
    assert "Erased 1 record (1 version). Receipt: " in run("erase", "--subject", "heron", "--yes").stdout
    run_json("show", "note", "staging", expect=5)


@pytest.mark.requirement("LOG-5")
def test_erase_finds_records_in_quarantine(run, run_json):
    run("quarantine", "elysia")
    run_json("show", "note", "staging", expect=5)
    assert run_json("erase", "note", "staging", "--yes")["erased"]["records"] == 1
    run_json("erase", "note", "port", "--scope", "elysia", "--yes", expect=5)


@pytest.mark.parametrize("words", [["note", "nothing"], ["--subject", "nobody at all"], ["--subject", ""]])
def test_erase_of_an_unknown_record_or_subject_ends_as_not_found(run_json, words):
    assert run_json("erase", *words, "--yes", expect=5)["error"]["code"] == "not_found"


@pytest.mark.parametrize("words", [[], ["note"], ["note", "port", "--subject", "heron"]])
def test_erase_needs_either_a_record_or_a_subject(run, words):
    run("erase", *words, "--yes", expect=2)


@pytest.mark.requirement("LOG-5")
@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 2), ("n\n", 3, 4), ("\n", 3, 4), ("\x04", 3, 4)])
def test_erase_asks_for_confirmation_on_a_terminal(store, run_json, answer, code, left):
    person, terminal = pty.openpty()
    os.write(person, answer.encode())
    command = [sys.executable, "-m", "lukasa.interfaces.cli", "--store", store, "erase", "note", "deploy-day"]
    done = subprocess.run(command, stdin=terminal, capture_output=True, timeout=60, text=True)
    os.close(terminal)
    os.close(person)
    assert done.returncode == code, done.stderr
    assert "shared/note/deploy-day" in done.stdout
    assert "Erase them?" in done.stderr
    assert len([record for record in run_json("log") if record["scope"] != "_lukasa"]) == left


# verify, compact, doctor


@pytest.mark.requirement("LOG-5")
def test_verify_reports_a_sound_store(run, run_json):
    assert run("verify").stdout == "Sound: 5 versions proved, indexes match the log.\n"
    assert run_json("verify") == {"sound": True, "versions": 5, "findings": [], "set_aside": 0, "forged_rules": []}


@pytest.mark.requirement("LOG-5")
def test_verify_lists_damaged_records(store, run, run_json):
    execute_sql(store, "UPDATE log SET line = replace(line, 'Tuesday', 'Wednesday')")
    answer = run_json("verify", expect=6)
    assert answer["sound"] is False
    assert "shared/note/deploy-day version 1" in answer["findings"][0]["where"]
    assert "does not match its digest" in run("verify", expect=6).stdout


@pytest.mark.requirement("LOG-5")
def test_compact_drops_superseded_versions(run, run_json):
    assert run_json("compact", "--before", "2024-05-01T07:00:00Z")["versions"] == 0
    assert run_json("compact")["versions"] == 1
    assert [record["version"] for record in run_json("history", "note", "deploy-day")] == [2]
    assert run("compact").stdout.startswith("Dropped 0 superseded versions: from ")


@pytest.mark.requirement("OPS-4")
def test_doctor_reports_a_sound_store_as_healthy(run_json, run, store, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    answer = run_json("doctor")
    assert answer["healthy"]
    checks = {check["name"]: (check["state"], check["said"]) for check in answer["checks"]}
    assert set(checks) == {
        "store", "SQLite", "schema", "file mode", "write-ahead log", "log and indexes", "embedder", "quarantine", "hooks",
    }  # fmt: skip
    assert {state for state, _ in checks.values()} == {"fine"}
    assert str(store) in checks["store"][1]
    assert "without the WAL-reset bug" in checks["SQLite"][1]
    assert run("doctor").stdout.endswith("Healthy.\n")


@pytest.mark.requirement("OPS-4")
@pytest.mark.parametrize(
    ("version", "state"), [("3.51.2", "wrong"), ("3.51.3", "fine"), ("3.9.0", "wrong"), ("4.0", "fine")]
)
def test_doctor_knows_the_sqlite_versions_that_can_damage_a_store(version, state):
    assert sqlite_check(version).state == state


@pytest.mark.requirement("OPS-4")
def test_doctor_notes_a_large_write_ahead_log():
    assert [wal_check(size).state for size in (0, 64_000_000, 64_000_001)] == ["fine", "fine", "note"]


@pytest.mark.requirement("OPS-4")
def test_doctor_notes_authors_in_quarantine(run, run_json):
    run("quarantine", "elysia")
    assert {"name": "quarantine", "state": "note", "said": "elysia"} in run_json("doctor")["checks"]


@pytest.mark.requirement("OPS-4")
def test_doctor_finds_and_repairs_a_store_that_others_can_read(store, run_json):
    store.chmod(0o644)
    answer = run_json("doctor", expect=6)
    assert any(check["name"] == "file mode" and check["state"] == "wrong" for check in answer["checks"])
    answer = run_json("doctor", "--repair")
    assert answer["repaired"] == ["closed the store's files to others (mode 0600)"]
    assert store.stat().st_mode & 0o777 == 0o600


@pytest.mark.requirement("OPS-4", "RCL-5")
@pytest.mark.parametrize(
    "damage", ["DELETE FROM label", "DELETE FROM link", "DELETE FROM not_current", "UPDATE tally SET live = live + 1"]
)
def test_doctor_rebuilds_indexes_that_differ_from_the_log(store, run, run_json, damage):
    execute_sql(store, damage)
    assert not run_json("doctor", expect=6)["healthy"]
    assert "Repaired: rebuilt every index from the log." in run("doctor", "--repair").stdout
    assert run_json("verify")["sound"]


@pytest.mark.requirement("OPS-4", "LOG-5")
def test_doctor_sets_damaged_records_aside(store, run, run_json):
    execute_sql(store, "UPDATE log SET line = replace(line, 'Tuesday', 'Wednesday')")
    shown = run("doctor", expect=6).stdout
    assert "can be set aside" in " ".join(shown.split())
    for command in (("export", "out.jsonl"), ("backup", "copies")):
        target = str(store.with_name(command[1])) if command[0] == "export" else store.with_name(command[1]).as_uri()
        answer = run(command[0], target, expect=6).stdout
        assert "shared/note/deploy-day version 1 (position" in answer
        assert "lukasa doctor --repair" in answer
    assert run_json("export", str(store.with_name("again.jsonl")), expect=6)["left_out"]
    (repaired,) = run_json("doctor", "--repair")["repaired"]
    assert repaired.startswith("set 1 damaged record aside: shared/note/deploy-day version 1 (position")
    assert run("verify").stdout.endswith("indexes match the log. 1 damaged record set aside.\n")


@pytest.mark.requirement("OPS-4")
def test_doctor_rebuilds_indexes_and_still_reports_a_damaged_log(store, run_json):
    execute_sql(store, "DELETE FROM log WHERE seq = 1; DELETE FROM label")
    lost = [finding for finding in run_json("verify", expect=6)["findings"] if not finding["repairable"]]
    answer = run_json("doctor", "--repair", expect=6)
    assert answer["repaired"] == ["rebuilt every index from the log"]
    assert [check["said"] for check in answer["checks"] if check["state"] == "wrong"] == [
        f"{finding['where']}: {finding['what']} (cannot be repaired: restore a backup)" for finding in lost
    ]
    assert run_json("verify", expect=6)["findings"] == lost != []


@pytest.mark.requirement("OPS-4")
def test_doctor_reports_a_store_that_cannot_be_opened(store, run_json):
    store.write_bytes(store.read_bytes()[:3000])
    answer = run_json("doctor", "--repair", expect=6)
    assert answer["checks"] == [
        {"name": "store", "state": "wrong", "said": f"{store} is too damaged to be opened. Restore a backup."}
    ]


# export, import, backup


@pytest.mark.requirement("LOG-7")
def test_an_imported_log_exports_to_the_same_bytes(run, run_json, tmp_path):
    here, there, copy = tmp_path / "here.jsonl", tmp_path / "there.jsonl", tmp_path / "copy.db"
    assert run_json("export", here) == {"file": str(here), "versions": 5}
    assert run_json("import", here, on=copy) == {"added": 5, "present": 0, "refused": []}
    assert run_json("import", here, on=copy) == {"added": 0, "present": 5, "refused": []}
    assert run("export", there, on=copy).stdout == f"Exported 5 versions to {there}.\n"
    assert here.read_bytes() == there.read_bytes()


@pytest.mark.requirement("LOG-7")
def test_export_and_import_work_through_pipes(run, tmp_path):
    exported = run("export", "-").stdout_bytes
    assert run("import", "-", on=tmp_path / "copy.db", input=exported).stdout.startswith("5 versions added")
    assert run("export", "-", on=tmp_path / "copy.db").stdout_bytes == exported


@pytest.mark.requirement("LOG-7")
def test_import_lists_refused_lines(run, run_json, tmp_path):
    file = tmp_path / "old.jsonl"
    run("export", file)
    run("erase", "note", "staging", "--yes")
    answer = run_json("import", file, expect=3)
    assert [refused["line"] for refused in answer["refused"]] == [3]
    assert "1 refused." in run("import", file, expect=3).stdout


@pytest.mark.parametrize("content", [b"", b"hello\n", b'{"lukasa":"log","format":1}\n'])
def test_import_refuses_a_file_that_is_not_a_complete_log(run_json, tmp_path, content):
    file = tmp_path / "odd.jsonl"
    file.write_bytes(content)
    assert run_json("import", file, expect=6)["error"]["code"] == "format_error"


def test_import_of_a_missing_file_creates_no_store(run, tmp_path):
    assert "missing.jsonl" in run("import", tmp_path / "missing.jsonl", on=tmp_path / "new.db", expect=5).stderr
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize("end", ["", "-wal"])
def test_export_refuses_to_overwrite_the_store(store, run, run_json, end, monkeypatch):
    monkeypatch.chdir(store.parent)
    assert "is the store itself" in run("export", f"./{store.name}{end}", expect=2).stderr
    assert run_json("verify")["sound"]


def test_a_backup_is_a_store_with_the_same_log(run, run_json, tmp_path):
    copy = tmp_path / "copy.db"
    assert run_json("backup", copy)["bytes"] == copy.stat().st_size
    assert run("export", "-", on=copy).stdout_bytes == run("export", "-").stdout_bytes


def test_backup_refuses_to_overwrite_a_file(run, tmp_path):
    copy = tmp_path / "copy.db"
    copy.write_text("precious")
    assert "already there" in run("backup", copy, expect=2).stderr
    assert copy.read_text() == "precious"


# which store


def test_a_new_store_is_announced_once(run, tmp_path):
    new = tmp_path / "new.db"
    words = ("vault", "note", "Call me Ada.")
    assert run(*words, on=new).stderr == f"Made a new store: {new}\n"
    assert run("log", on=new).stderr == ""
    assert run("log", on=new).stderr == ""


@pytest.mark.parametrize(
    "words",
    [["verify"], ["doctor"], ["export", "-"], ["backup", "copy.db"], ["recall", "x"], ["log"], ["context", "list"]],
)
def test_commands_that_check_or_copy_a_store_do_not_create_one(run_json, tmp_path, words):
    assert run_json(*words, on=tmp_path / "typo.db", expect=5)["error"]["code"] == "store_missing"
    assert not (tmp_path / "typo.db").exists()


@pytest.mark.parametrize("content", [b"not a database, but a longer text than that" * 100, None])
def test_a_foreign_file_is_refused_and_left_untouched(run_json, tmp_path, content):
    foreign = tmp_path / "foreign.db"
    if content is None:
        execute_sql(foreign, "CREATE TABLE theirs (x)")
    else:
        foreign.write_bytes(content)
    before = foreign.read_bytes()
    assert run_json("log", on=foreign, expect=7)["error"]["code"] == "store_foreign"
    assert foreign.read_bytes() == before


def test_a_store_of_a_newer_lukasa_is_refused(store, run_json):
    execute_sql(store, "PRAGMA user_version = 9999")
    assert run_json("log", expect=7)["error"]["code"] == "store_newer"


def test_the_store_is_found_by_environment_variable_then_by_folder(store, tmp_path, monkeypatch):
    def run(*words, **env):
        return CliRunner(env={"LUKASA_STORE": None, "XDG_DATA_HOME": str(tmp_path / "data"), **env}).invoke(app, words)

    deep = tmp_path / "project" / "src"
    deep.mkdir(parents=True)
    (tmp_path / "project" / ".lukasa").mkdir()
    monkeypatch.chdir(deep)
    assert "deploy-day" in run("log", LUKASA_STORE=str(store)).stdout
    assert (
        run("vault", "note", "Call me Ada.").stderr
        == f"Made a new store: {tmp_path / 'project' / '.lukasa' / 'memory.db'}\n"
    )
    monkeypatch.chdir(tmp_path)
    assert Path(run("vault", "note", "Call me Ada.").stderr.removeprefix("Made a new store: ").strip()).is_relative_to(
        tmp_path / "data"
    )


def test_times_in_json_are_the_stored_times(store, run_json):
    with open_store(store) as memory:
        stored = [to_iso(record.recorded_at) for record in memory.journal.read()]
    assert [record["recorded_at"] for record in run_json("log", "--in-order")] == stored
