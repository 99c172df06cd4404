"""`lukasa copy`: what it tells, what it refuses, and how it ends."""

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
from lukasa.interfaces.cli.exit_codes import ExitCode

pytestmark = pytest.mark.requirement("DOO-2")

FACT = Key("shared", "fact", "f")
HASH = "([0-9a-f]{26})"
ROW = re.compile(rf"^(\S+) +(\S+) +([\d,]+) +{HASH} +([\d,]+) +{HASH} +([\d,]+) +(.+)$", re.MULTILINE)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LUKASA_STORE", raising=False)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def source(tmp_path):
    """A store with three notes, of which one changed, and a fact."""
    path = tmp_path / "source.db"
    with lukasa.open(path) as memory:
        memory.journal.append([Draft("note", f"note {at}", id=str(at), scope="orion") for at in range(3)])
        memory.journal.write("note", "another", id="0", scope="orion")
        memory.journal.write("fact", "water is wet", id=FACT.id)
    return path


@pytest.fixture
def run():
    """Runs a command line; ``expect`` is its exit code."""

    def run(*words, expect=0):
        result = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
        assert result.exit_code == expect, result.output
        return result

    return run


@pytest.fixture
def told(run):
    """What a command answers with ``--json``."""
    return lambda *words, **options: json.loads(run(*words, "--json", **options).stdout)


def rows(shown):
    """The rows of the proof's table, cell by cell."""
    return ROW.findall(shown.stdout)


def exported(path):
    with lukasa.open(path) as memory:
        memory.export("out.jsonl")
    return Path("out.jsonl").read_bytes()


@pytest.mark.requirement("LOG-7")
def test_a_copy_ends_with_a_table_that_proves_it(run, source):
    shown = run("copy", source, "target.db")
    assert shown.stdout.startswith(f"Copied 5 versions from {source} to {source.parent / 'target.db'}.")
    table = rows(shown)
    assert [(row[0], row[1], row[2], row[4], row[6], row[7]) for row in table] == [
        ("orion", "note", "4", "4", "0", "holds"),
        ("shared", "fact", "1", "1", "0", "holds"),
    ]
    assert all(row[3] == row[5] for row in table)
    assert "The proof holds: both logs are the same, line by line." in shown.stdout
    assert exported("target.db") == exported(source)


def test_a_copy_says_what_does_not_come_along(run, told, source):
    assert "not copied: answers to idempotency keys and vectors." in run("copy", source, "target.db").stdout
    assert told("copy", source, "target.db")["not_copied"] == ["answers to idempotency keys", "vectors"]


def test_a_program_is_told_the_proof_in_full(told, source):
    answer = told("copy", source, "target.db")
    assert (answer["source"], answer["destination"]) == (str(source), str(source.parent / "target.db"))
    assert (answer["added"], answer["present"], answer["refused"], answer["refusals"]) == (5, 0, 0, [])
    assert (answer["proof"]["holds"], answer["proof"]["same_log"]) == (True, True)
    notes, facts = answer["proof"]["shares"]
    assert (notes["scope"], notes["kind"], notes["versions"], notes["there"], notes["own"]) == (
        "orion", "note", 4, 4, 0,
    )  # fmt: skip
    with lukasa.open(source) as memory:
        assert facts["hash"] == facts["hash_there"] == memory.journal.get(FACT).digest.hex()


def test_an_empty_source_is_told_as_such(run, tmp_path):
    lukasa.open("empty.db").close()
    assert "The source is empty" in run("copy", "empty.db", "target.db").stdout


def test_a_destination_that_has_to_be_made_is_announced(run, source):
    assert "Made a new store" in run("copy", source, "target.db").stderr
    assert "Made a new store" not in run("copy", source, "target.db").stderr


def test_a_second_run_adds_nothing_and_proves_again(run, told, source):
    run("copy", source, "target.db")
    again = told("copy", source, "target.db")
    assert (again["added"], again["present"], again["proof"]["holds"]) == (0, 0, True)


def test_what_the_destination_has_of_its_own_is_told(run, source):
    with lukasa.open("target.db") as memory:
        memory.journal.write("own", "mine")
    shown = run("copy", source, "target.db")
    assert ("shared", "own", "0", "0" * 26, "0", "0" * 26, "1", "holds") in rows(shown)
    assert "the destination holds 1 version of its own beside" in shown.stdout


