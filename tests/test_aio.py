"""Tests of the awaited library: the same behaviour and types as the synchronous one, and a free event loop."""

from __future__ import annotations

import ast
import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, assert_type

import pytest

import lukasa
import lukasa.aio
from lukasa.memory import SERVICES
from lukasa.recall.recall import RecallResult
from lukasa.vault import VaultMemory

ROOT = Path(__file__).parent.parent
OPTIONS: dict[str, Any] = {"embedder": "hash", "agent": "orion"}


@pytest.mark.requirement("DOO-1")
def test_what_is_written_by_await_is_read_by_await(tmp_path: Path) -> None:
    async def scenario() -> tuple[str, list[str], str]:
        async with lukasa.aio.open(tmp_path / "a.db", **OPTIONS) as memory:
            written = await memory.journal.write("note", "the build is green")
            assert isinstance(written, lukasa.Accepted)
            texts = [record.text async for record in memory.journal.read()]
            stored = await memory.journal.get(written.record.key)
            assert stored is not None
            return stored.author, texts, memory.journal.author

    assert asyncio.run(scenario()) == ("orion", ["the build is green"], "orion")


@pytest.mark.requirement("DOO-1")
def test_a_store_is_awaited_or_entered_and_closed_when_it_is_left() -> None:
    async def scenario() -> None:
        async with lukasa.aio.open("memory:", **OPTIONS) as entered:
            assert await entered.remember("We deploy on Tuesdays.")
        with pytest.raises(lukasa.StoreClosed):
            await entered.remember("We deploy on Fridays.")
        awaited = await lukasa.aio.open("memory:", **OPTIONS)
        assert repr(awaited) == "<awaited <Memory of memory: for orion>>"
        assert repr(awaited.vault.get) == "<awaited Memory.vault.get>"
        async with awaited as same:
            assert same is awaited
        with pytest.raises(lukasa.StoreClosed):
            await awaited.remember("We deploy on Fridays.")
        async with lukasa.aio.connect("http://127.0.0.1:9", retries=0) as remote:
            with pytest.raises(lukasa.StoreUnavailable):
                await remote.recall("when do we deploy?")

    asyncio.run(scenario())


