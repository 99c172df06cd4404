"""Values that were read from a store and hold as long as nothing at all was written to it, by any process."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from lukasa.core.text_cache import register_cache
from lukasa.journal import Journal

T = TypeVar("T")


class ReadCache(Generic[T]):
    """What was read last, by key. All callers get the same value, so nobody may change it.

    A value is returned again only if the store's stamp of changes is the same as before the value was read. An engine
    without such a stamp (PostgreSQL, a store in memory) reads every time. ``measure`` tells about how many bytes a value
    takes; one that takes more than a quarter of ``max_bytes`` is not kept.
    """

    def __init__(
        self,
        journal: Journal,
        max_values: int = 8,
        *,
        measure: Callable[[T], int] = lambda _: 0,
        max_bytes: int = 8_000_000,
    ) -> None:
        self._journal = journal
        self._max_values = max_values
        self._measure = measure
        self._max_bytes = max_bytes
        self._known: dict[Hashable, tuple[object, T]] = {}
        self._size = 0
        register_cache(self)

    def clear(self) -> None:
        """Forget all values."""
        self._known = {}
        self._size = 0

    def read(self, key: Hashable, load: Callable[[], T]) -> T:
        """Return the value of a key, known or loaded."""
        stamp = self._journal.change_stamp()
        known = self._known.get(key)
        if known is not None and known[0] == stamp:
            return known[1]
        value = load()
        if stamp is not None and (size := self._measure(value)) <= self._max_bytes // 4:
            if len(self._known) >= self._max_values or self._size + size > self._max_bytes:
                self.clear()
            self._size += size
            self._known[key] = (stamp, value)
        return value

    def find(self, key: Hashable) -> T | None:
        """Return the value of a key if it is known and still holds. This takes no time to speak of, also in an event loop."""
        known = self._known.get(key)
        return None if known is None or known[0] != self._journal.change_stamp() else known[1]
