"""What the protocol costs: remember and recall over stdio and over HTTP, beside the same calls of the library.

Each side has a store of its own with the same memories, and gets the same calls; they take turns, round by round. The
servers are processes started by the command line, the clients are the SDK's. A recall of the library is the call alone; a
tool also makes the fenced block and counts its tokens, so its overhead holds that too.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from lukasa.benchmarks.notes import Notes
from lukasa.benchmarks.report import Bar, Machine, Report, Row, row
from lukasa.benchmarks.rounds import alternate, compare, seconds_each
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

Deed = Callable[[str], Any]


class Side:
    """One way to the same memory: how to remember and how to recall by it."""

    def __init__(self, name: str, remember: Deed, recall: Deed) -> None:
        self.name, self.remember, self.recall = name, remember, recall


def run(size: int = SIZE, rounds: int = ROUNDS, *, calls: int = CALLS, progress: Progress | None = None) -> Report:
    """Measures both calls by all three ways."""
    began = perf_counter()
    with TemporaryDirectory(prefix="lukasa-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        machine = Machine.here(folder)
        profile = folder / "profile.yaml"
        profile.write_text("memory: {capacity: 10000000, similarity_threshold: 0.99}\n")
        notes = Notes(SEED)
        texts = [_short(note.text) for note in notes.take(size)]
        sides = [enter(stack, folder, profile, texts) for enter in (_library, _stdio, _http)]
        rows: list[Row] = []
        for at, case in enumerate(("remember", "recall")):
            if progress is not None:
                progress(case, at, 2)

            def prepare(case: str = case) -> list[str]:
                return (
                    [_short(note.text) for note in notes.take(calls)] if case == "remember" else notes.questions(calls)
                )

            def work(side: Side, items: Sequence[str], case: str = case) -> list[float]:
                return seconds_each(getattr(side, case), items)

            rows += _rows(case, size, sides, alternate(rounds, sides, prepare, work))
        return Report("mcp", machine, rounds, SEED, perf_counter() - began, tuple(rows))


def _rows(case: str, size: int, sides: Sequence[Side], found: Sequence[Sequence[Sequence[float]]]) -> list[Row]:
    medians = [[statistics.median(took) for took in side] for side in found]
    rates = [[len(took) / sum(took) for took in side] for side in found]
    rows = []
    for at, side in list(enumerate(sides))[1:]:
        rows.append(row(f"{case} over {side.name}, median", size, "s", compare(medians[at], medians[0])))
        rows.append(row(f"{case} over {side.name}, one after another", size, "per_s", compare(rates[at], rates[0])))
        over = statistics.median(own - library for own, library in zip(medians[at], medians[0], strict=True))
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


def _library(stack: ExitStack, folder: Path, profile: Path, texts: Sequence[str]) -> Side:
    memory = stack.enter_context(open_memory(_filled(folder, "library", profile, texts), profile=profile))
    return Side(
        "library", lambda text: memory.vault.add_memory(text, source="chat"), lambda text: memory.recall(text, 8)
    )


def _stdio(stack: ExitStack, folder: Path, profile: Path, texts: Sequence[str]) -> Side:
    _require()
    from mcp.client.stdio import StdioServerParameters

    words = ["-m", "lukasa.doors.cli", "--store", str(_filled(folder, "stdio", profile, texts)), "mcp"]
    told = StdioServerParameters(command=sys.executable, args=words, env={"LUKASA_PROFILE": str(profile)})
    return _client(stack, "stdio", told)


def _http(stack: ExitStack, folder: Path, profile: Path, texts: Sequence[str]) -> Side:
    _require()
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    url = stack.enter_context(_listening(_filled(folder, "http", profile, texts), profile))
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {_TOKEN}"}, timeout=60)
    return _client(stack, "HTTP", streamable_http_client(url, http_client=http))


def _client(stack: ExitStack, name: str, server: Any) -> Side:
    from anyio.from_thread import start_blocking_portal
    from mcp import Client

    portal = stack.enter_context(start_blocking_portal())
    client = stack.enter_context(portal.wrap_async_context_manager(Client(server)))

    def call(tool: str, **arguments: Any) -> None:
        answer = portal.call(client.call_tool, tool, arguments)
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
