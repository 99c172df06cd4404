"""Backups after damage and kills: an old one that is damaged stops no new one, and a killed one leaves nothing behind."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import lukasa
from lukasa.errors import FileMissing, FormatError
from lukasa.storage.files import lock_abandoned, temporary_folder
from support.narrow import present

pytestmark = pytest.mark.requirement("LOG-5")


@pytest.fixture
def backups(tmp_path):
    """Make a store and two backups of it."""
    with lukasa.open(tmp_path / "store.db") as memory:
        for number in range(2):
            memory.journal.write("note", f"note {number}")
            memory.backup((tmp_path / "backups").as_uri())
    return tmp_path / "backups" / "store.db"


def test_a_damaged_manifest_of_an_old_backup_stops_no_new_one(backups, tmp_path):
    manifest = backups / "manifest-000001.json"
    manifest.write_bytes(manifest.read_bytes().replace(b"lukasa-backup", b"lukasa-backuq"))
    archives = {file.name for file in backups.glob("archive-*")}
    with lukasa.open(tmp_path / "store.db") as memory:
        assert present(memory.backup(backups.parent.as_uri())).number == 3
        assert archives < {file.name for file in backups.glob("archive-*")}  # the damaged manifest may name one of them
    found = lukasa.find_backups(backups.parent.as_uri())
    assert found.verify().number == 3
    with pytest.raises(FormatError, match=r"manifest 1 of store\.db"):
        found.verify(1)


def test_a_missing_archive_is_named_with_the_other_backups(backups):
    found = lukasa.find_backups(backups.parent.as_uri())
    missing = found.manifest(2).archive
    (backups.parent / missing).unlink()
    with pytest.raises(FileMissing, match=rf"Backup 2 of store\.db .* {missing} is missing.*: 1"):
        found.verify()


KILLED_COPY = """
import os, sys, lukasa
from lukasa.storage.sqlite import store_file
with lukasa.open(sys.argv[1]) as memory:
    store_file.sync_folder = lambda _: os._exit(9)
    os.fsync = lambda _: os._exit(9)
    memory.backup(sys.argv[2])
"""


def test_a_killed_copy_leaves_a_partial_file_that_the_next_one_deletes(backups, tmp_path):
    target = tmp_path / "copy.db"
    subprocess.run([sys.executable, "-c", KILLED_COPY, tmp_path / "store.db", target], check=False)
    (left,) = tmp_path.glob(".lukasa-*.part")
    used = tmp_path / ".lukasa-0123.part"
    with used.open("wb") as running, lukasa.open(tmp_path / "store.db") as memory:
        fcntl.flock(running, fcntl.LOCK_EX)  # as another process that copies to the same name
        memory.backup(target)
        assert (left.exists(), used.exists(), target.exists()) == (False, True, True)


def test_the_folder_of_a_killed_backup_is_deleted_by_the_next_one(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program = "import os\nfrom lukasa.storage.files import temporary_folder\nwith temporary_folder('x-'): os._exit(9)"
    subprocess.run([sys.executable, "-c", program], check=False, env={"TMPDIR": str(tmp_path), **_environment()})
    (left,) = tmp_path.glob("x-*")
    with temporary_folder("x-") as running:
        assert not left.exists()
        with temporary_folder("x-") as other:
            assert running.exists()
            assert lock_abandoned(running / "lock") is None
        assert not other.exists()
    assert list(tmp_path.glob("x-*")) == []


def _environment():
    return {"PYTHONPATH": str(Path(lukasa.__file__).parents[1])}
