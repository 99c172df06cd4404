"""The same library, awaited. Every method of the synchronous objects runs in a thread; nothing is written twice.

async with await lukasa.aio.open("agents.db") as memory:
    await memory.journal.write("note", "the build is green")
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Generic, Self, TypeVar

from lukasa.memory import Memory, open_memory

T = TypeVar("T")
_PAGE_SIZE = 256


class AsyncProxy(Generic[T]):
    """Stands in for a synchronous object: its methods are awaited, its rooms are wrapped, its values are plain."""

    def __init__(self, inner: T) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(self._inner, name)
        if name in getattr(self._inner, "SERVICES", ()):
            return AsyncProxy(value)
        if inspect.isgeneratorfunction(value):
            return functools.partial(_stream_in_thread, value)
        return functools.partial(_run_in_thread, value) if callable(value) else value

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._inner) if not name.startswith("_")]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def open(*arguments: Any, **options: Any) -> AsyncProxy[Memory]:
    """Opens a store as ``lukasa.open`` does."""
    return AsyncProxy(await _run_in_thread(open_memory, *arguments, **options))


def _run_in_thread(function: Callable[..., T], *arguments: Any, **options: Any) -> Awaitable[T]:
    return asyncio.to_thread(function, *arguments, **options)


async def _stream_in_thread(function: Callable[..., Iterator[T]], *arguments: Any, **options: Any) -> AsyncIterator[T]:
    """A generator, drawn page by page in a thread."""
    items = function(*arguments, **options)

    def next_page() -> list[T]:
        return [item for _, item in zip(range(_PAGE_SIZE), items, strict=False)]

    while drawn := await asyncio.to_thread(next_page):
        for item in drawn:
            yield item
