"""Two servers on one PostgreSQL store, killed in turns under load: nothing acknowledged is lost, nothing is doubled."""

import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

import lukasa
from lukasa.api_connection import ApiConnection
from lukasa.errors import LukasaError
from lukasa.network.http import HttpNetwork
from lukasa.storage.engine import Query
from lukasa.testing.network_contract import make_signal

TOKEN = "the-token-of-the-owner-in-this-test"
AGENTS = 8


class ServedStore:
    """Servers of one store on fixed ports, each of which can be killed and started again."""

    def __init__(self, url, folder):
        self.store_url, self.folder = url, folder
        self.ports = [self._free_port() for _ in range(2)]
        self.urls = [f"http://127.0.0.1:{port}" for port in self.ports]
        self.processes = [self.start(index) for index in range(2)]

    @staticmethod
    def _free_port():
        with socket.create_server(("127.0.0.1", 0)) as found:
            return found.getsockname()[1]

    def start(self, index):
        words = ["-m", "lukasa.interfaces.cli", "--store", self.store_url, "serve", "--port", str(self.ports[index])]
        environment = os.environ | {"LUKASA_TOKEN": TOKEN, "LUKASA_EMBEDDER": "hash"}
        log = (self.folder / f"server-{index}.log").open("ab")
        with log:
            return subprocess.Popen([sys.executable, *words], stdout=log, stderr=log, env=environment)

    @staticmethod
    def wait_for(url):
        deadline = time.monotonic() + 180
        while True:
            try:
                return ApiConnection(url, TOKEN, retries=0, timeout=30).request("GET", "/readyz")
            except LukasaError:
                assert time.monotonic() < deadline, "a server did not start"
                time.sleep(0.1)

    def kill_in_turns(self, stopped, every):
        """Kill one server after the other, and start each again, until stopped."""
        kills = 0
        while not stopped.wait(every):
            index = kills % 2
            self.processes[index].kill()
            self.processes[index].wait()
            self.processes[index] = self.start(index)
            self.wait_for(self.urls[index])
            kills += 1
        return kills

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(timeout=30)


@pytest.fixture
def served(url, tmp_path, monkeypatch):
    monkeypatch.setenv("LUKASA_FILES", str(tmp_path / "files"))
    lukasa.open(url, embedder="hash").close()
    store = ServedStore(url, tmp_path)
    try:
        for address in store.urls:
            store.wait_for(address)
        yield store
    finally:
        store.stop()


def on_any_server(served, work):
    """Run work against one server, and against the other if that one is gone, until it succeeds."""
    for attempt in range(200):
        connection = ApiConnection(served.urls[attempt % 2], TOKEN, retries=0, timeout=20)
        try:
            return work(connection)
        except LukasaError:
            time.sleep(0.05)
        finally:
            connection.close()
    raise AssertionError("no server answered")


def run_agent(served, agent, stopped):
    """Append turns, send signals and take those of others; return what was acknowledged."""
    turns, signals, number = [], [], 0
    while not stopped.is_set():
        number += 1
        text, key = f"{agent} says {number}", uuid.uuid4().hex
        on_any_server(
            served,
            lambda c, text=text, key=key: c.request(
                "POST",
                f"/v1/conversations/{agent}/turns",
                {"role": "user", "content": text},
                headers={"Idempotency-Key": key},
            ),
        )
        turns.append(text)
        if number % 5 == 0:
            signal = f"{agent}-{number}"
            on_any_server(served, lambda c, name=signal: HttpNetwork(c).broadcast(agent, "signal", make_signal(name)))
            signals.append(signal)
            for news in on_any_server(served, lambda c: HttpNetwork(c).inbox(agent)):
                effect = lukasa.Draft("taken_note", id=f"{agent}-{news['signal_id']}-{uuid.uuid4().hex}")
                on_any_server(
                    served,
                    lambda c, news=news, effect=effect: HttpNetwork(c).acknowledge(
                        agent, news["signal_id"], news["agent_id"], [effect]
                    ),
                )
    return turns, signals


def follow_turns(served, finished):
    """Read the events by position from whichever server answers, until nothing comes after all agents have finished."""
    position, seen = 0, []
    while True:
        has_finished = finished.is_set()
        query = {"after": position, "kind": "turn", "limit": 500, "wait": 0.2}
        page = on_any_server(served, lambda c, query=query: c.request("GET", "/v1/events", query=query).content)
        seen += [event["text"] for event in page["events"]]
        position = page["position"]
        if has_finished and not page["events"]:
            return seen


def check_servers(served, seconds, every):
    stopped, finished, killer_stopped = threading.Event(), threading.Event(), threading.Event()
    agents = [f"agent{number}" for number in range(AGENTS)]
    with ThreadPoolExecutor(AGENTS + 2) as pool:
        killer = pool.submit(served.kill_in_turns, killer_stopped, every)
        reader = pool.submit(follow_turns, served, finished)
        runs = [pool.submit(run_agent, served, agent, stopped) for agent in agents]
        time.sleep(seconds)
        killer_stopped.set()
        kills = killer.result()
        stopped.set()
        results = [run.result() for run in runs]
        finished.set()
        seen = reader.result()
    acknowledged = [text for turns, _ in results for text in turns]
    assert kills >= 1
    assert len(acknowledged) > AGENTS
    with lukasa.open(served.store_url, embedder="hash") as memory:
        stored = Counter(record.text for record in memory.journal.read(Query(kinds=("turn",), every_version=True)))
        assert [text for text in acknowledged if stored[text] != 1] == []
        assert [text for text, times in stored.items() if times > 1] == []
        sent = {(agent, id) for agent, (_, signals) in zip(agents, results, strict=True) for id in signals}
        signals = Counter(
            (r.body["agent_id"], r.body["news"]["signal_id"])
            for r in memory.journal.read(Query(kinds=("network_signal",)))
        )
        assert sent <= signals.keys()
        assert set(signals.values()) <= {1}
        taken = Counter(
            tuple(r.id.rsplit("-", 1)[0].split("-", 1)) for r in memory.journal.read(Query(kinds=("taken_note",)))
        )
        assert set(taken.values()) <= {1}, "the effect of an acknowledgement was stored twice"
        assert memory.verify().sound
    assert Counter(seen) == stored, "a reader missed an event or saw one twice"


@pytest.mark.requirement("CHK-12", "FOR-2")
def test_servers_that_are_killed_lose_and_double_nothing(served):
    check_servers(served, seconds=8, every=3)


@pytest.mark.slow
@pytest.mark.requirement("CHK-12", "FOR-2")
def test_servers_that_are_killed_for_five_minutes_lose_and_double_nothing(served):
    check_servers(served, seconds=300, every=4)
