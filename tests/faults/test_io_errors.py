"""A failing device: a typed error, nothing acknowledged, the broken handle never used again, the store sound."""

import contextlib
import errno
import shutil
import threading

import pytest

import lukasa
from lukasa import Draft, Key, Link
from lukasa.errors import StoreError, StoreUnavailable
from support.faulty_disk import FaultNotReached, FaultyDisk


def fill(memory, count=20):
    return [memory.journal.write("note", f"early {number}").record for number in range(count)]


@pytest.mark.requirement("LOG-3")
@pytest.mark.parametrize(("verb", "nth"), [("write", 1), ("write", 2), ("write", 5), ("sync", 1)])
def test_a_device_that_fails_gives_a_typed_error_and_acknowledges_nothing(
    disk, store, verified_versions, exported, verb, nth
):
    with disk.open(store) as memory:
        early = fill(memory)
        before = exported(memory)
        with (
            disk.inject_fault(verb, errno.EIO, file="wal", nth=nth),
            pytest.raises(StoreUnavailable, match="not acknowledged"),
        ):
            memory.journal.append([Draft("note", f"late {number} " * 400) for number in range(10)])
        assert exported(memory) == before
        assert memory.verify().sound
        assert memory.journal.write("note", "the device is back")
    assert len(verified_versions(store)) == len(early) + 1


@pytest.mark.requirement("LOG-3")
def test_a_failing_device_gives_a_typed_error_however_often_it_is_tried(disk, store, exported):
    with disk.open(store) as memory:
        early = fill(memory)
        before = exported(memory)
        with disk.inject_fault("sync", errno.EIO, file="wal") as fault:
            for _ in range(5):
                with pytest.raises(StoreUnavailable):
                    memory.journal.write("note", "late")
                assert list(memory.journal.read()) == early
        assert fault.reached_count >= 5
        assert exported(memory) == before
        assert memory.journal.write("note", "the device is back")


def check_that_the_handle_was_given_up(disk):
    (failed,) = disk.failed_steps
    assert [step for step in disk.steps[failed.number :] if step.handle == failed.handle] == []


@pytest.mark.requirement("LOG-3")
@pytest.mark.parametrize("verb", ["write", "sync"])
@pytest.mark.parametrize("readers", [0, 1], ids=["the only one open", "one of several"])
def test_a_handle_that_failed_to_write_never_writes_or_syncs_again(disk, store, verb, readers):
    memory = disk.open(store)
    fill(memory)
    if readers:
        assert memory.journal.tip()
    with disk.inject_fault(verb, errno.EIO, file="wal", times=1), pytest.raises(StoreUnavailable):
        memory.journal.write("note", "late")
    assert memory.journal.write("note", "through another handle")
    memory.close()
    check_that_the_handle_was_given_up(disk)


@pytest.mark.requirement("LOG-5")
@pytest.mark.parametrize("deed", ["compact", "erase"])
def test_a_handle_that_failed_in_a_checkpoint_never_writes_or_syncs_again(disk, store, deed):
    memory = disk.open(store)
    early = fill(memory)
    memory.journal.write("note", "changed", id=early[0].id)
    with disk.inject_fault("sync", errno.EIO, file="database", times=1), contextlib.suppress(StoreUnavailable):
        memory.compact() if deed == "compact" else memory.journal.erase(early[1].key)
    assert memory.journal.write("note", "through another handle")
    assert memory.verify().sound
    memory.close()
    check_that_the_handle_was_given_up(disk)


@pytest.mark.requirement("LOG-3")
def test_every_job_of_a_group_whose_sync_failed_fails(disk, store, verified_versions):
    writers = 8
    with disk.open(store) as memory:
        start = threading.Barrier(writers)
        answers = {}

        def write(number):
            start.wait()
            for turn in range(10):
                try:
                    answers[number, turn] = memory.journal.write("note", f"{number} {turn}")
                except StoreUnavailable as error:
                    answers[number, turn] = error

        threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
        with disk.inject_fault("sync", errno.EIO, file="wal", nth=4, times=3):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        accepted = {answer.record.text for answer in answers.values() if not isinstance(answer, StoreUnavailable)}
    assert len(answers) == writers * 10
    assert len(accepted) < len(answers)
    # A commit whose sync failed may have reached the disk all the same, although it was not acknowledged.
    assert (
        accepted
        <= {record.text for record in verified_versions(store).values()}
        <= {f"{n} {t}" for n in range(writers) for t in range(10)}
    )


@pytest.mark.requirement("LOG-3")
def test_nothing_is_acknowledged_that_a_power_cut_could_still_take(disk, store):
    with disk.open(store) as memory:
        for number in range(300):
            assert memory.journal.write("note", f"number {number} " * 50)
            assert "wal" not in disk.unsynced_files
        memory.journal.erase(memory.journal.write("note", "to be erased").record.key)
        assert not disk.unsynced_files
    assert any(step.file == "database" for step in disk.steps), "no checkpoint was reached"


def prepare(store):
    """Create a store with something to compact, to erase and to hide."""
    with lukasa.open(store) as memory:
        for number in range(30):
            memory.journal.write("note", f"note {number} " * 20, id=f"n-{number}", author="ab"[number % 2])
        for number in range(0, 30, 3):
            memory.journal.write("note", f"changed {number}", id=f"n-{number}", author="a")
        memory.journal.write("summary", "birds", id="s", links=(Link("derived_from", Key("shared", "note", "n-3")),))


def append(memory):
    return memory.journal.append([Draft("note", f"late {number} " * 300) for number in range(4)])


def compact(memory):
    return memory.compact()


def erase(memory):
    return memory.journal.erase(Key("shared", "note", "n-3"))


def quarantine(memory):
    return memory.journal.quarantine("b")


def reindex(memory):
    return memory.journal.reindex()


def undo(memory):
    return memory.journal.undo(author="b")


def put_vectors(memory):
    memory._parts.engine.put_vectors("tiny", [(seq, 0, [float(seq)] * 200) for seq in range(1, 40)])


DEEDS = (append, compact, erase, quarantine, reindex, undo, put_vectors)


@pytest.mark.requirement("LOG-3", "LOG-5")
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.__name__)
def test_a_deed_that_fails_at_any_step_fails_with_a_typed_error_and_is_done_whole_or_not_at_all(
    tmp_path, rng, all_versions, deed, error
):
    prepare(tmp_path / "before.db")
    with lukasa.open(tmp_path / "before.db") as memory:
        old = set(all_versions(memory))
    failures = 0
    for nth in (1, 2, 3, *sorted(rng.sample(range(4, 80), 10))):
        store = tmp_path / f"{nth}.db"
        shutil.copyfile(tmp_path / "before.db", store)
        disk = FaultyDisk()
        with disk.open(store) as memory:
            error_seen = None
            try:
                with disk.inject_fault(None, error, nth=nth, times=1):
                    try:
                        deed(memory)
                    except StoreError as failure:
                        error_seen = failure
            except FaultNotReached:
                break
            failures += 1
            verdict = memory.verify()
            assert verdict.sound, (nth, error_seen, verdict.findings)
            found = set(all_versions(memory))
            if deed is append:
                assert len(found - old) == 4 or (error_seen and found == old), (nth, error_seen)
            deed(memory)
            assert memory.verify().sound
    assert failures >= 3
