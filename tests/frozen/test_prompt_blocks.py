"""What goes into prompts, what recall answers, and what the services compute from one store.

The word of a fence is new in every block, so it is written as NONCE; nothing else is normalised.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Frozen = Callable[[str, str], None]

BLOCKS = {
    "vault_snapshot.md": "the snapshot of the vault",
    "vault_snapshot_small.md": "the snapshot within a small budget",
    "vault_snapshot_block.txt": "the fenced snapshot with notes",
    "vault_memory_block_1.txt": "the memory block of the first question",
    "vault_memory_block_2.txt": "the memory block of the second question",
    "vault_memory_block_3.txt": "the memory block of the third question",
    "vault_memory_block_small.txt": "the memory block within a small budget",
    "vault_search.json": "the search in the vault",
    "conversation_whole.txt": "the prompt of a conversation",
    "conversation_whole.json": "the messages of a conversation",
    "conversation_tight.txt": "the prompt of a conversation within a small budget",
    "conversation_tight.json": "the messages of a conversation within a small budget",
    "before_task.json": "the briefing before a task",
    "before_task_budget.json": "the briefing within a budget",
    "relevant_memory.json": "the relevant memory for a goal",
    "CONTINUITY.md": "the page CONTINUITY.md with words of its owner",
    "CONTINUITY_new.md": "a new page CONTINUITY.md",
    "recall.json": "the hits of recall, their order, scores and signals",
}


@pytest.mark.parametrize("name", BLOCKS, ids=list(BLOCKS.values()))
def test_a_block_keeps_its_text(name: str, built: Path, frozen: Frozen) -> None:
    """Compare one text that is made of the store for a prompt."""
    frozen(f"prompts/{name}", (built / "prompts" / name).read_bytes().decode())


def test_every_block_is_compared(built: Path) -> None:
    """Check that no text was written that no test looks at."""
    assert {path.name for path in (built / "prompts").iterdir()} == set(BLOCKS)


def test_the_services_compute_the_same(built: Path, frozen: Frozen) -> None:
    """Compare scores, metrics, statistics and reports of all services."""
    frozen("answers.json", (built / "answers.json").read_bytes().decode())
