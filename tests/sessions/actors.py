"""Programs with a session, each in a process of its own: ``python actors.py PART FACTS``."""

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

FACTS = json.loads(sys.argv[2])


def say(**facts):
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def running():
    """A program that does not close its session itself."""
    memory = lukasa.open(FACTS["place"])
    session = memory.sessions.start("demo", significance=NEVER).run()
    session.update("/configuration/x", 1)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if FACTS["ending"] == "error":
        raise RuntimeError("it went wrong")
    if FACTS["ending"] != "exit":
        while True:
            time.sleep(0.05)


def adding():
    """One of several writers of a session: whoever comes second looks again and tries again."""
    with lukasa.open(FACTS["place"]) as memory:
        session = memory.sessions.start("demo", significance=Significance(changes=10, sections=()))
        for at in range(FACTS["times"]):
            while isinstance(session.update(f"/configuration/{FACTS['name']}-{at}", at), Conflict):
                session.refresh()
        session.abandon()


def changing():
    """Changes a session continuously, and tells a ledger before and after each change."""
    chance = random.Random(FACTS["seed"])
    ledger = os.open(FACTS["ledger"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(**facts):
        os.write(ledger, json.dumps(facts).encode() + b"\n")

    memory = lukasa.open(FACTS["place"])
    rule = Significance(changes=7, sections=())
    session = memory.sessions.start("demo", significance=rule, retention=Retention(plain=3, compressed=4))
    note(state=session.state().get("notes", {}))
    for at in range(100_000):
        name, value = f"n{chance.randrange(40)}", f"{FACTS['round']}-{at}-" + "x" * chance.randrange(200)
        note(trying=[name, value])
        if "notes" not in session.state():
            assert isinstance(session.update("/notes", {name: value}), Accepted)
        else:
            assert isinstance(session.update(f"/notes/{name}", value), Accepted)
        note(done=[name, value])
        if chance.random() < 0.05:
            session.checkpoint()


def dying():
    """Saves a checkpoint and is killed at a given step of it; tells how many steps there are if it gets that far."""
    steps = []

    def hook(step):
        steps.append(step)
        if len(steps) == FACTS["at"]:
            os.kill(os.getpid(), signal.SIGKILL)

    with lukasa.open(FACTS["place"]) as memory:
        memory.sessions._blobs = LocalFiles(Path(os.environ["LUKASA_FILES"]), hook)
        retention = Retention(plain=FACTS.get("plain", 10), compressed=FACTS.get("compressed", 100))
        memory.sessions.save_checkpoint(FACTS["state"], "demo", retention=retention)
    say(steps=steps)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
