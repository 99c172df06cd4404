"""The head of a log: acknowledged entries that are gone from the end of the log are noticed and told."""

from __future__ import annotations

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import apsw
import pytest

import lukasa
from lukasa import Key
from lukasa.core.scope import SYSTEM
from lukasa.storage.engine import LOSS, Query
from lukasa.storage.sqlite.writer import head_path, read_head
from support.narrow import present

pytestmark = pytest.mark.requirement("LOG-5", "LOG-9")
WRITE_AND_DIE = """
import os, sys, lukasa
memory = lukasa.open(sys.argv[1], embedder="hash")
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    assert memory.journal.write("note", f"note {number}", id=f"n{number}")
os._exit(0)
"""


def write_and_die(store, first, last):
    """Write notes in a process that ends without closing the store, so that the write-ahead log stays."""
    subprocess.run([sys.executable, "-c", WRITE_AND_DIE, str(store), str(first), str(last)], check=True)


def list_notes(memory):
    return [record.id for record in memory.journal.read(Query(kinds=("note",)))]


@pytest.fixture
def store(tmp_path):
    """Make a store of ten notes; the last five are in the write-ahead log of a process that died."""
    path = tmp_path / "store.db"
    with lukasa.open(path, embedder="hash") as memory:
        for number in range(5):
            memory.journal.write("note", f"note {number}", id=f"n{number}")
    write_and_die(path, 5, 10)
    return path


def flip_wal(store, share=0.6):
    """Flip a byte in the write-ahead log, which ends there for SQLite."""
    wal = store.with_name(store.name + "-wal")
    data = bytearray(wal.read_bytes())
    data[int(len(data) * share)] ^= 1
    wal.write_bytes(data)


def test_a_closed_store_is_one_file(tmp_path):
    with lukasa.open(tmp_path / "store.db", embedder="hash") as memory:
        memory.journal.write("note", "something")
        assert present(read_head(tmp_path / "store.db")).seq == memory.journal.tip()
        assert head_path(tmp_path / "store.db").stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["store.db"]


def test_a_killed_writer_is_no_loss(store):
    assert present(read_head(store)).seq == 10
    with lukasa.open(store, embedder="hash") as memory:
        assert len(list_notes(memory)) == 10
        assert memory.verify().sound


def test_a_log_that_lost_its_end_is_noticed_told_and_accepted(store, caplog):
    flip_wal(store)
    with lukasa.open(store, embedder="hash") as memory:
        kept = list_notes(memory)
        assert 5 <= len(kept) < 10
        assert "had been acknowledged" in caplog.text
        (finding,) = memory.verify().findings
        assert finding.where == "end of the log"
        assert f"{len(kept) + 1} to 10" in finding.what
        assert memory.journal.write("note", "after the loss").unwrap().seq == 12  # no position is used twice
    caplog.clear()
    with lukasa.open(store, embedder="hash") as memory:
        assert caplog.text == ""
        assert not memory.verify().sound
        assert memory.journal.accept_losses() == [f"positions {len(kept) + 1} to 10"]
        assert memory.verify().sound
        (loss,) = memory.journal.read(Query(kinds=(LOSS,), scopes=(SYSTEM,)))
        assert (loss.body["until"], loss.body["accepted"], loss.version) == (10, True, 2)


def test_only_one_of_several_openers_records_the_loss(store):
    flip_wal(store)
    with ThreadPoolExecutor(4) as pool:
        memories = list(pool.map(lambda _: lukasa.open(store, embedder="hash"), range(4)))
    try:
        assert len(memories[0].verify().findings) == 1
        assert len(list(memories[0].journal.read(Query(kinds=(LOSS,), scopes=(SYSTEM,), every_version=True)))) == 1
    finally:
        for memory in memories:
            memory.close()


def test_a_head_that_is_behind_is_no_alarm(store):
    behind = head_path(store).read_bytes()
    write_and_die(store, 10, 12)
    head_path(store).write_bytes(behind)
    with lukasa.open(store, embedder="hash") as memory:
        assert len(list_notes(memory)) == 12
        assert memory.verify().sound


@pytest.mark.parametrize("damage", [b"", b"x", None], ids=["empty", "garbage", "missing"])
def test_a_store_without_a_whole_head_opens_and_says_so_once(store, damage):
    head_path(store).write_bytes(damage) if damage is not None else head_path(store).unlink()
    with lukasa.open(store, embedder="hash") as memory:
        assert memory.describe()["lacks_head"]
        assert memory.verify().sound
        memory.journal.write("note", "more")
    with lukasa.open(store, embedder="hash") as memory:
        assert not memory.describe()["lacks_head"]


def test_an_older_copy_that_is_put_back_is_no_alarm(tmp_path):
    path = tmp_path / "store.db"
    with lukasa.open(path, embedder="hash") as memory:
        memory.journal.write("note", "first", id="a")
        memory.backup(tmp_path / "copy.db")
    write_and_die(path, 0, 5)
    for end in ("", "-wal", "-shm"):
        path.with_name(path.name + end).unlink()
    shutil.copyfile(tmp_path / "copy.db", path)  # the head of the lost store is still there
    with lukasa.open(path, embedder="hash") as memory:
        assert list_notes(memory) == ["a"]
        assert memory.verify().sound
        assert memory.journal.write("note", "second").unwrap().seq == 2


def test_a_loss_that_cannot_be_recorded_yet_is_reported(store):
    flip_wal(store)
    blocker = apsw.Connection(str(store))
    blocker.execute("BEGIN IMMEDIATE")
    with lukasa.open(store, embedder="hash", timeout=0.1) as memory:
        blocker.close()
        assert len(list_notes(memory)) >= 5
        (finding,) = memory.verify().findings
        assert "had been acknowledged" in finding.what
    with lukasa.open(store, embedder="hash") as memory:
        assert len(list(memory.journal.read(Query(kinds=(LOSS,), scopes=(SYSTEM,))))) == 1


def test_the_end_of_a_log_that_compaction_and_erasure_shorten_is_no_loss(store):
    with lukasa.open(store, embedder="hash") as memory:
        memory.journal.erase(Key("shared", "note", "n9"))
        memory.journal.write("note", "changed", id="n8")
        memory.compact()
    write_and_die(store, 20, 21)
    with lukasa.open(store, embedder="hash") as memory:
        assert memory.verify().sound
