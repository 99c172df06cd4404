"""The vault: curated memory that stays clean. ``memory.vault`` is the room; the blocks are for prompts."""

from __future__ import annotations

from collections.abc import Iterable

from lukasa.prompt import Block
from lukasa.vault.item import Proposal, VaultMemory
from lukasa.vault.room import Vault
from lukasa.vault.rules import Rules

__all__ = ["Proposal", "Rules", "Vault", "VaultMemory", "build_memory_block", "build_snapshot_block"]


def build_snapshot_block(vault: Vault, scopes: Iterable[str] | None = None, *, budget: int | None = None) -> Block:
    """The piece of prompt that is always there: notes, canon, registers."""
    return vault.build_snapshot_block(scopes, budget=budget)


def build_memory_block(
    vault: Vault, scopes: Iterable[str] | None = None, *, query: str, k: int | None = None, budget: int | None = None
) -> Block:
    """The piece of prompt for a question: the relevant directives and memories, canon first."""
    return vault.build_memory_block(scopes, query=query, k=k, budget=budget)
