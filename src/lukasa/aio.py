"""The same library for asyncio: every call is awaited and runs in a thread.

    async with await lukasa.aio.open("agents.db") as memory:
        await memory.remember("We deploy on Tuesdays.")
        async for record in memory.journal.read():
            print(record.text)

The types of the awaited objects are in ``aio.pyi``, which ``tools/generate_aio.py`` writes from the synchronous classes.
"""

from __future__ import annotations

from typing import Any

from lukasa.core.async_proxy import AsyncProxy, run_in_thread
from lukasa.memory import open_memory


async def open(*arguments: Any, **options: Any) -> AsyncProxy:
    """Open a store as ``lukasa.open`` does."""
    return AsyncProxy.of(await run_in_thread(None, lambda: open_memory(*arguments, **options)))


async def connect(*arguments: Any, **options: Any) -> AsyncProxy:
    """Connect to a server as ``lukasa.connect`` does."""
    from lukasa import client

    return AsyncProxy.of(client.connect(*arguments, **options))
