"""Workers and those who defer, each in a process of its own: ``python actors.py PART FACTS``."""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import lukasa
from lukasa.jobs import job

FACTS = json.loads(sys.argv[2])


def note(line):
    with Path(FACTS["ledger"]).open("a") as file:
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
    """Works until it is ended from outside."""
    with lukasa.open(FACTS["place"]) as memory:
        memory.jobs.work(threading.Event())


def do_what_is_due():
    with lukasa.open(FACTS["place"]) as memory:
        note("ready")
        while Path(FACTS["ledger"]).read_text().count("ready") < FACTS["workers"]:
            time.sleep(0.005)
        while memory.jobs.status().waiting:
            memory.jobs.run_waiting()


def defer_and_die():
    memory = lukasa.open(FACTS["place"])
    assert memory.jobs.defer("write-down", what="a promise")
    os.kill(os.getpid(), signal.SIGKILL)


def defer_one():
    """Together with everybody else, opens the store for the first time and defers."""
    while not Path(FACTS["go"]).exists():
        time.sleep(0.001)
    with lukasa.open(FACTS["place"]) as memory:
        assert memory.jobs.defer("write-down", what=str(os.getpid()))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
