"""Erasure and files: folders named after a subject, checkpoints, partial files and copies go; nothing else is touched."""

import fcntl
import os

import pytest

import lukasa
from lukasa import Key
from lukasa.storage.engine import Query

pytestmark = pytest.mark.requirement("LOG-5")

SUBJECT = "Ada Lovelace"


@pytest.fixture(params=["in the default folder", "beside another file"])
def memory(request, tmp_path):
    name = "memory.db" if request.param == "in the default folder" else "agents.db"
    with lukasa.open(tmp_path / "store" / name) as memory:
        yield memory


@pytest.fixture
def files(memory):
    """Return the folder of the store's files."""
    return memory.sessions.blobs.root


def begin_sessions(memory):
    for session in ("ada-lovelace", "Ada Lovelace: plans", "chat with someone", "canada"):
        session_state = {"metadata": {"note": SUBJECT if session == "chat with someone" else "nothing"}}
        assert memory.sessions.save_checkpoint(session_state, session)


def folder_names(files):
    return sorted(path.name.partition("~")[0] for path in (files / "sessions").iterdir())


def test_folders_named_after_a_subject_and_files_that_name_it_are_deleted_and_listed(memory, files):
    begin_sessions(memory)
    assert folder_names(files) == ["ada-lovelace", "ada-lovelace-plans", "canada", "chat-with-someone"]
    before = {f"sessions/{path.parent.name}/{path.name}" for path in files.rglob("checkpoint_*")}
    receipt = memory.journal.erase(subject=SUBJECT)
    assert folder_names(files) == ["canada"]
    left = {f"sessions/{path.parent.name}/{path.name}" for path in files.rglob("checkpoint_*")}
    assert before - left <= set(receipt.files)
    assert all(name.startswith("sessions/") and "canada" not in name for name in receipt.files)
    (record,) = memory.journal.read(Query(kinds=("erasure",)))
    assert record.body["files"] == len(receipt.files)
    assert "lovelace" not in str(record.body).lower()  # not "ada", which the hexadecimal digests may hold


def test_an_erased_session_goes_with_its_folder(memory, files):
    begin_sessions(memory)
    receipt = memory.journal.erase(Key("shared", "session", "canada"))
    assert "canada" not in folder_names(files)
    assert receipt.files
    assert len(folder_names(files)) == 3


def test_partial_files_and_copies_of_the_store_go_but_not_those_that_are_being_written(memory, files):
    begin_sessions(memory)
    store = memory.place.path
    partial = files / "sessions" / "canada" / ".checkpoint_002.json.0123456789ab.part"
    abandoned = store.with_name(".lukasa-0123456789abcdef.part")
    older = store.with_name(f"{store.name}.before-schema-3")
    locked = store.with_name(".lukasa-fedcba9876543210.part")
    kept = [store.with_name(name) for name in ("mine.part", "notes.txt", "other.db", f"{store.name}.mine")]
    for path in (partial, abandoned, older, locked, *kept):
        path.write_text(SUBJECT)
    with locked.open("rb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        receipt = memory.journal.erase(subject=SUBJECT)
    assert not any(path.exists() for path in (partial, abandoned, older))
    assert all(path.read_text() == SUBJECT for path in (locked, *kept))
    assert {abandoned.name, older.name, "sessions/canada/*.part"} <= set(receipt.files)


def test_links_are_not_followed_and_nothing_outside_is_touched(memory, files, tmp_path):
    begin_sessions(memory)
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("checkpoint_001.json", "note.txt"):
        (outside / name).write_text(SUBJECT)
    (files / "sessions" / "ada-lovelace-link").symlink_to(outside)
    (files / "sessions" / "canada" / "checkpoint_009.json").symlink_to(outside / "note.txt")
    store = memory.place.path
    store.with_name(".lukasa-00000000000000aa.part").symlink_to(outside / "note.txt")
    receipt = memory.journal.erase(subject=SUBJECT)
    assert {path.name: path.read_text() for path in outside.iterdir()} == {
        "checkpoint_001.json": SUBJECT,
        "note.txt": SUBJECT,
    }
    assert os.path.lexists(files / "sessions" / "canada" / "checkpoint_009.json")
    assert not any("link" in name for name in receipt.files)


def test_a_subject_that_only_files_name_is_erased(memory, files):
    begin_sessions(memory)
    memory.journal.erase(subject=SUBJECT)
    folder = files / "sessions" / "ada-lovelace"
    folder.mkdir()
    (folder / "checkpoint_001.json").write_text("{}")
    receipt = memory.journal.erase(subject=SUBJECT)
    assert (receipt.records, receipt.id, receipt.files) == (0, None, ("sessions/ada-lovelace/checkpoint_001.json",))
    assert not folder.exists()
