"""Sessions that a running process has open: recovery says so and changes nothing."""

import os

import pytest

from lukasa.sessions import NEVER
from lukasa.sessions.holder import is_holder_alive, register_holder, release_holder

pytestmark = pytest.mark.requirement("CHK-8")


def test_recovery_of_an_open_session_says_that_it_is_alive_and_changes_nothing(memory, make):
    session = memory.sessions.start("demo", significance=NEVER)
    session.update("/active_predictions/-", make.prediction("p1"))
    tip = memory.journal.tip()
    report = memory.sessions.recover("demo").unwrap()
    assert (report.mode, report.replayed, report.lost, report.whole) == ("alive", 1, (), True)
    assert report.state["active_predictions"][0]["status"] == "active"
    assert memory.journal.tip() == tip
    assert session.update("/active_predictions/p1/probability", 0.65)
    session.abandon()
    assert memory.sessions.recover("demo").unwrap().mode == "crash"


def test_a_second_writer_joins_a_session_that_is_alive(memory, location, open_store, clock, make):
    first = memory.sessions.start("demo", significance=NEVER)
    first.update("/active_predictions/-", make.prediction("p1"))
    second = open_store(location, clock=clock).sessions.start("demo", significance=NEVER)
    assert second.recovery.mode == "alive"
    assert second.state["active_predictions"] == first.state["active_predictions"]
    assert second.update("/configuration/x", 1)
    assert first.refresh() == 1


def test_the_session_of_another_process_is_alive_until_the_process_ends(actors, location, open_store):
    process = actors.start("run_session", location=location, ending="wait")
    assert process.stdout.readline() == "ready\n"
    memory = open_store(location)
    assert memory.sessions.recover("demo").unwrap().mode == "alive"
    process.kill()
    process.communicate()
    report = memory.sessions.recover("demo").unwrap()
    assert (report.mode, report.whole) == ("crash", True)
    assert report.state["configuration"]["x"] == 1


def test_a_holder_is_alive_only_on_this_machine_in_its_process_and_while_registered():
    holder = register_holder()
    assert is_holder_alive(holder)
    assert not is_holder_alive(holder | {"machine": "another"})
    assert not is_holder_alive(holder | {"pid": os.getppid(), "started": "0"})  # another process has the number now
    assert not is_holder_alive(holder | {"pid": "text"})
    assert not is_holder_alive(None)
    release_holder(holder)
    assert not is_holder_alive(holder)
