"""The location of a store: a file, a database server, or the memory of this process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lukasa.errors import mask_password

IN_MEMORY = "memory:"


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """A parsed store name. ``engine`` is a name in ``lukasa.storage.engines``."""

    engine: str
    path: Path | None = None
    url: str = field(default="", repr=False)  # may hold a password

    def __str__(self) -> str:
        return mask_password(self.url) or (str(self.path) if self.path else IN_MEMORY)
