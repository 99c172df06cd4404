"""What the fault tests share: seeds that are told on failure, other processes, and a look at a store from outside."""

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
    """The same for every normal run of a test, another for every slow one; LUKASA_FAULT_SEED sets it."""
    told = os.environ.get("LUKASA_FAULT_SEED")
    if told is not None:
        value = int(told)
    elif request.node.get_closest_marker("slow"):
        value = random.SystemRandom().getrandbits(32)
    else:
        value = zlib.crc32(request.node.name.encode())
    sys.stdout.write(f"LUKASA_FAULT_SEED={value}\n")
    return value


@pytest.fixture
def chance(seed):
    return random.Random(seed)


@pytest.fixture
def store(tmp_path):
    """Where a store may be made."""
    return tmp_path / "store" / "memory.db"


@pytest.fixture
def disk():
    disk = FaultyDisk()
    yield disk
    disk.unregister()


class Actors:
    """Starts the parts of ``actors.py`` in processes of their own."""

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
        """Plays a part to its end and returns what it reports."""
        return self.report(self.start(part, mounting=mounting, **facts))

    def report(self, process):
        said, complaint = process.communicate(timeout=300)
        assert process.returncode == 0, complaint[-4000:]
        return json.loads(said.splitlines()[-1])

    def end(self):
        for process in self._started:
            process.kill()
            process.communicate()


@pytest.fixture(scope="session")
def private_mounts():
    """The command under which a process may mount for itself alone, or ``None`` where that is not permitted."""
    for command in (["unshare", "--mount"], ["unshare", "--user", "--map-root-user", "--mount"]):
        trial = [*command, "sh", "-c", "mount -t tmpfs -o size=1m tmpfs /mnt"]
        if shutil.which("unshare") and subprocess.run(trial, capture_output=True, check=False).returncode == 0:
            return command
    return None


@pytest.fixture
def actors(private_mounts):
    company = Actors(private_mounts)
    yield company
    company.end()


def read_ledger(path):
    """The lines of a ledger; one that a kill cut off was never told to anybody."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


@pytest.fixture(scope="session")
def ledger():
    return read_ledger


def everything_in(memory):
    """Every version in the log by key and version."""
    return {(str(record.key), record.version): record for record in memory.journal.read(ENTIRE_LOG)}


@pytest.fixture(scope="session")
def entire():
    return everything_in


def export_of(memory):
    target = io.BytesIO()
    memory.export(target)
    return target.getvalue()


@pytest.fixture(scope="session")
def exported():
    return export_of


@pytest.fixture(scope="session")
def proven():
    """Opens a store, proves it sound, and returns every version in it."""

    def check(path):
        with lukasa.open(path, timeout=5) as memory:
            verdict = memory.verify()
            assert verdict.sound, verdict.findings
            return everything_in(memory)

    return check
