"""Scopes are walls. A ``Reach`` is the set of scopes one caller may read and write; every engine enforces it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SHARED = "shared"
SYSTEM = "_lukasa"
"""Where the store keeps its own books (quarantines, receipts). Only a reach without walls sees it."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The scopes a caller may read and write; ``None`` means every scope."""

    readable: frozenset[str] | None
    writable: frozenset[str] | None

    def __post_init__(self) -> None:
        for name in ("readable", "writable"):
            scopes = getattr(self, name)
            if scopes is not None:  # naming the store's own books does not open them
                object.__setattr__(self, name, scopes - {SYSTEM})

    @classmethod
    def of(cls, read: Iterable[str], write: Iterable[str] | None = None) -> Reach:
        """A reach of the named scopes; what may be written is what may be read unless said otherwise."""
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
"""The reach of whoever owns the store."""
