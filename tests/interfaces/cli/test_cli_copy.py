"""The command `lukasa copy`: its report, its refusals and its exit codes."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lukasa
from lukasa import Draft, Key
from lukasa.interfaces.cli.app import app
from lukasa.interfaces.outcomes import ExitCode
from support.narrow import present

pytestmark = pytest.mark.requirement("DOO-2")

FACT = Key("shared", "fact", "f")
HASH = "([0-9a-f]{26})"
ROW = re.compile(rf"^(\S+) +(\S+) +([\d,]+) +{HASH} +([\d,]+) +{HASH} +([\d,]+) +(.+)$", re.MULTILINE)


@pytest.fixture(autouse=True)
def _temporary_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LUKASA_STORE", raising=False)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def source(tmp_path):
    """Create a store with three notes, one of them changed, and a fact."""
    path = tmp_path / "source.db"
    with lukasa.open(path) as memory:
        memory.journal.append([Draft("note", f"note {number}", id=str(number), scope="orion") for number in range(3)])
        memory.journal.write("note", "another", id="0", scope="orion")
        memory.journal.write("fact", "water is wet", id=FACT.id)
    return path


@pytest.fixture
def run():
    """Run a command line and check that it ends with the exit code ``expect``."""

    def run(*words, expect=0):
        result = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
        assert result.exit_code == expect, result.output
        return result

    return run


@pytest.fixture
def run_json(run):
    """Run a command line with ``--json`` and parse the answer."""
    return lambda *words, **options: json.loads(run(*words, "--json", **options).stdout)


def rows(shown):
    """Parse the rows of the table of proofs."""
    return ROW.findall(shown.stdout)


def exported(path):
    with lukasa.open(path) as memory:
        memory.export("out.jsonl")
    return Path("out.jsonl").read_bytes()


@pytest.mark.requirement("LOG-7")
def test_copy_prints_a_table_of_proofs(run, source):
    shown = run("copy", source, "target.db")
    assert shown.stdout.startswith(f"Copied 5 versions from {source} to {source.parent / 'target.db'}.")
    table = rows(shown)
    assert [(row[0], row[1], row[2], row[4], row[6], row[7]) for row in table] == [
        ("orion", "note", "4", "4", "0", "holds"),
        ("shared", "fact", "1", "1", "0", "holds"),
    ]
    assert all(row[3] == row[5] for row in table)
    assert "The proof holds: both logs are the same, entry by entry." in shown.stdout
    assert exported("target.db") == exported(source)


def test_copy_names_what_is_not_copied(run, run_json, source):
    assert "not copied: answers to idempotency keys and vectors." in run("copy", source, "target.db").stdout
    assert run_json("copy", source, "target.db")["not_copied"] == ["answers to idempotency keys", "vectors"]


def test_the_json_of_a_copy_holds_the_whole_proof(run_json, source):
    answer = run_json("copy", source, "target.db")
    assert (answer["source"], answer["destination"]) == (str(source), str(source.parent / "target.db"))
    assert (answer["added"], answer["present"], answer["refused"], answer["refusals"]) == (5, 0, 0, [])
    assert (answer["proof"]["holds"], answer["proof"]["same_log"]) == (True, True)
    notes, facts = answer["proof"]["shares"]
    assert (notes["scope"], notes["kind"], notes["versions"], notes["there"], notes["own"]) == (
        "orion", "note", 4, 4, 0,
    )  # fmt: skip
    with lukasa.open(source) as memory:
        assert facts["hash"] == facts["hash_there"] == present(memory.journal.get(FACT)).digest.hex()


def test_an_empty_source_is_reported(run, tmp_path):
    lukasa.open("empty.db").close()
    assert "The source is empty" in run("copy", "empty.db", "target.db").stdout


def test_a_new_destination_is_announced_once(run, source):
    assert "Made a new store" in run("copy", source, "target.db").stderr
    assert "Made a new store" not in run("copy", source, "target.db").stderr


def test_a_second_copy_adds_nothing_and_proves_again(run, run_json, source):
    run("copy", source, "target.db")
    again = run_json("copy", source, "target.db")
    assert (again["added"], again["present"], again["proof"]["holds"]) == (0, 0, True)


def test_versions_that_only_the_destination_has_are_counted(run, source):
    with lukasa.open("target.db") as memory:
        memory.journal.write("own", "mine")
    shown = run("copy", source, "target.db")
    assert ("shared", "own", "0", "0" * 26, "0", "0" * 26, "1", "holds") in rows(shown)
    assert "and 1 version that the source does not have" in shown.stdout


def test_a_record_with_other_content_is_reported_with_exit_code_8(run, run_json, source):
    with lukasa.open("target.db") as memory:
        memory.journal.write("fact", "water is dry", id=FACT.id)
    shown = run("copy", source, "target.db", expect=ExitCode.UNPROVED)
    assert "Refused by the destination: 1 version." in shown.stdout
    assert "another record has this key and version" in shown.stdout
    assert [row[7] for row in rows(shown)] == ["holds", "other content"]
    assert "The proof does not hold for shared/fact. Do not switch over." in shown.stdout
    answer = run_json("copy", source, "target.db", expect=ExitCode.UNPROVED)
    reason = "another record has this key and version"
    assert answer["refusals"] == [{"scope": "shared", "kind": "fact", "id": "f", "version": 1, "reason": reason}]
    assert [share["kind"] for share in answer["proof"]["shares"] if not share["holds"]] == ["fact"]
    with lukasa.open("target.db") as memory:
        assert present(memory.journal.get(FACT)).text == "water is dry"


def test_a_record_erased_in_the_destination_is_reported_as_missing(run, source):
    run("copy", source, "target.db")
    with lukasa.open("target.db") as memory:
        memory.journal.erase(FACT)
    shown = run("copy", source, "target.db", expect=ExitCode.UNPROVED)
    assert [row[7] for row in rows(shown)] == ["holds", "holds", "1 missing"]
    assert "this record was erased here" in shown.stdout


def test_a_record_erased_in_the_source_is_listed(run, run_json, source):
    run("copy", source, "target.db")
    with lukasa.open(source) as memory:
        memory.journal.erase(FACT)
    shown = run("copy", source, "target.db", expect=ExitCode.UNPROVED)
    assert "Erased in the source, but not in the destination: 1 record.\n  shared/fact/f\n" in shown.stdout
    shares = run_json("copy", source, "target.db", expect=ExitCode.UNPROVED)["proof"]["shares"]
    assert [share["erased"] for share in shares if share["erased"]] == [
        [{"scope": "shared", "kind": "fact", "id": "f"}]
    ]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["copy", "source.db", "source.db"], 2, "is the source itself"),
        (["copy", "source.db", "sqlite:../{folder}/source.db"], 2, "is the source itself"),
        (["copy", "source.db", "link.db"], 2, "is the source itself"),
        (["copy", "source.db", "memory:"], 2, "gone when the command ends"),
        (["copy", "memory:", "target.db"], 2, "gone when the command ends"),
        (["--store", "source.db", "copy", "source.db", "target.db"], 2, "takes both stores as arguments"),
        (["--agent", "orion", "copy", "source.db", "target.db"], 3, "Only the owner"),
        (["--scope", "orion", "copy", "source.db", "target.db"], 3, "Only the owner"),
        (["copy", "nothing.db", "target.db"], 5, "There is no store at"),
        (["copy", "source.db", "foreign.db"], 7, "it was left untouched"),
        (["copy", "source.db"], 2, "DEST"),
    ],
)
def test_an_impossible_copy_is_refused_before_anything_is_created(run, source, tmp_path, words, code, message):
    (tmp_path / "link.db").symlink_to(source)
    (tmp_path / "foreign.db").write_text("something else entirely")
    shown = run(*(word.format(folder=tmp_path.name) for word in words), expect=code)
    assert message in shown.stderr
    assert not (tmp_path / "target.db").exists()
    assert (tmp_path / "foreign.db").read_text() == "something else entirely"


def test_copy_ignores_the_store_of_the_environment(run, source, monkeypatch):
    monkeypatch.setenv("LUKASA_STORE", "elsewhere.db")
    run("copy", source, "target.db")
    assert not (source.parent / "elsewhere.db").exists()


def test_control_characters_in_names_are_escaped(run, source):
    with lukasa.open(source) as memory:
        memory.journal.write("note", id="x", scope="a\u202eb")
    shown = run("copy", source, "target.db")
    assert "\u202e" not in shown.stdout
    assert "a\\u202eb" in shown.stdout


def test_a_terminal_shows_progress_and_a_narrow_one_shorter_hashes(source):
    with lukasa.open(source) as memory:
        memory.journal.append([Draft("note", "more", id=f"more {number}") for number in range(2000)])
    here, there = pty.openpty()
    command = [sys.executable, "-m", "lukasa.interfaces.cli", "copy", str(source), "target.db"]
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    process = subprocess.Popen(command, stdout=there, stderr=there, env=environment)
    os.close(there)
    shown = b""
    while chunk := read(here):
        shown += chunk
    os.close(here)
    assert process.wait(60) == 0
    text = shown.decode()
    assert "Copying" in text
    assert "The proof holds" in text
    table = [line for line in text.splitlines() if line.startswith(("orion ", "shared "))]
    assert len(table) == 3
    assert all(len(line) <= 80 for line in table)


def read(terminal):
    """Read from a terminal; return b"" when the other end is closed."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def test_an_interrupted_copy_says_that_it_can_be_continued(source, tmp_path):
    with lukasa.open(source) as memory:
        for _ in range(20):
            memory.journal.append([Draft("note", "more") for _ in range(1000)])
    command = [sys.executable, "-m", "lukasa.interfaces.cli", "copy", str(source), "target.db"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert (
        "Made a new store" in present(process.stderr).readline()
    )  # the copy starts now and takes much longer than the signal
    process.send_signal(signal.SIGINT)
    output, message = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, "")
    assert "run it again to continue" in message
