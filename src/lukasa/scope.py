"""Scopes divide a store. A ``Reach`` is the set of scopes that one caller may read and write; engines enforce it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SHARED = "shared"
SYSTEM = "_lukasa"
"""The scope of the store's own records (quarantines, erasure receipts). Only the owner sees it."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The scopes a caller may read and write; ``None`` means every scope."""

    readable: frozenset[str] | None
    writable: frozenset[str] | None

    def __post_init__(self) -> None:
        for name in ("readable", "writable"):
            scopes = getattr(self, name)
            if scopes is not None:  # no limited reach may include the system scope
                object.__setattr__(self, name, scopes - {SYSTEM})

    @classmethod
    def of(cls, read: Iterable[str], write: Iterable[str] | None = None) -> Reach:
        """Return a reach for the named scopes. Without ``write``, every readable scope is writable."""
        readable = frozenset(read)
        return cls(readable, readable if write is None else frozenset(write))

    def reads(self, scope: str) -> bool:
        return self.readable is None or scope in self.readable

    def writes(self, scope: str) -> bool:
        return self.writable is None or scope in self.writable

    @property
    def unlimited(self) -> bool:
        return self.readable is None and self.writable is None


FULL_REACH = Reach(None, None)
"""The reach of the store's owner: every scope."""
