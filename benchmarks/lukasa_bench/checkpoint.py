"""Benchmark of sessions: a small change, a whole checkpoint and a recovery, compared with rewriting a JSON file.

The reference is the document's code, made durable: it writes the whole state as JSON to a temporary file, then fsync,
rename, fsync of the folder. Both alternate in the same run. Bytes count what a change stores for good: an entry of the log,
with its links and labels, and a line in the session's file; for the reference, the whole file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import lukasa
from lukasa.core.record import entry_bytes
from lukasa.sessions import NEVER, Session
from lukasa.storage.engine import Query
from lukasa.storage.files import open_output_file
from lukasa.storage.local_files import LocalFiles
from lukasa_bench.databases import BenchmarkDatabases
from lukasa_bench.interleave import compare, run_interleaved, time_call
from lukasa_bench.report import BenchmarkBar, BenchmarkReport, BenchmarkRow, MachineInfo, comparison_row

Progress = Callable[[str, int, int], None]

SIZES = (20_000, 2_000_000)
SEED = 2026
DELTA_COUNT = 1_000
CHANGES_PER_ROUND = 50
PREDICTION_COUNT = 40
BYTES_BAR = BenchmarkBar("ratio", "most", 0.05)
RECOVERY_BAR = BenchmarkBar("lukasa", "most", 1.0)


def make_state(size: int) -> dict[str, Any]:
    """Build a session's state of about ``size`` bytes: forty predictions and their evidence."""
    predictions = [
        {
            "prediction_id": f"pred-{number:03d}", "market_id": f"market-{number:03d}", "question": f"Will event {number} happen?",
            "probability": 0.5, "confidence_interval": [0.4, 0.6], "confidence_level": 0.85,
            "created_at": "2026-02-03T12:00:00Z", "last_updated": "2026-02-03T12:00:00Z", "status": "active",
            "num_updates": 0,
        }
        for number in range(PREDICTION_COUNT)
    ]  # fmt: skip
    left = size - len(json.dumps(predictions))
    piece = {"source": "https://example.org/article", "credibility": 0.85, "relevant_excerpt": "word " * 40}
    pieces = max(left // (len(json.dumps(piece)) * PREDICTION_COUNT), 0)
    reasoning = {
        prediction["market_id"]: {"base_rate": 0.4, "key_factors": [], "evidence": [piece] * pieces}
        for prediction in predictions
    }
    return {"active_predictions": predictions, "reasoning_cache": reasoning}


class JsonFileReference:
    """The reference: a state in memory that is written whole at every change."""

    def __init__(self, path: Path, state: dict[str, Any]) -> None:
        self.path, self.state = path, state
        self.save()

    def change(self, probability: float) -> None:
        self.state["active_predictions"][7]["probability"] = probability
        self.save()

    def save(self) -> None:
        with open_output_file(self.path) as file:
            file.write(json.dumps(self.state, indent=2).encode())

    def load(self) -> Any:
        return json.loads(self.path.read_bytes())


def run(rounds: int = 5, *, server: str | None = None, progress: Progress | None = None) -> BenchmarkReport:
    """Measure every case at every size, in a temporary folder or in new databases on a server."""
    began, report_progress = perf_counter(), progress or (lambda *_: None)
    rows: list[BenchmarkRow] = []
    with TemporaryDirectory(prefix="lukasa-bench-") as folder:
        machine = MachineInfo.measure(Path(folder))
        for done, size in enumerate(SIZES):
            report_progress("sessions", done, len(SIZES))
            with _open_store(Path(folder), size, server) as memory:
                rows += _measure_size(memory, Path(folder) / f"state-{size}.json", size, rounds)
        report_progress("sessions", len(SIZES), len(SIZES))
    return BenchmarkReport("checkpoint", machine, rounds, SEED, perf_counter() - began, tuple(rows))


@contextmanager
def _open_store(folder: Path, size: int, server: str | None) -> Iterator[lukasa.Memory]:
    files = LocalFiles(folder / f"files-{size}")
    if server is None:
        with lukasa.open(folder / f"{size}.db") as memory:
            memory.sessions._blobs = files
            yield memory
        return
    with (
        BenchmarkDatabases(server) as databases,
        lukasa.open(str(databases.create_pair(f"sessions-{size}").lukasa)) as memory,
    ):
        memory.sessions._blobs = files
        yield memory


def _measure_size(memory: lukasa.Memory, path: Path, size: int, rounds: int) -> list[BenchmarkRow]:
    state = make_state(size)
    memory.sessions.save_checkpoint(state, "demo")
    session = memory.sessions.start("demo", significance=NEVER)
    reference = JsonFileReference(path, memory.sessions.state("demo") or {})
    values = count()

    def probability() -> list[float]:
        return [round((next(values) % 1000) / 1000, 3) for _ in range(CHANGES_PER_ROUND)]

    def change(side: object, items: list[float]) -> float:
        apply: Callable[[float], object] = (
            reference.change if side is reference else lambda p: session.update("/active_predictions/7/probability", p)
        )
        return time_call(lambda: [apply(item) for item in items]) / len(items)

    def checkpoint(side: object, _: object) -> float:
        return time_call(reference.save if side is reference else session.checkpoint)

    sides = (session, reference)
    changed = compare(*run_interleaved(rounds, sides, probability, change))
    saved = compare(*run_interleaved(rounds, sides, lambda: None, checkpoint))
    rows = [
        comparison_row("a small change", size, "s", changed),
        comparison_row("a whole checkpoint", size, "s", saved),
        _bytes_row(memory, session, reference, size),
    ]
    session.checkpoint()
    for number in range(DELTA_COUNT):
        session.update("/active_predictions/7/probability", number / DELTA_COUNT)
    session.abandon()

    def recover(side: object, _: object) -> float:
        return time_call(reference.load if side is reference else lambda: memory.sessions.state("demo"))

    found = compare(*run_interleaved(rounds, sides, lambda: None, recover))
    rows.append(comparison_row(f"the state after {DELTA_COUNT:,} changes", size, "s", found, RECOVERY_BAR))
    whole = time_call(lambda: memory.sessions.recover("demo"))
    rows.append(BenchmarkRow("recovery, predictions verified", size, "s", whole, found.reference, bar=None))
    return rows


def _bytes_row(memory: lukasa.Memory, session: Session, reference: JsonFileReference, size: int) -> BenchmarkRow:
    """Compare the bytes that one small change stores for good."""
    tip = memory.journal.tip()
    folder = session._files
    before = sum(blob.size for blob in memory.sessions.blobs.list_files(folder.path))
    session.update("/active_predictions/7/probability", 0.123)
    lines = sum(len(entry_bytes(record)) + len(record.digest) for record in memory.journal.read(Query(after=tip)))
    noted = sum(blob.size for blob in memory.sessions.blobs.list_files(folder.path)) - before
    written = float(reference.path.stat().st_size)
    return BenchmarkRow(
        "bytes of a small change", size, "count", lines + noted, written, (lines + noted) / written, bar=BYTES_BAR
    )
