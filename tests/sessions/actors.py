"""Parts of tests that run in other processes, programs with a session: ``python actors.py PART SETTINGS``."""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import lukasa
from lukasa import Accepted, Conflict
from lukasa.sessions import NEVER, Retention, Significance
from lukasa.storage.local_files import LocalFiles

SETTINGS = json.loads(sys.argv[2])


def print_line(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def run_session():
    """Run a session that the program does not close itself."""
    memory = lukasa.open(SETTINGS["location"])
    session = memory.sessions.start("demo", significance=NEVER).run()
    session.update("/configuration/x", 1)
    print_line("ready")
    if SETTINGS["ending"] == "error":
        raise RuntimeError("it went wrong")
    if SETTINGS["ending"] != "exit":
        while True:
            time.sleep(0.05)


def update_with_others():
    """Update a session that other processes update too; after a conflict, refresh and try again."""
    with lukasa.open(SETTINGS["location"]) as memory:
        session = memory.sessions.start("demo", significance=Significance(changes=10, sections=()))
        for index in range(SETTINGS["times"]):
            while isinstance(session.update(f"/configuration/{SETTINGS['name']}-{index}", index), Conflict):
                session.refresh()
        session.abandon()


def update_for_ever():
    """Update a session without end, and note each change in a ledger before and after it."""
    rng = random.Random(SETTINGS["seed"])
    ledger = os.open(SETTINGS["ledger"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(**fields):
        os.write(ledger, json.dumps(fields).encode() + b"\n")

    memory = lukasa.open(SETTINGS["location"])
    rule = Significance(changes=7, sections=())
    session = memory.sessions.start("demo", significance=rule, retention=Retention(plain=3, compressed=4))
    note(state=session.state.get("notes", {}))
    for index in range(100_000):
        name, value = f"n{rng.randrange(40)}", f"{SETTINGS['round']}-{index}-" + "x" * rng.randrange(200)
        note(trying=[name, value])
        if "notes" not in session.state:
            assert isinstance(session.update("/notes", {name: value}), Accepted)
        else:
            assert isinstance(session.update(f"/notes/{name}", value), Accepted)
        note(done=[name, value])
        if rng.random() < 0.05:
            session.checkpoint()


def die_while_saving():
    """Save a checkpoint and be killed at the given step of it; print all steps when that step is never reached."""
    steps = []

    def hook(step):
        steps.append(step)
        if len(steps) == SETTINGS["step"]:
            os.kill(os.getpid(), signal.SIGKILL)

    with lukasa.open(SETTINGS["location"]) as memory:
        memory.sessions._blobs = LocalFiles(Path(os.environ["LUKASA_FILES"]), hook)
        retention = Retention(plain=SETTINGS.get("plain", 10), compressed=SETTINGS.get("compressed", 100))
        memory.sessions.save_checkpoint(SETTINGS["state"], "demo", retention=retention)
    print_line(json.dumps({"steps": steps}))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
