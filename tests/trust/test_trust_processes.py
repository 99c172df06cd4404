"""Trust on both engines, with several processes at once: nothing is lost, nothing counts twice."""

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
def test_many_processes_log_at_once_and_the_books_agree(place):
    with lukasa.open(place, embedder="hash"):
        pass
    many, each = 3, 8
    facts = [json.dumps({"place": place, "agent": "a", "first": 100 * nr, "many": each}) for nr in range(many)]
    running = [
        subprocess.Popen([sys.executable, str(ACTORS), fact], stderr=subprocess.PIPE, text=True) for fact in facts
    ]
    for process in running:
        _, complaint = process.communicate(timeout=120)
        assert process.returncode == 0, complaint[-4000:]
    with lukasa.open(place) as memory:
        trust = memory.trust
        assert trust.check() == []
        standing = trust.standing("a")
        assert (standing.total.dissents, standing.total.overrides, standing.rounds) == (many * each, many * each, 5)
        assert standing.total.regrets == sum(
            at % 3 == 0 for nr in range(many) for at in range(100 * nr, 100 * nr + each)
        )
        assert [(each.name, each.overrides) for each in trust.controversy()] == [("same", many * 8)]
        assert trust.influence().dissents["a"]["other"].dissents == many * each


@pytest.mark.requirement("OPS-2", "TRU-1")
def test_both_engines_come_to_the_same(url, tmp_path, opened, clock, essay):
    told = []
    for place in (url, tmp_path / "t.db"):
        clock.set(NOON)
        memory = opened(place)
        trust = memory.trust
        for at in range(12):
            trust.log_dissent(
                "a", essay(at, 20), impact=at % 3 == 0, rubric_citations=[f"c{at % 3}"], of="b", round_id=f"r{at}"
            )
            trust.participate("a", f"r{at}")
            clock.advance(86_400 * 9)
        memory.journal.write("adr", "old", id="x")
        memory.journal.write("adr", "new", id="x")
        trust.log_override("a", "old", "new", artifact=Key("shared", "adr", "x"), criteria=["c1"], by="ada")
        memory.journal.write("adr", "old", id="x", author="ben")
        assert len(trust.check_reverts().records) > 0
        memory.journal.write("note", "the heron nests at dawn", author="a")
        (hit,) = memory.recall("heron", 1, kinds=("note",)).hits
        drawn = trust.assign_devils_advocate(["a", "b"], seed=5)
        told.append(
            (
                trust.agent("a").as_json(), trust.score("a"), trust.standing("a"), hit.trust, drawn, trust.check(),
                trust.influence().as_json(), trust.metrics().as_json(), trust.predict("word1x1 word1x2").as_json()["past"],
            )
        )  # fmt: skip
    assert told[0] == told[1]


@pytest.mark.requirement("TRU-12")
def test_what_was_logged_with_a_key_before_a_crash_is_not_logged_again(place, essay):
    for _ in range(2):
        with lukasa.open(place, embedder="hash") as memory:
            assert memory.trust.log_dissent("a", essay(), impact=True, key="round-1/a")
            assert memory.trust.log_override("a", "x", "y", key="round-1/override")
    with lukasa.open(place) as memory:
        assert (memory.trust.score("a").dissents, memory.trust.score("a").overrides) == (1, 1)
