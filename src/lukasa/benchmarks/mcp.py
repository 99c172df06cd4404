"""What the protocol costs: remember and recall over stdio and over HTTP, beside the same calls of the library.

Each side has a store of its own with the same memories. They take turns call by call, so that all meet the same machine:
a server sleeps between calls and finds the processor's caches cold, and so does the library here. The servers are processes
started by the command line, the clients are the SDK's. A recall of the library is the call alone; a tool also makes the
fenced block and counts its tokens, so its overhead holds that too.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from lukasa.benchmarks.notes import Notes
from lukasa.benchmarks.report import Bar, Machine, Report, Row, row
from lukasa.benchmarks.rounds import compare
from lukasa.benchmarks.store import Progress
from lukasa.errors import MissingExtra, StoreUnavailable
from lukasa.memory import open_memory

SIZE = 1_000
ROUNDS = 5
CALLS = 60
SEED = 2026
OVERHEAD_BAR = Bar("lukasa", "most", 0.005)
_TOKEN = "only-for-this-benchmark"  # noqa: S105 - made up, for one run
_WORDS = 12

Deed = Callable[[str], Awaitable[Any]]


class Side:
    """One way to the same memory: how to remember and how to recall by it."""

    def __init__(self, name: str, remember: Deed, recall: Deed) -> None:
        self.name, self.remember, self.recall = name, remember, recall


def run(size: int = SIZE, rounds: int = ROUNDS, *, calls: int = CALLS, progress: Progress | None = None) -> Report:
    """Measures both calls by all three ways."""
    _require()
    from anyio.from_thread import start_blocking_portal

    began = perf_counter()
    with TemporaryDirectory(prefix="lukasa-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        machine = Machine.here(folder)
        profile = folder / "profile.yaml"
        profile.write_text("memory: {capacity: 10000000, similarity_threshold: 0.99}\n")
        notes = Notes(SEED)
        texts = [_short(note.text) for note in notes.take(size)]
        portal = stack.enter_context(start_blocking_portal())
        sides = [enter(stack, portal, folder, profile, texts) for enter in (_library, _stdio, _http)]
        rows: list[Row] = []
        for at, case in enumerate(("remember", "recall")):
            if progress is not None:
                progress(case, at, 2)
            found = []
            for _ in range(rounds):
                told = notes.take(calls) if case == "remember" else ()
                items = [_short(note.text) for note in told] or notes.questions(calls)
                found.append(portal.call(_in_turns, [getattr(side, case) for side in sides], items))
            rows += _rows(case, size, sides, found)
        return Report("mcp", machine, rounds, SEED, perf_counter() - began, tuple(rows))


async def _in_turns(deeds: Sequence[Deed], items: Sequence[str]) -> list[list[float]]:
    """How long each deed took on each item, one after the other."""
    took: list[list[float]] = [[] for _ in deeds]
    for item in items:
        for deed, seconds in zip(deeds, took, strict=True):
            began = perf_counter()
            await deed(item)
            seconds.append(perf_counter() - began)
    return took


def _rows(case: str, size: int, sides: Sequence[Side], found: Sequence[Sequence[Sequence[float]]]) -> list[Row]:
    medians = [[statistics.median(took[at]) for took in found] for at in range(len(sides))]
    rates = [[len(took[at]) / sum(took[at]) for took in found] for at in range(len(sides))]
    rows = []
    for at, side in list(enumerate(sides))[1:]:
        rows.append(row(f"{case} over {side.name}, median", size, "s", compare(medians[at], medians[0])))
        rows.append(row(f"{case} over {side.name}, one after another", size, "per_s", compare(rates[at], rates[0])))
        over = statistics.median(
            own - library for took in found for own, library in zip(took[at], took[0], strict=True)
        )
        bar = OVERHEAD_BAR if (case, side.name) == ("recall", "stdio") else None
        rows.append(Row(f"{case} over {side.name}, above the library", size, "s", over, 0.0, bar=bar))
    return rows


def _short(text: str) -> str:
    return " ".join(text.split()[:_WORDS])


def _filled(folder: Path, name: str, profile: Path, texts: Sequence[str]) -> Path:
    """A store with these memories, each with its vector."""
    place = folder / f"{name}.db"
    with open_memory(place, embedder="hash", profile=profile) as memory:
        memory.vault.bulk_add(texts)
        memory.recall("all of them", 1, patience=600.0)
    return place


def _library(stack: ExitStack, _: Any, folder: Path, profile: Path, texts: Sequence[str]) -> Side:
    memory = stack.enter_context(open_memory(_filled(folder, "library", profile, texts), profile=profile))

    async def remember(text: str) -> None:
        memory.vault.add_memory(text, source="chat")

    async def recall(text: str) -> None:
        memory.recall(text, 8)

    return Side("library", remember, recall)


def _stdio(stack: ExitStack, portal: Any, folder: Path, profile: Path, texts: Sequence[str]) -> Side:
    from mcp.client.stdio import StdioServerParameters

    words = ["-m", "lukasa.doors.cli", "--store", str(_filled(folder, "stdio", profile, texts)), "mcp"]
    told = StdioServerParameters(command=sys.executable, args=words, env={"LUKASA_PROFILE": str(profile)})
    return _client(stack, portal, "stdio", told)


def _http(stack: ExitStack, portal: Any, folder: Path, profile: Path, texts: Sequence[str]) -> Side:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    url = stack.enter_context(_listening(_filled(folder, "http", profile, texts), profile))
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {_TOKEN}"}, timeout=60)
    return _client(stack, portal, "HTTP", streamable_http_client(url, http_client=http))


def _client(stack: ExitStack, portal: Any, name: str, server: Any) -> Side:
    from mcp import Client

    client: Any = stack.enter_context(portal.wrap_async_context_manager(Client(server)))

    async def call(tool: str, **arguments: Any) -> None:
        answer = await client.call_tool(tool, arguments)
        if answer.is_error:
            raise StoreUnavailable(f"The server could not do its work: {answer.content[0].text[:200]}")

    return Side(name, lambda text: call("remember", text=text), lambda text: call("recall", query=text))


@contextmanager
def _listening(store: Path, profile: Path) -> Iterator[str]:
    words = [sys.executable, "-m", "lukasa.doors.cli", "--store", str(store), "mcp", "--http", "127.0.0.1:0"]
    environment = {**os.environ, "LUKASA_TOKEN": _TOKEN, "LUKASA_PROFILE": str(profile)}
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment) as process:  # noqa: S603 - our own
        assert process.stderr is not None
        told = process.stderr.readline()
        try:
            found = re.search(r"http://\S+", told)
            if found is None:
                raise StoreUnavailable(f"The server did not start: {told.strip()}")
            yield found[0]
        finally:
            process.terminate()


def _require() -> None:
    try:
        import mcp  # noqa: F401
    except ImportError as error:
        raise MissingExtra("The MCP client is not installed.", hint="Run: pip install 'lukasa[mcp]'") from error
