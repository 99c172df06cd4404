"""Progress reports of long transfers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from lukasa.storage.engine import Progress, Tally

T = TypeVar("T")

_INTERVAL = 500


def track_progress(items: Iterable[T], progress: Progress | None, total: int = 0, done: int = 0) -> Iterator[T]:
    """Yield the items and report now and then how many were processed. ``total`` is 0 if it is unknown."""
    for number, item in enumerate(items, done + 1):
        yield item
        if progress is not None and number % _INTERVAL == 0:
            progress(min(number, total) if total else number, total)


def count_versions(tally: Iterable[Tally]) -> int:
    """Return the number of versions in all scopes and kinds."""
    return sum(row.versions for row in tally)
