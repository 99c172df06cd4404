"""The benchmark of sessions: a small change, a whole checkpoint and a recovery, beside rewriting a JSON file.

The reference does what the document's code does, made durable: the whole state as JSON into a temporary file, fsync,
rename, fsync of the folder. Both take turns in the same run. Bytes are what a change leaves behind for good: a line of the
log, with its links and labels, and a line in the session's file, against the file that is written anew.
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
from lukasa.benchmarks.databases import Databases
from lukasa.benchmarks.report import Bar, Machine, Report, Row, row
from lukasa.benchmarks.rounds import alternate, compare, seconds
from lukasa.blob import replacing
from lukasa.blobs import FolderBlobs
from lukasa.engine import Query
from lukasa.record import line_of
from lukasa.sessions import NEVER, Session

Progress = Callable[[str, int, int], None]

SIZES = (20_000, 2_000_000)
SEED = 2026
DELTAS = 1_000
CHANGES = 50
PREDICTIONS = 40
BYTES_BAR = Bar("ratio", "most", 0.05)
RECOVERY_BAR = Bar("lukasa", "most", 1.0)


def state_of(size: int) -> dict[str, Any]:
    """A session's state of about so many bytes: forty predictions, and the evidence they rest on."""
    predictions = [
        {
            "prediction_id": f"pred-{at:03d}", "market_id": f"market-{at:03d}", "question": f"Will event {at} happen?",
            "probability": 0.5, "confidence_interval": [0.4, 0.6], "confidence_level": 0.85,
            "created_at": "2026-02-03T12:00:00Z", "last_updated": "2026-02-03T12:00:00Z", "status": "active",
            "num_updates": 0,
        }
        for at in range(PREDICTIONS)
    ]  # fmt: skip
    left = size - len(json.dumps(predictions))
    piece = {"source": "https://example.org/article", "credibility": 0.85, "relevant_excerpt": "word " * 40}
    pieces = max(left // (len(json.dumps(piece)) * PREDICTIONS), 0)
    reasoning = {
        prediction["market_id"]: {"base_rate": 0.4, "key_factors": [], "evidence": [piece] * pieces}
        for prediction in predictions
    }
    return {"active_predictions": predictions, "reasoning_cache": reasoning}


class Rewriting:
    """The reference: the state in memory, written whole at every change."""

    def __init__(self, path: Path, state: dict[str, Any]) -> None:
        self.path, self.state = path, state
        self.save()

    def change(self, probability: float) -> None:
        self.state["active_predictions"][7]["probability"] = probability
        self.save()

    def save(self) -> None:
        with replacing(self.path) as file:
            file.write(json.dumps(self.state, indent=2).encode())

    def load(self) -> Any:
        return json.loads(self.path.read_bytes())


def run(rounds: int = 5, *, server: str | None = None, progress: Progress | None = None) -> Report:
    """Measures every case at every size, in a folder of its own or in databases of their own on a server."""
    began, told = perf_counter(), progress or (lambda *_: None)
    rows: list[Row] = []
    with TemporaryDirectory(prefix="lukasa-bench-") as folder:
        machine = Machine.here(Path(folder))
        for at, size in enumerate(SIZES):
            told("sessions", at, len(SIZES))
            with _store(Path(folder), size, server) as memory:
                rows += _measure(memory, Path(folder) / f"state-{size}.json", size, rounds)
        told("sessions", len(SIZES), len(SIZES))
    return Report("checkpoint", machine, rounds, SEED, perf_counter() - began, tuple(rows))


@contextmanager
def _store(folder: Path, size: int, server: str | None) -> Iterator[lukasa.Memory]:
    files = FolderBlobs(folder / f"files-{size}")
    if server is None:
        with lukasa.open(folder / f"{size}.db") as memory:
            memory.sessions._made = files
            yield memory
        return
    with Databases(server) as databases, lukasa.open(str(databases.new(f"sessions-{size}").lukasa)) as memory:
        memory.sessions._made = files
        yield memory


def _measure(memory: lukasa.Memory, path: Path, size: int, rounds: int) -> list[Row]:
    state = state_of(size)
    memory.sessions.save_checkpoint(state, "demo")
    session = memory.sessions.start("demo", significance=NEVER)
    reference = Rewriting(path, memory.sessions.state("demo") or {})
    values = count()

    def probability() -> list[float]:
        return [round((next(values) % 1000) / 1000, 3) for _ in range(CHANGES)]

    def change(side: object, items: list[float]) -> float:
        one: Callable[[float], object] = (
            reference.change if side is reference else lambda p: session.update("/active_predictions/7/probability", p)
        )
        return seconds(lambda: [one(item) for item in items]) / len(items)

    def checkpoint(side: object, _: object) -> float:
        return seconds(reference.save if side is reference else session.checkpoint)

    sides = (session, reference)
    changed = compare(*alternate(rounds, sides, probability, change))
    saved = compare(*alternate(rounds, sides, lambda: None, checkpoint))
    rows = [
        row("a small change", size, "s", changed),
        row("a whole checkpoint", size, "s", saved),
        _bytes(memory, session, reference, size),
    ]
    session.checkpoint()
    for at in range(DELTAS):
        session.update("/active_predictions/7/probability", at / DELTAS)
    session.abandon()

    def recover(side: object, _: object) -> float:
        return seconds(reference.load if side is reference else lambda: memory.sessions.state("demo"))

    found = compare(*alternate(rounds, sides, lambda: None, recover))
    rows.append(row(f"the state after {DELTAS:,} changes", size, "s", found, RECOVERY_BAR))
    whole = seconds(lambda: memory.sessions.recover("demo"))
    rows.append(Row("recovery, predictions verified", size, "s", whole, found.reference, bar=None))
    return rows


def _bytes(memory: lukasa.Memory, session: Session, reference: Rewriting, size: int) -> Row:
    """What one small change leaves behind for good."""
    tip = memory.journal.tip()
    folder = session._folder
    before = sum(blob.size for blob in memory.sessions.blobs.find(folder.path))
    session.update("/active_predictions/7/probability", 0.123)
    lines = sum(len(line_of(record)) + len(record.digest) for record in memory.journal.read(Query(after=tip)))
    noted = sum(blob.size for blob in memory.sessions.blobs.find(folder.path)) - before
    written = float(reference.path.stat().st_size)
    return Row(
        "bytes of a small change", size, "count", lines + noted, written, (lines + noted) / written, bar=BYTES_BAR
    )
