"""Three machines: primaries are killed under load; nothing acknowledged is lost, no read is stale, clients recover."""

from __future__ import annotations

import importlib
import itertools
import os
import random
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

import lukasa
from lukasa.api_connection import ApiConnection
from lukasa.core.record import Key
from lukasa.errors import LukasaError
from lukasa.jobs import JobCounts
from lukasa.storage.engine import Query
from support.patroni import PatroniCluster, free_port, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.requirement("LOG-3", "LOG-5")]
WRITERS, READERS = 8, 2
TOKEN = "the-token-of-the-owner-in-this-test"
PATIENCE = 120.0
"""Seconds for which a client tries again. A node that loses its power is replaced when its lease of 20 seconds ends."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[PatroniCluster]:
    with PatroniCluster() as cluster:
        yield cluster


def create_database(cluster: PatroniCluster, name: str) -> str:
    """Create a database with an empty store and return its URL."""
    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    lukasa.open(cluster.url(name), embedder="hash", timeout=PATIENCE).close()
    return cluster.url(name)


class Clients:
    """Writers and readers of one store, what was acknowledged to them, and every error they met."""

    def __init__(self, url: str, replica: str) -> None:
        self._url, self._replica = url, replica
        self.stopped = threading.Event()
        self.acknowledged: dict[str, bytes] = {}
        self.errors: list[str] = []
        self.reads = 0
        self.slowest = 0.0

    def write(self, writer: int) -> None:
        """Write notes one after the other until stopped."""
        with lukasa.open(self._url, embedder="hash", timeout=PATIENCE) as memory:
            number = 0
            while not self.stopped.is_set():
                number += 1
                id, began = f"{writer}-{number}", time.monotonic()
                try:
                    outcome = memory.journal.write("note", f"Note {number} of writer {writer}.", id=id)
                except LukasaError as error:
                    self.errors.append(f"write {id}: {error!r}")
                    continue
                self.slowest = max(self.slowest, time.monotonic() - began)
                self.acknowledged[id] = outcome.unwrap().digest

    def read(self, reader: int) -> None:
        """Read what was just acknowledged, from a standby if there is one, until stopped."""
        rng = random.Random(reader)
        with lukasa.open(self._url, read_url=self._replica, embedder="hash", timeout=PATIENCE) as memory:
            while not self.stopped.is_set():
                ids = list(self.acknowledged)[-50:]
                if not ids:
                    time.sleep(0.05)
                    continue
                id = rng.choice(ids)
                try:
                    found = memory.journal.get(Key("shared", "note", id))
                except LukasaError as error:
                    self.errors.append(f"read {id}: {error!r}")
                    continue
                if found is None or found.digest != self.acknowledged[id]:
                    self.errors.append(f"read {id}: it was acknowledged, but the read found {found}")
                self.reads += 1


def kill_primaries(cluster: PatroniCluster, seconds: float, every: float) -> int:
    """Kill the primary again and again: its PostgreSQL, then the whole node, in turns. Return how often."""
    kills, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(every)
        wait_until(cluster.has_synchronous_standby, "a standby that can take over", 180)
        node = cluster.primary()
        assert node is not None
        if kills % 2:
            node.kill()
            time.sleep(3)
            node.start()
        else:
            node.kill_postgres()
        kills += 1
    wait_until(cluster.has_synchronous_standby, "a standby that can take over", 180)
    return kills


def check_cluster(cluster: PatroniCluster, name: str, seconds: float, every: float) -> None:
    url = create_database(cluster, name)
    clients = Clients(url, cluster.url(name, attributes="prefer-standby"))
    with ThreadPoolExecutor(WRITERS + READERS) as pool:
        runs = [pool.submit(clients.write, number) for number in range(WRITERS)]
        runs += [pool.submit(clients.read, number) for number in range(READERS)]
        try:
            kills = kill_primaries(cluster, seconds, every)
        finally:
            clients.stopped.set()
        for run in runs:
            run.result()
    sys.stdout.write(
        f"{kills} primaries killed, {len(clients.acknowledged):,} writes acknowledged, {clients.reads:,} reads, "
        f"slowest write {clients.slowest:.0f} s, {len(clients.errors)} errors\n"
    )
    assert clients.errors == []
    assert kills > 0
    with lukasa.open(url, embedder="hash", timeout=PATIENCE) as memory:
        log = {(r.id, r.version): r.digest for r in memory.journal.read(Query(kinds=("note",), every_version=True))}
        lost = [id for id, digest in clients.acknowledged.items() if log.get((id, 1)) != digest]
        assert lost == []
        assert {version for _, version in log} == {1}, "something was written twice"
        assert memory.verify().sound


def test_a_minute_of_killed_primaries_loses_nothing_acknowledged(cluster: PatroniCluster) -> None:
    check_cluster(cluster, "minute", seconds=60, every=10)


def test_ten_minutes_of_killed_primaries_lose_nothing_acknowledged(cluster: PatroniCluster) -> None:
    check_cluster(cluster, "minutes", seconds=600, every=20)


@contextmanager
def run_commands(*commands: list[str], folder: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run commands of the command line during the block."""
    environment = os.environ | {
        "LUKASA_EMBEDDER": "hash",
        "LUKASA_TOKEN": TOKEN,
        "LUKASA_FILES": str(folder / "files"),
        "PYTHONPATH": os.pathsep.join((str(Path(__file__).parent), os.environ.get("PYTHONPATH", ""))),
    }
    processes = []
    try:
        for number, words in enumerate(commands):
            with (folder / f"command-{number}.log").open("wb") as log:
                command = [sys.executable, "-m", "lukasa.interfaces.cli", *words]
                processes.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment))
        yield processes
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(timeout=60)


