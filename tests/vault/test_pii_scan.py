"""A write to the vault is scanned for personal data once, before the write lock is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lukasa
from lukasa.pii import detector


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record every text that is scanned, and the moments when the write lock is held."""
    events: list[str] = []
    scan = detector.find_pii

    def record_scan(text: str, *, strict: bool = False) -> Any:
        events.append(text)
        return scan(text, strict=strict)

    monkeypatch.setattr(detector, "find_pii", record_scan)
    return events


def locked_marker(memory: lukasa.Memory, events: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Note in the events when a condition begins to run inside the write lock."""
    append_if = memory.valid_journal.append_if

    def noting(condition: Callable[[Any], Any], **options: Any) -> Any:
        def run(reader: Any) -> Any:
            events.append("LOCK")
            return condition(reader)

        return append_if(run, **options)

    monkeypatch.setattr(memory.valid_journal, "append_if", noting)


@pytest.mark.requirement("VLT-4")
@pytest.mark.parametrize("verb", ["add", "update", "bulk"])
def test_a_text_is_scanned_once_and_outside_the_lock(
    verb: str, scans: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with lukasa.open("memory:", embedder="hash") as memory:
        first = memory.vault.add_memory("Invoices are paid within a month.", "shared", "process", tags=["money"])
        assert isinstance(first, lukasa.Accepted)
        locked_marker(memory, scans, monkeypatch)
        scans.clear()
        text = f"The {verb} of reports goes to the office in Kinshasa."
        if verb == "add":
            assert memory.vault.add_memory(text, "shared", "place", tags=["office"])
        elif verb == "update":
            assert memory.vault.update(first.record.id, text)
        else:
            assert all(memory.vault.bulk_add([text]))
        assert scans.count(text) == 1
        assert scans.index(text) < scans.index("LOCK")
        assert scans[scans.index("LOCK") + 1 :] == []


def test_a_refused_text_is_scanned_again_and_never_remembered_as_clean(scans: list[str]) -> None:
    with lukasa.open("memory:", embedder="hash") as memory:
        for _ in range(2):
            outcome = memory.vault.add_memory("The door password is hunter2-4711.", "shared", "process")
            assert isinstance(outcome, lukasa.Refused)
            assert outcome.code == "pii"