@pytest.mark.requirement("DOO-1")
def test_the_three_verbs_are_awaited_and_typed(tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        async with lukasa.aio.open(tmp_path / "a.db", **OPTIONS) as memory:
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
        async with lukasa.aio.open(tmp_path / "a.db") as memory:
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
        async with lukasa.aio.open(location) as memory:
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
        async with lukasa.aio.open(tmp_path / "a.db") as memory:
            async with await memory.sessions.start("demo") as session:
                assert await session.update("/configuration/mode", "careful")
            return await memory.sessions.state("demo")

    assert asyncio.run(scenario())["configuration"]["mode"] == "careful"


NOT_AWAITED = {
    "Forecasts.count_versions": "called by Session.state",
    "Forecasts.fill_sections": "called by Session.state",
    "Journal.check_raw": "takes the reader of a condition; the hub calls it",
    "Journal.with_valid_bodies": "takes and returns synchronous journals; services use Memory.valid_journal",
    "Jobs.seen_by": "takes a synchronous journal; callers use Memory.as_agent",
    "Session.begin": "called by Sessions.start",
    "Session.reopen": "called by Sessions.start",
    "Session.restore": "called by Sessions.recover",
    "Session.settle": "called by Sessions.recover",
    "Session.run": "installs signal handlers, which only the main thread may do",
}
"""Public calls that no test awaits by themselves, with the reason."""


@pytest.fixture(scope="module")
def parity(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the same calls through both libraries in another process; return the folder with their results."""
    folder = tmp_path_factory.mktemp("parity")
    command = [sys.executable, str(ROOT / "tests" / "support" / "aio_parity.py"), str(folder)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return folder


@pytest.mark.requirement("DOO-1")
@pytest.mark.parametrize("name", ["results.txt", "answers.json", "log.jsonl", "prompts", "layouts"])
def test_awaited_calls_return_and_write_the_same(parity: Path, name: str) -> None:
    expected, awaited = (
        {path.relative_to(parity / side): path.read_bytes() for path in files_of(parity / side / name)}
        for side in ("sync", "awaited")
    )
    assert expected
    assert awaited == expected


def files_of(path: Path) -> list[Path]:
    """List the files of a folder; a file is a list of itself."""
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


@pytest.mark.requirement("DOO-1")
def test_every_public_call_is_awaited_and_compared(parity: Path) -> None:
    awaited = set((parity / "calls.txt").read_text("utf-8").split())
    assert public_calls() - awaited == set(NOT_AWAITED)


def public_calls() -> set[str]:
    """List the methods and properties of aio.pyi as ``Class.name``, by the names of the synchronous classes."""
    tree = ast.parse((ROOT / "src" / "lukasa" / "aio.pyi").read_text("utf-8"))
    return {
        f"{cls.name.removeprefix('Async')}.{member.name}"
        for cls in tree.body
        if isinstance(cls, ast.ClassDef)
        and not cls.name.startswith(("AsyncRemote", "AsyncOpening"))  # tests/test_client.py awaits those
        for member in cls.body
        if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and member.name not in ("__aenter__", "__aexit__")
    }


@pytest.mark.requirement("DOO-1")
@pytest.mark.parametrize("service", ["", "journal", "jobs", *sorted(SERVICES)])
def test_an_unknown_name_is_an_attribute_error(service: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with lukasa.aio.open(tmp_path / "a.db", embedder="hash") as memory:
            target: Any = getattr(memory, service) if service else memory
            with pytest.raises(AttributeError):
                await target.no_such_method()

    asyncio.run(scenario())


@pytest.mark.requirement("DOO-1")
def test_nothing_heavy_runs_on_the_event_loop(tmp_path: Path) -> None:
    """Run a fresh interpreter and note every import, opened file and database on the thread of the event loop."""
    code = f"""
import asyncio, sys, threading
import lukasa, lukasa.aio
loop_thread = threading.get_ident()
on_loop = []
watching = False
heavy = ("lukasa", "numpy", "apsw", "rapidfuzz")

def watch(event, arguments):
    if not watching or threading.get_ident() != loop_thread:
        return
    if event == "open" or event.startswith("sqlite3") or (event == "import" and arguments[0].startswith(heavy)):
        on_loop.append((event, arguments[0]))

sys.addaudithook(watch)
import apsw
apsw.connection_hooks.append(lambda _: on_loop.append(("database", "")) if threading.get_ident() == loop_thread else None)

async def main():
    global watching
    watching = True
    async with lukasa.aio.open({str(tmp_path / "a.db")!r}) as memory:
        await memory.remember("We deploy on Tuesdays.")
        await memory.recall("when do we deploy?")
        await memory.episodes.list()
        await memory.context.append("c1", "user", "Staging is heron.")
        await memory.trust.agents()
        async with await memory.sessions.start("demo") as session:
            await session.state
        async with memory.journal.snapshot() as snapshot:
            await snapshot.match_text("deploy")
        _ = [record async for record in memory.journal.read()]
    watching = False

asyncio.run(main())
print(on_loop)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.returncode, run.stdout.strip()) == (0, "[]"), run.stdout + run.stderr


@pytest.mark.requirement("DOO-1")
def test_type_checkers_know_the_types_of_awaited_calls(tmp_path: Path) -> None:
    """Type-check a program that uses lukasa.aio, with one wrong line."""
    program = tmp_path / "program.py"
    program.write_text(TYPED_PROGRAM, "utf-8")
    options = ["--strict", "--no-incremental", "--cache-dir", str(tmp_path / "cache")]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(program)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
    )
    errors = [line.partition("program.py:")[2] for line in run.stdout.splitlines() if ": error:" in line]
    wrong = [str(number) for number, line in enumerate(TYPED_PROGRAM.splitlines(), 1) if "wrong" in line]
    assert [error.partition(":")[0] for error in errors] == wrong, run.stdout + run.stderr


TYPED_PROGRAM = """
import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import assert_type

import lukasa.aio
from lukasa import Accepted, Conflict, Record, Refused
from lukasa.aio import AsyncMemory, AsyncReader, AsyncSession
from lukasa.experience.episodes import Episode
from lukasa.recall.recall import RecallResult
from lukasa.vault import VaultMemory


async def main() -> None:
    async with lukasa.aio.open("a.db", embedder="hash") as memory:
        assert_type(memory, AsyncMemory)
        assert_type(await memory.remember("text"), Accepted | Refused | Conflict)
        assert_type(await memory.recall("text", k=3), RecallResult)
        assert_type(await memory.vault.get("id"), VaultMemory | None)
        assert_type(await memory.episodes.list(), Sequence[Episode])
        assert_type(await memory.sessions.start("demo"), AsyncSession)
        assert_type(memory.journal.read(), AsyncIterator[Record])
        assert_type(memory.journal.author, str)
        assert_type(await memory.journal.home_scope, str | None)
        async with memory.journal.snapshot() as snapshot:
            assert_type(snapshot, AsyncReader)
            assert_type(await snapshot.tip(), int)
        wrong: int = await memory.remember("text")
        await memory.remebmer("a wrong name")
    memory = await lukasa.aio.open("a.db")
    assert_type(memory, AsyncMemory)
    lukasa.open("a.db").remebmer("a wrong name")
    lukasa.opne("a wrong name")


asyncio.run(main())
"""


def test_calls_run_outside_the_thread_of_the_event_loop(tmp_path: Path) -> None:
    threads: list[int] = []

    async def scenario() -> None:
        async with lukasa.aio.open(tmp_path / "a.db") as memory:

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
