"""One flipped bit anywhere in the files of a store: nothing altered is ever answered, and what is missing is told."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from typing import Any

import pytest

import lukasa
from lukasa.errors import LukasaError
from lukasa.storage.engine import Query

pytestmark = pytest.mark.requirement("LOG-5", "LOG-9")
FILL = """
import os, sys, lukasa
from lukasa import Key
store, backups = sys.argv[1:]
with lukasa.open(store, embedder="hash") as memory:
    for number in range(60):
        memory.journal.write("note", f"note {number} about the harbour and the heron", {"n": number}, id=f"n{number}",
                             author="abc"[number % 3], labels=(f"group={number % 5}",))
    for number in range(0, 60, 7):
        memory.journal.write("note", f"note {number} changed", id=f"n{number}")
    memory.journal.delete(Key("shared", "note", "n1"))
    for number in range(20):
        memory.context.append("talk", "user" if number % 2 else "assistant", f"turn {number}: the boat leaves at {number}")
    for subject in ("invoices", "releases", "holidays", "meetings"):
        memory.remember(f"All {subject} are planned by the office in Kinshasa.")
    with memory.sessions.start("demo") as session:
        for number in range(5):
            session.update(f"/configuration/x{number}", number)
            session.checkpoint()
    memory.recall("When does the boat leave?")
    memory.backup(backups)
memory = lukasa.open(store, embedder="hash")
for number in range(60, 80):
    memory.journal.write("note", f"note {number} late", id=f"n{number}")
for number in range(20, 26):
    memory.context.append("talk", "user", f"turn {number}: late")
os._exit(0)
"""


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Make a store with conversations, a session, vectors and a backup; its last writes are in the write-ahead log."""
    folder = tmp_path_factory.mktemp("template") / "files"
    folder.mkdir()
    program = [sys.executable, "-c", FILL, str(folder / "store.db"), (folder / "backups").as_uri()]
    subprocess.run(program, check=True, cwd=folder)
    return folder


def observe(folder):
    """Return all answers of a store, and everything that it tells about damage."""
    answers: dict[str, list[tuple[str, str]]] = {}
    told: list[str] = []
    try:
        memory = lukasa.open(folder / "store.db", embedder="hash", timeout=5)
    except LukasaError as error:
        return answers, [str(error)]
    with memory:
        journal = memory.journal
        reads = {
            "notes": lambda: [(record.id, record.text) for record in journal.read(Query(kinds=("note",)))],
            "group": lambda: [(record.id, record.text) for record in journal.read(Query(labels=("group=3",)))],
            "words": lambda: [(match.record.id, match.record.text) for match in journal.find("heron changed late")],
            "recall": lambda: recall_texts(memory, told),
            "turns": lambda: [("", turn.content) for turn in memory.context.transcript("talk")],
            "conversations": lambda: [("", id) for id in memory.context.list_sessions()],
            "memories": lambda: [("", memory.text) for memory in memory.vault.list()],
            "sessions": lambda: [("", info.id) for info in memory.sessions.list()],
            "session": lambda: [("", json.dumps(memory.sessions.state("demo"), sort_keys=True, default=str))],
            "export": lambda: export_entries(memory),
        }
        for name, read in reads.items():
            try:
                answers[name] = read()
            except LukasaError as error:
                told.append(f"{name}: {error}")
        for check in (memory.verify, lambda: memory.sessions.verify("demo")):
            try:
                found = check()
                items: Any = getattr(found, "findings", found)
                told += [str(item) for item in items if getattr(item, "fault", item)]
            except LukasaError as error:
                told.append(str(error))
        told += journal.list_damaged()
        try:
            report = memory.sessions.recover("demo").unwrap()
            told += [*map(str, report.damaged), *report.damaged_records, *map(str, report.lost)]
        except LukasaError as error:
            told.append(str(error))
    try:
        lukasa.find_backups((folder / "backups").as_uri()).verify()
    except LukasaError as error:
        told.append(str(error))
    return answers, told


def recall_texts(memory, told):
    result = memory.recall("the boat leaves", 40, patience=60)
    told += [result.note] if result.note else []
    return [(hit.record.kind, hit.record.text) for hit in result.hits]


def export_entries(memory):
    target = io.BytesIO()
    memory.export(target)
    return [
        ("", line.decode())
        for line in target.getvalue().splitlines()
        if b'"record":' in line and b'"_lukasa"' not in line
    ]


@pytest.fixture(scope="module")
def expected(template, tmp_path_factory):
    """Return the answers of the undamaged store, and every text that was ever written to it."""
    copy = tmp_path_factory.mktemp("whole") / "files"
    shutil.copytree(template, copy)
    answers, told = observe(copy)
    assert not told, told
    assert len(answers) == 10
    with lukasa.open(copy / "store.db") as memory:
        everything = memory.journal.read(Query(every_version=True, hidden=True))
        written = {record.text for record in everything} | {id for values in answers.values() for _, id in values}
    return answers, written


def flip_and_observe(template, expected, rng, tmp_path, count):
    """Flip bits one at a time, each in a fresh copy; check every answer; return how often the damage was told."""
    answers, written = expected
    files = sorted(file for file in template.rglob("*") if file.is_file() and not file.name.endswith("-shm"))
    parts = [[file for file in files if in_part(file)] for in_part in PARTS]
    assert all(parts), parts
    noticed = 0
    for number in range(count):
        original = rng.choice(parts[number % len(parts)])
        copy = tmp_path / "copy"
        shutil.copytree(template, copy)
        file = copy / original.relative_to(template)
        data = bytearray(file.read_bytes())
        place, bit = rng.randrange(len(data)), rng.randrange(8)
        data[place] ^= 1 << bit
        file.write_bytes(data)
        how = f"bit {bit} of byte {place} of {original.relative_to(template)}"
        try:
            found, told = observe(copy)
        except Exception as error:
            error.add_note(how)
            raise
        for name, values in found.items():
            foreign = [text for _, text in values if text not in written]
            assert not foreign or (name == "session" and told), (
                f"{how}: {name} answers what was never written: {foreign}"
            )
            assert values == answers[name] or told, f"{how}: {name} differs, and nothing tells"
        noticed += bool(told)
        shutil.rmtree(copy)
    return noticed


PARTS = (
    lambda file: file.name == "store.db",
    lambda file: file.name == "store.db-wal",
    lambda file: "sessions" in file.parts,
    lambda file: "backups" in file.parts,
)
"""The database, its write-ahead log, checkpoints, and archives with their manifests."""


def test_a_flipped_bit_alters_no_answer_and_hides_none_silently(template, expected, rng, tmp_path):
    assert flip_and_observe(template, expected, rng, tmp_path, 40) > 10


@pytest.mark.slow
def test_no_flipped_bit_of_a_thousand_alters_an_answer_or_hides_one_silently(template, expected, rng, tmp_path):
    assert flip_and_observe(template, expected, rng, tmp_path, 1000) > 300
