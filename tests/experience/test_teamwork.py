"""Ledgers and handoffs: where agents stand, and work that survives the death of either side."""

import json
import subprocess
import sys

import pytest

import lukasa
from lukasa import Accepted, Refused
from lukasa.experience.handoffs import Handoff
from lukasa.experience.ledgers import Ledger


@pytest.mark.requirement("EXP-8")
def test_the_documents_ledger_comes_back_field_by_field(memory, tree):
    told = json.loads((tree / "ledgers/eng-001.json").read_text())
    record = memory.ledgers.put(told).record
    assert Ledger(record).as_json() == told
    assert not memory.ledgers.put(told).records


@pytest.mark.requirement("EXP-8")
def test_a_checkpoint_adds_up_and_keeps_what_is_not_said(memory, clock):
    memory.ledgers.checkpoint("eng", current_task="task-1", completed=2, state={"uncommitted_changes": True})
    clock.advance(60)
    memory.ledgers.checkpoint("eng", completed=1, context={"current_goal": "Ship"})
    ledger = memory.ledgers.get("eng")
    assert (ledger.tasks_completed, ledger.current_task, ledger.last_checkpoint) == (3, "task-1", clock.now())
    assert (ledger.state, ledger.context) == ({"uncommitted_changes": True}, {"current_goal": "Ship"})
    memory.ledgers.checkpoint("eng", current_task="")
    assert memory.ledgers.get("eng").current_task is None
    assert len(memory.journal.history(ledger.record.key)) == 3


@pytest.mark.requirement("EXP-8")
def test_an_agents_ledger_is_its_own_by_default(opened, file):
    orion = opened(file, agent="orion")
    orion.ledgers.checkpoint(completed=1)
    assert orion.ledgers.get().agent_id == "orion"
    assert opened(file).ledgers.checkpoint().code == "bad_agent"
    assert [ledger.agent_id for ledger in opened(file).ledgers.list()] == ["orion"]


@pytest.mark.requirement("EXP-8")
@pytest.mark.parametrize(
    "told",
    [
        {},
        {"agent_id": ""},
        {"agent_id": "x", "tasks_completed": -1},
        {"agent_id": "x", "state": 3},
        {"agent_id": "x", "last_checkpoint": "soon"},
    ],
)
def test_what_is_no_ledger_is_refused(local, told):
    assert isinstance(local.ledgers.put(told), Refused)


@pytest.mark.requirement("EXP-9")
def test_the_documents_handoff_comes_back_field_by_field(memory, tree):
    told = json.loads((tree / "handoffs/handoff-001.json").read_text())
    record = memory.handoffs.put(told).record
    assert Handoff(record).as_json() == told
    assert [handoff.id for handoff in memory.handoffs.inbox("qa-001-testing")] == ["handoff-001"]


@pytest.mark.requirement("EXP-9")
def test_work_is_handed_over_read_accepted_and_completed(memory):
    room = memory.handoffs
    id = room.create("qa", "Built it", from_agent="eng", needs_testing=["all of it"]).record.id
    assert id == "handoff-001"
    assert room.complete(id).code == "bad_status"
    assert [Handoff(room.read(id).record).status, Handoff(room.accept(id).record).status] == ["read", "accepted"]
    assert room.accept(id).code == "bad_status"
    assert room.complete(id, "green")
    done = room.get(id)
    assert (done.status, done.record.body["result"]) == ("completed", "green")
    assert room.inbox("qa") == []
    assert [handoff.id for handoff in room.inbox("qa", completed=True)] == [id]
    assert (
        [handoff.status for handoff in room.sent("eng")] == [handoff.status for handoff in room.sent()] == ["completed"]
    )
    room.create("ops", "Packed it", from_agent="eng")
    assert [handoff.to_agent for handoff in room.inbox()] == ["ops"]


@pytest.mark.requirement("EXP-9")
def test_only_the_receiver_accepts(memory):
    id = memory.handoffs.create("qa", "Built it", from_agent="eng").record.id
    assert memory.handoffs.accept(id, "mallory").code == "not_yours"
    memory.handoffs.reassign(id, "qa-2")
    assert memory.handoffs.accept(id, "qa").code == "not_yours"
    assert memory.handoffs.accept(id, "qa-2")


@pytest.mark.requirement("EXP-9")
def test_a_handoff_survives_the_death_of_either_agent(opened, file):
    eng = opened(file, agent="eng")
    id = eng.handoffs.create("qa", "Built it").record.id
    eng.close()
    first = opened(file, agent="qa")
    first.handoffs.accept(id)
    first.close()
    second = opened(file, agent="qa")
    (waiting,) = second.handoffs.inbox()
    assert waiting.status == "accepted"
    second.handoffs.reopen(id)
    assert second.handoffs.get(id).status == "unread"
    assert second.handoffs.accept(id)


@pytest.mark.requirement("EXP-9")
def test_of_many_that_accept_at_once_one_does(file):
    with lukasa.open(file) as memory:
        memory.handoffs.create("qa", "Built it", from_agent="eng")
    code = f"import lukasa, sys\nwith lukasa.open({file!r}, agent='qa') as m: sys.exit(0 if m.handoffs.accept('handoff-001') else 3)"
    actors = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]
    assert sorted(actor.wait(60) for actor in actors) == [0, 3, 3, 3]


@pytest.mark.requirement("EXP-9")
def test_a_repeated_call_with_a_key_hands_over_once(memory):
    first = memory.handoffs.create("qa", "Built it", from_agent="eng", key="k")
    again = memory.handoffs.create("qa", "Built it", from_agent="eng", key="k")
    assert isinstance(again, Accepted)
    assert again.record.id == first.record.id
    assert len(memory.handoffs.inbox("qa")) == 1


@pytest.mark.requirement("EXP-9")
@pytest.mark.parametrize(
    "told",
    [
        {},
        {"from_agent": "a"},
        {"from_agent": "a", "to_agent": "b"},
        {"from_agent": "a", "to_agent": "b", "context": 1},
        {"from_agent": "a", "to_agent": "b\n", "context": {}},
        {"from_agent": "a", "to_agent": "b", "context": {}, "status": "lost"},
    ],
)
def test_what_is_no_handoff_is_refused(local, told):
    assert isinstance(local.handoffs.put(told), Refused)
    assert local.journal.tip() == 0
