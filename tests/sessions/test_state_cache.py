"""Reading the state of a session: by position, and equal to a full replay whatever others write, undo, erase or damage."""

import multiprocessing
from pathlib import Path

import pytest

import lukasa
from lukasa.sessions import NEVER
from lukasa.sessions.recovery import recover_state
from lukasa.storage.engine import Query

pytestmark = pytest.mark.requirement("CHK-4")
PLACE = "/configuration/confidence_threshold"


def change_elsewhere(path: Path, value: float) -> None:
    with lukasa.open(path) as memory:
        session = memory.sessions.start("demo", significance=NEVER)
        session.update(PLACE, value)
        session.abandon()


def replay_everything(memory):
    """Return the state by the rules of recovery, from the log and the files, without anything that was kept."""
    with lukasa.open(memory.place.path) as fresh:
        records, files = fresh.sessions._records_and_files("demo", None)
        recovered = recover_state(fresh.sessions._gather_evidence(records, files), records.was_withdrawn)
    return None if recovered is None else recovered.state


@pytest.fixture
def memory(tmp_path):
    with lukasa.open(tmp_path / "store.db") as memory:
        yield memory


def check(memory, threshold):
    assert memory.sessions.state("demo") == replay_everything(memory)
    assert memory.sessions.state("demo")["configuration"]["confidence_threshold"] == threshold


def test_the_state_is_that_of_a_full_replay_after_every_kind_of_change(memory, tmp_path):
    session = memory.sessions.start("demo", significance=NEVER)
    for number in range(130):
        session.update(PLACE, number / 1000)
        if number % 50 == 0:
            check(memory, number / 1000)
    assert memory.sessions.state("demo") == session.state
    session.checkpoint()
    check(memory, 0.129)
    session.update(PLACE, 0.5)
    check(memory, 0.5)
    session.abandon()
    process = multiprocessing.get_context("spawn").Process(target=change_elsewhere, args=(memory.place.path, 0.7))
    process.start()
    process.join()
    check(memory, 0.7)


def test_a_change_that_was_undone_or_erased_leaves_the_state(memory):
    session = memory.sessions.start("demo", significance=NEVER)
    for value in (0.1, 0.2, 0.3):
        session.update(PLACE, value)
        check(memory, value)
    newest = next(memory.journal.read(Query(kinds=("session_delta",), newest_first=True, limit=1)))
    memory.journal.delete(newest.key)
    check(memory, 0.2)
    session.abandon()
    memory.journal.erase(newest.key, reason="asked for")
    assert memory.sessions.state("demo") == replay_everything(memory)


def test_files_that_know_more_than_the_log_are_heard(memory):
    session = memory.sessions.start("demo", significance=NEVER)
    session.update(PLACE, 0.1)
    session.update(PLACE, 0.2)
    check(memory, 0.2)
    files = session._files
    session.abandon()
    files.append_delta_line(1, {"n": 3, "changes": [{"op": "add", "path": PLACE, "value": 0.9}]})
    check(memory, 0.9)


def test_a_returned_state_is_the_callers_own(memory):
    session = memory.sessions.start("demo", significance=NEVER)
    session.update(PLACE, 0.1)
    memory.sessions.state("demo")["configuration"]["confidence_threshold"] = 7
    check(memory, 0.1)
    session.update("/configuration/update_frequency_minutes", 3)
    check(memory, 0.1)
