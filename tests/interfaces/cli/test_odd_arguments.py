"""Odd arguments: every command ends in a sentence that says what is wrong, and in the right exit code."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import lukasa
from frozen.cli_running import isolate, run
from lukasa.errors import InvalidInput
from support.narrow import present

pytestmark = pytest.mark.requirement("DOO-2")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    isolate(tmp_path, monkeypatch)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00secret")
    (tmp_path / "deep.yaml").write_bytes(b"[" * 50_000)
    (tmp_path / "state.json").write_text("{}")
    (tmp_path / "folder").mkdir()
    assert run(["remember", "We deploy on Tuesdays."]).code == 0
    assert run(["checkpoint", "save", "demo", "--state", "state.json"]).code == 0
    return tmp_path


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["backup", "file://{folder}/backups", "--secret-file", "binary"], 2),
        (["backup", "file://{folder}/backups", "--secret-file", "folder"], 7),
        (["restore", "file://{folder}/backups", "--check", "--secret-file", "binary"], 2),
        (["sync", "postgresql://["], 2),
        (["backup", "s3://[/x"], 2),
        (["copy", "postgresql://[", "postgresql://x:99999/y"], 2),
        *((["forecast", "scores", "--window", odd], 2) for odd in ("1e308", "inf", "nan", "-1", "1e6", "")),
        *((["forecast", "plot", "--window", odd], 2) for odd in ("1e308", "inf", "nan")),
        *(
            (["checkpoint", "compress-old-checkpoints", "demo", "--age-hours", odd], 2)
            for odd in ("1e308", "inf", "nan", "-1")
        ),
        *((["episode", "prune", "--summarise-after", odd], 2) for odd in ("1e308", "inf", "nan", "-1")),
        *((["episode", "prune", "--archive-after", odd], 2) for odd in ("1e308", "inf", "nan", "-1")),
        *((["context", "configure", "s1", "--change", f"finished_hours={odd}"], 2) for odd in ("1e308", "inf", "nan")),
        (["--profile", "deep.yaml", "stats"], 6),
        (["--profile", "binary", "stats"], 6),
        (["--profile", "folder", "stats"], 7),
        (["--store", "~no-such-user/x.db", "stats"], 2),
        (["--store", "", "stats"], 2),
        (["backup", "no/such/folder/x.db"], 5),
        (["export", "no/such/folder/x.jsonl"], 5),
        (["export", "/dev/full"], 2),
        (["recall", "\ud800"], 2),
    ],
    ids=lambda value: " ".join(map(ascii, value)) if isinstance(value, list) else str(value),
)
def test_a_command_ends_in_a_sentence(folder, words, code):
    answer = run([word.format(folder=folder) for word in words])
    assert answer.code == code, answer
    assert "Traceback" not in answer.err
    assert answer.err.strip()


@pytest.mark.parametrize("store", ["mysql://x/y", "redis://", "file:///tmp/x", "http://x/y", "POSTGRESQL+x://y"])
def test_an_unknown_scheme_is_refused_with_the_known_ones_and_never_becomes_a_folder(folder, store):
    before = sorted(path.name for path in folder.iterdir())
    for words in (["--store", store, "stats"], ["--store", store, "remember", "x"], ["copy", "agents.db", store]):
        answer = run(words)
        assert answer.code == 2, answer
        assert "postgresql://" in answer.err
    with pytest.raises(InvalidInput, match="sqlite:PATH"):
        lukasa.open(store)
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize(
    "store", ["sqlite:a.db", "sqlite://{folder}/b.db", "sqlite:///{folder}/c.db", "//{folder}/d.db"]
)
def test_a_path_may_begin_with_its_scheme_and_several_slashes(folder, store):
    assert run(["--store", store.format(folder=folder), "remember", "We deploy."]).code == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_named(folder):
    (folder / "closed").write_text("x")
    (folder / "closed").chmod(0)
    for words in (
        ["import", "closed"],
        ["--profile", "closed", "stats"],
        ["backup", "file:///x", "--secret-file", "closed"],
    ):
        answer = run(words)
        assert (answer.code, "closed" in answer.err) == (7, True)


def test_a_reader_that_goes_away_ends_a_command_quietly(folder):
    with lukasa.open(folder / "agents.db") as memory:
        for number in range(300):
            memory.journal.write("note", f"note {number} " * 40)
    program = [sys.executable, "-m", "lukasa.interfaces.cli", "export", "-"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        present(process.stdout).read(10)
        present(process.stdout).close()
        said = present(process.stderr).read().decode()
        assert process.wait(60) == 141
    assert "Traceback" not in said
    assert "Exception" not in said
