"""Two laptops sync with one hub over HTTP and are killed in the middle: the next run continues, and nothing is lost."""

import os
import subprocess
import sys
import time

import pytest

import lukasa
from lukasa import Key
from lukasa.api_connection import ApiConnection
from lukasa.storage.engine import Query
from lukasa.transfer.sync import CONFLICT_KIND, HttpLogPeer, sync_logs
from support.api_server import run_api_server, token_for

NOTES = 1_600


def start_sync(store, url):
    """Start ``lukasa sync`` of a laptop in a process of its own."""
    words = ["--store", str(store), "sync", url, "--token", token_for("")]
    return subprocess.Popen(
        [sys.executable, "-m", "lukasa.interfaces.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"LUKASA_EMBEDDER": "hash"},
    )


def wait_until_it_moves(memory, process):
    """Wait until a run has written to a store, or has ended."""
    tip, end = memory.journal.tip(), time.monotonic() + 60
    while memory.journal.tip() == tip and process.poll() is None and time.monotonic() < end:
        time.sleep(0.002)


def texts(memory):
    """Return the current text of every note."""
    return {record.key: record.text for record in memory.journal.read(Query(kinds=("note",)))}


@pytest.mark.requirement("DOO-8")
def test_laptops_that_are_killed_in_a_sync_end_with_everything_and_their_conflicts(tmp_path, url):
    places = {name: tmp_path / f"{name}.db" for name in ("one", "two")}
    for name, place in places.items():
        with lukasa.open(place, embedder="hash") as memory:
            notes = [lukasa.Draft("note", f"{name} wrote {number}", id=f"{name}-{number}") for number in range(NOTES)]
            assert memory.journal.append(notes)
            assert memory.journal.write("note", f"{name} changed it", id="both")
    with lukasa.open(url, embedder="hash") as hub, run_api_server(url) as address:
        assert hub.journal.write("note", "the hub wrote it", id="own")
        killed = 0
        for name in ("one", "two"):
            process = start_sync(places[name], address)
            try:
                wait_until_it_moves(hub, process)
            finally:
                killed += process.poll() is None
                process.kill()
                process.communicate()
        assert killed, "no run was killed in the middle"
        for name in ("one", "two", "one"):
            process = start_sync(places[name], address)
            printed = process.communicate(timeout=120)[0].decode()
            assert process.returncode == 0, printed
        expected = {Key("shared", "note", f"{name}-{n}"): f"{name} wrote {n}" for name in places for n in range(NOTES)}
        expected[Key("shared", "note", "own")] = "the hub wrote it"
        found = texts(hub)
        winner = found.pop(Key("shared", "note", "both"))
        assert found == expected
        versions = [record.key for record in hub.journal.read(Query(kinds=("note",), every_version=True))]
        assert len(versions) == len(expected) + len([key for key in versions if key.id == "both"])
        (conflict,) = hub.journal.read(Query(kinds=(CONFLICT_KIND,)))
        assert {"one changed it", "two changed it"} == {
            text for text in ("one changed it", "two changed it") if text in str(conflict.body)
        }
        for place in places.values():
            with lukasa.open(place, embedder="hash") as memory:
                assert texts(memory) == {**expected, Key("shared", "note", "both"): winner}
                again = sync_logs(memory.journal, HttpLogPeer(ApiConnection(address, token_for(""))))
                assert (again.pulled, again.pushed, again.holds) == (0, 0, True)
                assert memory.verify().sound
