"""Tests of the awaited library: the same behaviour and types as the synchronous one, and a free event loop."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, assert_type

import pytest

import lukasa
import lukasa.aio
from lukasa.memory import SERVICES
from lukasa.memory_graph import Entity
from lukasa.recall.recall import RecallResult
from lukasa.testing import CountingIds, FrozenClock
from lukasa.vault import VaultMemory

ROOT = Path(__file__).parent.parent
OPTIONS: dict[str, Any] = {"embedder": "hash", "agent": "orion"}


def deterministic() -> dict[str, Any]:
    """Return options that make two stores equal byte for byte."""
    return {"clock": FrozenClock(), "new_id": CountingIds("id-"), "rng": random.Random(7), "embedder": "hash"}


@pytest.mark.requirement("DOO-1")
def test_what_is_written_by_await_is_read_by_await(tmp_path: Path) -> None:
    async def scenario() -> tuple[str, list[str], str]:
        async with await lukasa.aio.open(tmp_path / "a.db", **OPTIONS) as memory:
            written = await memory.journal.write("note", "the build is green")
            assert isinstance(written, lukasa.Accepted)
            texts = [record.text async for record in memory.journal.read()]
            stored = await memory.journal.get(written.record.key)
            assert stored is not None
            return stored.author, texts, memory.journal.author

    assert asyncio.run(scenario()) == ("orion", ["the build is green"], "orion")


@pytest.mark.requirement("DOO-1")
def test_the_three_verbs_are_awaited_and_typed(tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        async with await lukasa.aio.open(tmp_path / "a.db", **OPTIONS) as memory:
            outcome = await memory.remember("We deploy on Tuesdays.")
            assert isinstance(outcome, lukasa.Accepted)
            found = await memory.recall("when do we deploy?")
            assert_type(found, RecallResult)
            kept = await memory.vault.get(outcome.record.id)
            assert_type(kept, VaultMemory | None)
            assert await memory.forget(outcome.record.id)
            return [hit.text for hit in found.hits]

    assert asyncio.run(scenario()) == ["We deploy on Tuesdays."]


@pytest.mark.requirement("DOO-1")
def test_many_tasks_write_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        async with await lukasa.aio.open(tmp_path / "a.db") as memory:
            await asyncio.gather(*(memory.journal.write("note", f"note {number}") for number in range(200)))
            return [record.text async for record in memory.journal.read()]

    assert sorted(asyncio.run(scenario())) == sorted(f"note {number}" for number in range(200))


@pytest.mark.requirement("DOO-1")
@pytest.mark.parametrize("store", ["a.db", "memory:", "postgresql"])
def test_a_snapshot_is_entered_and_left_asynchronously(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    location = (
        request.getfixturevalue("url") if store == "postgresql" else store.replace("a.db", str(tmp_path / "a.db"))
    )

    async def scenario() -> tuple[int, int]:
        async with await lukasa.aio.open(location) as memory:
            await memory.journal.write("note", "one")
            async with memory.journal.snapshot() as snapshot:
                before = await snapshot.tip()
                records = await snapshot.read()
            return before, len(records)

    tip, count = asyncio.run(scenario())
    assert tip > 0
    assert count == 1


@pytest.mark.requirement("DOO-1")
def test_a_session_is_awaited_like_the_memory(tmp_path: Path) -> None:
    async def scenario() -> Any:
        async with await lukasa.aio.open(tmp_path / "a.db") as memory:
            async with await memory.sessions.start("demo") as session:
                assert await session.update("/configuration/mode", "careful")
            return await memory.sessions.state("demo")

    assert asyncio.run(scenario())["configuration"]["mode"] == "careful"


Step = Callable[[Any], Any]
STEPS: dict[str, Step] = {
    "vault": lambda memory: memory.vault.add_memory("Deploys run on Tuesday.", "shared", "process"),
    "refusal": lambda memory: memory.vault.add_memory("tick marker for burst 5", "shared", "status"),
    "turn": lambda memory: memory.context.append("c1", "user", "Staging is heron. Never restart it by day."),
    "load": lambda memory: memory.context.load("c1"),
    "episode": lambda memory: memory.episodes.add([{"context": {"goal": "Add an endpoint"}, "outcome": "success"}]),
    "fact": lambda memory: memory.knowledge.add_fact("The queue is called heron."),
    "ledger": lambda memory: memory.ledgers.checkpoint("orion", current_task="endpoint"),
    "prediction": lambda memory: memory.forecasts.predict("m1", 0.7),
    "dissent": lambda memory: memory.trust.participate("orion", "round-1"),
    "graph": lambda memory: memory.graph.create_entities([Entity("heron", "database")]),
    "rubric": lambda memory: memory.trust.rubric.proposals(),
    "recall": lambda memory: memory.recall("when do we deploy?"),
    "briefing": lambda memory: memory.before_task("Add an endpoint"),
    "quarantine": lambda memory: memory.journal.quarantine("elysia", reason="test"),
    "verify": lambda memory: memory.verify(),
}
"""One call per service, the same for both libraries."""


@pytest.mark.requirement("DOO-1")
def test_the_same_calls_give_the_same_results_and_the_same_log(tmp_path: Path) -> None:
    with lukasa.open(tmp_path / "sync.db", **deterministic()) as memory:
        expected = {name: outcome_or_error(step, memory) for name, step in STEPS.items()}
        memory.export(tmp_path / "sync.jsonl")

    async def scenario() -> dict[str, str]:
        results = {}
        async with await lukasa.aio.open(tmp_path / "async.db", **deterministic()) as memory:
            for name, step in STEPS.items():
                try:
                    results[name] = comparable(await step(memory))
                except Exception as error:  # noqa: BLE001 - errors must be equal too
                    results[name] = repr(error)
            await memory.export(tmp_path / "async.jsonl")
        return results

    assert asyncio.run(scenario()) == expected
    assert (tmp_path / "async.jsonl").read_bytes() == (tmp_path / "sync.jsonl").read_bytes()
    assert [name for name, result in expected.items() if "Error(" in result] == []


def outcome_or_error(step: Step, memory: lukasa.Memory) -> str:
    """Return a comparable form of what a call returns or raises."""
    try:
        return comparable(step(memory))
    except Exception as error:  # noqa: BLE001 - errors must be equal too
        return repr(error)


def comparable(value: Any) -> str:
    """Return a representation without addresses in memory."""
    return "object" if " at 0x" in repr(value) else repr(value)


@pytest.mark.requirement("DOO-1")
@pytest.mark.parametrize("service", ["", "journal", "jobs", *sorted(SERVICES)])
def test_an_unknown_name_is_an_attribute_error(service: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await lukasa.aio.open(tmp_path / "a.db", embedder="hash") as memory:
            target: Any = getattr(memory, service) if service else memory
            with pytest.raises(AttributeError):
                await target.no_such_method()

    asyncio.run(scenario())


@pytest.mark.requirement("DOO-1")
def test_nothing_heavy_is_imported_on_the_event_loop(tmp_path: Path) -> None:
    """Run a fresh interpreter and note every import that happens on the thread of the event loop."""
    code = f"""
