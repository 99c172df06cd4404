"""The vault: curated memory that stays clean. ``memory.vault`` is the room; the blocks are for prompts."""

from __future__ import annotations

from collections.abc import Iterable

from lukasa.prompt import PromptBlock
from lukasa.vault.memory import MemoryProposal, VaultMemory
from lukasa.vault.settings import VaultSettings
from lukasa.vault.vault import Vault

__all__ = ["MemoryProposal", "Vault", "VaultMemory", "VaultSettings", "build_memory_block", "build_snapshot_block"]


def build_snapshot_block(
    vault: Vault, scopes: Iterable[str] | None = None, *, budget: int | None = None
) -> PromptBlock:
    """The piece of prompt that is always there: notes, canon, registers."""
    return vault.build_snapshot_block(scopes, budget=budget)


def build_memory_block(
    vault: Vault, scopes: Iterable[str] | None = None, *, query: str, k: int | None = None, budget: int | None = None
) -> PromptBlock:
    """The piece of prompt for a question: the relevant directives and memories, canon first."""
    return vault.build_memory_block(scopes, query=query, k=k, budget=budget)
