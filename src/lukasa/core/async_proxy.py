"""Await a synchronous object: every call and every property runs in a thread, never on the event loop.

An ``AsyncProxy`` names an object, or an attribute of one, without touching it. Nothing is imported or read before the
proxy is used: a call returns an ``AsyncCall``, and awaiting a proxy returns its value. Attributes that are plain data of
an object that is already there, such as ``memory.journal.author``, come back as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import is_dataclass
from itertools import islice
from pathlib import PurePath
from typing import Any, Self

PAGE_SIZE = 256
"""How many items of a stream one trip to a thread fetches."""

LIVE_CLASSES = frozenset(
    {"AgentMemory", "Conversations", "Jobs", "Journal", "Memory", "MemoryGraph", "RunningEpisode", "Session"}
)
"""Classes of results that do more than hold data. A result of one of them comes back as a proxy."""


class AsyncProxy:
    """An object whose methods are awaited."""

    def __init__(self, resolve: Callable[[], Any], executor: Executor | None = None, name: str = "") -> None:
        self._resolve = resolve
        self._executor = executor
        self._name = name

    @classmethod
    def of(cls, value: Any, executor: Executor | None = None) -> Self:
        """Return a proxy of an object that is already there."""
        proxy = cls(lambda: value, executor)
        proxy.__dict__["_value"] = value
        return proxy

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = self.__dict__.get("_value")
        if value is not None:
            fields = getattr(value, "__dict__", {})
            if name in fields:
                return fields[name] if _is_plain(fields[name]) else AsyncProxy.of(fields[name], self._executor)
            if not hasattr(type(value), name) and name not in dir(value):
                raise AttributeError(f"{type(value).__name__!r} object has no attribute {name!r}")
        owner = self._name or type(value).__name__
        return AsyncProxy(lambda: getattr(self._resolve(), name), self._executor, f"{owner}.{name}")

    def __repr__(self) -> str:
        value = self.__dict__.get("_value")
        return f"<awaited {self._name or type(self).__name__}>" if value is None else f"<awaited {value!r}>"

    def __dir__(self) -> list[str]:
        return [name for name in dir(self.__dict__.get("_value", object())) if not name.startswith("_")]

    def __call__(self, *arguments: Any, **options: Any) -> AsyncCall:
        return AsyncCall(lambda: self._resolve()(*arguments, **options), self._executor)

    def __await__(self) -> Generator[Any, None, Any]:
        return AsyncCall(self._resolve, self._executor).__await__()

    async def __aenter__(self) -> Self:
        await run_in_thread(self._executor, lambda: self._resolve().__enter__())
        return self

    async def __aexit__(self, *error: object) -> None:
        await run_in_thread(self._executor, lambda: self._resolve().__exit__(*error))


class AsyncOpening:
    """A call that opens something: ``await`` it for the open object, or enter it with ``async with``, which closes it too."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._opened: AsyncProxy | None = None

    def __await__(self) -> Generator[Any, None, AsyncProxy]:
        return self._open().__await__()

    async def _open(self) -> AsyncProxy:
        return AsyncProxy.of(await run_in_thread(None, self._call))

    async def __aenter__(self) -> AsyncProxy:
        self._opened = await self._open()
        return await self._opened.__aenter__()

    async def __aexit__(self, *error: object) -> None:
        assert self._opened is not None
        await self._opened.__aexit__(*error)


class AsyncCall:
    """A call that has not run yet: ``await`` it, iterate it with ``async for``, or enter it with ``async with``."""

    def __init__(self, call: Callable[[], Any], executor: Executor | None) -> None:
        self._call = call
        self._executor = executor
        self._context: AbstractContextManager[Any] | None = None

    def __await__(self) -> Generator[Any, None, Any]:
        return self._run_and_wrap().__await__()

    async def _run_and_wrap(self) -> Any:
        return _wrap(await run_in_thread(self._executor, self._call), self._executor)

    async def __aiter__(self) -> AsyncIterator[Any]:
        items: Iterator[Any] = iter(await run_in_thread(self._executor, self._call))
        while page := await run_in_thread(self._executor, lambda: list(islice(items, PAGE_SIZE))):
            for item in page:
                yield _wrap(item, self._executor)

    async def __aenter__(self) -> Any:
        """Enter the context manager that the call returns. One thread serves it until it is left."""
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="lukasa-snapshot")
        try:
            self._context = await run_in_thread(self._executor, self._call)
            entered = await run_in_thread(self._executor, self._context.__enter__)
        except BaseException:
            self._executor.shutdown(wait=False)
            raise
        return AsyncProxy.of(entered, self._executor)

    async def __aexit__(self, *error: Any) -> bool:
        assert self._context is not None
        assert self._executor is not None
        leave = self._context.__exit__
        try:
            return bool(await run_in_thread(self._executor, lambda: leave(*error)))
        finally:
            self._executor.shutdown(wait=False)


async def run_in_thread(executor: Executor | None, call: Callable[[], Any]) -> Any:
    """Run a call in an executor; ``None`` is the default one."""
    return await asyncio.get_running_loop().run_in_executor(executor, call)


def _is_plain(value: Any) -> bool:
    """Tell data that can be read without I/O from objects that do more."""
    if isinstance(value, str | int | float | tuple | frozenset | PurePath | None):
        return True
    return is_dataclass(value) and not isinstance(value, type) and bool(value.__dataclass_params__.frozen)  # type: ignore[attr-defined]  # every dataclass has it


def _wrap(value: Any, executor: Executor | None) -> Any:
    return AsyncProxy.of(value, executor) if type(value).__name__ in LIVE_CLASSES else value
