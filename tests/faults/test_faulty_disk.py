"""The faulty disk itself: without it the other tests here would prove nothing."""

import errno
from typing import Any

import pytest

from lukasa.errors import StoreFull, StoreUnavailable
from support.faulty_disk import FaultNotReached


def test_a_disk_without_faults_keeps_a_store_like_any_other(disk, store, verified_versions):
    with disk.open(store) as memory:
        written = memory.journal.write("note", "all is well").record
        assert memory.journal.get(written.key) == written
    assert [record.text for record in verified_versions(store).values()] == ["all is well"]
    assert {"write", "sync"} <= {step.verb for step in disk.steps if step.file == "wal"}
    assert [step.number for step in disk.steps] == list(range(1, len(disk.steps) + 1))


def test_a_fault_that_nothing_ran_into_is_an_error(disk, store):
    with disk.open(store) as memory, pytest.raises(FaultNotReached), disk.inject_fault("write", errno.ENOSPC, nth=1000):
        memory.journal.write("note", "one write is not a thousand")


def test_a_fault_occurs_at_the_configured_step_and_number_of_times(disk, store):
    with disk.open(store) as memory:
        memory.journal.write("note", "so that the log has begun")
        with disk.inject_fault("sync", file="wal", nth=3, times=1) as fault:
            outcomes = []
            for number in range(5):
                try:
                    outcomes.append(bool(memory.journal.write("note", f"note {number}")))
                except StoreUnavailable:
                    outcomes.append(False)
        assert outcomes == [True, True, False, True, True]
        assert fault.reached_count == 1


def test_a_fault_can_keep_a_part_of_the_write_that_fails(disk, store):
    with disk.open(store) as memory:
        memory.journal.write("note", "so that the log has begun")
        wal = store.with_name(store.name + "-wal")
        before = wal.stat().st_size
        with disk.inject_fault("write", errno.ENOSPC, file="wal", nth=2, keep=0.5), pytest.raises(StoreFull):
            memory.journal.write("note", "torn " * 1000)
        assert before < wal.stat().st_size < before + 4096 + 24


def test_a_hook_sees_every_step_before_it_is_taken(disk, store):
    seen: list[Any] = []
    with disk.open(store) as memory:
        disk.hook = seen.append
        earlier = len(disk.steps)
        memory.journal.write("note", "watched")
        disk.hook = None
        assert seen == disk.steps[earlier:]
        assert seen[-1].verb == "sync"
