"""Ledgers: the progress of each agent."""

import json

import pytest

from lukasa import Refused
from lukasa.experience.ledgers import Ledger


@pytest.mark.requirement("EXP-8")
def test_a_ledger_document_round_trips(memory, loki_tree):
    document = json.loads((loki_tree / "ledgers/eng-001.json").read_text())
    record = memory.ledgers.put(document).record
    assert Ledger(record).as_json() == document
    assert not memory.ledgers.put(document).records


@pytest.mark.requirement("EXP-8")
def test_a_checkpoint_adds_up_and_keeps_omitted_fields(memory, clock):
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
def test_an_agent_writes_its_own_ledger_by_default(open_store, store_path):
    orion = open_store(store_path, agent="orion")
    orion.ledgers.checkpoint(completed=1)
    assert orion.ledgers.get().agent_id == "orion"
    assert open_store(store_path).ledgers.checkpoint().code == "bad_agent"
    assert [ledger.agent_id for ledger in open_store(store_path).ledgers.list()] == ["orion"]


@pytest.mark.requirement("EXP-8")
@pytest.mark.parametrize(
    "document",
    [
        {},
        {"agent_id": ""},
        {"agent_id": "x", "tasks_completed": -1},
        {"agent_id": "x", "state": 3},
        {"agent_id": "x", "last_checkpoint": "soon"},
    ],
)
def test_an_invalid_ledger_is_refused(local, document):
    assert isinstance(local.ledgers.put(document), Refused)
