"""The vault: curated memory behind a write gate, and blocks of it for prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lukasa.core.body_shape import BodyShape, MapOf
from lukasa.core.lazy_imports import lazy_attributes
from lukasa.core.outcome import Refused
from lukasa.core.record import Draft
from lukasa.journal.gate import KindSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lukasa.recall.prompt import PromptBlock
    from lukasa.vault.checks import MemoryProposal
    from lukasa.vault.memory import VaultMemory
    from lukasa.vault.settings import VaultSettings
    from lukasa.vault.vault import Vault

__all__ = [
    "KINDS", "MemoryProposal", "Vault", "VaultMemory", "VaultSettings", "build_memory_block", "build_snapshot_block",
]  # fmt: skip

REFUSED_CANON = Refused(
    "canon_needs_owner",
    "Canon comes from the owner of the store, or when others corroborate a memory. Write it as a register (tier register).",
)


def refuse_canon(draft: Draft) -> Refused | None:
    """Refuse canon that an agent writes without the vault: it comes from the owner, or by promotion of a register."""
    return REFUSED_CANON if draft.body.get("tier", "canon") == "canon" or draft.origin == "promotion" else None


KINDS = {
    "memory": KindSpec(
        pii="block",
        near_duplicates=True,
        agent_check=refuse_canon,
        body=BodyShape(
            {
                **dict.fromkeys(("category", "tier", "topic_id", "promoted_by"), (str, None)),
                **{name: [str] for name in ("tags", "corroborated_by")},
            }
        ),
    ),
    "corroboration": KindSpec(
        body=BodyShape({"memory": str, "version": int, "source": (str, None)}), written_by="store"
    ),
    "directive": KindSpec(owner_only=True, body=BodyShape({"set_by": str})),
    "note": KindSpec(),
    "tick": KindSpec(body=BodyShape({"text": str})),
    "verdicts": KindSpec(body=BodyShape({"refused": MapOf(int)}), written_by="store", is_statement=False),
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