def test_a_contradiction_is_named_and_ends_with_a_code_of_its_own(run, told, source):
    with lukasa.open("target.db") as memory:
        memory.journal.write("fact", "water is dry", id=FACT.id)
    shown = run("copy", source, "target.db", expect=ExitCode.UNPROVED)
    assert "Refused by the destination: 1 version." in shown.stdout
    assert "another record has this key and version" in shown.stdout
    assert [row[7] for row in rows(shown)] == ["holds", "other content"]
    assert "The proof does not hold for shared/fact. Do not switch over." in shown.stdout
    answer = told("copy", source, "target.db", expect=ExitCode.UNPROVED)
    reason = "another record has this key and version"
    assert answer["refusals"] == [{"scope": "shared", "kind": "fact", "id": "f", "version": 1, "reason": reason}]
    assert [share["kind"] for share in answer["proof"]["shares"] if not share["holds"]] == ["fact"]
    with lukasa.open("target.db") as memory:
        assert memory.journal.get(FACT).text == "water is dry"


def test_what_the_destination_has_erased_is_told_as_missing(run, source):
    run("copy", source, "target.db")
    with lukasa.open("target.db") as memory:
        memory.journal.erase(FACT)
    shown = run("copy", source, "target.db", expect=ExitCode.UNPROVED)
    assert [row[7] for row in rows(shown)] == ["holds", "holds", "1 missing"]
    assert "this record was erased here" in shown.stdout


def test_what_was_erased_in_the_source_since_is_named(run, told, source):
    run("copy", source, "target.db")
    with lukasa.open(source) as memory:
        memory.journal.erase(FACT)
    shown = run("copy", source, "target.db", expect=ExitCode.UNPROVED)
    assert "Erased in the source, but not in the destination: 1 record.\n  shared/fact/f\n" in shown.stdout
    shares = told("copy", source, "target.db", expect=ExitCode.UNPROVED)["proof"]["shares"]
    assert [share["erased"] for share in shares if share["erased"]] == [
        [{"scope": "shared", "kind": "fact", "id": "f"}]
    ]


@pytest.mark.parametrize(
    ("words", "code", "said"),
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
def test_what_cannot_be_copied_is_refused_before_anything_is_made(run, source, tmp_path, words, code, said):
    (tmp_path / "link.db").symlink_to(source)
    (tmp_path / "foreign.db").write_text("something else entirely")
    shown = run(*(word.format(folder=tmp_path.name) for word in words), expect=code)
    assert said in shown.stderr
    assert not (tmp_path / "target.db").exists()
    assert (tmp_path / "foreign.db").read_text() == "something else entirely"


def test_the_store_of_the_environment_is_not_meant(run, source, monkeypatch):
    monkeypatch.setenv("LUKASA_STORE", "elsewhere.db")
    run("copy", source, "target.db")
    assert not (source.parent / "elsewhere.db").exists()


def test_hostile_names_cannot_reach_the_terminal(run, source):
    with lukasa.open(source) as memory:
        memory.journal.write("note", id="x", scope="a\u202eb")
    shown = run("copy", source, "target.db")
    assert "\u202e" not in shown.stdout
    assert "a\\u202eb" in shown.stdout


def test_a_terminal_is_shown_how_far_it_is_and_a_narrow_one_a_shorter_hash(source):
    with lukasa.open(source) as memory:
        memory.journal.append([Draft("note", "more", id=f"more {at}") for at in range(2000)])
    here, there = pty.openpty()
    command = [sys.executable, "-m", "lukasa.interfaces.cli", "copy", str(source), "target.db"]
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    process = subprocess.Popen(command, stdout=there, stderr=there, env=environment)
    os.close(there)
    said = b""
    while chunk := read(here):
        said += chunk
    os.close(here)
    assert process.wait(60) == 0
    text = said.decode()
    assert "Copying" in text
    assert "The proof holds" in text
    table = [line for line in text.splitlines() if line.startswith(("orion ", "shared "))]
    assert len(table) == 3
    assert all(len(line) <= 80 for line in table)


def read(terminal):
    """What a terminal shows next; nothing once nobody writes to it any more."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def test_ctrl_c_says_that_it_can_be_run_again(source, tmp_path):
    with lukasa.open(source) as memory:
        for _ in range(20):
            memory.journal.append([Draft("note", "more") for _ in range(1000)])
    command = [sys.executable, "-m", "lukasa.interfaces.cli", "copy", str(source), "target.db"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "Made a new store" in process.stderr.readline()  # it is about to copy, which takes much longer than this
    process.send_signal(signal.SIGINT)
    said, complaint = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "")
    assert "run it again to go on" in complaint
