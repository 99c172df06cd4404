"""A read-only folder or disk: everything can be read, every write is refused with a sentence."""

import os

import pytest

from lukasa.errors import StoreReadOnly, StoreUnavailable

SENTENCE = ["StoreReadOnly", "The store cannot be written here; reading still works."]


@pytest.mark.requirement("LOG-1", "LOG-2", "LOG-5", "LOG-7")
@pytest.mark.parametrize("leftover", ["nothing", "log", "log and shared memory"])
def test_a_store_on_a_read_only_disk_can_be_read_in_full_and_refuses_every_write(
    actors, private_mounts, tmp_path, leftover
):
    if private_mounts is None and os.geteuid() == 0:
        pytest.skip("neither mounting is permitted nor do file permissions bind this user")
    mounted = private_mounts is not None
    report = actors.run("sealing_off", mounting=mounted, mounted=mounted, folder=tmp_path, leftover=leftover)
    assert ("memory.db-wal" in report["files"]) == (leftover != "nothing")
    texts = ["early 1", "early 2", "early 3", "early 4", "changed"]
    assert report["reads"] == {
        "live": texts,
        "history": ["early 0", "changed"],
        "earlier": "early 0",
        "found": 4,
        "tally": [["note", 5, 6]],
        "exported": 6,
        "sound": True,
        "read_only": True,
    }
    assert report["writes"] == dict.fromkeys(report["writes"], SENTENCE)
    assert report["still"] == texts
    assert report["unchanged"]
    assert report["later"]


@pytest.mark.requirement("LOG-1")
def test_a_disk_that_turns_read_only_under_an_open_store_refuses_writes_and_can_still_be_read(
    disk, store, verified_versions
):
    with disk.open(store) as memory:
        early = [memory.journal.write("note", f"early {number}").record for number in range(5)]
        disk.read_only = True
        with disk.inject_fault("write"):
            with pytest.raises((StoreReadOnly, StoreUnavailable)):
                memory.journal.write("note", "late")
            with pytest.raises(StoreReadOnly, match="reading still works"):
                memory.journal.write("note", "late")
            assert list(memory.journal.read()) == early
            assert memory.verify().sound
        disk.read_only = False
        assert memory.journal.write("note", "writable again")
        assert memory.verify().sound
    assert len(verified_versions(store)) == 6
