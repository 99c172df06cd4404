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
    """One way to the same memory: how to remember and how to recall by it."""

    def __init__(self, name: str, remember: ClientCall, recall: ClientCall) -> None:
        self.name, self.remember, self.recall = name, remember, recall


def run(
    size: int = SIZE, rounds: int = ROUNDS, *, calls: int = CALLS, progress: Progress | None = None
) -> BenchmarkReport:
    """Measures both calls by all three ways."""
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
        for at, case in enumerate(("remember", "recall")):
            if progress is not None:
                progress(case, at, 2)
            found = []
            for _ in range(rounds):
                told = notes.take(calls) if case == "remember" else ()
                items = [_shorten(note.text) for note in told] or notes.questions(calls)
                found.append(portal.call(_time_in_turns, [getattr(side, case) for side in sides], items))
            rows += _result_rows(case, size, sides, found)
        return BenchmarkReport("mcp", machine, rounds, SEED, perf_counter() - began, tuple(rows))


async def _time_in_turns(client_calls: Sequence[ClientCall], items: Sequence[str]) -> list[list[float]]:
    """How long each deed took on each item, one after the other."""
    took: list[list[float]] = [[] for _ in client_calls]
    for item in items:
        for deed, seconds in zip(client_calls, took, strict=True):
            began = perf_counter()
            await deed(item)
            seconds.append(perf_counter() - began)
    return took


def _result_rows(
    case: str, size: int, sides: Sequence[AccessPath], timings: Sequence[Sequence[Sequence[float]]]
) -> list[BenchmarkRow]:
    medians = [[statistics.median(took[at]) for took in timings] for at in range(len(sides))]
    rates = [[len(took[at]) / sum(took[at]) for took in timings] for at in range(len(sides))]
    rows = []
    for at, side in list(enumerate(sides))[1:]:
        rows.append(comparison_row(f"{case} over {side.name}, median", size, "s", compare(medians[at], medians[0])))
        rows.append(
            comparison_row(f"{case} over {side.name}, one after another", size, "per_s", compare(rates[at], rates[0]))
        )
        over = statistics.median(
            own - library for took in timings for own, library in zip(took[at], took[0], strict=True)
        )
        bar = OVERHEAD_BAR if (case, side.name) == ("recall", "stdio") else None
        rows.append(BenchmarkRow(f"{case} over {side.name}, above the library", size, "s", over, 0.0, bar=bar))
    return rows


def _shorten(text: str) -> str:
    return " ".join(text.split()[:_MAX_TEXT_WORDS])


def _fill_store(folder: Path, name: str, profile: Path, texts: Sequence[str]) -> Path:
    """A store with these memories, each with its vector."""
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
    told = StdioServerParameters(command=sys.executable, args=words, env={"LUKASA_PROFILE": str(profile)})
    return _open_client(stack, portal, "stdio", told)


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
            raise StoreUnavailable(f"The server could not do its work: {answer.content[0].text[:200]}")

    return AccessPath(name, lambda text: call("remember", text=text), lambda text: call("recall", query=text))


@contextmanager
def _serve_http(store: Path, profile: Path) -> Iterator[str]:
    words = [sys.executable, "-m", "lukasa.interfaces.cli", "--store", str(store), "mcp", "--http", "127.0.0.1:0"]
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


def _require_mcp() -> None:
    try:
        import mcp  # noqa: F401
    except ImportError as error:
        raise MissingExtra("The MCP client is not installed.", hint="Run: pip install 'lukasa[mcp]'") from error
