"""Checkpoint files: written whole, proved by themselves, ordered by number, compressed and dropped by rule."""

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

pytestmark = pytest.mark.requirement("CHK-2")
NOON = datetime(2026, 2, 3, 12, tzinfo=UTC)


@pytest.fixture
def at(make):
    """Makes checkpoints by number."""

    def checkpoint(number, minutes=0, **fields):
        state = make.state()
        state["metadata"]["checkpoint_number"] = number
        moment = NOON + timedelta(minutes=minutes or number)
        return Checkpoint("demo", "shared", number, number * 10, moment, state, **fields)

    return checkpoint


@pytest.fixture(params=["folder", "memory"])
def blobs(request, tmp_path):
    return LocalFiles(tmp_path / "root") if request.param == "folder" else MemoryFiles()


def test_a_checkpoint_comes_back_as_it_was_saved_under_the_documents_name(blobs, at):
    folder = CheckpointFiles(blobs, "demo", "shared")
    assert folder.save(at(5)) == "sessions/demo/checkpoint_005.json"
    (entry,) = folder.list_checkpoints()
    assert folder.load(entry) == at(5)


def test_checkpoints_are_ordered_by_number_not_by_name(blobs, at):
    folder = CheckpointFiles(blobs, "demo", "shared")
    for number in (999, 1000, 2, 10000):
        folder.save(at(number))
    assert [entry.number for entry in folder.list_checkpoints()] == [10000, 1000, 999, 2]
    assert folder.find_newest_valid()[0].number == 10000


@pytest.mark.requirement("CHK-9")
def test_every_single_flipped_bit_of_a_file_is_noticed(at):
    data = encode_checkpoint(at(7))
    chance = random.Random(7)
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << chance.randrange(8)
        with pytest.raises(InvalidInput):
            decode_checkpoint(bytes(damaged), "demo", "shared", 7)


@pytest.mark.requirement("CHK-9")
def test_every_truncation_and_every_addition_is_noticed(at):
    data = encode_checkpoint(at(7))
    for length in range(len(data)):
        with pytest.raises(InvalidInput):
            decode_checkpoint(data[:length], "demo", "shared", 7)
    for more in (b"\n", b" ", b"{}", data):
        with pytest.raises(InvalidInput):
            decode_checkpoint(data + more, "demo", "shared", 7)


def test_a_checkpoint_of_another_session_scope_or_number_is_not_taken(at):
    data = encode_checkpoint(at(7))
    for session, scope, number in (("other", "shared", 7), ("demo", "orion", 7), ("demo", "shared", 8)):
        with pytest.raises(InvalidInput):
            decode_checkpoint(data, session, scope, number)


@pytest.mark.requirement("CHK-5")
def test_a_flipped_bit_in_a_compressed_checkpoint_never_gives_another_state(at):
    data, plain = compress(encode_checkpoint(at(7))), encode_checkpoint(at(7))
    noticed = 0
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << (place % 8)
        try:
            assert decompress(bytes(damaged)) == plain
        except InvalidInput:
            noticed += 1
    assert noticed >= len(data) - 1  # the last bits of a deflate stream mean nothing
    assert compress(plain) == data


def test_a_bomb_is_stopped_before_it_unfolds():
    with pytest.raises(InvalidInput, match="too large"):
        decompress(compress(bytes(10_000_000)), max_bytes=1_000_000)


# Names


@pytest.mark.parametrize(
    "id",
    ["../../etc/passwd", "/etc/passwd", "a/b", "CON", "con", "nul.txt", "A", "a ", "user:agent:123", "x" * 200, "é", "e\u0301",
     "..", ".", "-", "a\\b", "😀", "com1", "a.", "sessions"],
)  # fmt: skip
def test_whatever_a_session_is_called_its_files_stay_in_a_folder_of_its_own(tmp_path, at, id):
    blobs = LocalFiles(tmp_path / "root")
    path = session_folder(id)
    assert path.startswith("sessions/")
    assert path.count("/") == 1
    CheckpointFiles(blobs, id, "shared").append_delta_lines(1, [{"n": 1}])
    inside = [file.relative_to(tmp_path).parts[:2] for file in tmp_path.rglob("*") if file.is_file()]
    assert inside == [("root", "sessions")]


def test_no_two_sessions_share_a_folder_not_even_where_letter_case_is_lost():
    ids = ["demo", "Demo", "DEMO", "é", "e\u0301", "a b", "a-b", "a_b", "a/b", "x" * 199, "x" * 200]
    pairs = [(id, scope) for id in ids for scope in ("shared", "orion", "Orion")]
    assert len({session_folder(*pair).lower() for pair in pairs}) == len(pairs)


@given(st.text(min_size=1, max_size=200), st.text(min_size=1, max_size=20))
def test_any_text_makes_a_plain_folder_name(id, scope):
    name = session_folder(id, scope).removeprefix("sessions/")
    assert name.isascii()
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-~")
    assert name[0].isalnum()


# Keepers of blobs


def test_what_is_kept_can_be_read_listed_renamed_and_deleted(blobs):
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


def test_a_name_is_given_once_if_it_is_asked_for_like_that(blobs):
    blobs.put("a/one", b"1", new=True)
    with pytest.raises(FileTaken):
        blobs.put("a/one", b"2", new=True)
    assert read_whole(blobs, "a/one") == b"1"


