"""Commands that write a file: nothing but a plain file is ever replaced, and that only with --force."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import stat
from pathlib import Path

import pytest

from frozen.cli_running import isolate, root_command, run, walk
from lukasa.errors import InvalidInput
from lukasa.storage.files import open_output_file

FILE_WRITERS = {
    ("export", "file"): "export {target}",
    ("export", "file", "memory-graph"): "export {target} --format memory-graph",
    ("vault export", "file"): "vault export {target}",
    ("context export", "target"): "context export s1 {target}",
    ("checkpoint export", "file"): "checkpoint export demo {target}",
    ("forecast plot", "out"): "forecast plot --out {target}",
    ("trust plot", "out"): "trust plot creator --out {target}",
    ("backup", "place"): "backup {target}",
    ("restore", "into"): "restore file://{folder}/backups --into {target}",
    ("continuity", "file"): "continuity {target}",
}
"""The commands that write one file. The key names the command and the parameter."""
UPDATERS = {"continuity"}
"""They read the file first and keep what is in it, so that they need no --force."""
NEVER_REPLACE = {"backup", "restore"}
FOLDER_WRITERS = {
    ("export", "file", "loki"): ("export {target} --format loki", "skills/deploy.md"),
    ("export", "file", "voxsigil"): ("export {target} --format voxsigil", "sessions/demo/checkpoint_001.json"),
    ("export", "file", "context"): ("export {target} --format context", "s1.json"),
    ("trust export", "folder"): ("trust export {target}", "creator.json"),
    ("skill sync", "folder"): ("skill sync {target}", "deploy.md"),
}
"""The commands that write files into a folder, and one of the files."""
OTHERS = {
    ("allow", "folder"),
    *(("audit", "path"), ("context import", "source")),
    *(("import", "file"), ("scan", "file"), ("skill add", "skill"), ("skill check", "file"), ("trust import", "files")),
    *(("vault import", "file"), ("backup", "secret_file"), ("restore", "secret_file"), ("restore", "source")),
    *(("copy", "source"), ("copy", "destination")),
}
"""Parameters that name a file to read, a store, or a text."""
SVG = {"forecast plot", "trust plot"}
SKILL = "# Skill: Deploy a service\n\n## Steps\n1. Build the image\n\n## Exit Criteria\n- It runs\n"
STATE = {"metadata": {"agent_id": "orion"}, "market_contexts": {"m1": {"price": 0.5}}}
SET_UP = [
    "remember 'We deploy on Tuesdays.'",
    "context append s1 user 'The deadline is Friday.'",
    "skill add skill.md --id deploy",
    "checkpoint save demo --state -",
    "trust log-override creator XML JSON --by ada --criterion Clarity --round-id r",
    "backup file://{folder}/backups",
]


@pytest.fixture(autouse=True)
def _limit_time():
    """End a test that waits for the other end of a pipe."""
    signal.alarm(60)
    yield
    signal.alarm(0)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    isolate(tmp_path, monkeypatch)
    (tmp_path / "out").mkdir()
    (tmp_path / "skill.md").write_text(SKILL, "utf-8")
    for line in SET_UP:
        answer = run([word.format(folder=tmp_path) for word in shlex.split(line)], json.dumps(STATE).encode())
        assert answer.code == 0, answer
    return tmp_path


def snapshot(folder):
    """Describe every entry of a folder, without following anything."""
    return {
        path.relative_to(folder): (
            stat.S_IFMT(path.lstat().st_mode),
            path.lstat().st_rdev,
            path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None,
        )
        for path in sorted(folder.rglob("*"))
    }


def make_device(path):
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:  # only root makes devices: use the one that is there
        return "/dev/null"
    return str(path)


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(path.parent)  # the path of a socket must be short
        try:
            server.bind(path.name)
        finally:
            os.chdir(here)


KINDS = {
    "device": make_device,
    "pipe": os.mkfifo,
    "socket": make_socket,
    "link to a file": lambda path: (path.with_name("kept").write_bytes(b"kept"), path.symlink_to("kept")),
    "link to nothing": lambda path: path.symlink_to("nothing"),
    "link to a device": lambda path: path.symlink_to("/dev/null"),
}


def run_line(line, folder, target):
    return run([word.format(target=target, folder=folder) for word in line.split()])


@pytest.mark.requirement("DOO-2")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", FILE_WRITERS, ids=" ".join)
def test_a_command_never_replaces_anything_but_a_plain_file(folder, command, kind):
    target = folder / "out" / ("x.svg" if command[0] in SVG else "x")
    made = KINDS[kind](target)
    target = made if isinstance(made, str) else target
    before = snapshot(folder / "out")
    for force in ([], ["--force"] if command[0] not in UPDATERS | NEVER_REPLACE else []):
        answer = run_line(" ".join([FILE_WRITERS[command], *force]), folder, target)
        assert answer.code in (2, 6, 7), answer
        assert answer.err.startswith("Error: ")
        assert "Traceback" not in answer.err
        assert snapshot(folder / "out") == before


@pytest.mark.requirement("DOO-2")
@pytest.mark.parametrize("command", FILE_WRITERS, ids=" ".join)
def test_a_file_that_is_there_is_replaced_only_with_force(folder, command):
    target = folder / "out" / ("x.svg" if command[0] in SVG else "x")
    target.write_bytes(b"mine")
    if command[0] in UPDATERS:
        run_line(FILE_WRITERS[command], folder, target)
        assert target.read_bytes().startswith(b"mine")
        return
    answer = run_line(FILE_WRITERS[command], folder, target)
    assert (answer.code, target.read_bytes()) == (2, b"mine")
    assert "already" in answer.err
    if command[0] not in NEVER_REPLACE:
        assert run_line(FILE_WRITERS[command] + " --force", folder, target).code == 0
        assert target.read_bytes() != b"mine"
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in (folder / "out").iterdir()] == [target.name]


@pytest.mark.requirement("DOO-2")
@pytest.mark.parametrize("command", FILE_WRITERS, ids=" ".join)
def test_a_missing_folder_is_named_and_nothing_is_left(folder, command):
    before = snapshot(folder / "out")
    answer = run_line(FILE_WRITERS[command], folder, folder / "out" / "x.svg" / "y.svg")
    if answer.code == 0:
        assert command[0] in {*UPDATERS, "restore"}  # they make the folder
        return
    assert answer.code in (5, 7), answer
    assert ".part" not in answer.err
    assert snapshot(folder / "out") == before


@pytest.mark.requirement("DOO-2")
@pytest.mark.parametrize("command", FOLDER_WRITERS, ids=" ".join)
def test_a_command_that_fills_a_folder_replaces_files_only_with_force_and_links_never(folder, command):
    line, name = FOLDER_WRITERS[command]
    target = folder / "out"
    inside = target / name
    inside.parent.mkdir(parents=True, exist_ok=True)
    (folder / "kept").write_bytes(b"kept")
    inside.symlink_to(folder / "kept")
    answers = [run_line(line, folder, target)]
    if command[0] != "skill sync":
        answers.append(run_line(f"{line} --force", folder, target))
    for answer in answers:
        assert answer.code in (2, 3), answer
    assert inside.is_symlink()
    assert (folder / "kept").read_bytes() == b"kept"
    inside.unlink()
    inside.write_bytes(b"mine")
    if command[0] == "skill sync":
        return  # it takes changed files over
    assert run_line(line, folder, target).code == 2
    assert inside.read_bytes() == b"mine"
    assert run_line(f"{line} --force", folder, target).code == 0
    assert inside.read_bytes() != b"mine"


@pytest.mark.requirement("DOO-2")
@pytest.mark.parametrize("command", FOLDER_WRITERS, ids=" ".join)
@pytest.mark.parametrize("kind", ["device", "pipe", "socket", "link to a file"])
def test_a_folder_to_fill_is_a_folder(folder, command, kind):
    target = folder / "out" / "x"
    made = KINDS[kind](target)
    before = snapshot(folder / "out")
    answer = run_line(FOLDER_WRITERS[command][0], folder, made if isinstance(made, str) else target)
    assert answer.code in (2, 7), answer
    assert "Traceback" not in answer.err
    assert snapshot(folder / "out") == before


def test_every_parameter_that_names_a_file_is_in_a_table_here():
    words = ("FILE", "FOLDER", "DIR", "PATH", "SRC", "DEST")
    found = {
        (" ".join(path), param.name)
        for path, command in walk(root_command())
        if path[:1] != ("bench",) and not hasattr(command, "commands")
        for param in command.params
        if any(word in str(param.metavar).upper() for word in words) and param.metavar != "FILE|JSON"
    }
    assert found == {key[:2] for key in (*FILE_WRITERS, *FOLDER_WRITERS)} | OTHERS


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "x"
    target.write_bytes(b"old")
    with pytest.raises(RuntimeError), open_output_file(target) as file:  # noqa: PT012
        file.write(b"new")
        raise RuntimeError
    with pytest.raises(InvalidInput, match="already there"), open_output_file(tmp_path / "y", replace=False) as file:  # noqa: PT012
        (tmp_path / "y").write_bytes(b"another process was first")
        file.write(b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "x": b"old",
        "y": b"another process was first",
    }


def test_a_link_that_appears_meanwhile_is_not_replaced(tmp_path):
    target = tmp_path / "x"
    with pytest.raises(InvalidInput, match="symbolic link"), open_output_file(target) as file:  # noqa: PT012
        file.write(b"new")
        target.symlink_to("elsewhere")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
