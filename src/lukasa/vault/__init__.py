"""The vault: curated memory behind a write gate, and blocks of it for prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lukasa.gate import KindSpec
from lukasa.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lukasa.prompt import PromptBlock
    from lukasa.vault.checks import MemoryProposal
    from lukasa.vault.memory import VaultMemory
    from lukasa.vault.settings import VaultSettings
    from lukasa.vault.vault import Vault

__all__ = [
    "KINDS", "MemoryProposal", "Vault", "VaultMemory", "VaultSettings", "build_memory_block", "build_snapshot_block",
]  # fmt: skip

KINDS = {
    "memory": KindSpec(pii="block", near_duplicates=True),
    **dict.fromkeys(("corroboration", "directive", "note", "tick", "verdicts"), KindSpec()),
}
"""The kinds of record that the vault writes."""


def build_snapshot_block(
    vault: Vault, scopes: Iterable[str] | None = None, *, budget: int | None = None
) -> PromptBlock:
    """Return the prompt block that is always included: notes, canon and registers."""
    return vault.build_snapshot_block(scopes, budget=budget)


def build_memory_block(
    vault: Vault, scopes: Iterable[str] | None = None, *, query: str, k: int | None = None, budget: int | None = None
) -> PromptBlock:
    """Return the prompt block for a question: relevant directives and memories, canon first."""
    return vault.build_memory_block(scopes, query=query, k=k, budget=budget)


__getattr__ = lazy_attributes(
    __name__,
    {
        "MemoryProposal": "lukasa.vault.checks",
        "VaultMemory": "lukasa.vault.memory",
        "VaultSettings": "lukasa.vault.settings",
        "Vault": "lukasa.vault.vault",
    },
)
