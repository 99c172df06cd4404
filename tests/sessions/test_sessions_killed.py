"""Programs killed at any moment and at each step of a save: acknowledged changes and a valid checkpoint survive."""

import json
import random
import shutil
import signal
import time
from typing import Any

import pytest

import lukasa
from lukasa.sessions.checkpoint_files import CheckpointFiles
from lukasa.storage.local_files import LocalFiles
from support.narrow import present


def read_ledger(ledger):
    """Return the lines of a ledger, without a last one that a kill cut off."""
    if not ledger.exists():
        return []
    return [json.loads(line) for line in ledger.read_text().splitlines(keepends=True) if line.endswith("\n")]


def kill_repeatedly(actors, tmp_path, location, seed, rounds):
    """Kill a program that updates its session; after each kill the state has exactly the acknowledged changes.

    Returns the number of kills after which a change was there that had not been acknowledged.
    """
    rng, acknowledged, unacknowledged = random.Random(seed), 0, 0
    known: dict[str, Any] = {}
    for round in range(rounds):
        ledger = tmp_path / f"ledger-{round}"
        actor = actors.start(
            "update_for_ever", location=location, ledger=ledger, seed=rng.randrange(10**9), round=round
        )
        enough = rng.randrange(2, 120)
        while len(read_ledger(ledger)) < enough and actor.poll() is None:
            time.sleep(rng.uniform(0, 0.004))
        actor.send_signal(signal.SIGKILL)
        _, errors = actor.communicate()
        assert actor.returncode == -signal.SIGKILL, errors[-3000:]
        lines = read_ledger(ledger)
        if lines:
            assert lines[0]["state"] == known
        pending = None
        for line in lines[1:]:
            if "done" in line:
                known[line["done"][0]] = line["done"][1]
                acknowledged, pending = acknowledged + 1, None
            else:
                pending = line["trying"]
        with lukasa.open(location) as memory:
            report = memory.sessions.recover("demo").unwrap() if lines else None
            if report is None:
                continue
            found = report.state.get("notes", {})
            assert memory.sessions.recover("demo").unwrap().state == report.state
        assert report.whole
        assert report.damaged == ()
        if found != known and pending is not None:  # durable, but killed before it was acknowledged
            known[pending[0]] = pending[1]
            unacknowledged += 1
        assert found == known
    assert acknowledged > rounds
    return unacknowledged


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.setenv("LUKASA_FILES", str(tmp_path / "files"))
    return tmp_path / "files"


@pytest.mark.requirement("CHK-4", "CHK-8")
def test_a_session_killed_eight_times_has_exactly_the_acknowledged_changes(actors, tmp_path, seed):
    kill_repeatedly(actors, tmp_path, str(tmp_path / "agents.db"), seed, rounds=8)


@pytest.mark.requirement("CHK-4", "CHK-8")
def test_a_session_on_postgresql_killed_four_times_has_exactly_the_acknowledged_changes(actors, tmp_path, seed, url):
    kill_repeatedly(actors, tmp_path, url, seed, rounds=4)


@pytest.mark.slow
@pytest.mark.requirement("CHK-4", "CHK-8")
def test_a_session_killed_two_hundred_times_has_exactly_the_acknowledged_changes(actors, tmp_path, seed):
    assert kill_repeatedly(actors, tmp_path, str(tmp_path / "agents.db"), seed, rounds=200)


def kill_at_each_step(actors, tmp_path, make, content, every):
    """Kill a save at each of its steps in turn, each time from the same start."""
    location, files = tmp_path / "agents.db", tmp_path / "files"
    old, new = make.state(), make.state()
    new["configuration"]["round"] = "new"
    with lukasa.open(location) as memory:
        for _ in range(4):
            memory.sessions.save_checkpoint(old, "demo")
    start = tmp_path / "start"
    start.mkdir()
    shutil.copy(location, start / "agents.db")
    shutil.copytree(files, start / "files")

    def start_again():
        for file in tmp_path.glob("agents.db*"):
            file.unlink()
        shutil.copy(start / "agents.db", location)
        shutil.rmtree(files)
        shutil.copytree(start / "files", files)

    settings = {"location": str(location), "state": new, "plain": 2, "compressed": 2}
    steps = actors.run("die_while_saving", step=0, **settings)["steps"]
    assert {"create", "write", "sync", "rename", "sync folder", "delete"} <= set(steps)
    killed = 0
    for step in range(1, len(steps) + 1, every):
        start_again()
        killed += actors.run("die_while_saving", step=step, **settings) is None
        newest, damaged = CheckpointFiles(LocalFiles(files), "demo", "shared").find_newest_valid()
        assert damaged == [], (step, steps[step - 1])
        assert present(newest).number >= 4, (step, steps[step - 1])
        with lukasa.open(location) as memory:
            report = memory.sessions.recover("demo").unwrap()
            assert content(report.state) in (content(old), content(new)), (step, steps[step - 1])
            assert report.whole
            assert memory.sessions.save_checkpoint(old, "demo")
            memory.sessions.compress_old_checkpoints("demo")
            assert all(check.fault is None for check in memory.sessions.verify("demo"))
        assert not list(files.rglob("*.part"))
    assert killed == len(range(1, len(steps) + 1, every))


@pytest.mark.requirement("CHK-2", "CHK-5")
def test_a_save_killed_at_every_fourth_step_leaves_the_old_or_the_new_state(actors, tmp_path, make, content):
    kill_at_each_step(actors, tmp_path, make, content, every=4)


@pytest.mark.slow
@pytest.mark.requirement("CHK-2", "CHK-5")
def test_a_save_killed_at_every_step_leaves_the_old_or_the_new_state(actors, tmp_path, make, content):
    kill_at_each_step(actors, tmp_path, make, content, every=1)
