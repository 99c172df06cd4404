"""Killed at any moment, and at each single step of a save: what was acknowledged is there, and a valid checkpoint too."""

import json
import random
import shutil
import signal
import time

import pytest

import lukasa
from lukasa.sessions.checkpoint_files import CheckpointFiles
from lukasa.storage.local_files import LocalFiles


def lines_of(ledger):
    """The lines of a ledger; one that a kill cut off was never told to anybody."""
    if not ledger.exists():
        return []
    return [json.loads(line) for line in ledger.read_text().splitlines(keepends=True) if line.endswith("\n")]


def kill_again_and_again(company, tmp_path, place, seed, rounds):
    """Kills a program that changes its session continuously; after each kill the state is exactly what it had been told."""
    chance, known, acknowledged, undecided = random.Random(seed), {}, 0, 0
    for round in range(rounds):
        ledger = tmp_path / f"ledger-{round}"
        actor = company.start("changing", place=place, ledger=ledger, seed=chance.randrange(10**9), round=round)
        enough = chance.randrange(2, 120)
        while len(lines_of(ledger)) < enough and actor.poll() is None:
            time.sleep(chance.uniform(0, 0.004))
        actor.send_signal(signal.SIGKILL)
        _, complaint = actor.communicate()
        assert actor.returncode == -signal.SIGKILL, complaint[-3000:]
        lines = lines_of(ledger)
        if lines:
            assert lines[0]["state"] == known
        pending = None
        for line in lines[1:]:
            if "done" in line:
                known[line["done"][0]] = line["done"][1]
                acknowledged, pending = acknowledged + 1, None
            else:
                pending = line["trying"]
        with lukasa.open(place) as memory:
            report = memory.sessions.recover("demo") if lines else None
            if report is None:
                continue
            found = report.state.get("notes", {})
            assert memory.sessions.recover("demo").state == report.state
        assert report.whole
        assert report.damaged == ()
        if found != known and pending is not None:  # nobody was told whether it happened; it may have
            known[pending[0]] = pending[1]
            undecided += 1
        assert found == known
    assert acknowledged > rounds
    return undecided


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.setenv("LUKASA_FILES", str(tmp_path / "files"))
    return tmp_path / "files"


@pytest.mark.requirement("CHK-4", "CHK-8")
def test_killed_eight_times_in_a_row_a_session_has_exactly_what_was_acknowledged(company, tmp_path, seed):
    kill_again_and_again(company, tmp_path, str(tmp_path / "agents.db"), seed, rounds=8)


@pytest.mark.requirement("CHK-4", "CHK-8")
def test_killed_in_a_row_on_postgresql_a_session_has_exactly_what_was_acknowledged(company, tmp_path, seed, url):
    kill_again_and_again(company, tmp_path, url, seed, rounds=4)


@pytest.mark.slow
@pytest.mark.requirement("CHK-4", "CHK-8")
def test_killed_two_hundred_times_in_a_row_a_session_has_exactly_what_was_acknowledged(company, tmp_path, seed):
    assert kill_again_and_again(company, tmp_path, str(tmp_path / "agents.db"), seed, rounds=200)


def killed_at_each_step(company, tmp_path, make, content, every):
    """Kills a save at each of its steps in turn, each time from the same beginning."""
    place, files = tmp_path / "agents.db", tmp_path / "files"
    old, new = make.state(), make.state()
    new["configuration"]["round"] = "new"
    with lukasa.open(place) as memory:
        for _ in range(4):
            memory.sessions.save_checkpoint(old, "demo")
    beginning = tmp_path / "beginning"
    beginning.mkdir()
    shutil.copy(place, beginning / "agents.db")
    shutil.copytree(files, beginning / "files")

    def begin_again():
        for file in tmp_path.glob("agents.db*"):
            file.unlink()
        shutil.copy(beginning / "agents.db", place)
        shutil.rmtree(files)
        shutil.copytree(beginning / "files", files)

    facts = {"place": str(place), "state": new, "plain": 2, "compressed": 2}
    steps = company.play("dying", at=0, **facts)["steps"]
    assert {"create", "write", "sync", "rename", "sync folder", "delete"} <= set(steps)
    killed = 0
    for at in range(1, len(steps) + 1, every):
        begin_again()
        killed += company.play("dying", at=at, **facts) is None
        newest, damaged = CheckpointFiles(LocalFiles(files), "demo", "shared").find_newest_valid()
        assert damaged == [], (at, steps[at - 1])
        assert newest.number >= 4, (at, steps[at - 1])
        with lukasa.open(place) as memory:
            report = memory.sessions.recover("demo")
            assert content(report.state) in (content(old), content(new)), (at, steps[at - 1])
            assert report.whole
            assert memory.sessions.save_checkpoint(old, "demo")
            memory.sessions.compress_old_checkpoints("demo")
            assert all(check.fault is None for check in memory.sessions.verify("demo"))
        assert not list(files.rglob("*.part"))
    assert killed == len(range(1, len(steps) + 1, every))


@pytest.mark.requirement("CHK-2", "CHK-5")
def test_killed_at_some_steps_of_a_save_a_session_is_as_before_or_as_after(company, tmp_path, make, content):
    killed_at_each_step(company, tmp_path, make, content, every=4)


@pytest.mark.slow
@pytest.mark.requirement("CHK-2", "CHK-5")
def test_killed_at_every_step_of_a_save_a_session_is_as_before_or_as_after(company, tmp_path, make, content):
    killed_at_each_step(company, tmp_path, make, content, every=1)
