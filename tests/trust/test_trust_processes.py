"""Trust on both engines and with several processes at once: no event is lost or counted twice."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import lukasa
from lukasa import Key
from lukasa.testing.clock import NOON

ACTORS = Path(__file__).with_name("actors.py")


@pytest.mark.requirement("TRU-3", "TRU-8", "LOG-3")
def test_running_sums_agree_with_the_events_of_several_processes(location):
    with lukasa.open(location, embedder="hash"):
        pass
    processes, count = 3, 8
    arguments = [
        json.dumps({"location": location, "agent": "a", "first": 100 * number, "count": count})
        for number in range(processes)
    ]
    running = [
        subprocess.Popen([sys.executable, str(ACTORS), argument], stderr=subprocess.PIPE, text=True)
        for argument in arguments
    ]
    for process in running:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors[-4000:]
    with lukasa.open(location) as memory:
        trust = memory.trust
        assert trust.check() == []
        total, rounds = trust.standing("a").total, trust.standing("a").rounds
        assert (total.dissents, total.overrides, rounds) == (processes * count, processes * count, 5)
        assert total.regrets == sum(
            number % 3 == 0 for first in range(processes) for number in range(100 * first, 100 * first + count)
        )
        assert [(found.name, found.overrides) for found in trust.controversy()] == [("same", processes * 8)]
        assert trust.influence().dissents["a"]["other"].dissents == processes * count


@pytest.mark.requirement("OPS-2", "TRU-1")
def test_both_engines_give_the_same_results(url, tmp_path, open_store, clock, essay):
    results = []
    for location in (url, tmp_path / "t.db"):
        clock.set(NOON)
        memory = open_store(location)
        trust = memory.trust
        for number in range(12):
            trust.log_dissent(
                "a",
                essay(number, 20),
                impact=number % 3 == 0,
                rubric_citations=[f"c{number % 3}"],
                of="b",
                round_id=f"r{number}",
            )
            trust.participate("a", f"r{number}")
            clock.advance(86_400 * 9)
        memory.journal.write("adr", "old", id="x")
        memory.journal.write("adr", "new", id="x")
        trust.log_override("a", "old", "new", artifact=Key("shared", "adr", "x"), criteria=["c1"], by="ada")
        memory.journal.write("adr", "old", id="x", author="ben")
        assert len(trust.check_reverts().records) > 0
        memory.journal.write("note", "the heron nests at dawn", author="a")
        (hit,) = memory.recall("heron", 1, kinds=("note",)).hits
        drawn = trust.assign_devils_advocate(["a", "b"], seed=5)
        results.append(
            (
                trust.agent("a").as_json(), trust.score("a"), trust.standing("a"), hit.trust, drawn, trust.check(),
                trust.influence().as_json(), trust.metrics().as_json(), trust.predict("word1x1 word1x2").as_json()["past"],
            )
        )  # fmt: skip
    assert results[0] == results[1]


@pytest.mark.requirement("TRU-12")
def test_a_repeated_key_logs_nothing_after_the_store_is_reopened(location, essay):
    for _ in range(2):
        with lukasa.open(location, embedder="hash") as memory:
            assert memory.trust.log_dissent("a", essay(), impact=True, key="round-1/a")
            assert memory.trust.log_override("a", "x", "y", key="round-1/override")
    with lukasa.open(location) as memory:
        assert (memory.trust.score("a").dissents, memory.trust.score("a").overrides) == (1, 1)