import asyncio, sys, threading
import lukasa, lukasa.aio
loop_thread = threading.get_ident()
on_loop = []
sys.addaudithook(lambda event, arguments: on_loop.append(arguments[0])
                 if event == "import" and threading.get_ident() == loop_thread and watching else None)
watching = False
async def main():
    global watching
    async with await lukasa.aio.open({str(tmp_path / "a.db")!r}) as memory:
        watching = True
        await memory.remember("We deploy on Tuesdays.")
        await memory.recall("when do we deploy?")
        await memory.sessions.start("demo")
        await memory.episodes.newest()
        watching = False
asyncio.run(main())
print(*[name for name in on_loop if name.startswith(("lukasa", "numpy", "apsw", "rapidfuzz"))])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.returncode, run.stdout.split()) == (0, []), run.stderr


def test_calls_run_outside_the_thread_of_the_event_loop(tmp_path: Path) -> None:
    threads: list[int] = []

    async def scenario() -> None:
        async with await lukasa.aio.open(tmp_path / "a.db") as memory:

            def condition(reader: Any) -> list[lukasa.Draft]:
                threads.append(threading.get_ident())
                return [lukasa.Draft("note", "from a condition")]

            waiting: Awaitable[Any] = memory.journal.append_if(condition)
            assert await waiting

    asyncio.run(scenario())
    assert threads
    assert threading.get_ident() not in threads


def test_errors_come_through_unchanged(tmp_path: Path) -> None:
    async def scenario() -> None:
        memory = await lukasa.aio.open(tmp_path / "a.db")
        await memory.close()
        await memory.journal.tip()

    with pytest.raises(lukasa.errors.StoreClosed):
        asyncio.run(scenario())


def test_the_types_match_the_synchronous_library() -> None:
    """Fail when aio.pyi is older than the classes it describes."""
    command = [sys.executable, "tools/generate_aio.py", "--check"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stdout + run.stderr
