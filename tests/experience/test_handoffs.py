"""Handoffs: work passed between agents, durable when either of them dies."""

import json
import subprocess
import sys

import pytest

import lukasa
from lukasa import Accepted, Refused
from lukasa.experience.handoffs import Handoff


@pytest.mark.requirement("EXP-9")
def test_a_handoff_document_round_trips(memory, loki_tree):
    document = json.loads((loki_tree / "handoffs/handoff-001.json").read_text())
    record = memory.handoffs.put(document).record
    assert Handoff(record).as_json() == document
    assert [handoff.id for handoff in memory.handoffs.inbox("qa-001-testing")] == ["handoff-001"]


@pytest.mark.requirement("EXP-9")
def test_a_handoff_is_created_read_accepted_and_completed(memory):
    handoffs = memory.handoffs
    id = handoffs.create("qa", "Built it", from_agent="eng", needs_testing=["all of it"]).record.id
    assert id == "handoff-001"
    assert handoffs.complete(id).code == "bad_status"
    assert [Handoff(handoffs.read(id).record).status, Handoff(handoffs.accept(id).record).status] == [
        "read",
        "accepted",
    ]
    assert handoffs.accept(id).code == "bad_status"
    assert handoffs.complete(id, "green")
    done = handoffs.get(id)
    assert (done.status, done.record.body["result"]) == ("completed", "green")
    assert handoffs.inbox("qa") == []
    assert [handoff.id for handoff in handoffs.inbox("qa", completed=True)] == [id]
    assert (
        [handoff.status for handoff in handoffs.sent("eng")]
        == [handoff.status for handoff in handoffs.sent()]
        == ["completed"]
    )
    handoffs.create("ops", "Packed it", from_agent="eng")
    assert [handoff.to_agent for handoff in handoffs.inbox()] == ["ops"]


@pytest.mark.requirement("EXP-9")
def test_only_the_receiver_accepts_a_handoff(memory):
    id = memory.handoffs.create("qa", "Built it", from_agent="eng").record.id
    assert memory.handoffs.accept(id, "mallory").code == "not_yours"
    memory.handoffs.reassign(id, "qa-2")
    assert memory.handoffs.accept(id, "qa").code == "not_yours"
    assert memory.handoffs.accept(id, "qa-2")


@pytest.mark.requirement("EXP-9")
def test_a_handoff_survives_the_death_of_either_agent(open_store, store_path):
    eng = open_store(store_path, agent="eng")
    id = eng.handoffs.create("qa", "Built it").record.id
    eng.close()
    first = open_store(store_path, agent="qa")
    first.handoffs.accept(id)
    first.close()
    second = open_store(store_path, agent="qa")
    (waiting,) = second.handoffs.inbox()
    assert waiting.status == "accepted"
    second.handoffs.reopen(id)
    assert second.handoffs.get(id).status == "unread"
    assert second.handoffs.accept(id)


@pytest.mark.requirement("EXP-9")
def test_one_of_several_concurrent_accepts_wins(store_path):
    with lukasa.open(store_path) as memory:
        memory.handoffs.create("qa", "Built it", from_agent="eng")
    code = f"import lukasa, sys\nwith lukasa.open({store_path!r}, agent='qa') as m: sys.exit(0 if m.handoffs.accept('handoff-001') else 3)"
    processes = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]
    assert sorted(process.wait(60) for process in processes) == [0, 3, 3, 3]


@pytest.mark.requirement("EXP-9")
def test_a_repeated_create_with_a_key_creates_one_handoff(memory):
    first = memory.handoffs.create("qa", "Built it", from_agent="eng", key="k")
    again = memory.handoffs.create("qa", "Built it", from_agent="eng", key="k")
    assert isinstance(again, Accepted)
    assert again.record.id == first.record.id
    assert len(memory.handoffs.inbox("qa")) == 1


@pytest.mark.requirement("EXP-9")
@pytest.mark.parametrize(
    "document",
    [
        {},
        {"from_agent": "a"},
        {"from_agent": "a", "to_agent": "b"},
        {"from_agent": "a", "to_agent": "b", "context": 1},
        {"from_agent": "a", "to_agent": "b\n", "context": {}},
        {"from_agent": "a", "to_agent": "b", "context": {}, "status": "lost"},
    ],
)
def test_an_invalid_handoff_is_refused(local, document):
    assert isinstance(local.handoffs.put(document), Refused)
    assert local.journal.tip() == 0