def test_servers_and_workers_outlive_their_primaries(cluster: PatroniCluster, tmp_path: Path) -> None:
    """Two servers take turns of agents and four workers run jobs, while primaries are killed."""
    url = create_database(cluster, "services")
    ports = [free_port(), free_port()]
    servers = [["--store", url, "serve", "--port", str(port), "--no-worker"] for port in ports]
    workers = [["--store", url, "worker", "--jobs", "noted_jobs"]] * 4
    acknowledged: list[str] = []
    stopped = threading.Event()

    def talk(agent: int) -> None:
        """Append turns over whichever server answers, each with a key that makes a second try harmless."""
        connections = [ApiConnection(f"http://127.0.0.1:{port}", TOKEN, retries=0, timeout=20) for port in ports]
        for number in itertools.count():
            text, key = f"Turn {number} of agent {agent}.", uuid.uuid4().hex
            for attempt in itertools.count():
                if stopped.is_set():
                    return
                try:
                    connections[attempt % 2].request(
                        "POST",
                        f"/v1/conversations/agent{agent}/turns",
                        {"role": "user", "content": text},
                        headers={"Idempotency-Key": key},
                    )
                except LukasaError:
                    time.sleep(0.1)
                else:
                    acknowledged.append(text)
                    break

    def defer_jobs() -> int:
        with lukasa.open(url, embedder="hash", timeout=PATIENCE) as memory:
            for number in itertools.count():
                if stopped.is_set():
                    return number
                memory.jobs.defer("note-once", number=number)
                time.sleep(0.2)
        raise AssertionError

    sys.path.insert(0, str(Path(__file__).parent))
    importlib.import_module("noted_jobs")
    with run_commands(*servers, *workers, folder=tmp_path) as processes, ThreadPoolExecutor(WRITERS + 1) as pool:
        runs = [pool.submit(talk, number) for number in range(WRITERS)]
        deferring = pool.submit(defer_jobs)
        try:
            kills = kill_primaries(cluster, seconds=60, every=15)
        finally:
            stopped.set()
        for run in runs:
            run.result()
        jobs = deferring.result()
        with lukasa.open(url, embedder="hash", timeout=PATIENCE) as memory:
            wait_until(lambda: memory.jobs.status() == JobCounts(), "the end of all jobs", 240)
            notes = Counter(r.id for r in memory.journal.read(Query(kinds=("job_note",), every_version=True)))
            turns = Counter(r.text for r in memory.journal.read(Query(kinds=("turn",), every_version=True)))
            assert memory.verify().sound
        assert [process.poll() for process in processes] == [None] * 6, "a server or worker ended"
    sys.stdout.write(f"{kills} primaries killed, {jobs} jobs, {len(acknowledged):,} turns\n")
    assert kills > 0
    assert jobs > 50
    assert len(acknowledged) > 100
    assert notes == Counter(f"job-{number}" for number in range(jobs))
    assert [text for text in acknowledged if turns[text] != 1] == []
    assert max(turns.values()) == 1
