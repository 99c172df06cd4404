"""The location of a store: a file, a PostgreSQL server, or this process alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from lukasa.errors import mask_password

IN_MEMORY = "memory:"


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """Where a store lives: a file, a server, or this process alone."""

    engine: Literal["sqlite", "postgresql", "memory"]
    path: Path | None = None
    url: str = field(default="", repr=False)  # it may hold a password

    def __str__(self) -> str:
        return mask_password(self.url) or (str(self.path) if self.path else IN_MEMORY)
