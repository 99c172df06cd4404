"""A full disk: every acknowledged write is stored, reads work, and writes work again once there is space."""

import errno
import threading

import pytest

from lukasa import Draft
from lukasa.errors import StoreFull


def fill(memory, count=20):
    return [memory.journal.write("note", "in the early days").record for _ in range(count)]


def check_reads(memory, early):
    assert list(memory.journal.read()) == early
    assert memory.journal.history(early[0].key) == [early[0]]
    assert {match.record.seq for match in memory.journal.find("early")} == {record.seq for record in early}
    assert memory.journal.tip() == early[-1].seq


@pytest.mark.requirement("LOG-3")
@pytest.mark.parametrize("nth", [1, 2, 3, 7])
@pytest.mark.parametrize("keep", [0.0, 0.5])
def test_a_full_disk_refuses_a_write_and_leaves_everything_else_as_it_was(
    disk, store, verified_versions, exported, nth, keep
):
    with disk.open(store) as memory:
        early = fill(memory)
        before = exported(memory)
        with disk.inject_fault("write", errno.ENOSPC, nth=nth, keep=keep):
            for _ in range(3):
                with pytest.raises(StoreFull):
                    memory.journal.append([Draft("note", f"late {number} " * 400) for number in range(10)])
            check_reads(memory, early)
        assert exported(memory) == before
        assert memory.verify().sound
        late = memory.journal.write("note", "space again, as in the early days").record
        check_reads(memory, [*early, late])
    assert len(verified_versions(store)) == len(early) + 1


@pytest.mark.requirement("LOG-3")
def test_every_job_of_a_group_that_met_a_full_disk_fails(disk, store, verified_versions):
    writers = 8
    with disk.open(store) as memory:
        fill(memory)
        start = threading.Barrier(writers)
        answers = {}

        def write(number):
            start.wait()
            for turn in range(10):
                try:
                    answers[number, turn] = memory.journal.write("note", f"late {number} {turn}", {"late": True})
                except StoreFull as error:
                    answers[number, turn] = error

        threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
        with disk.inject_fault("write", errno.ENOSPC, file="wal", nth=6, times=12) as fault:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert fault.reached_count == 12
        refused = {place for place, answer in answers.items() if isinstance(answer, StoreFull)}
        assert len(refused) >= 12
        assert len(answers) == writers * 10
        accepted = {answer.record.seq for place, answer in answers.items() if place not in refused}
        assert {record.seq for record in memory.journal.read() if "late" in record.body} == accepted
        assert memory.verify().sound
    texts = {record.text for record in verified_versions(store).values()}
    assert not texts & {f"late {number} {turn}" for number, turn in refused}


@pytest.mark.requirement("LOG-9")
def test_the_head_of_a_log_needs_neither_space_nor_a_writable_disk_and_comes_back_with_space(
    actors, private_mounts, tmp_path
):
    if private_mounts is None:
        pytest.skip("a real small disk needs the permission to mount one")
    report = actors.run("heading", mounting=True, folder=tmp_path)
    assert (report["accepted"], report["sound"]) == ([True, True], True)
    assert report["heads"] == [None, True], "a head that could not be created is created by a later write"
    assert report["left"] == 5
    assert report["texts"] == ["no file can be created", "there is space again"]


@pytest.mark.requirement("LOG-3", "LOG-5")
def test_a_small_file_system_that_runs_full_loses_nothing_and_serves_again_with_space(actors, private_mounts, tmp_path):
    if private_mounts is None:
        pytest.skip("a real small disk needs the permission to mount one")
    report = actors.run("filling", mounting=True, folder=tmp_path)
    assert report["refused"] == "StoreFull"
    assert report["acknowledged"] == report["kept"]
    assert report["found"] == report["kept"]
    assert report["opened_while_full"] in (True, "StoreFull")
    assert report["written_with_space"]
    assert report["sound"] == [True, True]
