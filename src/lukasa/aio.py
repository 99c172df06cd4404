"""The same library for asyncio: every call is awaited and runs in a thread.

    async with lukasa.aio.open("agents.db") as memory:
        await memory.remember("We deploy on Tuesdays.")
        async for record in memory.journal.read():
            print(record.text)

The types of the awaited objects are in ``aio.pyi``, which ``tools/generate_aio.py`` writes from the synchronous classes.
"""

from __future__ import annotations

from typing import Any

from lukasa.core.async_proxy import AsyncOpening
from lukasa.memory import open_memory


def open(*arguments: Any, **options: Any) -> AsyncOpening:
    """Open a store as ``lukasa.open`` does: await it, or enter it with ``async with``."""
    return AsyncOpening(lambda: open_memory(*arguments, **options))


def connect(*arguments: Any, **options: Any) -> AsyncOpening:
    """Connect to a server as ``lukasa.connect`` does: await it, or enter it with ``async with``."""
    from lukasa import client

    return AsyncOpening(lambda: client.connect(*arguments, **options))
