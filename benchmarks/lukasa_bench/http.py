"""Benchmark of the HTTP API: remember and recall over HTTP, compared with the same calls of the library.

Both sides have a store of their own with the same memories, and alternate round by round: two processes that take turns call by
call would each find their caches emptied by the other. With several sizes, the growth from
the smallest to the largest store is compared too. On a store of the smallest size many clients at once call the server, each
over a connection of its own, and the slowest calls are measured. The memory of that server is compared with its memory after half
of the requests, and with that of a new server on the same store, because a store that grew needs more itself. The server is a process started by the command line; the
clients are connections of the Python client.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from lukasa.api_connection import ApiConnection
from lukasa.errors import LukasaError, StoreUnavailable
from lukasa.memory import open_memory
from lukasa_bench.corpus import NoteCorpus
from lukasa_bench.interleave import compare
from lukasa_bench.report import BenchmarkBar, BenchmarkReport, BenchmarkRow, MachineInfo, comparison_row
from lukasa_bench.store import Progress

SIZES = (1_000,)
ROUNDS = 5
CALLS = 60
CLIENTS = 64
REQUESTS = 5_000
SEED = 2026
REMEMBER_BAR = BenchmarkBar("ratio", "most", 1.5)
RECALL_BAR = BenchmarkBar("lukasa", "most", 0.003)
SLOWEST_BAR = BenchmarkBar("lukasa", "most", 10.0)
NO_ERROR_BAR = BenchmarkBar("lukasa", "most", 0)
STEADY_BAR = BenchmarkBar("lukasa", "most", 1.1)
GROWTH_BAR = BenchmarkBar("lukasa", "most", 1.5)
ADDED_GROWTH_BAR = BenchmarkBar("ratio", "most", 1.2)
_ALLOWANCE = 0.001
"""Seconds that a request may take in addition to the ratio."""
_TOKEN = "only-for-this-benchmark"  # noqa: S105 - made up, for one run
_MAX_TEXT_WORDS = 12
_LOAD = ("recall", "memories", "records", "records", "memories", "records", "records", "memories", "records", "records")
"""The requests of the load, over and over: one in ten recalls, three remember, the others read a page of records."""
_WARM_UP_SHARE = 10
"""Of so many requests of the load, one is sent before the measurement."""

Call = Callable[[str], object]


def run(
    sizes: Sequence[int] = SIZES,
    rounds: int = ROUNDS,
    *,
    calls: int = CALLS,
    clients: int = CLIENTS,
    requests: int = REQUESTS,
    progress: Progress | None = None,
) -> BenchmarkReport:
    """Measure single calls at each size, then the load of many clients on the smallest store."""
    began = perf_counter()
    rows: list[BenchmarkRow] = []
    with TemporaryDirectory(prefix="lukasa-bench-") as name:
        folder = Path(name)
        machine = MachineInfo.measure(folder)
        profile = folder / "profile.yaml"
        profile.write_text("memory: {capacity: 10000000, similarity_threshold: 0.99}\n")
        for size in sizes:
            if progress is not None:
                progress(f"{size:,} memories", sizes.index(size), len(sizes))
            with ExitStack() as stack:
                rows += _measure_size(stack, folder, profile, size, rounds, calls)
        rows += _measure_growth(rows, min(sizes), max(sizes))
        if progress is not None:
            progress(f"{requests:,} requests", len(sizes), len(sizes))
        with ExitStack() as stack:
            rows += _measure_load(stack, folder, profile, min(sizes), clients, requests)
    return BenchmarkReport("http", machine, rounds, SEED, perf_counter() - began, tuple(rows))


def _measure_size(
    stack: ExitStack, folder: Path, profile: Path, size: int, rounds: int, calls: int
) -> Iterator[BenchmarkRow]:
    notes = NoteCorpus(SEED)
    texts = [_shorten(note.text) for note in notes.take(size)]
    places = [_fill_store(folder, f"library-{size}", profile, texts), folder / f"http-{size}.db"]
    shutil.copyfile(*places)
    memory = stack.enter_context(open_memory(places[0], profile=profile))
    connection = ApiConnection(stack.enter_context(_serve(places[1], profile))[0], _TOKEN)
    sides: dict[str, tuple[Call, Call]] = {
        "remember": (lambda text: _send(connection, "memories", text), memory.remember),
        "recall": (lambda text: _send(connection, "recall", text), lambda text: memory.recall(text, 8)),
    }
    for case, (over_http, in_library) in sides.items():
        medians: list[list[float]] = [[], []]
        above: list[float] = []
        for number in range(rounds + 1):
            items = (
                [_shorten(note.text) for note in notes.take(calls)] if case == "remember" else notes.questions(calls)
            )
            timings: dict[int, list[float]] = {}
            for side in (0, 1) if number % 2 else (1, 0):
                timings[side] = [_time((over_http, in_library)[side], item) for item in items]
            if number:  # the first round warms up
                for side in (0, 1):
                    medians[side].append(statistics.median(timings[side]))
                above += [own - library for own, library in zip(timings[0], timings[1], strict=True)]
        reduced = [max(0.0, seconds - _ALLOWANCE) for seconds in medians[0]]
        yield comparison_row(f"{case}, median", size, "s", compare(medians[0], medians[1]))
        if case == "remember":
            compared = compare(reduced, medians[1])
            yield comparison_row(f"{case}, median less 1 ms", size, "s", compared, REMEMBER_BAR)
        else:
            over = statistics.median(above)
            yield BenchmarkRow(f"{case}, above the library", size, "s", over, 0.0, bar=RECALL_BAR)


def _measure_growth(rows: Sequence[BenchmarkRow], smallest: int, largest: int) -> Iterator[BenchmarkRow]:
    """Compare the medians in the largest store with those in the smallest: over HTTP, and of the library itself."""
    if smallest == largest:
        return
    medians = {(row.case, row.size): row for row in rows}
    for case, bar in (("remember", GROWTH_BAR), ("recall", ADDED_GROWTH_BAR)):
        small, large = (medians[f"{case}, median", size] for size in (smallest, largest))
        grown, reference = large.lukasa / small.lukasa, large.reference / small.reference
        name = f"{case}, growth from {smallest:,} memories"
        yield BenchmarkRow(name, largest, "times", grown, reference, grown / reference, bar=bar)


def _measure_load(
    stack: ExitStack, folder: Path, profile: Path, size: int, clients: int, requests: int
) -> Iterator[BenchmarkRow]:
    notes = NoteCorpus(SEED + 1)
    texts = [_shorten(note.text) for note in notes.take(size)]
    place = _fill_store(folder, "load", profile, texts)
    url, process = stack.enter_context(_serve(place, profile))
    each = max(2 * len(_LOAD), requests // clients)
    questions = notes.questions(each)
    facts = [
        _shorten(note.text)
        for note in notes.take(clients * (each + len(_LOAD)) * _LOAD.count("memories") // len(_LOAD) + clients)
    ]
    errors = 0

    def call_server(client: int, numbers: range) -> list[float]:
        nonlocal errors
        connection, seconds = ApiConnection(url, _TOKEN, timeout=120), list[float]()
        for number in numbers:
            path = _LOAD[number % len(_LOAD)]
            item = facts.pop() if path == "memories" else questions[(client + number) % len(questions)]
            began = perf_counter()
            try:
                _send(connection, path, item)
            except LukasaError:
                errors += 1
            seconds.append(perf_counter() - began)
        connection.close()
        return seconds

    with ThreadPoolExecutor(clients) as pool:
        warm_up = max(len(_LOAD), each // _WARM_UP_SHARE)
        list(pool.map(lambda client: call_server(client, range(warm_up)), range(clients)))
        began = perf_counter()
        half = (warm_up + each) // 2
        parts = list(pool.map(lambda client: call_server(client, range(warm_up, half)), range(clients)))
        used_before = _resident_bytes(process.pid)
        parts += pool.map(lambda client: call_server(client, range(half, each)), range(clients))
        elapsed = perf_counter() - began
        timings = sorted(seconds for part in parts for seconds in part)
        used = _resident_bytes(process.pid)
        url, process = stack.enter_context(_serve(place, profile))
        list(pool.map(lambda client: call_server(client, range(len(_LOAD))), range(clients)))
        grown = used / (_resident_bytes(process.pid) or used or 1)
    name, count = f"{clients} clients at once", len(timings)
    slowest, middle = timings[min(count - 1, int(count * 0.99))], statistics.median(timings)
    yield BenchmarkRow(f"{name}, requests", size, "per_s", count / elapsed, 0.0)
    yield BenchmarkRow(f"{name}, median", size, "s", middle, 0.0)
    yield BenchmarkRow(f"{name}, p99 over p50", size, "times", slowest / middle, 0.0, bar=SLOWEST_BAR)
    yield BenchmarkRow(f"{name}, errors", size, "count", errors, 0.0, bar=NO_ERROR_BAR)
    case = f"{name}, memory after {count:,} requests to "
    yield BenchmarkRow(case + "that after half", size, "times", used / (used_before or 1), 0.0, bar=STEADY_BAR)
    yield BenchmarkRow(case + "a new server's", size, "times", grown, 0.0)  # whose caches are not full yet


def _send(connection: ApiConnection, path: str, text: str) -> object:
    if path == "records":
        return connection.request("GET", "/v1/records", query={"kind": "memory", "limit": 20}).content
    body = {"text": text} if path == "memories" else {"query": text, "k": 8}
    return connection.request("POST", f"/v1/{path}", body, repeatable=True).content


def _time(call: Call, item: str) -> float:
    began = perf_counter()
    call(item)
    return perf_counter() - began


def _shorten(text: str) -> str:
    return " ".join(text.split()[:_MAX_TEXT_WORDS])


def _fill_store(folder: Path, name: str, profile: Path, texts: Sequence[str]) -> Path:
    """Build a store with these memories and their vectors."""
    place = folder / f"{name}.db"
    with open_memory(place, embedder="hash", profile=profile) as memory:
        memory.vault.bulk_add(texts)
        memory.recall("all of them", 1, patience=600.0)
    return place


@contextmanager
def _serve(store: Path, profile: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start a server and yield its address and its process."""
    words = [sys.executable, "-m", "lukasa.interfaces.cli", "--store", str(store), "serve", "--port", "0"]
    environment = {**os.environ, "LUKASA_TOKEN": _TOKEN, "LUKASA_PROFILE": str(profile)}
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment) as process:  # noqa: S603 - our own
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            found = re.search(r"http://[^/\s,]+", line)
            if found is None:
                raise StoreUnavailable(f"The server did not start: {line.strip()}")
            yield found[0], process
        finally:
            process.terminate()


def _resident_bytes(process_id: int) -> int:
    """Return the resident memory of a process; 0 where the system does not tell."""
    try:
        pages = Path(f"/proc/{process_id}/statm").read_text("ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
