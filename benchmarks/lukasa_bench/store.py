"""Benchmark of the log: adds, reads and text search, compared with the bare reference, as the store grows.

For each size a pair of stores is built by bulk adds. Then every case of ``CASES`` runs in rounds; a case is a function of a
``StoreBench`` that returns rows. Figures are medians over the rounds, ratios are medians of the rounds' ratios.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from lukasa.errors import InvalidInput, StoreError
from lukasa_bench.corpus import CorpusNote, NoteCorpus, id_maker
from lukasa_bench.databases import BenchmarkDatabases
from lukasa_bench.interleave import compare, pool_blocks, run_interleaved, time_call, time_each
from lukasa_bench.processes import WriterProcesses, WriterStats
from lukasa_bench.report import BenchmarkBar, BenchmarkReport, BenchmarkRow, MachineInfo, comparison_row
from lukasa_bench.subjects import BenchmarkSubject, SubjectLocations, SubjectPair

Progress = Callable[[str, int, int], None]
"""Is called with the name of a stage, the work done and the work in all."""

SIZES = (1_000, 100_000)
ROUNDS = 5
SEED = 2026
WRITER_COUNT = 8
BATCH_SIZE = 1_000
TURNS_PER_ROUND = 8
VERSION_COUNT = 5
MAX_SIZE = 100_000_000

ADD_BAR, ADD_BAR_ON_SERVER = BenchmarkBar("ratio", "most", 1.3), BenchmarkBar("ratio", "most", 1.5)
BULK_BAR, BULK_BAR_ON_SERVER = BenchmarkBar("ratio", "least", 0.7), BenchmarkBar("ratio", "least", 0.5)
THREADS_BAR = BenchmarkBar("lukasa", "least", 3.0)
PROCESSES_BAR = BenchmarkBar("ratio", "least", 0.7)
NONE_BAR = BenchmarkBar("lukasa", "most", 0)
SLOWEST_BAR = BenchmarkBar("lukasa", "most", 2.0)
GROWTH_BAR = BenchmarkBar("lukasa", "most", 1.5)
IMPORT_BAR = BenchmarkBar("lukasa", "most", 0.150)


@dataclass(frozen=True, slots=True)
class StoreEffort:
    """The number of operations in one round. Single adds are done in ``TURNS_PER_ROUND`` short turns."""

    adds: int = 200
    reads: int = 500
    questions: int = 40
    batches: int = 5
    adds_per_thread: int = 50
    adds_per_process: int = 50
    revised_notes: int = 20

    @property
    def adds_per_turn(self) -> int:
        return max(1, self.adds // TURNS_PER_ROUND)

    def questions_at(self, size: int) -> int:
        """Return the number of questions: fewer at large sizes, where the reference's query reads much of the index."""
        return max(min(4, self.questions), min(self.questions, 1_000_000 // size))


@dataclass(slots=True)
class StoreBench:
    """Two stores of one size, and the ids of their records."""

    locations: SubjectLocations
    pair: SubjectPair
    notes: NoteCorpus
    rounds: int
    effort: StoreEffort
    progress: Progress
    size: int = 0
    ids: list[str] = field(default_factory=list)
    revised_ids: list[str] = field(default_factory=list)
    rng: random.Random = field(default_factory=lambda: random.Random(SEED))  # noqa: S311 - repeatable on purpose

    @property
    def is_on_server(self) -> bool:
        return isinstance(self.locations.lukasa, str)

    def build(self, size: int) -> None:
        """Add ``size`` records to both stores in batches, some of them with several versions."""
        plain = max(size - self.effort.revised_notes, 0)
        for done in range(0, plain, BATCH_SIZE):
            batch = self.take_notes(min(BATCH_SIZE, plain - done))
            for subject in self.pair:
                subject.add_all(batch)
            self.progress(f"building {format_size(size)}", done + len(batch), size)
        for note in self.take_notes(size - plain):
            for subject in self.pair:
                subject.add(note)
                for version in range(2, VERSION_COUNT + 1):
                    subject.revise(note, version)
            self.revised_ids.append(note.id)
        self.progress(f"building {format_size(size)}", size, size)
        self.size = size

    def take_notes(self, count: int) -> list[CorpusNote]:
        """Return new notes, which both stores must add."""
        taken = self.notes.take(count)
        self.ids += [note.id for note in taken]
        return taken

    def sample_ids(self) -> list[str]:
        return self.rng.choices(self.ids, k=self.effort.reads)


def measure_add(bench: StoreBench) -> list[BenchmarkRow]:
    def work(subject: BenchmarkSubject, notes: Sequence[CorpusNote]) -> list[float]:
        return time_each(subject.add, notes)

    found = run_interleaved(
        bench.rounds * TURNS_PER_ROUND, bench.pair, lambda: bench.take_notes(bench.effort.adds_per_turn), work
    )
    lukasa, reference = (pool_blocks(blocks, TURNS_PER_ROUND) for blocks in found)
    medians = compare(list(map(statistics.median, lukasa)), list(map(statistics.median, reference)))
    means = compare(list(map(statistics.fmean, lukasa)), list(map(statistics.fmean, reference)))
    bar = ADD_BAR_ON_SERVER if bench.is_on_server else ADD_BAR
    return [
        comparison_row("durable add, median", bench.size, "s", medians, bar),
        comparison_row("durable add, mean", bench.size, "s", means, bar),
    ]


def measure_read(bench: StoreBench) -> list[BenchmarkRow]:
    def work(subject: BenchmarkSubject, ids: Sequence[str]) -> float:
        return statistics.fmean(time_each(subject.get, ids))

    return [
        comparison_row(
            "read by key", bench.size, "s", compare(*run_interleaved(bench.rounds, bench.pair, bench.sample_ids, work))
        )
    ]


def measure_history(bench: StoreBench) -> list[BenchmarkRow]:
    def work(subject: BenchmarkSubject, ids: Sequence[str]) -> float:
        return statistics.fmean(time_each(subject.history, ids))

    found = run_interleaved(bench.rounds, bench.pair, lambda: bench.revised_ids * 5, work)
    return [comparison_row(f"history of {VERSION_COUNT} versions", bench.size, "s", compare(*found))]


def measure_text_match(bench: StoreBench) -> list[BenchmarkRow]:
    def work(subject: BenchmarkSubject, questions: Sequence[str]) -> float:
        return statistics.fmean(time_each(subject.find, questions))

    def prepare() -> list[str]:
        return bench.notes.questions(bench.effort.questions_at(bench.size))

    return [
        comparison_row(
            "text match, top 10", bench.size, "s", compare(*run_interleaved(bench.rounds, bench.pair, prepare, work))
        )
    ]


def measure_threads(bench: StoreBench) -> list[BenchmarkRow]:
    effort = bench.effort

    def work(subject: BenchmarkSubject, notes: Sequence[CorpusNote]) -> tuple[float, float]:
        alone, shared = notes[: effort.adds], notes[effort.adds :]
        before = time_call(lambda: _call_each(subject.add, alone[::2]))
        together = _rate_with_threads(subject.add, shared)
        after = time_call(lambda: _call_each(subject.add, alone[1::2]))
        return together, len(alone) / (before + after)

    def prepare() -> list[CorpusNote]:
        return bench.take_notes(effort.adds + WRITER_COUNT * effort.adds_per_thread)

    found = run_interleaved(bench.rounds, bench.pair, prepare, work)
    rates = compare(*([together for together, _ in rounds] for rounds in found))
    gains = compare(*([together / alone for together, alone in rounds] for rounds in found))
    return [
        comparison_row(f"add by {WRITER_COUNT} threads", bench.size, "per_s", rates),
        comparison_row(f"{WRITER_COUNT} threads over 1", bench.size, "times", gains, THREADS_BAR),
    ]


def measure_processes(bench: StoreBench) -> list[BenchmarkRow]:
    stats_by_subject: dict[str, list[WriterStats]] = {subject.name: [] for subject in bench.pair}
    with WriterProcesses(WRITER_COUNT, bench.locations, SEED * bench.size, bench.notes.moment) as writers:

        def prepare() -> int:
            return writers.prepare(bench.effort.adds_per_process)

        def work(subject: BenchmarkSubject, _: int) -> float:
            stats = writers.write(subject.name)
            stats_by_subject[subject.name].append(stats)
            return stats.rate

        rates = compare(*run_interleaved(bench.rounds, bench.pair, prepare, work))
    slowest, errors, lost = (
        [measure(subject, stats_by_subject[subject.name]) for subject in bench.pair]
        for measure in (_slowest_add, _count_errors, _count_lost)
    )
    name = f"{WRITER_COUNT} processes"
    return [
        comparison_row(f"add by {name}", bench.size, "per_s", rates, PROCESSES_BAR),
        BenchmarkRow(f"{name}: slowest add", bench.size, "s", slowest[0], slowest[1], bar=SLOWEST_BAR),
        BenchmarkRow(f"{name}: errors", bench.size, "count", errors[0], errors[1], bar=NONE_BAR),
        BenchmarkRow(f"{name}: lost", bench.size, "count", lost[0], lost[1], bar=NONE_BAR),
    ]


def _slowest_add(_: BenchmarkSubject, stats: Sequence[WriterStats]) -> float:
    return max(result.slowest for result in stats)


def _count_errors(_: BenchmarkSubject, stats: Sequence[WriterStats]) -> float:
    return sum(len(result.errors) for result in stats)


def _count_lost(subject: BenchmarkSubject, stats: Sequence[WriterStats]) -> float:
    """Count the adds that were acknowledged and are missing."""
    return sum(subject.get(id) is None for result in stats for id in result.ids)


def measure_bulk_add(bench: StoreBench) -> list[BenchmarkRow]:
    def prepare() -> list[list[CorpusNote]]:
        return [bench.take_notes(BATCH_SIZE) for _ in range(bench.effort.batches)]

    def work(subject: BenchmarkSubject, batches: Sequence[Sequence[CorpusNote]]) -> float:
        return BATCH_SIZE * len(batches) / sum(time_each(subject.add_all, batches))

    found = run_interleaved(bench.rounds, bench.pair, prepare, work)
    bar = BULK_BAR_ON_SERVER if bench.is_on_server else BULK_BAR
    return [comparison_row(f"bulk add, batches of {BATCH_SIZE:,}", bench.size, "per_s", compare(*found), bar)]


CASES: tuple[Callable[[StoreBench], list[BenchmarkRow]], ...] = (
    measure_read,
    measure_history,
    measure_text_match,
    measure_add,
    measure_threads,
    measure_processes,
    measure_bulk_add,
)
"""The cases at each size, in this order: those that only read first, those that add most last."""


def measure_growth(large: StoreBench, small: StoreBench) -> list[BenchmarkRow]:
    """Measure the time of an add in the large store over that in the small one."""
    sides = [(subject, bench) for bench in (large, small) for subject in bench.pair]

    def prepare() -> dict[int, list[CorpusNote]]:
        return {bench.size: bench.take_notes(bench.effort.adds_per_turn) for bench in (large, small)}

    def work(side: tuple[BenchmarkSubject, StoreBench], notes: dict[int, list[CorpusNote]]) -> list[float]:
        subject, bench = side
        return time_each(subject.add, notes[bench.size])

    found = run_interleaved(large.rounds * TURNS_PER_ROUND, sides, prepare, work)
    means = [list(map(statistics.fmean, pool_blocks(blocks, TURNS_PER_ROUND))) for blocks in found]
    lukasa, reference = ([a / b for a, b in zip(means[index], means[index + 2], strict=True)] for index in (0, 1))
    name = f"cost of an add over that at {format_size(small.size)}"
    return [comparison_row(name, large.size, "times", compare(lukasa, reference), GROWTH_BAR)]


def measure_import(rounds: int) -> list[BenchmarkRow]:
    """Measure the time that ``import lukasa``, and the reference's imports, add to the start of Python."""

    def work(code: str, _: None) -> float:
        return time_call(lambda: subprocess.run([sys.executable, "-c", code], check=True))  # noqa: S603 - our own words

    sides = ("import lukasa", "import apsw, orjson", "pass")
    lukasa, reference, bare = run_interleaved(rounds, sides, lambda: None, work)
    costs = [[max(own - start, 1e-6) for own, start in zip(side, bare, strict=True)] for side in (lukasa, reference)]
    return [comparison_row("import", None, "s", compare(*costs), IMPORT_BAR)]


def run(
    sizes: Sequence[int] = SIZES,
    rounds: int = ROUNDS,
    *,
    effort: StoreEffort | None = None,
    keep: Path | None = None,
    server: str | None = None,
    progress: Progress | None = None,
) -> BenchmarkReport:
    """Measure every case; the stores are created in a temporary folder, or in ``keep`` and not deleted.

    With ``server``, the URL of a database on a PostgreSQL server, they are created in new databases there.
    """
    if server is not None:
        with BenchmarkDatabases(server) as databases, TemporaryDirectory(prefix="lukasa-bench-") as folder:
            return _run_sizes(
                Path(folder),
                databases.create_pair,
                sorted(set(sizes)),
                rounds,
                effort or StoreEffort(),
                progress or _ignore_progress,
            )
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        return _run_sizes(
            keep,
            partial(_file_locations, keep),
            sorted(set(sizes)),
            rounds,
            effort or StoreEffort(),
            progress or _ignore_progress,
        )
    with TemporaryDirectory(prefix="lukasa-bench-") as folder:
        return _run_sizes(
            Path(folder),
            partial(_file_locations, Path(folder)),
            sorted(set(sizes)),
            rounds,
            effort or StoreEffort(),
            progress or _ignore_progress,
        )


def _file_locations(folder: Path, name: str) -> SubjectLocations:
    places = SubjectLocations.in_folder(folder, name)
    for path in places:
        if isinstance(path, Path) and path.exists():
            raise StoreError(f"{path} is already there; a benchmark starts with new stores.")
    return places


def _run_sizes(
    folder: Path,
    create_locations: Callable[[str], SubjectLocations],
    sizes: Sequence[int],
    rounds: int,
    effort: StoreEffort,
    progress: Progress,
) -> BenchmarkReport:
    began = perf_counter()
    machine = MachineInfo.measure(folder)
    rows: list[BenchmarkRow] = []

    def build(size: int, name: str) -> StoreBench:
        places = create_locations(name)
        bench = StoreBench(places, places.open(id_maker(SEED)), NoteCorpus(SEED), rounds, effort, progress)
        bench.build(size)
        return bench

    for size in sizes:
        bench = build(size, format_size(size))
        with closing(bench.pair):
            for done, case in enumerate(CASES):
                progress(f"measuring at {format_size(size)}", done, len(CASES))
                rows += case(bench)
            progress(f"measuring at {format_size(size)}", len(CASES), len(CASES))
            if size == sizes[-1] != sizes[0]:
                small = build(sizes[0], f"{format_size(sizes[0])}-next-to-{format_size(size)}")
                with closing(small.pair):
                    rows += measure_growth(bench, small)
    rows += measure_import(rounds)
    return BenchmarkReport("store", machine, rounds, SEED, perf_counter() - began, tuple(rows))


def parse_sizes(text: str) -> tuple[int, ...]:
    """Parse sizes such as ``1k,100k,1m``."""
    return tuple(_parse_size(word.strip().lower()) for word in text.split(","))


def format_size(size: int) -> str:
    """Format a size: 100000 as ``100k``."""
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{name}"
    return f"{size:,}"


def _parse_size(word: str) -> int:
    unit = {"k": 1_000, "m": 1_000_000}.get(word[-1:], 1)
    digits = word if unit == 1 else word[:-1]
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 9 and 0 < int(digits) * unit <= MAX_SIZE):
        raise InvalidInput(f"{word[:20]!r} is not a number of records.", hint="Write 1k,100k,1m.")
    return int(digits) * unit


def _call_each(action: Callable[[CorpusNote], object], notes: Sequence[CorpusNote]) -> None:
    for note in notes:
        action(note)


def _rate_with_threads(action: Callable[[CorpusNote], object], notes: Sequence[CorpusNote]) -> float:
    """Return the adds per second of several threads that share the notes and start at the same moment."""
    ready = threading.Barrier(WRITER_COUNT + 1)

    def add_share(own: Sequence[CorpusNote]) -> None:
        ready.wait()
        _call_each(action, own)

    with ThreadPoolExecutor(WRITER_COUNT) as pool:
        futures = [pool.submit(add_share, notes[number::WRITER_COUNT]) for number in range(WRITER_COUNT)]
        ready.wait()
        return len(notes) / time_call(lambda: [future.result() for future in futures])


def _ignore_progress(what: str, done: int, total: int) -> None: ...
