"""Benchmark of recall in stores of millions of records: one store grows, and each size is compared with the first.

There is no reference: its matrix of ten million vectors would take 15 GB of memory. The texts and vectors are made in blocks.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any, NamedTuple

import apsw
import numpy as np

from lukasa.errors import LukasaError
from lukasa.storage.sqlite.vectors import decode_vectors
from lukasa_bench.conversations import QUESTION_TEMPLATES, VECTOR_LENGTH, RareWordEmbedder
from lukasa_bench.interleave import freeze_garbage
from lukasa_bench.report import BenchmarkBar, BenchmarkReport, BenchmarkRow, MachineInfo
from lukasa_bench.search import LukasaSearch
from lukasa_bench.search_corpus import MadeConversations
from lukasa_bench.store import Progress, format_size

SEED = 2026
BATCH_SIZE = 10_000
QUESTIONS = 10 * len(QUESTION_TEMPLATES)
SINGLE_ADDS = 40
COMPARED_QUESTIONS = 20
_PAGE_SIZE = 20_000
_ASKED_BY_RECALL = 300

GROWTH_BAR = BenchmarkBar("ratio", "most", 3.0)
ADD_BAR = BenchmarkBar("ratio", "most", 1.5)
COLD_BAR = BenchmarkBar("lukasa", "most", 3.0)
MEMORY_BAR = BenchmarkBar("lukasa", "most", 1.5e9)


class GrownFigures(NamedTuple):
    """The figures of one size; times are CPU time."""

    recall: float
    slowest: float
    bulk_add: float
    single_add: float
    first_answer: float
    resident: float
    found: float
    disk_bytes: float


_CASES: dict[str, tuple[str, Any, BenchmarkBar | None]] = {
    "recall": ("recall, top 10: mean", "s", GROWTH_BAR),
    "slowest": ("recall, top 10: slowest", "s", None),
    "bulk_add": ("bulk add, a record and its vector", "s", ADD_BAR),
    "single_add": ("one add", "s", ADD_BAR),
    "first_answer": ("first answer of a new process", "s", COLD_BAR),
    "resident": ("its resident memory", "bytes", MEMORY_BAR),
    "found": ("exact nearest 10 found", "times", None),
    "disk_bytes": ("on disk, a record", "bytes", None),
}


@dataclass(slots=True)
class GrowingStore:
    """A store that grows from size to size."""

    path: Path
    corpus: MadeConversations

    def grow(self, size: int, progress: Progress) -> float:
        """Add records up to a size; return the CPU seconds of a record in the last tenth."""
        last: list[float] = []
        with closing(LukasaSearch(self.path, RareWordEmbedder())) as side:
            while self.corpus.taken_count < size:
                turns, vectors = self.corpus.take_with_vectors(min(BATCH_SIZE, size - self.corpus.taken_count))
                began = process_time()
                side.add_all(turns, vectors)
                last.append((process_time() - began) / len(turns))
                progress(f"growing to {format_size(size)}", self.corpus.taken_count, size)
        return statistics.fmean(last[-max(1, len(last) // 10) :]) if last else 0.0

    def measure(self, bulk_add: float) -> GrownFigures:
        questions = [asked.text for asked in self.corpus.questions(2 * QUESTIONS)]
        with closing(LukasaSearch(self.path, RareWordEmbedder())) as side:
            for question in questions[: len(QUESTION_TEMPLATES)]:
                side.ask(question)
            recalls = []
            with freeze_garbage():
                for question in questions[-QUESTIONS:]:
                    began = process_time()
                    side.ask(question)
                    recalls.append(process_time() - began)
            found = self._measure_found(side, questions[:COMPARED_QUESTIONS])
            adds = []
            for _ in range(SINGLE_ADDS):
                turns, vectors = self.corpus.take_with_vectors(20)
                began = process_time()
                side.add_all(turns[:1], vectors[:1])
                adds.append(process_time() - began)
        first_answer, resident = self._start_process(questions[0], questions[1:11])
        disk = self.path.stat().st_size / self.corpus.taken_count
        return GrownFigures(
            statistics.fmean(recalls),
            max(recalls),
            bulk_add,
            statistics.median(adds),
            first_answer,
            resident,
            found,
            disk,
        )

    def _measure_found(self, side: LukasaSearch, questions: Sequence[str]) -> float:
        """Return the share of the nearest ten by exact comparison that the store's search finds."""
        asked = side.embedder.embed(questions)
        best = np.full((len(asked), 10), -2.0, dtype=np.float32)
        with closing(apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)) as database:
            rows = database.execute("SELECT seq, vector FROM vector")
            while page := [row for row, _ in zip(rows, range(_PAGE_SIZE), strict=False)]:
                cosines = asked @ decode_vectors(page, VECTOR_LENGTH, set())[1].T
                best = np.sort(np.concatenate((best, cosines), axis=1), axis=1)[:, -10:]
        found = 0
        for vector, lowest in zip(asked, best[:, 0], strict=True):
            found += sum(
                cosine >= lowest - 1e-5 for cosine in side.find_nearest(vector.tolist(), _ASKED_BY_RECALL)[:10]
            )
        return found / (10 * len(asked))

    def _start_process(self, first: str, more: Sequence[str]) -> tuple[float, float]:
        task = {"side": "lukasa", "place": str(self.path), "file": True, "questions": [first, *more]}
        answer = subprocess.run(
            [sys.executable, "-c", "from lukasa_bench.search import cold; cold()"],
            input=json.dumps(task), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if answer.returncode:
            raise LukasaError(f"The new process failed: {answer.stderr.strip()[-500:]}")
        figures = json.loads(answer.stdout)
        return figures["processor"], figures["resident"]


def build_rows(sizes: Sequence[int], figures: Sequence[GrownFigures]) -> list[BenchmarkRow]:
    """Build the rows of all sizes; the reference of each is the first size."""
    rows = []
    for size, grown in zip(sizes, figures, strict=True):
        for name, (case, unit, bar) in _CASES.items():
            own, first = getattr(grown, name), getattr(figures[0], name)
            wanted = bar if bar is None or bar.of == "lukasa" or size > sizes[0] else None
            rows.append(BenchmarkRow(case, size, unit, own, first, ratio=own / first if first else None, bar=wanted))
    return rows


def run(sizes: Sequence[int], *, progress: Progress) -> BenchmarkReport:
    """Grow one store through the sizes and measure each."""
    began = perf_counter()
    with TemporaryDirectory(prefix="lukasa-bench-") as place:
        machine = MachineInfo.measure(Path(place))
        store = GrowingStore(Path(place) / "store.db", MadeConversations(SEED))
        figures = [store.measure(store.grow(size, progress)) for size in sizes]
    return BenchmarkReport("search", machine, 1, SEED, perf_counter() - began, tuple(build_rows(sizes, figures)))
