"""Checkpoint files and file stores: checksums, names, order, atomic writes, retention."""

import os
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lukasa.errors import FileMissing, FileTaken, InvalidInput, StoreReadOnly, StoreUnavailable
from lukasa.sessions.checkpoint_files import (  # fmt: skip
    Checkpoint,
    CheckpointFileInfo,
    CheckpointFiles,
    Retention,
    compress,
    decode_checkpoint,
    decompress,
    encode_checkpoint,
    plan_retention,
    session_folder,
)
from lukasa.storage.file_stores import open_file_store
from lukasa.storage.files import read_whole
from lukasa.storage.local_files import LocalFiles
from lukasa.storage.memory_files import MemoryFiles
from support.narrow import present

pytestmark = pytest.mark.requirement("CHK-2")
NOON = datetime(2026, 2, 3, 12, tzinfo=UTC)


@pytest.fixture
def make_checkpoint(make):
    """Make checkpoints by number."""

    def checkpoint(number, minutes=0, **fields):
        state = make.state()
        state["metadata"]["checkpoint_number"] = number
        moment = NOON + timedelta(minutes=minutes or number)
        return Checkpoint("demo", "shared", number, number * 10, moment, state, **fields)

    return checkpoint


@pytest.fixture(params=["folder", "memory"])
def blobs(request, tmp_path):
    return LocalFiles(tmp_path / "root") if request.param == "folder" else MemoryFiles()


def test_a_checkpoint_is_loaded_as_saved_under_the_documents_name(blobs, make_checkpoint):
    folder = CheckpointFiles(blobs, "demo", "shared")
    assert folder.save(make_checkpoint(5)) == "sessions/demo/checkpoint_005.json"
    (entry,) = folder.list_checkpoints()
    assert folder.load(entry) == make_checkpoint(5)


def test_checkpoints_are_listed_by_number_not_by_name(blobs, make_checkpoint):
    folder = CheckpointFiles(blobs, "demo", "shared")
    for number in (999, 1000, 2, 10000):
        folder.save(make_checkpoint(number))
    assert [entry.number for entry in folder.list_checkpoints()] == [10000, 1000, 999, 2]
    assert present(folder.find_newest_valid()[0]).number == 10000


@pytest.mark.requirement("CHK-9")
def test_a_flipped_bit_in_any_byte_is_detected(make_checkpoint):
    data = encode_checkpoint(make_checkpoint(7))
    rng = random.Random(7)
    for index in range(len(data)):
        damaged = bytearray(data)
        damaged[index] ^= 1 << rng.randrange(8)
        with pytest.raises(InvalidInput):
            decode_checkpoint(bytes(damaged), "demo", "shared", 7)


@pytest.mark.requirement("CHK-9")
def test_every_truncation_and_addition_is_detected(make_checkpoint):
    data = encode_checkpoint(make_checkpoint(7))
    for length in range(len(data)):
        with pytest.raises(InvalidInput):
            decode_checkpoint(data[:length], "demo", "shared", 7)
    for more in (b"\n", b" ", b"{}", data):
        with pytest.raises(InvalidInput):
            decode_checkpoint(data + more, "demo", "shared", 7)


def test_a_checkpoint_of_another_session_scope_or_number_is_refused(make_checkpoint):
    data = encode_checkpoint(make_checkpoint(7))
    for session, scope, number in (("other", "shared", 7), ("demo", "orion", 7), ("demo", "shared", 8)):
        with pytest.raises(InvalidInput):
            decode_checkpoint(data, session, scope, number)


@pytest.mark.requirement("CHK-5")
def test_a_flipped_bit_in_a_compressed_checkpoint_never_gives_another_state(make_checkpoint):
    data, plain = compress(encode_checkpoint(make_checkpoint(7))), encode_checkpoint(make_checkpoint(7))
    detected = 0
    for index in range(len(data)):
        damaged = bytearray(data)
        damaged[index] ^= 1 << (index % 8)
        try:
            assert decompress(bytes(damaged)) == plain
        except InvalidInput:
            detected += 1
    assert detected >= len(data) - 1  # the last bits of a deflate stream mean nothing
    assert compress(plain) == data


def test_decompress_stops_at_its_limit():
    with pytest.raises(InvalidInput, match="too large"):
        decompress(compress(bytes(10_000_000)), max_bytes=1_000_000)


# Names


