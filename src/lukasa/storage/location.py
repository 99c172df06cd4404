"""The location of a store: a file, a database server, or the memory of this process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from lukasa.errors import InvalidInput, mask_password

IN_MEMORY = "memory:"


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """A parsed store name. ``engine`` is a name in ``lukasa.storage.engines``."""

    engine: str
    path: Path | None = None
    url: str = field(default="", repr=False)  # may hold a password

    def __str__(self) -> str:
        return mask_password(self.url) or (str(self.path) if self.path else IN_MEMORY)


def split_url(url: str) -> SplitResult:
    """Split a URL into its parts; raise ``InvalidInput`` for brackets or a port that no address has."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for a port that is no number, or too large
    except ValueError as error:
        raise InvalidInput(f"{mask_password(url)[:120]!r} is not a URL: {error}.", hint="Check its address.") from error
    return parts
