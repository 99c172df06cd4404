"""Lukasa: one durable memory for AI agents."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lukasa import aio as aio
    from lukasa.client import connect
    from lukasa.context import Context, Turn
    from lukasa.core.choices import (
        EpisodeOutcome,
        KnowledgeKind,
        KnowledgeRelation,
        PredictionStatus,
        Role,
        SearchProfile,
        Tier,
    )
    from lukasa.core.outcome import Accepted, Conflict, Outcome, Refused
    from lukasa.core.record import Draft, Key, Link, Record
    from lukasa.core.scope import Reach
    from lukasa.errors import (
        FileMissing,
        FileTaken,
        FormatError,
        InvalidInput,
        LukasaError,
        MissingExtra,
        NetworkDown,
        NotAccepted,
        NotAllowed,
        RateLimited,
        StoreBusy,
        StoreClosed,
        StoreDamaged,
        StoreError,
        StoreForeign,
        StoreFull,
        StoreMissing,
        StoreNewer,
        StoreNotAllowed,
        StoreReadOnly,
        StoreUnavailable,
    )
    from lukasa.experience import Episode
    from lukasa.memory import Memory, audit_source, find_backups
    from lukasa.memory import open_memory as open
    from lukasa.memory import restore_store as restore
    from lukasa.recall import RecallHit, RecallResult, build_prompt_block
    from lukasa.storage.engine import Query
    from lukasa.trust import TrustSettings
    from lukasa.vault import VaultMemory, VaultSettings

__version__ = "0.1.0"

__all__ = [
    "Accepted",
    "Conflict",
    "Context",
    "Draft",
    "Episode",
    "EpisodeOutcome",
    "FileMissing",
    "FileTaken",
    "FormatError",
    "InvalidInput",
    "Key",
    "KnowledgeKind",
    "KnowledgeRelation",
    "Link",
    "LukasaError",
    "Memory",
    "MissingExtra",
    "NetworkDown",
    "NotAccepted",
    "NotAllowed",
    "Outcome",
    "PredictionStatus",
    "Query",
    "RateLimited",
    "Reach",
    "RecallHit",
    "RecallResult",
    "Record",
    "Refused",
    "Role",
    "SearchProfile",
    "StoreBusy",
    "StoreClosed",
    "StoreDamaged",
    "StoreError",
    "StoreForeign",
    "StoreFull",
    "StoreMissing",
    "StoreNewer",
    "StoreNotAllowed",
    "StoreReadOnly",
    "StoreUnavailable",
    "Tier",
    "TrustSettings",
    "Turn",
    "VaultMemory",
    "VaultSettings",
    "__version__",
    "audit_source",
    "build_prompt_block",
    "connect",
    "find_backups",
    "open",
    "restore",
]

_MODULES = {
    **dict.fromkeys(
        ("EpisodeOutcome", "KnowledgeKind", "KnowledgeRelation", "PredictionStatus", "Role", "SearchProfile", "Tier"),
        "core.choices",
    ),
    **dict.fromkeys(("connect",), "client"),
    **dict.fromkeys(("Context", "Turn"), "context"),
    **dict.fromkeys(("Episode",), "experience"),
    **dict.fromkeys(("Memory", "audit_source", "find_backups"), "memory"),
    **dict.fromkeys(("Accepted", "Conflict", "Outcome", "Refused"), "core.outcome"),
    **dict.fromkeys(("RecallHit", "RecallResult", "build_prompt_block"), "recall"),
    **dict.fromkeys(("Draft", "Key", "Link", "Record"), "core.record"),
    **dict.fromkeys(("Reach",), "core.scope"),
    **dict.fromkeys(("Query",), "storage.engine"),
    **dict.fromkeys(("TrustSettings",), "trust"),
    **dict.fromkeys(("VaultMemory", "VaultSettings"), "vault"),
}
"""The modules of public names; all others in ``__all__`` are errors."""
_OTHER_NAMES = {"open": ("memory", "open_memory"), "restore": ("memory", "restore_store")}


if not TYPE_CHECKING:  # a misspelt name is an error for type checkers

    def __getattr__(name: str) -> object:
        """Names and modules load on first use, so that a command that needs few of them starts at once."""
        module, there = _OTHER_NAMES.get(name) or (_MODULES.get(name, "errors" if name in __all__ else name), name)
        try:
            loaded = import_module(f"lukasa.{module}")
        except ModuleNotFoundError as error:
            if error.name != f"lukasa.{module}":
                raise
            raise AttributeError(f"module 'lukasa' has no attribute {name!r}") from None
        found = getattr(loaded, there) if name in __all__ else loaded
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    """List the public names; the other modules of the package are its own."""
    return sorted({*__all__, "aio", "errors"})
