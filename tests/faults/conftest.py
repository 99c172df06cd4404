"""Fixtures of the fault tests: printed seeds, other processes, and checks of a store from outside."""

import io
import json
import os
import random
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import lukasa
from lukasa.storage.engine import Query
from support.faulty_disk import FaultyDisk

ACTORS = Path(__file__).with_name("actors.py")
ENTIRE_LOG = Query(every_version=True, hidden=True)


@pytest.fixture
def seed(request):
    """Return the same seed in every normal run of a test, a new one in every slow run; LUKASA_FAULT_SEED sets it."""
    given = os.environ.get("LUKASA_FAULT_SEED")
    if given is not None:
        value = int(given)
    elif request.node.get_closest_marker("slow"):
        value = random.SystemRandom().getrandbits(32)
    else:
        value = zlib.crc32(request.node.name.encode())
    sys.stdout.write(f"LUKASA_FAULT_SEED={value}\n")
    return value


@pytest.fixture
def rng(seed):
    return random.Random(seed)


@pytest.fixture
def store(tmp_path):
    """Return the path of a store that does not exist yet."""
    return tmp_path / "store" / "memory.db"


@pytest.fixture
def disk():
    disk = FaultyDisk()
    yield disk
    disk.unregister()


class Actors:
    """Starts the parts of ``actors.py`` in separate processes."""

    def __init__(self, private_mounts):
        self._mounting = private_mounts
        self._started = []

    def start(self, part, *, mounting=False, **facts):
        command = [sys.executable, str(ACTORS), part, json.dumps(facts, default=str)]
        process = subprocess.Popen(
            [*(self._mounting or ()), *command] if mounting else command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def run(self, part, *, mounting=False, **facts):
        """Run a part to its end and return its report."""
        return self.report(self.start(part, mounting=mounting, **facts))

    def report(self, process):
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors[-4000:]
        return json.loads(output.splitlines()[-1])

    def end(self):
        for process in self._started:
            process.kill()
            process.communicate()


@pytest.fixture(scope="session")
def private_mounts():
    """Return the command under which a process gets private mounts; None where that is not permitted."""
    for command in (["unshare", "--mount"], ["unshare", "--user", "--map-root-user", "--mount"]):
        trial = [*command, "sh", "-c", "mount -t tmpfs -o size=1m tmpfs /mnt"]
        if shutil.which("unshare") and subprocess.run(trial, capture_output=True, check=False).returncode == 0:
            return command
    return None


@pytest.fixture
def actors(private_mounts):
    actors = Actors(private_mounts)
    yield actors
    actors.end()


def read_ledger(path):
    """Return the complete lines of a ledger; a line that a kill cut off was never acknowledged."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


@pytest.fixture(scope="session")
def ledger():
    return read_ledger


def everything_in(memory):
    """Return every version in the log by key and version."""
    return {(str(record.key), record.version): record for record in memory.journal.read(ENTIRE_LOG)}


@pytest.fixture(scope="session")
def all_versions():
    return everything_in


def export_of(memory):
    target = io.BytesIO()
    memory.export(target)
    return target.getvalue()


@pytest.fixture(scope="session")
def exported():
    return export_of


@pytest.fixture(scope="session")
def verified_versions():
    """Open a store, verify it, and return every version in it."""

    def check(path):
        with lukasa.open(path, timeout=5) as memory:
            report = memory.verify()
            assert report.sound, report.findings
            return everything_in(memory)

    return check
