"""The benchmark of recall's speed: the same questions to Lukasa and to a bare hybrid, as the store grows.

For each size a pair of stores is built by bulk adds from seeded talks, with vectors that cost next to nothing to make,
so that what is measured is the search. Both answer the same new questions in turns. Then a fresh process opens each
store and answers once, which tells the cold start and the memory.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, time
from typing import Any, Literal, NamedTuple

from lukasa.benchmarks import calm  # noqa: F401 - before numpy comes
from lukasa.benchmarks.contender import Places
from lukasa.benchmarks.databases import Databases
from lukasa.benchmarks.hybrid import Hybrid
from lukasa.benchmarks.report import Bar, Machine, Report, Row, row
from lukasa.benchmarks.rounds import Comparison, compare, settled
from lukasa.benchmarks.store import Progress, short
from lukasa.benchmarks.talks import SORTS, Asked, Gist, Talks, Turn
from lukasa.errors import LukasaError
from lukasa.memory import open_memory
from lukasa.outcome import Accepted
from lukasa.recall.passages import head
from lukasa.recall.words import STOP_WORDS
from lukasa.record import Draft, Record

SIZES = (1_000, 10_000, 100_000)
ROUNDS = 5
SEED = 2026
BATCH = 2_000
TOP = 10
AT, LARGE = 100_000, 1_000_000

RATIO_BAR = Bar("ratio", "most", 0.4)
SPREAD_BAR = Bar("lukasa", "most", 4.0)
GROWTH_BAR = Bar("lukasa", "most", 3.0)
COLD_BAR = Bar("lukasa", "most", 1.5)
NONE_BAR = Bar("lukasa", "most", 0)
MEMORY_BAR = Bar("lukasa", "most", 1.2e9)

Side = Literal["lukasa", "reference", "spared"]
"""Who answers; ``spared`` is the reference when stop words are left out of its questions."""


class Took(NamedTuple):
    """What an answer took: of the processor, and on the clock."""

    processor: float
    clock: float


@dataclass(frozen=True, slots=True)
class Effort:
    """How many questions are asked in one round, and how many of them at large sizes, where the reference is slow."""

    questions: int = 60
    fewest: int = 20

    def questions_at(self, size: int) -> int:
        wanted = max(self.fewest, min(self.questions, self.questions * AT // size))
        return max(wanted - wanted % len(SORTS), len(SORTS))


class Lukasa:
    """Lukasa as a user calls it."""

    name = "lukasa"

    def __init__(self, store: Path | str, gist: Gist) -> None:
        self.gist = gist
        self._memory = open_memory(store, embedder=self.gist)
        self._recall = self._memory.recall

    def add_all(self, turns: Sequence[Turn], vectors: Any) -> None:
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
        seqs = [record.seq for record in outcome.records]
        model = self._recall.index.embedder.name
        self._memory.journal.put_vectors(
            model, [(seq, 0, vector) for seq, vector in zip(seqs, vectors.tolist(), strict=True)]
        )

    def ask(self, question: str) -> list[Record]:
        return self._recall(question, TOP).records

    def close(self) -> None:
        self._memory.close()


@dataclass(slots=True)
class Bench:
    """Two stores of one size that hold the same talks."""

    size: int
    places: Places
    matrix: Path
    lukasa: Lukasa
    reference: Hybrid
    gist: Gist
    talks: Talks
    rounds: int
    effort: Effort

    @classmethod
    def open(cls, size: int, places: Places, folder: Path, rounds: int, effort: Effort) -> Bench:
        matrix = folder / f"vectors-{short(size)}.npy"
        gist = Gist()  # one for both: whoever asks, the words of a question were met before
        lukasa, reference = Lukasa(places.lukasa, gist), Hybrid(places.reference, matrix)
        return cls(size, places, matrix, lukasa, reference, gist, Talks(SEED), rounds, effort)

    @property
    def on_server(self) -> bool:
        return isinstance(self.places.lukasa, str)

    def build(self, progress: Progress) -> None:
        self.reference.expect(self.size)
        for done in range(0, self.size, BATCH):
            turns = self.talks.take(min(BATCH, self.size - done))
            vectors = self.gist.embed([head(turn.text) for turn in turns])
            self.lukasa.add_all(turns, vectors)
            self.reference.add_all(turns, vectors)
            progress(f"building {short(self.size)}", done + len(turns), self.size)
        self.reference.settle()

    def cost(self, took: Took) -> float:
        """What counts: in a file nothing waits for a disk, so what others do meanwhile can be left out; a server is waited for."""
        return took.clock if self.on_server else took.processor

    def questions(self) -> list[Asked]:
        return self.talks.questions(self.effort.questions_at(self.size))

    def ask(self, side: Side, question: str, vector: Any) -> Took:
        """How long one answer took."""
        began, used = perf_counter(), process_time()
        if side == "lukasa":
            self.lukasa.ask(question)
        else:
            self.reference.ask(question, vector, STOP_WORDS if side == "spared" else frozenset())
        return Took(process_time() - used, perf_counter() - began)

    def close(self) -> None:
        self.lukasa.close()
        self.reference.close()


def taking_turns(sides: Sequence[tuple[Side, Bench]], asked: Sequence[Sequence[Asked]]) -> list[list[Took]]:
    """What each side took for each of its questions; all answer one after the other, and take turns in beginning."""
    took: list[list[Took]] = [[] for _ in sides]
    with settled():
        for nr in range(len(asked[0])):
            for at in range(len(sides)) if nr % 2 else reversed(range(len(sides))):
                side, bench = sides[at]
                text = asked[at][nr].text
                took[at].append(bench.ask(side, text, bench.gist.embed([text])[0]))
    return took


def recalling(bench: Bench) -> list[Row]:
    """What an answer costs on all sides, all in all and by the sort of question. A first round warms up."""
    sides: list[tuple[Side, Bench]] = [("lukasa", bench), ("reference", bench), ("spared", bench)]
    rounds = [taking_turns(sides, [bench.questions()] * len(sides)) for _ in range(bench.rounds + 1)][1:]
    cost = [[[bench.cost(took) for took in side] for side in found] for found in rounds]
    size, sorts = bench.size, list(SORTS)
    bar = RATIO_BAR if size == AT else None

    def compared(pick: Callable[[list[float]], float], other: int = 1) -> Comparison:
        return compare([pick(sides[0]) for sides in cost], [pick(sides[other]) for sides in cost])

    rows = [
        row("recall, top 10: mean", size, "s", compared(statistics.fmean), bar),
        row("recall, top 10: median", size, "s", compared(statistics.median), bar),
    ]
    both = [sorted(value for sides in cost for value in sides[at]) for at in (0, 1)]
    for share in (95, 99):
        mine, bare = (quantile(values, share) for values in both)
        rows.append(Row(f"recall, top 10: p{share}", size, "s", mine, bare))
    mine, bare = (quantile(values, 99) / quantile(values, 50) for values in both)
    rows.append(Row("p99 over p50", size, "times", mine, bare, bar=SPREAD_BAR))
    for at, sort in enumerate(sorts):
        one = partial(_every, at=at, step=len(sorts))
        rows.append(row(f"asked with {sort}", size, "s", compared(one)))
    rows.append(row("reference spared stop words: mean", size, "s", compared(statistics.fmean, other=2)))
    mine, bare = (statistics.median(took.clock for sides in rounds for took in sides[at]) for at in (0, 1))
    rows.append(Row("by the clock on the wall: median", size, "s", mine, bare, ratio=mine / bare))
    return rows


def _every(took: list[float], at: int, step: int) -> float:
    return statistics.fmean(took[at::step])


def quantile(ordered: Sequence[float], share: int) -> float:
    """The value below which that share of a hundred lies."""
    return ordered[min(len(ordered) - 1, len(ordered) * share // 100)]


def starting(bench: Bench) -> list[Row]:
    """What a fresh process needs to open the store and answer, and the memory it then holds."""
    questions = [asked.text for asked in bench.talks.questions(len(SORTS) * 4)]

    def start(side: Side) -> dict[str, float]:
        place = str(bench.places.lukasa if side == "lukasa" else bench.places.reference)
        task = {"side": side, "place": place, "file": not bench.on_server, "matrix": str(bench.matrix)}
        began = time()
        answer = subprocess.run(
            [sys.executable, "-c", "from lukasa.benchmarks.search import cold; cold()"],
            input=json.dumps(task | {"questions": questions}), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if answer.returncode:
            raise LukasaError(f"The fresh process failed: {answer.stderr.strip()[-500:]}")
        told: dict[str, float] = json.loads(answer.stdout)
        return told | {"whole": told["answered"] - began, "imports": told["imported"] - began}

    turns = [(start("lukasa"), start("reference")) for _ in range(bench.rounds)]
    found = list(zip(*turns, strict=True))

    def told(name: str) -> list[list[float]]:
        return [[each[name] for each in side] for side in found]

    size, own = bench.size, found[0]
    bar = COLD_BAR if size == AT else None
    rows = [
        row("cold start: first answer", size, "s", compare(*told("whole")), bar),
        row("cold start: of it, Python and imports", size, "s", compare(*told("imports"))),
        Row("cold start: vectors made anew", size, "count", max(each["made"] for each in own), 0, bar=NONE_BAR),
        row("resident memory", size, "bytes", compare(*told("resident")), MEMORY_BAR if size == LARGE else None),
    ]
    if not bench.on_server:
        mine = _bytes(str(bench.places.lukasa))
        bare = _bytes(str(bench.places.reference)) + bench.matrix.stat().st_size
        rows.append(Row("on disk", size, "bytes", mine, bare, ratio=mine / bare))
    return rows


def _bytes(path: str) -> int:
    return sum(file.stat().st_size for end in ("", "-wal") if (file := Path(path + end)).exists())


def cold() -> None:
    """A fresh process: does what it is told on its standard input, and tells what it took."""
    imported = time()
    task = json.load(sys.stdin)
    place = Path(task["place"]) if task["file"] else task["place"]
    first, *more = task["questions"]
    made = 0
    if task["side"] == "lukasa":
        own = Lukasa(place, Gist())
        with closing(own):
            own.ask(first)
            answered = time()
            for question in more:
                own.ask(question)
            made = own.gist.embedded - len(task["questions"])
            resident = _resident()
    else:
        gist, bare = Gist(), Hybrid(place, Path(task["matrix"]))
        with closing(bare):
            bare.ask(first, gist.embed([first])[0])
            answered = time()
            for question in more[:4]:
                bare.ask(question, gist.embed([question])[0])
            resident = _resident()
    print(json.dumps({"imported": imported, "answered": answered, "made": max(made, 0), "resident": resident}))  # noqa: T201 - its answer


def _resident() -> int:
    """How many bytes of memory this process holds now; at the most it ever held, where that is not told."""
    pages = Path("/proc/self/statm")
    if pages.exists():
        return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def growth(large: Bench, small: Bench) -> list[Row]:
    """What an answer costs in the large store beside one in a small store."""
    sides: list[tuple[Side, Bench]] = [(side, bench) for bench in (large, small) for side in ("lukasa", "reference")]
    count = large.effort.questions_at(large.size)
    costs: list[list[float]] = [[] for _ in sides]
    for _ in range(large.rounds):
        asked = {bench.size: bench.talks.questions(count) for bench in (large, small)}
        found = taking_turns(sides, [asked[bench.size] for _, bench in sides])
        for at, took in enumerate(found):
            costs[at].append(statistics.fmean(map(large.cost, took)))
    own, reference = ([a / b for a, b in zip(costs[at], costs[at + 2], strict=True)] for at in (0, 1))
    bar = GROWTH_BAR if (large.size, small.size) == (LARGE, AT) else None
    return [row(f"cost over that at {short(small.size)}", large.size, "times", compare(own, reference), bar)]


def run(
    sizes: Sequence[int] = SIZES,
    rounds: int = ROUNDS,
    *,
    effort: Effort | None = None,
    server: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Measures everything; the stores are made in a temporary folder, or in new databases on ``server``."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="lukasa-bench-")))
        new = stack.enter_context(Databases(server)).new if server is not None else partial(Places.within, folder)
        return _run(stack, folder, new, sorted(set(sizes)), rounds, effort or Effort(), progress or _silent)


def _run(
    stack: ExitStack,
    folder: Path,
    new: Callable[[str], Places],
    sizes: Sequence[int],
    rounds: int,
    effort: Effort,
    progress: Progress,
) -> Report:
    began = perf_counter()
    machine = Machine.here(folder)
    rows: list[Row] = []
    cases = (recalling, starting)
    before: Bench | None = None
    for size in sizes:
        bench = stack.enter_context(closing(Bench.open(size, new(short(size)), folder, rounds, effort)))
        bench.build(progress)
        for done, case in enumerate(cases):
            progress(f"measuring at {short(size)}", done, len(cases))
            rows += case(bench)
        if before is not None:
            rows += growth(bench, before)
        progress(f"measuring at {short(size)}", len(cases), len(cases))
        before = bench
    return Report("search", machine, rounds, SEED, perf_counter() - began, tuple(rows))


def _silent(what: str, done: int, total: int) -> None: ...
