"""Benchmark of MCP: remember and recall over stdio and over HTTP, compared with the same calls of the library.

Each side has a separate store with the same memories. They alternate call by call, so that all run under the same
conditions: a server is idle between calls and has cold caches, and so has the library here. The servers are processes started
by the command line, the clients are the SDK's. A recall of the library is the call alone; a tool also builds the fenced block
and counts its tokens, so its overhead includes that.
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

from lukasa.errors import MissingExtra, StoreUnavailable
from lukasa.memory import open_memory
from lukasa_bench.corpus import NoteCorpus
from lukasa_bench.interleave import compare
from lukasa_bench.report import BenchmarkBar, BenchmarkReport, BenchmarkRow, MachineInfo, comparison_row
from lukasa_bench.store import Progress

SIZE = 1_000
ROUNDS = 5
CALLS = 60
SEED = 2026
OVERHEAD_BAR = BenchmarkBar("lukasa", "most", 0.005)
_TOKEN = "only-for-this-benchmark"  # noqa: S105 - made up, for one run
_MAX_TEXT_WORDS = 12

ClientCall = Callable[[str], Awaitable[Any]]


class AccessPath:
    """One way to call the same memory."""

    def __init__(self, name: str, remember: ClientCall, recall: ClientCall) -> None:
        self.name, self.remember, self.recall = name, remember, recall


def run(
    size: int = SIZE, rounds: int = ROUNDS, *, calls: int = CALLS, progress: Progress | None = None
) -> BenchmarkReport:
    """Measure both calls by all three ways."""
    _require_mcp()
    from anyio.from_thread import start_blocking_portal

    began = perf_counter()
    with TemporaryDirectory(prefix="lukasa-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        machine = MachineInfo.measure(folder)
        profile = folder / "profile.yaml"
        profile.write_text("memory: {capacity: 10000000, similarity_threshold: 0.99}\n")
        notes = NoteCorpus(SEED)
        texts = [_shorten(note.text) for note in notes.take(size)]
        portal = stack.enter_context(start_blocking_portal())
        sides = [enter(stack, portal, folder, profile, texts) for enter in (_open_library, _open_stdio, _open_http)]
        rows: list[BenchmarkRow] = []
        for done, case in enumerate(("remember", "recall")):
            if progress is not None:
                progress(case, done, 2)
            found = []
            for _ in range(rounds):
                taken = notes.take(calls) if case == "remember" else ()
                items = [_shorten(note.text) for note in taken] or notes.questions(calls)
                found.append(portal.call(_time_in_turns, [getattr(side, case) for side in sides], items))
            rows += _result_rows(case, size, sides, found)
        return BenchmarkReport("mcp", machine, rounds, SEED, perf_counter() - began, tuple(rows))


async def _time_in_turns(client_calls: Sequence[ClientCall], items: Sequence[str]) -> list[list[float]]:
    """Return the seconds of each call on each item, made one after the other."""
    timings: list[list[float]] = [[] for _ in client_calls]
    for item in items:
        for call, seconds in zip(client_calls, timings, strict=True):
            began = perf_counter()
            await call(item)
            seconds.append(perf_counter() - began)
    return timings


def _result_rows(
    case: str, size: int, sides: Sequence[AccessPath], timings: Sequence[Sequence[Sequence[float]]]
) -> list[BenchmarkRow]:
    medians = [[statistics.median(seconds[index]) for seconds in timings] for index in range(len(sides))]
    rates = [[len(seconds[index]) / sum(seconds[index]) for seconds in timings] for index in range(len(sides))]
    rows = []
    for index, side in list(enumerate(sides))[1:]:
        rows.append(comparison_row(f"{case} over {side.name}, median", size, "s", compare(medians[index], medians[0])))
        rows.append(
            comparison_row(
                f"{case} over {side.name}, one after another", size, "per_s", compare(rates[index], rates[0])
            )
        )
        over = statistics.median(
            own - library for seconds in timings for own, library in zip(seconds[index], seconds[0], strict=True)
        )
        bar = OVERHEAD_BAR if (case, side.name) == ("recall", "stdio") else None
        rows.append(BenchmarkRow(f"{case} over {side.name}, above the library", size, "s", over, 0.0, bar=bar))
    return rows


def _shorten(text: str) -> str:
    return " ".join(text.split()[:_MAX_TEXT_WORDS])


def _fill_store(folder: Path, name: str, profile: Path, texts: Sequence[str]) -> Path:
    """Build a store with these memories and their vectors."""
    place = folder / f"{name}.db"
    with open_memory(place, embedder="hash", profile=profile) as memory:
        memory.vault.bulk_add(texts)
        memory.recall("all of them", 1, patience=600.0)
    return place


def _open_library(stack: ExitStack, _: Any, folder: Path, profile: Path, texts: Sequence[str]) -> AccessPath:
    memory = stack.enter_context(open_memory(_fill_store(folder, "library", profile, texts), profile=profile))

    async def remember(text: str) -> None:
        memory.vault.add_memory(text, source="chat")

    async def recall(text: str) -> None:
        memory.recall(text, 8)

    return AccessPath("library", remember, recall)


def _open_stdio(stack: ExitStack, portal: Any, folder: Path, profile: Path, texts: Sequence[str]) -> AccessPath:
    from mcp.client.stdio import StdioServerParameters

    words = ["-m", "lukasa.interfaces.cli", "--store", str(_fill_store(folder, "stdio", profile, texts)), "mcp"]
    server = StdioServerParameters(command=sys.executable, args=words, env={"LUKASA_PROFILE": str(profile)})
    return _open_client(stack, portal, "stdio", server)


def _open_http(stack: ExitStack, portal: Any, folder: Path, profile: Path, texts: Sequence[str]) -> AccessPath:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    url = stack.enter_context(_serve_http(_fill_store(folder, "http", profile, texts), profile))
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {_TOKEN}"}, timeout=60)
    return _open_client(stack, portal, "HTTP", streamable_http_client(url, http_client=http))


def _open_client(stack: ExitStack, portal: Any, name: str, server: Any) -> AccessPath:
    from mcp import Client

    client: Any = stack.enter_context(portal.wrap_async_context_manager(Client(server)))

    async def call(tool: str, **arguments: Any) -> None:
        answer = await client.call_tool(tool, arguments)
        if answer.is_error:
            raise StoreUnavailable(f"The call failed on the server: {answer.content[0].text[:200]}")

    return AccessPath(name, lambda text: call("remember", text=text), lambda text: call("recall", query=text))


@contextmanager
def _serve_http(store: Path, profile: Path) -> Iterator[str]:
    words = [sys.executable, "-m", "lukasa.interfaces.cli", "--store", str(store), "mcp", "--http", "127.0.0.1:0"]
    environment = {**os.environ, "LUKASA_TOKEN": _TOKEN, "LUKASA_PROFILE": str(profile)}
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment) as process:  # noqa: S603 - our own
        assert process.stderr is not None
        line = process.stderr.readline()
        try:
            found = re.search(r"http://\S+", line)
            if found is None:
                raise StoreUnavailable(f"The server did not start: {line.strip()}")
            yield found[0]
        finally:
            process.terminate()


def _require_mcp() -> None:
    try:
        import mcp  # noqa: F401
    except ImportError as error:
        raise MissingExtra("The MCP client is not installed.", hint="Run: pip install 'lukasa[mcp]'") from error
