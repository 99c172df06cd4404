"""Values that were read from a store, kept until any process writes to it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from lukasa.core.text_cache import BoundedCache
from lukasa.journal import Journal

T = TypeVar("T")


class ReadCache(BoundedCache[Hashable, tuple[object, T]]):
    """The values that were read last, by key, with the store's stamp of changes.

    A value is returned again only if the stamp is the same as before the value was read. An engine without such a stamp
    (PostgreSQL, a store in memory) reads every time. ``measure`` estimates the bytes of a value.
    """

    def __init__(
        self,
        journal: Journal,
        max_values: int = 8,
        *,
        measure: Callable[[T], int] = lambda _: 0,
        max_bytes: int = 8_000_000,
    ) -> None:
        super().__init__(max_bytes, max_values)
        self._journal = journal
        self._measure = measure

    def read(self, key: Hashable, load: Callable[[], T]) -> T:
        """Return the value of a key, known or loaded."""
        stamp = self._journal.change_stamp()
        known = self.get(key)
        if known is not None and known[0] == stamp:
            return known[1]
        value = load()
        if stamp is not None:
            self.keep(key, (stamp, value), self._measure(value))
        return value

    def find(self, key: Hashable) -> T | None:
        """Return the value of a key if it is known and still holds. Fast enough for an event loop."""
        known = self.get(key)
        return None if known is None or known[0] != self._journal.change_stamp() else known[1]
