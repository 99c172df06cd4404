"""What a caller made of records that it read before.

An entry of the log never changes, and no position is used twice: what was made of an entry holds as long as it is current.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from lukasa.core.record import Record
from lukasa.core.text_cache import register_cache

T = TypeVar("T")


class ParsedRecords(Generic[T]):
    """What ``parse`` made of records, by position, for ``LogReader.get_parsed`` and ``read_parsed``.

    All callers get the same value, so nobody may change it. When the entries behind the values have more than ``max_bytes``
    in all, the values are dropped and made again as they are read.
    """

    def __init__(self, parse: Callable[[Record], T], max_bytes: int = 8_000_000) -> None:
        self.parse = parse
        self.known: dict[int, T] = {}
        self._max_bytes = max_bytes
        self._size = 0
        register_cache(self)

    def clear(self) -> None:
        """Drop all values."""
        self.known = {}
        self._size = 0

    def add(self, record: Record, size: int) -> T:
        """Parse a record whose entry has some bytes, and keep the result."""
        value = self.parse(record)
        if size <= self._max_bytes // 4:
            self._size += size
            if self._size > self._max_bytes:
                self.clear()
                self._size = size
            self.known[record.seq] = value
        return value
