"""The settings of a vault: tiers, limits and thresholds.

The defaults are those of the document, but for three: the capacity, the rule for near-duplicates, and who writes canon. The profile
``document`` (``DOCUMENT_SETTINGS``) has the document's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from lukasa.core.choices import Tier
from lukasa.errors import InvalidInput
from lukasa.text.terms import MIN_OVERLAP

MEMORY_KIND = "memory"
CANON: Tier = "canon"
REGISTER: Tier = "register"
LOG = "log"
SOURCES = ("chat", "manual", "tool", "operator", "promotion", "consolidation", "import", "confirmation")
PiiHandling = Literal["block", "redact", "allow"]
PII_HANDLINGS = ("block", "redact", "allow")
DuplicateRule = Literal["facts", "document"]
DUPLICATE_RULES = ("facts", "document")

NOISE_SIGNALS = (
    "tick marker", "runtime snapshot", "check-in", "heartbeat", "burst tick", "no changes", "nothing to report",
    "status unchanged", "routine scan", "ephemeral",
)  # fmt: skip
AMBIGUOUS_SIGNALS = frozenset({"check-in", "heartbeat", "no changes", "ephemeral"})
"""Signals that are also plain words; see ``lukasa.vault.checks``."""

_POSITIVE_SETTINGS = (
    "capacity", "longest", "max_items", "snapshot_tokens", "memory_tokens", "ticks", "notes", "voices",
)  # fmt: skip
DEFAULT_CAPACITY = 10_000
DOCUMENT_CAPACITY = 100
DEFAULT_MAX_LENGTH = 1200


@dataclass(frozen=True, slots=True)
class VaultSettings:
    """The settings of one vault; a profile file changes them.

    ``scopes`` are the scopes that may hold memories; ``None`` leaves that to the caller's reach. ``pii`` says for each
    kind of record whether personal data and secrets are blocked (the default), redacted or allowed. ``duplicates`` says
    which texts past the thresholds of similarity are refused: those that state the same fact (``facts``), or all of them
    (``document``). ``agents_write_canon`` lets agents write canon at once, as the document does; otherwise it comes from the
    owner, or when others corroborate a memory.
    """

    enabled: bool = True
    scopes: tuple[str, ...] | None = None
    max_items: int = 20
    capacity: int = DEFAULT_CAPACITY
    longest: int = DEFAULT_MAX_LENGTH
    overlap_threshold: float = 0.60
    similarity_threshold: float = 0.70
    duplicates: DuplicateRule = "facts"
    agents_write_canon: bool = False
    signals: tuple[str, ...] = NOISE_SIGNALS
    sources: tuple[str, ...] = SOURCES
    voices: int = 2
    pii: dict[str, PiiHandling] = field(default_factory=dict)
    snapshot_tokens: int = 1_000
    memory_tokens: int = 1_500
    ticks: int = 200
    tick_hours: float = 24.0
    notes: int = 20
    note_characters: int = 300

    def __post_init__(self) -> None:
        if not MIN_OVERLAP <= self.overlap_threshold <= 1:
            raise InvalidInput(
                f"overlap_threshold must lie between {MIN_OVERLAP} and 1: below that, near-duplicates cannot be found "
                "without comparing with everything."
            )
        if not 0.5 <= self.similarity_threshold <= 1:
            raise InvalidInput("similarity_threshold must lie between 0.5 and 1.")
        if self.duplicates not in DUPLICATE_RULES:
            raise InvalidInput(f"duplicates must be one of {', '.join(DUPLICATE_RULES)}.")
        for name in _POSITIVE_SETTINGS:
            value = getattr(self, name)
            if value.__class__ is not int or value < 1:
                raise InvalidInput(f"{name} must be a whole number above 0.")
        for kind, handling in self.pii.items():
            if handling not in PII_HANDLINGS:
                raise InvalidInput(f"pii of {kind!r:.40} must be one of {', '.join(PII_HANDLINGS)}.")


DOCUMENT_SETTINGS = VaultSettings(capacity=DOCUMENT_CAPACITY, duplicates="document", agents_write_canon=True)
"""The profile ``document``: the numbers and rules of the document where the defaults differ."""
