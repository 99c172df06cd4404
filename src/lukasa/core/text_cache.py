"""Caches of values made of texts: bounded in bytes, and emptied when a store erases or compacts.

An erasure removes words from the process too. So a cache that may hold texts of records, or what was made of them, is
registered here: a function with ``cache_texts``, values by key with ``BoundedCache``, anything else that has a ``clear``
with ``register_cache``.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Hashable
from functools import _lru_cache_wrapper, lru_cache, wraps
from itertools import islice
from typing import Any, Protocol, TypeVar
from weakref import ref

K = TypeVar("K")
T = TypeVar("T")

_ENTRY_BYTES = 200
_ITEM_BYTES = 160


class Clearable(Protocol):
    """What forgets everything when it is cleared, and allows weak references."""

    def clear(self) -> None:
        """Forget everything."""


_emptied_by: dict[int, tuple[ref[Any], str]] = {}
"""The caches that live, by their identity, each with the name of the method that empties it."""


def cache_texts(
    max_entries: int, max_bytes: int = 4_000_000, *, per_character: int = 2
) -> Callable[[Callable[..., T]], _lru_cache_wrapper[T]]:
    """Cache a function of texts as ``lru_cache`` does, with no cost on a hit, and start again when its bytes are full.

    ``per_character`` is about how many bytes an argument and the result made of it take for each character of the argument.
    An entry that is evicted still counts, so that a hit needs no bookkeeping.
    """

    def decorate(function: Callable[..., T]) -> _lru_cache_wrapper[T]:
        size = 0

        @lru_cache(max_entries)
        @wraps(function)
        def cached(*arguments: Hashable) -> T:
            nonlocal size
            result = function(*arguments)
            added = _ENTRY_BYTES
            for argument in arguments:
                if argument.__class__ is str:
                    added += per_character * len(argument)
                elif isinstance(argument, tuple | frozenset):
                    added += _ITEM_BYTES * len(argument)
            size += added
            if size > max_bytes:
                cached.cache_clear()
                size = added
            return result

        cached.__wrapped__ = function
        _remember(cached, "cache_clear")
        return cached

    return decorate


def register_cache(cache: Clearable) -> None:
    """Empty a cache, as long as it lives, whenever ``empty_caches`` is called."""
    _remember(cache, "clear")


class ClearedDict(dict[K, T]):
    """A dictionary that ``empty_caches`` empties."""

    def __init__(self) -> None:
        super().__init__()
        register_cache(self)


class BoundedCache(dict[K, T]):
    """Values by key, up to a number of bytes and of values. When it is full, the half that was kept first is dropped.

    ``empty_caches`` empties it. All callers get the same value, so nobody may change it.
    """

    def __init__(self, max_bytes: int, max_values: int = 1 << 62) -> None:
        super().__init__()
        self.max_bytes = max_bytes
        self._max_values = max_values
        self._sizes: dict[K, int] = {}
        self._bytes = 0
        self._lock = threading.Lock()
        register_cache(self)

    def keep(self, key: K, value: T, size: int) -> None:
        """Keep a value of about so many bytes, unless it would take more than a quarter of the cache."""
        if size > self.max_bytes // 4:
            return
        with self._lock:
            self._bytes += size - self._sizes.pop(key, 0)
            self._sizes[key] = size
            self[key] = value
            while self._bytes > self.max_bytes or len(self._sizes) > self._max_values:
                for oldest in list(islice(self._sizes, (len(self._sizes) + 1) // 2)):  # one by one takes longer
                    self._bytes -= self._sizes.pop(oldest)
                    del self[oldest]

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            super().clear()
            self._sizes.clear()
            self._bytes = 0


def _remember(cache: Any, method: str) -> None:
    number = id(cache)
    _emptied_by[number] = (ref(cache, lambda _: _emptied_by.pop(number, None)), method)


def empty_caches() -> None:
    """Empty every cache of texts in this process. Values that a caller holds stay; values that are read next are cached again."""
    for living, method in _emptied_by.copy().values():
        if (cache := living()) is not None:
            getattr(cache, method)()
    re.purge()  # patterns may be made of names
