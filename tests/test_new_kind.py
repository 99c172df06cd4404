"""A new kind of memory takes two edits: its module, and one line in the table of services."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lukasa
from lukasa.memory import SERVICES, Service


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Open a store whose table of services has one more line."""
    service = Service("support.preferences", "Preferences", lambda memory, _: (memory.journal,))
    monkeypatch.setitem(SERVICES, "preferences", service)
    with lukasa.open(tmp_path / "agents.db", embedder="hash") as memory:
        yield memory


def test_the_new_service_is_an_attribute_for_every_caller(memory: Any) -> None:
    ada, ben = memory.as_agent("ada"), memory.as_agent("ben")
    assert ada.preferences.set("tone", "short")
    assert ada.preferences.get("tone") == "short"
    assert ben.preferences.get("tone") is None
    assert "preferences" in dir(ada)


def test_what_the_kind_declares_is_enforced_by_the_gate(memory: Any) -> None:
    assert memory.preferences.set("login", "my password is hunter2-4711").code == "pii"
    assert memory.preferences.set("tone", "x" * 3_000).code == "too_large"


def test_history_undo_quarantine_recall_and_export_work_at_once(memory: Any, tmp_path: Path) -> None:
    ada = memory.as_agent("ada")
    ada.preferences.set("tone", "short")
    ada.preferences.set("tone", "long and friendly")
    key = lukasa.Key("ada", "agent_preference", "tone")
    assert [record.version for record in memory.journal.history(key)] == [1, 2]
    assert "friendly" in memory.recall("friendly tone").hits[0].text
    memory.journal.quarantine("ada")
    assert ada.preferences.get("tone") is None
    memory.journal.release("ada")
    memory.journal.undo(author="ada")
    assert ada.preferences.get("tone") is None
    assert memory.export(tmp_path / "log.jsonl") >= 3
    assert memory.verify().sound