@pytest.mark.parametrize(
    "name", ["", "..", "../x", "a/../b", "/x", "a//b", "a/", ".hidden", "a\0b", "a\\b", "a b", "x" * 300, "é", "a."]
)
def test_names_that_lead_elsewhere_are_refused(blobs, name):
    for deed in (lambda: blobs.put(name, b""), lambda: blobs.append(name, b""), lambda: blobs.rename("a", name)):
        with pytest.raises((InvalidInput, FileMissing)):
            deed()


def test_links_are_not_followed(tmp_path):
    blobs = LocalFiles(tmp_path / "root")
    blobs.put("a/one", b"1")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (tmp_path / "root" / "linked").symlink_to(outside)
    (tmp_path / "root" / "a" / "file").symlink_to(outside / "secret")
    for deed in (
        lambda: read_whole(blobs, "linked/secret"),
        lambda: read_whole(blobs, "a/file"),
        lambda: blobs.put("linked/new", b""),
        lambda: blobs.list_files("linked"),
    ):
        with pytest.raises(InvalidInput, match="link"):
            deed()
    assert [blob.name for blob in blobs.list_files("a")] == ["a/one"]
    assert sorted(file.name for file in outside.iterdir()) == ["secret"]


def test_what_the_dead_left_half_written_is_swept_and_what_the_living_write_is_not(tmp_path):
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
    assert writer.stdout.readline() == "writing\n"
    assert blobs.delete_partial_files("a") == 0
    writer.kill()
    writer.communicate()
    assert len(list((root / "a").iterdir())) == 2
    assert blobs.delete_partial_files("a") == 1
    assert [file.name for file in (root / "a").iterdir()] == ["one"]


@pytest.mark.parametrize(("error", "kind"), [(28, "StoreFull"), (30, "StoreReadOnly"), (5, "StoreUnavailable")])
@pytest.mark.parametrize("step", ["write", "sync", "rename"])
def test_trouble_with_the_disk_is_told_by_its_name_and_leaves_the_old_file(tmp_path, error, kind, step):
    def hook(at):
        if at == step and failing:
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


@pytest.mark.parametrize("place", ["ftp://x/y", "file://host/y", "file:relative://x"])
def test_places_that_nothing_can_be_kept_in_are_refused(place):
    with pytest.raises(InvalidInput):
        open_file_store(place)


def test_a_folder_is_named_by_path_or_url(tmp_path):
    for place in (tmp_path / "x y", str(tmp_path / "x y"), f"file://{tmp_path}/x%20y"):
        assert open_file_store(place).root == Path(tmp_path / "x y")


# Retention


def entry(number, hours, compressed=False):
    return CheckpointFileInfo(number, f"n{number}", 1, NOON - timedelta(hours=hours), compressed)


@pytest.mark.requirement("CHK-5")
@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(-48, 96), st.booleans()), unique_by=lambda item: item[0]),
    st.integers(1, 12),
    st.integers(0, 12),
)
def test_retention_compresses_what_is_old_or_many_and_never_touches_the_newest(rows, plain, packed):
    entries = [entry(*row) for row in rows]
    old, surplus = plan_retention(entries, NOON, Retention(plain, packed))
    newest = max((one.number for one in entries), default=0)
    assert newest not in {one.number for one in (*old, *surplus)} or any(
        one.compressed and one.number == newest for one in entries
    )
    stays = [one for one in entries if not one.compressed and one not in old]
    assert len(stays) <= plain
    assert all(NOON - one.modified <= timedelta(hours=24) or one.number == newest for one in stays)
    packed_after = {one.number for one in entries if one.compressed} | {one.number for one in old}
    assert len(packed_after - {one.number for one in surplus}) <= packed
    assert all(one.number < other for one in surplus for other in packed_after - {gone.number for gone in surplus})


@pytest.mark.requirement("CHK-5")
def test_the_newest_ten_stay_plain_older_ones_are_compressed_and_too_many_go(blobs, at):
    folder = CheckpointFiles(blobs, "demo", "shared")
    for number in range(1, 31):
        folder.save(at(number))
        folder.apply_retention(NOON + timedelta(minutes=number), Retention(10, 5))
    assert [(one.number, one.compressed) for one in folder.list_checkpoints()] == [
        *((number, False) for number in range(30, 20, -1)),
        *((number, True) for number in range(20, 15, -1)),
    ]
    assert all(folder.load(one).number == one.number for one in folder.list_checkpoints())


@pytest.mark.requirement("CHK-5")
def test_after_a_day_all_but_the_newest_are_compressed_and_a_jump_of_the_clock_deletes_nothing(blobs, at):
    folder = CheckpointFiles(blobs, "demo", "shared")
    for number in (1, 2, 3):
        folder.save(at(number))
    folder.apply_retention(NOON + timedelta(days=4000), Retention())
    assert [(one.number, one.compressed) for one in folder.list_checkpoints()] == [(3, False), (2, True), (1, True)]


@pytest.mark.requirement("CHK-5")
def test_a_damaged_checkpoint_is_neither_compressed_nor_dropped_and_the_only_valid_one_stays(blobs, at):
    folder = CheckpointFiles(blobs, "demo", "shared")
    for number in range(1, 6):
        folder.save(at(number))
    for number in (3, 4, 5):
        blobs.put(f"sessions/demo/checkpoint_{number:03d}.json", b"rubbish")
    tidied = folder.apply_retention(NOON + timedelta(hours=1), Retention(1, 0))
    assert tidied.kept_damaged == (3, 4)
    assert folder.find_newest_valid()[0].number == 2
    assert {one.number for one in folder.list_checkpoints()} >= {2, 3, 4, 5}