@pytest.mark.parametrize(
    "id",
    ["../../etc/passwd", "/etc/passwd", "a/b", "CON", "con", "nul.txt", "A", "a ", "user:agent:123", "x" * 200, "é", "e\u0301",
     "..", ".", "-", "a\\b", "😀", "com1", "a.", "sessions"],
)  # fmt: skip
def test_the_files_of_any_session_id_stay_in_its_folder(tmp_path, id):
    blobs = LocalFiles(tmp_path / "root")
    path = session_folder(id)
    assert path.startswith("sessions/")
    assert path.count("/") == 1
    CheckpointFiles(blobs, id, "shared").append_delta_line(1, {"n": 1})
    inside = [file.relative_to(tmp_path).parts[:2] for file in tmp_path.rglob("*") if file.is_file()]
    assert inside == [("root", "sessions")]


def test_two_sessions_never_share_a_folder_even_if_letter_case_is_lost():
    ids = ["demo", "Demo", "DEMO", "é", "e\u0301", "a b", "a-b", "a_b", "a/b", "x" * 199, "x" * 200]
    pairs = [(id, scope) for id in ids for scope in ("shared", "orion", "Orion")]
    assert len({session_folder(*pair).lower() for pair in pairs}) == len(pairs)


@given(st.text(min_size=1, max_size=200), st.text(min_size=1, max_size=20))
def test_any_session_id_gives_a_plain_folder_name(id, scope):
    name = session_folder(id, scope).removeprefix("sessions/")
    assert name.isascii()
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-~")
    assert name[0].isalnum()


# File stores


def test_files_are_read_listed_renamed_and_deleted(blobs):
    blobs.put("a/one", [b"1", b"2"])
    blobs.put("a/two", b"22")
    blobs.put("b/c/three", b"3")
    assert read_whole(blobs, "a/one") == b"12"
    assert [(blob.name, blob.size) for blob in blobs.list_files("a")] == [("a/one", 2), ("a/two", 2)]
    assert blobs.list_folders("") == ["a", "b"]
    assert blobs.list_folders("b") == ["c"]
    blobs.rename("a/one", "a/uno")
    blobs.delete("a/two")
    blobs.delete("a/two")
    assert [blob.name for blob in blobs.list_files("a")] == ["a/uno"]
    assert blobs.list_files("nowhere") == []
    for missing in (lambda: read_whole(blobs, "a/one"), lambda: blobs.rename("a/one", "a/x")):
        with pytest.raises(FileMissing):
            missing()


def test_put_with_new_refuses_a_taken_name(blobs):
    blobs.put("a/one", b"1", new=True)
    with pytest.raises(FileTaken):
        blobs.put("a/one", b"2", new=True)
    assert read_whole(blobs, "a/one") == b"1"


@pytest.mark.parametrize(
    "name", ["", "..", "../x", "a/../b", "/x", "a//b", "a/", ".hidden", "a\0b", "a\\b", "a b", "x" * 300, "é", "a."]
)
def test_bad_file_names_are_refused(blobs, name):
    for operation in (lambda: blobs.put(name, b""), lambda: blobs.append(name, b""), lambda: blobs.rename("a", name)):
        with pytest.raises((InvalidInput, FileMissing)):
            operation()


def test_symbolic_links_are_not_followed(tmp_path):
    blobs = LocalFiles(tmp_path / "root")
    blobs.put("a/one", b"1")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (tmp_path / "root" / "linked").symlink_to(outside)
    (tmp_path / "root" / "a" / "file").symlink_to(outside / "secret")
    for operation in (
        lambda: read_whole(blobs, "linked/secret"),
        lambda: read_whole(blobs, "a/file"),
        lambda: blobs.put("linked/new", b""),
        lambda: blobs.list_files("linked"),
    ):
        with pytest.raises(InvalidInput, match="link"):
            operation()
    assert [blob.name for blob in blobs.list_files("a")] == ["a/one"]
    assert sorted(file.name for file in outside.iterdir()) == ["secret"]


