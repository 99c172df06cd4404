"""Benchmark of recall's speed: the same questions to Lukasa and to a minimal hybrid search, as the store grows.

For each size a pair of stores is built by bulk adds from seeded conversations, with vectors that cost almost nothing, so that
only the search is measured. Both answer the same new questions in alternation. Then a new process opens each store and
answers, which measures the cold start and the memory.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, time
from typing import Any, Literal, NamedTuple

from lukasa.core.outcome import Accepted
from lukasa.core.record import Draft, Record
from lukasa.errors import LukasaError
from lukasa.memory import open_memory
from lukasa.recall import lead_passage
from lukasa.storage.engine import Query
from lukasa.text.lexicon import STOP_WORDS
from lukasa_bench.conversations import (
    QUESTION_TEMPLATES,
    ConversationCorpus,
    CorpusQuestion,
    CorpusTurn,
    RareWordEmbedder,
)
from lukasa_bench.databases import BenchmarkDatabases
from lukasa_bench.interleave import Comparison, compare, freeze_garbage
from lukasa_bench.reference_hybrid import HybridReference
from lukasa_bench.report import BenchmarkBar, BenchmarkReport, BenchmarkRow, MachineInfo, comparison_row
from lukasa_bench.store import Progress, format_size
from lukasa_bench.subjects import SubjectLocations

SIZES = (1_000, 10_000, 100_000)
ROUNDS = 5
SEED = 2026
BATCH_SIZE = 2_000
TOP_K = 10
BULK_BAR_SIZE, BAR_SIZE, LARGE_SIZE = 10_000, 100_000, 1_000_000

RATIO_BAR = BenchmarkBar("ratio", "most", 0.4)
BULK_BAR = BenchmarkBar("ratio", "most", 1.3)
SPREAD_BAR = BenchmarkBar("lukasa", "most", 4.0)
GROWTH_BAR = BenchmarkBar("lukasa", "most", 3.0)
COLD_BAR = BenchmarkBar("lukasa", "most", 1.5)
NONE_BAR = BenchmarkBar("lukasa", "most", 0)
MEMORY_BAR = BenchmarkBar("lukasa", "most", 1.2e9)

SideName = Literal["lukasa", "reference", "spared"]
"""The side that answers; ``spared`` is the reference without stop words in its questions."""


class AnswerTime(NamedTuple):
    """The CPU time and the wall-clock time of an answer, or of a batch of adds."""

    processor: float
    clock: float


@dataclass(frozen=True, slots=True)
class SearchEffort:
    """The number of questions in one round; there are fewer at large sizes, where the reference is slow."""

    questions: int = 60
    min_questions: int = 20

    def questions_at(self, size: int) -> int:
        wanted = max(self.min_questions, min(self.questions, self.questions * BAR_SIZE // size))
        return max(wanted - wanted % len(QUESTION_TEMPLATES), len(QUESTION_TEMPLATES))


class LukasaSearch:
    """Lukasa as a user calls it."""

    name = "lukasa"

    def __init__(self, store: Path | str, embedder: RareWordEmbedder) -> None:
        self.embedder = embedder
        self._memory = open_memory(store, embedder=self.embedder)
        self._recall = self._memory.recall

    def add_all(self, turns: Sequence[CorpusTurn], vectors: Any) -> None:
        drafts = (
            Draft(
                "turn", turn.text, id=turn.id, author=turn.author, labels=(f"session={turn.session}",),
                happened_at=turn.moment, origin="chat",
            )
            for turn in turns
        )  # fmt: skip
        outcome = self._memory.journal.append(drafts)
        if not isinstance(outcome, Accepted):
            raise LukasaError(f"A benchmark's turn was not accepted: {outcome.reason}")
        rows = [(seq, 0, vector) for seq, vector in zip(outcome.seqs, vectors, strict=True)]
        self._memory.journal.put_vectors(self._recall.index.embedder.name, rows)

    def ask(self, question: str) -> list[Record]:
        return self._recall(question, TOP_K).records

    def find_nearest(self, vector: Sequence[float], limit: int) -> list[float]:
        """Return the cosines of the records that are nearest to a vector."""
        with self._memory.journal.snapshot() as reader:
            matches = reader.match_vector(self._recall.index.embedder.name, vector, Query(limit=limit))
        return [match.score for match in matches]

    def close(self) -> None:
        self._memory.close()


@dataclass(slots=True)
class SearchBench:
    """Two stores of one size that hold the same conversations."""

    size: int
    locations: SubjectLocations
    matrix: Path
    lukasa: LukasaSearch
    reference: HybridReference
    embedder: RareWordEmbedder
    corpus: ConversationCorpus
    rounds: int
    effort: SearchEffort
    bulk_costs: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    """The seconds of a record and its vector in each batch of ``build``: Lukasa's and the reference's."""

    @classmethod
    def open(
        cls, size: int, locations: SubjectLocations, folder: Path, rounds: int, effort: SearchEffort
    ) -> SearchBench:
        matrix = folder / f"vectors-{format_size(size)}.npy"
        embedder = RareWordEmbedder()  # one for both sides, so that both find the vectors of a question's words cached
        lukasa, reference = LukasaSearch(locations.lukasa, embedder), HybridReference(locations.reference, matrix)
        return cls(size, locations, matrix, lukasa, reference, embedder, ConversationCorpus(SEED), rounds, effort)

    @property
    def is_on_server(self) -> bool:
        return isinstance(self.locations.lukasa, str)

    def build(self, progress: Progress) -> None:
        self.reference.reserve(self.size)
        for done in range(0, self.size, BATCH_SIZE):
            turns = self.corpus.take(min(BATCH_SIZE, self.size - done))
            vectors = self.embedder.embed([lead_passage(turn.text) for turn in turns])
            subjects: tuple[LukasaSearch | HybridReference, ...] = (self.lukasa, self.reference)
            for subject, costs in zip(subjects, self.bulk_costs, strict=True):
                began, used = perf_counter(), process_time()
                subject.add_all(turns, vectors)
                took = AnswerTime(process_time() - used, perf_counter() - began)
                costs.append(self.cost(took) / len(turns))
            progress(f"building {format_size(self.size)}", done + len(turns), self.size)
        self.reference.load_matrix()

    def cost(self, answer_time: AnswerTime) -> float:
        """Return the time that counts: CPU time for a file, where nothing waits for a disk; wall-clock time for a server."""
        return answer_time.clock if self.is_on_server else answer_time.processor

    def questions(self) -> list[CorpusQuestion]:
        return self.corpus.questions(self.effort.questions_at(self.size))

    def ask(self, side: SideName, question: str, vector: Any) -> AnswerTime:
        """Ask one side a question and return its times."""
        began, used = perf_counter(), process_time()
        if side == "lukasa":
            self.lukasa.ask(question)
        else:
            self.reference.ask(question, vector, STOP_WORDS if side == "spared" else frozenset())
        return AnswerTime(process_time() - used, perf_counter() - began)

    def close(self) -> None:
        self.lukasa.close()
        self.reference.close()


def time_answers(
    sides: Sequence[tuple[SideName, SearchBench]], questions: Sequence[Sequence[CorpusQuestion]]
) -> list[list[AnswerTime]]:
    """Return the times of each side for each of its questions; the sides answer one after the other and alternate in starting."""
    timings: list[list[AnswerTime]] = [[] for _ in sides]
    with freeze_garbage():
        for nr in range(len(questions[0])):
            for index in range(len(sides)) if nr % 2 else reversed(range(len(sides))):
                side, bench = sides[index]
                text = questions[index][nr].text
                timings[index].append(bench.ask(side, text, bench.embedder.embed([text])[0]))
    return timings


def measure_bulk_add(bench: SearchBench) -> list[BenchmarkRow]:
    """Report what a record and its vector cost while the stores were built, in batches."""
    bar = BULK_BAR if bench.size == BULK_BAR_SIZE else None
    case = "bulk add, a record and its vector"
    return [comparison_row(case, bench.size, "s", compare(*bench.bulk_costs), bar)]


def measure_recall(bench: SearchBench) -> list[BenchmarkRow]:
    """Measure the time of an answer on all sides, in total and by kind of question. A first round warms up."""
    sides: list[tuple[SideName, SearchBench]] = [("lukasa", bench), ("reference", bench), ("spared", bench)]
    rounds = [time_answers(sides, [bench.questions()] * len(sides)) for _ in range(bench.rounds + 1)][1:]
    cost = [[[bench.cost(took) for took in side] for side in found] for found in rounds]
    size, kinds = bench.size, list(QUESTION_TEMPLATES)
    bar = RATIO_BAR if size == BAR_SIZE else None

    def compared(pick: Callable[[list[float]], float], other: int = 1) -> Comparison:
        return compare([pick(sides[0]) for sides in cost], [pick(sides[other]) for sides in cost])

    rows = [
        comparison_row("recall, top 10: mean", size, "s", compared(statistics.fmean), bar),
        comparison_row("recall, top 10: median", size, "s", compared(statistics.median), bar),
    ]
    both = [sorted(value for sides in cost for value in sides[index]) for index in (0, 1)]
    for share in (95, 99):
        mine, bare = (quantile(values, share) for values in both)
        rows.append(BenchmarkRow(f"recall, top 10: p{share}", size, "s", mine, bare))
    mine, bare = (quantile(values, 99) / quantile(values, 50) for values in both)
    rows.append(BenchmarkRow("p99 over p50", size, "times", mine, bare, bar=SPREAD_BAR))
    for index, kind in enumerate(kinds):
        mean_of_kind = partial(_mean_of_every, start=index, step=len(kinds))
        rows.append(comparison_row(f"asked with {kind}", size, "s", compared(mean_of_kind)))
    rows.append(comparison_row("reference spared stop words: mean", size, "s", compared(statistics.fmean, other=2)))
    mine, bare = (statistics.median(took.clock for sides in rounds for took in sides[index]) for index in (0, 1))
    rows.append(BenchmarkRow("by the clock on the wall: median", size, "s", mine, bare, ratio=mine / bare))
    return rows


def _mean_of_every(timings: list[float], start: int, step: int) -> float:
    return statistics.fmean(timings[start::step])


def quantile(ordered: Sequence[float], share: int) -> float:
    """Return a percentile of ordered values."""
    return ordered[min(len(ordered) - 1, len(ordered) * share // 100)]


def measure_cold_start(bench: SearchBench) -> list[BenchmarkRow]:
    """Measure how long a new process takes to open the store and answer, and its memory."""
    questions = [asked.text for asked in bench.corpus.questions(len(QUESTION_TEMPLATES) * 4)]

    def start(side: SideName) -> dict[str, float]:
        place = str(bench.locations.lukasa if side == "lukasa" else bench.locations.reference)
        task = {"side": side, "place": place, "file": not bench.is_on_server, "matrix": str(bench.matrix)}
        began = time()
        answer = subprocess.run(
            [sys.executable, "-c", "from lukasa_bench.search import cold; cold()"],
            input=json.dumps(task | {"questions": questions}), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if answer.returncode:
            raise LukasaError(f"The new process failed: {answer.stderr.strip()[-500:]}")
        figures: dict[str, float] = json.loads(answer.stdout)
        return figures | {"whole": figures["answered"] - began, "imports": figures["imported"] - began}

    turns = [(start("lukasa"), start("reference")) for _ in range(bench.rounds)]
    found = list(zip(*turns, strict=True))

    def figures_of(name: str) -> list[list[float]]:
        return [[run[name] for run in side] for side in found]

    size, own = bench.size, found[0]
    bar = COLD_BAR if size == BAR_SIZE else None
    rows = [
        comparison_row("cold start: first answer", size, "s", compare(*figures_of("whole")), bar),
        comparison_row("cold start: of it, Python and imports", size, "s", compare(*figures_of("imports"))),
        BenchmarkRow(
            "cold start: vectors computed again", size, "count", max(run["made"] for run in own), 0, bar=NONE_BAR
        ),
        comparison_row(
            "resident memory",
            size,
            "bytes",
            compare(*figures_of("resident")),
            MEMORY_BAR if size == LARGE_SIZE else None,
        ),
    ]
    if not bench.is_on_server:
        mine = _file_bytes(str(bench.locations.lukasa))
        bare = _file_bytes(str(bench.locations.reference)) + bench.matrix.stat().st_size
        rows.append(BenchmarkRow("on disk", size, "bytes", mine, bare, ratio=mine / bare))
    return rows


def _file_bytes(path: str) -> int:
    return sum(file.stat().st_size for end in ("", "-wal") if (file := Path(path + end)).exists())


def cold() -> None:
    """Run in a new process: read a task from stdin, answer its questions, and print the times and the memory."""
    imported = time()
    task = json.load(sys.stdin)
    place = Path(task["place"]) if task["file"] else task["place"]
    first, *more = task["questions"]
    made = 0
    if task["side"] == "lukasa":
        own = LukasaSearch(place, RareWordEmbedder())
        with closing(own):
            own.ask(first)
            answered, used = time(), process_time()
            for question in more:
                own.ask(question)
            made = own.embedder.embedded_count - len(task["questions"])
            resident = _resident_bytes()
    else:
        embedder, bare = RareWordEmbedder(), HybridReference(place, Path(task["matrix"]))
        with closing(bare):
            bare.ask(first, embedder.embed([first])[0])
            answered, used = time(), process_time()
            for question in more[:4]:
                bare.ask(question, embedder.embed([question])[0])
            resident = _resident_bytes()
    figures = {
        "imported": imported,
        "answered": answered,
        "processor": used,
        "made": max(made, 0),
        "resident": resident,
    }
    print(json.dumps(figures))  # noqa: T201 - its answer


def _resident_bytes() -> int:
    """Return the resident bytes of this process, or its peak where the system does not report them."""
    pages = Path("/proc/self/statm")
    if pages.exists():
        return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measure_growth(large: SearchBench, small: SearchBench) -> list[BenchmarkRow]:
    """Measure the time of an answer in the large store over that in the small one."""
    sides: list[tuple[SideName, SearchBench]] = [
        (side, bench) for bench in (large, small) for side in ("lukasa", "reference")
    ]
    count = large.effort.questions_at(large.size)
    costs: list[list[float]] = [[] for _ in sides]
    for _ in range(large.rounds):
        asked = {bench.size: bench.corpus.questions(count) for bench in (large, small)}
        found = time_answers(sides, [asked[bench.size] for _, bench in sides])
        for index, timings in enumerate(found):
            costs[index].append(statistics.fmean(map(large.cost, timings)))
    own, reference = ([a / b for a, b in zip(costs[index], costs[index + 2], strict=True)] for index in (0, 1))
    bar = GROWTH_BAR if (large.size, small.size) == (LARGE_SIZE, BAR_SIZE) else None
    return [
        comparison_row(
            f"cost over that at {format_size(small.size)}", large.size, "times", compare(own, reference), bar
        )
    ]


def run(
    sizes: Sequence[int] = SIZES,
    rounds: int = ROUNDS,
    *,
    effort: SearchEffort | None = None,
    server: str | None = None,
    progress: Progress | None = None,
) -> BenchmarkReport:
    """Measure every case; the stores are created in a temporary folder, or in new databases on ``server``.

    Sizes beyond a million are those of one store that grows, without a reference.
    """
    if max(sizes) > LARGE_SIZE and server is None:
        from lukasa_bench import search_growth

        return search_growth.run(sorted(set(sizes)), progress=progress or ignore_progress)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="lukasa-bench-")))
        new = (
            stack.enter_context(BenchmarkDatabases(server)).create_pair
            if server is not None
            else partial(SubjectLocations.in_folder, folder)
        )
        return _run_sizes(
            stack, folder, new, sorted(set(sizes)), rounds, effort or SearchEffort(), progress or ignore_progress
        )


def _run_sizes(
    stack: ExitStack,
    folder: Path,
    create_locations: Callable[[str], SubjectLocations],
    sizes: Sequence[int],
    rounds: int,
    effort: SearchEffort,
    progress: Progress,
) -> BenchmarkReport:
    began = perf_counter()
    machine = MachineInfo.measure(folder)
    rows: list[BenchmarkRow] = []
    cases = (measure_bulk_add, measure_recall, measure_cold_start)
    before: SearchBench | None = None
    for size in sizes:
        bench = stack.enter_context(
            closing(SearchBench.open(size, create_locations(format_size(size)), folder, rounds, effort))
        )
        bench.build(progress)
        for done, case in enumerate(cases):
            progress(f"measuring at {format_size(size)}", done, len(cases))
            rows += case(bench)
        if before is not None:
            rows += measure_growth(bench, before)
        progress(f"measuring at {format_size(size)}", len(cases), len(cases))
        before = bench
    return BenchmarkReport("search", machine, rounds, SEED, perf_counter() - began, tuple(rows))


def ignore_progress(what: str, done: int, total: int) -> None: ...
