"""The awaited library is the synchronous one, word for word."""

import asyncio
import inspect

import pytest

import lukasa
import lukasa.aio
from lukasa.memory import Memory


@pytest.mark.requirement("DOO-1")
def test_what_is_written_by_await_is_read_by_await(tmp_path):
    async def scenario():
        async with await lukasa.aio.open(tmp_path / "a.db", agent="orion") as memory:
            written = await memory.journal.write("note", "the build is green")
            texts = [record.text async for record in memory.journal.read()]
            return (
                written.record.key,
                texts,
                (await memory.journal.get(written.record.key)).author,
                memory.journal.author,
            )

    key, texts, author, own = asyncio.run(scenario())
    assert (key.kind, texts, author, own) == ("note", ["the build is green"], "orion", "orion")


@pytest.mark.requirement("DOO-1")
def test_many_tasks_write_at_once_and_nothing_is_lost(tmp_path):
    async def scenario():
        async with await lukasa.aio.open(tmp_path / "a.db") as memory:
            await asyncio.gather(*(memory.journal.write("note", f"note {n}") for n in range(200)))
            return [record.text async for record in memory.journal.read()]

    assert sorted(asyncio.run(scenario())) == sorted(f"note {n}" for n in range(200))


@pytest.mark.requirement("DOO-1")
@pytest.mark.parametrize("room", ["", *sorted(Memory.SERVICES)])
def test_every_public_method_can_be_awaited(room, tmp_path):
    async def scenario():
        async with await lukasa.aio.open(tmp_path / "a.db") as memory:
            awaited = getattr(memory, room) if room else memory
            for name, _ in inspect.getmembers(type(awaited._inner), callable):
                if not name.startswith("_"):
                    assert callable(getattr(awaited, name)), name
                    assert name in dir(awaited), name
            assert not hasattr(awaited, "no_such_method")

    asyncio.run(scenario())


def test_errors_come_through_unchanged(tmp_path):
    async def scenario():
        memory = await lukasa.aio.open(tmp_path / "a.db")
        await memory.close()
        await memory.journal.tip()

    with pytest.raises(lukasa.errors.StoreClosed):
        asyncio.run(scenario())