def test_partial_files_of_dead_writers_are_deleted_and_those_of_living_ones_kept(tmp_path):
    root = tmp_path / "root"
    blobs = LocalFiles(root)
    blobs.put("a/one", b"1")
    script = (
        "import sys; from pathlib import Path; from lukasa.storage.local_files import LocalFiles\n"
        "def hook(step):\n"
        "    if step == 'rename': print('writing', flush=True); sys.stdin.readline()\n"
        "LocalFiles(Path(sys.argv[1]), hook).put('a/two', b'22')\n"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", script, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert present(writer.stdout).readline() == "writing\n"
    assert blobs.delete_partial_files("a") == 0
    writer.kill()
    writer.communicate()
    assert len(list((root / "a").iterdir())) == 2
    assert blobs.delete_partial_files("a") == 1
    assert [file.name for file in (root / "a").iterdir()] == ["one"]


@pytest.mark.parametrize(("error", "kind"), [(28, "StoreFull"), (30, "StoreReadOnly"), (5, "StoreUnavailable")])
@pytest.mark.parametrize("step", ["write", "sync", "rename"])
def test_a_disk_error_is_translated_and_leaves_the_old_file(tmp_path, error, kind, step):
    def hook(current):
        if current == step and failing:
            raise OSError(error, os.strerror(error))

    failing = False
    blobs = LocalFiles(tmp_path, hook)
    blobs.put("a/one", b"old")
    failing = True
    with pytest.raises((StoreReadOnly, StoreUnavailable, Exception)) as raised:
        blobs.put("a/one", b"new")
    assert type(raised.value).__name__ == kind
    failing = False
    assert read_whole(blobs, "a/one") == b"old"
    assert [file.name for file in (tmp_path / "a").iterdir()] == ["one"]
    blobs.put("a/one", b"new")
    assert read_whole(blobs, "a/one") == b"new"


@pytest.mark.parametrize("location", ["ftp://x/y", "file://host/y", "file:relative://x"])
def test_open_file_store_refuses_unknown_locations(location):
    with pytest.raises(InvalidInput):
        open_file_store(location)


def test_open_file_store_takes_a_path_or_a_url(tmp_path):
    for location in (tmp_path / "x y", str(tmp_path / "x y"), f"file://{tmp_path}/x%20y"):
        store = open_file_store(location)
        assert isinstance(store, LocalFiles)
        assert store.root == Path(tmp_path / "x y")


# Retention


def entry(number, hours, compressed=False):
    return CheckpointFileInfo(number, f"n{number}", 1, NOON - timedelta(hours=hours), compressed)


@pytest.mark.requirement("CHK-5")
@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(-48, 96), st.booleans()), unique_by=lambda item: item[0]),
    st.integers(1, 12),
    st.integers(0, 12),
)
def test_retention_compresses_old_and_surplus_checkpoints_and_never_the_newest(rows, plain, packed):
    entries = [entry(*row) for row in rows]
    old, surplus = plan_retention(entries, NOON, Retention(plain, packed))
    newest = max((item.number for item in entries), default=0)
    assert newest not in {item.number for item in (*old, *surplus)} or any(
        item.compressed and item.number == newest for item in entries
    )
    stays = [item for item in entries if not item.compressed and item not in old]
    assert len(stays) <= plain
    assert all(NOON - item.modified <= timedelta(hours=24) or item.number == newest for item in stays)
    packed_after = {item.number for item in entries if item.compressed} | {item.number for item in old}
    assert len(packed_after - {item.number for item in surplus}) <= packed
    assert all(item.number < other for item in surplus for other in packed_after - {gone.number for gone in surplus})


@pytest.mark.requirement("CHK-5")
def test_retention_keeps_ten_plain_checkpoints_and_five_compressed_ones(blobs, make_checkpoint):
    folder = CheckpointFiles(blobs, "demo", "shared")
    for number in range(1, 31):
        folder.save(make_checkpoint(number))
        folder.apply_retention(NOON + timedelta(minutes=number), Retention(10, 5))
    assert [(item.number, item.compressed) for item in folder.list_checkpoints()] == [
        *((number, False) for number in range(30, 20, -1)),
        *((number, True) for number in range(20, 15, -1)),
    ]
    assert all(folder.load(item).number == item.number for item in folder.list_checkpoints())


@pytest.mark.requirement("CHK-5")
def test_after_a_day_all_but_the_newest_are_compressed_and_a_clock_jump_deletes_nothing(blobs, make_checkpoint):
    folder = CheckpointFiles(blobs, "demo", "shared")
    for number in (1, 2, 3):
        folder.save(make_checkpoint(number))
    folder.apply_retention(NOON + timedelta(days=4000), Retention())
    assert [(item.number, item.compressed) for item in folder.list_checkpoints()] == [(3, False), (2, True), (1, True)]


@pytest.mark.requirement("CHK-5")
def test_retention_keeps_damaged_checkpoints_and_the_only_valid_one(blobs, make_checkpoint):
    folder = CheckpointFiles(blobs, "demo", "shared")
    for number in range(1, 6):
        folder.save(make_checkpoint(number))
    for number in (3, 4, 5):
        blobs.put(f"sessions/demo/checkpoint_{number:03d}.json", b"rubbish")
    tidied = folder.apply_retention(NOON + timedelta(hours=1), Retention(1, 0))
    assert tidied.kept_damaged == (3, 4)
    assert present(folder.find_newest_valid()[0]).number == 2
    assert {item.number for item in folder.list_checkpoints()} >= {2, 3, 4, 5}
