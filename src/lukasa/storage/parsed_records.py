"""Values that a caller made of records that it read before.

An entry of the log never changes, and no position is used twice: a value made of an entry holds as long as the entry is current.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from lukasa.core.record import Record
from lukasa.core.text_cache import BoundedCache

T = TypeVar("T")


class ParsedRecords(Generic[T]):
    """The values that ``parse`` made of records, by position, for ``LogReader.get_parsed`` and ``read_parsed``.

    ``max_bytes`` bounds the entries behind the values.
    """

    def __init__(self, parse: Callable[[Record], T], max_bytes: int = 8_000_000) -> None:
        self.parse = parse
        self.known: BoundedCache[int, T] = BoundedCache(max_bytes)

    def add(self, record: Record, size: int) -> T:
        """Parse a record whose entry has some bytes, and keep the result."""
        value = self.parse(record)
        self.known.keep(record.seq, value, size)
        return value
