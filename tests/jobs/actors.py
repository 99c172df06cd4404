"""Parts of tests that run in other processes, workers and programs that defer jobs: ``python actors.py PART SETTINGS``."""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import lukasa
from lukasa.jobs import job

SETTINGS = json.loads(sys.argv[2])


def note(line):
    with Path(SETTINGS["ledger"]).open("a") as file:
        file.write(f"{line}\n")


@job("write-down")
def write_down(memory, what):
    note(what)


@job("hang")
def hang(memory):
    note("hanging")
    while True:
        time.sleep(1)


@job("do-and-die")
@job("do-and-die-at-once", attempts=1)
def do_and_die(memory):
    note("done")
    os.kill(os.getpid(), signal.SIGKILL)


def work():
    """Work until the process is killed."""
    with lukasa.open(SETTINGS["location"]) as memory:
        memory.jobs.work(threading.Event())


def run_due_jobs():
    """Run jobs until none waits, once all workers are ready."""
    with lukasa.open(SETTINGS["location"]) as memory:
        note("ready")
        while Path(SETTINGS["ledger"]).read_text().count("ready") < SETTINGS["workers"]:
            time.sleep(0.005)
        while memory.jobs.status().waiting:
            memory.jobs.run_waiting()


def defer_and_die():
    memory = lukasa.open(SETTINGS["location"])
    assert memory.jobs.defer("write-down", what="a promise")
    os.kill(os.getpid(), signal.SIGKILL)


def defer_one():
    """Open the store for the first time at the same moment as other processes, and defer a job."""
    while not Path(SETTINGS["go"]).exists():
        time.sleep(0.001)
    with lukasa.open(SETTINGS["location"]) as memory:
        assert memory.jobs.defer("write-down", what=str(os.getpid()))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
