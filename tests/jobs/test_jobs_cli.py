"""``lukasa worker`` and ``lukasa jobs``."""

import json
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import lukasa
from lukasa.interfaces.cli.app import app
from lukasa.jobs import REGISTRY, JobCounts
from support.narrow import present

pytestmark = pytest.mark.requirement("OPS-3", "DOO-2")

CHORES = """
import time
from pathlib import Path
from lukasa.jobs import job

@job("chores.sweep")
def sweep(memory, room):
    memory.journal.write("note", f"swept the {room}")

@job("chores.fail", attempts=1)
def fail(memory):
    raise RuntimeError("no \\x1b[31mbroom")

@job("chores.slow")
def slow(memory, folder):
    (Path(folder) / "started").touch()
    while not (Path(folder) / "go").exists():
        time.sleep(0.005)
    memory.journal.write("note", "slowly done")
"""


@pytest.fixture
def chores(tmp_path, monkeypatch):
    """Put a module that registers jobs on the import path."""
    (tmp_path / "chores.py").write_text(CHORES)
    monkeypatch.syspath_prepend(tmp_path)
    __import__("chores")
    yield
    sys.modules.pop("chores")
    for name in [name for name in REGISTRY if name.startswith("chores.")]:
        REGISTRY.forget(name)


@pytest.fixture
def store(location, chores):
    lukasa.open(location).close()
    return location


@pytest.fixture
def run(store):
    def run(*words, expect=0):
        result = CliRunner().invoke(app, ["--store", store, *words], catch_exceptions=False)
        assert result.exit_code == expect, result.output
        return result

    return run


def defer(store, name, **arguments):
    with lukasa.open(store) as memory:
        deferred = memory.jobs.defer(name, **arguments)
        assert deferred
        return deferred.id


def notes(store):
    with lukasa.open(store) as memory:
        return [record.text for record in memory.journal.read() if record.kind == "note"]


def test_worker_once_runs_the_due_jobs_and_ends(run, store):
    defer(store, "chores.sweep", room="kitchen")
    id = defer(store, "chores.fail")
    ran = run("worker", "--once", "--jobs", "chores")
    assert ran.stdout == "1 job done, 1 failed. Now 0 waiting, 0 running, 1 failed.\n"
    assert f"failed chores.fail {id}: RuntimeError: no \\x1b[31mbroom" in ran.stderr
    assert notes(store) == ["swept the kitchen"]


def test_worker_prints_its_summary_as_json(run, store):
    defer(store, "chores.sweep", room="kitchen")
    answer = json.loads(run("worker", "--once", "--json").stdout)
    assert answer["ran"] == {"done": 1, "retried": 0, "failed": 0, "lost": 0}
    assert answer["status"] == {"waiting": 0, "running": 0, "failed": 0}


def test_jobs_lists_waiting_and_failed_jobs_with_their_errors(run, store):
    assert run("jobs", "list").stdout == "0 waiting, 0 running, 0 failed.\n"
    waiting, failed = defer(store, "chores.sweep", room="hall"), defer(store, "chores.fail")
    run("worker", "--once")
    waiting = defer(store, "chores.sweep", room="hall")
    shown = run("jobs", "list").stdout
    assert waiting in shown
    assert "RuntimeError: no \\x1b[31mbroom" in shown
    assert shown.endswith("1 waiting, 0 running, 1 failed.\n")
    answer = json.loads(run("jobs", "list", "--state", "failed", "--json").stdout)
    assert [(job["id"], job["name"], job["attempts"]) for job in answer["jobs"]] == [(failed, "chores.fail", 1)]
    assert answer["waiting"] == 1


def test_jobs_retries_and_drops_a_failed_job(run, store):
    id = defer(store, "chores.fail")
    run("worker", "--once")
    assert run("jobs", "retry", id).stdout.endswith("1 waiting, 0 running, 0 failed.\n")
    assert run("jobs", "drop", id).stdout == "0 waiting, 0 running, 0 failed.\n"
    assert f"No job {id!r} has failed." in run("jobs", "retry", id, expect=5).stderr
    assert f"No job {id!r} is waiting or has failed." in run("jobs", "drop", id, expect=5).stderr


def test_wrong_usage_ends_with_an_error_message(run):
    assert "is not a state" in run("jobs", "list", "--state", "done", expect=2).stderr
    assert "There is no module 'no.such.module'" in run("worker", "--jobs", "no.such.module", expect=2).stderr
    assert "There is no module ''" in run("worker", "--jobs", "", expect=2).stderr
    assert "longer than no time" in run("worker", "--once", "--lease", "0", expect=2).stderr


def test_worker_creates_no_store(tmp_path):
    result = CliRunner().invoke(app, ["--store", str(tmp_path / "mistyped.db"), "worker", "--once"])
    assert result.exit_code == 5
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signalled_worker_finishes_its_running_job(store, tmp_path, eventually, number):
    defer(store, "chores.slow", folder=str(tmp_path))
    command = [sys.executable, "-m", "lukasa.interfaces.cli", "--store", store, "worker", "--jobs", "chores"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as worker:
        eventually((tmp_path / "started").exists)
        worker.send_signal(number)
        assert present(worker.stderr).readline().startswith("Working on chores.fail, chores.slow, chores.sweep")
        assert present(worker.stderr).readline() == "Stopping once the running job is done.\n"
        (tmp_path / "go").touch()
        output, _ = worker.communicate(timeout=60)
    assert (worker.returncode, output) == (0, "1 job done. Now 0 waiting, 0 running, 0 failed.\n")
    assert notes(store) == ["slowly done"]


def test_a_second_signal_ends_a_worker_at_once_and_keeps_its_job(store, tmp_path, eventually):
    defer(store, "chores.slow", folder=str(tmp_path))
    command = [sys.executable, "-m", "lukasa.interfaces.cli", "--store", store, "worker", "--jobs", "chores"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as worker:
        eventually((tmp_path / "started").exists)
        worker.send_signal(signal.SIGINT)
        present(worker.stderr).readline()
        assert present(worker.stderr).readline() == "Stopping once the running job is done.\n"
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == -signal.SIGTERM
    with lukasa.open(store) as memory:
        assert memory.jobs.status() == JobCounts(running=1)
