"""The benchmark of the log: adding, reading and finding, beside the bare reference, as the store grows.

For each size a pair of stores is built by bulk adds. Then every case of ``CASES`` runs in rounds; a case is a function
of the ``Bench`` that returns its rows. Figures are medians over the rounds, ratios are medians of the rounds' ratios.
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

from lukasa.benchmarks.contender import Contender, Pair, Places
from lukasa.benchmarks.crew import Crew, Shift
from lukasa.benchmarks.databases import Databases
from lukasa.benchmarks.notes import Note, Notes, id_maker
from lukasa.benchmarks.report import Bar, Machine, Report, Row, row
from lukasa.benchmarks.rounds import alternate, compare, pooled, seconds, seconds_each
from lukasa.errors import InvalidInput, StoreError

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""

SIZES = (1_000, 100_000)
ROUNDS = 5
SEED = 2026
TOGETHER = 8
BATCH = 1_000
TURNS = 8
VERSIONS = 5
LARGEST = 100_000_000

ADD_BAR, ADD_BAR_ON_SERVER = Bar("ratio", "most", 1.3), Bar("ratio", "most", 1.5)
BULK_BAR, BULK_BAR_ON_SERVER = Bar("ratio", "least", 0.7), Bar("ratio", "least", 0.5)
THREADS_BAR = Bar("lukasa", "least", 3.0)
PROCESSES_BAR = Bar("ratio", "least", 0.7)
NONE_BAR = Bar("lukasa", "most", 0)
SLOWEST_BAR = Bar("lukasa", "most", 2.0)
GROWTH_BAR = Bar("lukasa", "most", 1.5)
IMPORT_BAR = Bar("lukasa", "most", 0.150)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done in one round. Adds one at a time are done in ``TURNS`` short turns."""

    adds: int = 200
    reads: int = 500
    questions: int = 40
    batches: int = 5
    by_each_thread: int = 50
    by_each_process: int = 50
    revised: int = 20

    @property
    def adds_in_turn(self) -> int:
        return max(1, self.adds // TURNS)

    def questions_at(self, size: int) -> int:
        """Fewer at large sizes, where the reference's plain query reads a large part of the index."""
        return max(min(4, self.questions), min(self.questions, 1_000_000 // size))


@dataclass(slots=True)
class Bench:
    """Two stores of one size, and what is known of their content."""

    places: Places
    pair: Pair
    notes: Notes
    rounds: int
    effort: Effort
    progress: Progress
    size: int = 0
    ids: list[str] = field(default_factory=list)
    revised: list[str] = field(default_factory=list)
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))  # noqa: S311 - repeatable on purpose

    @property
    def on_server(self) -> bool:
        return isinstance(self.places.lukasa, str)

    def build(self, size: int) -> None:
        """Brings both stores to ``size`` records in batches, and gives some of them several versions."""
        plain = max(size - self.effort.revised, 0)
        for done in range(0, plain, BATCH):
            batch = self.take(min(BATCH, plain - done))
            for contender in self.pair:
                contender.add_all(batch)
            self.progress(f"building {short(size)}", done + len(batch), size)
        for note in self.take(size - plain):
            for contender in self.pair:
                contender.add(note)
                for version in range(2, VERSIONS + 1):
                    contender.revise(note, version)
            self.revised.append(note.id)
        self.progress(f"building {short(size)}", size, size)
        self.size = size

    def take(self, count: int) -> list[Note]:
        """New notes; both stores are to add them."""
        taken = self.notes.take(count)
        self.ids += [note.id for note in taken]
        return taken

    def sample(self) -> list[str]:
        return self.chance.choices(self.ids, k=self.effort.reads)


def add(bench: Bench) -> list[Row]:
    def work(contender: Contender, notes: Sequence[Note]) -> list[float]:
        return seconds_each(contender.add, notes)

    found = alternate(bench.rounds * TURNS, bench.pair, lambda: bench.take(bench.effort.adds_in_turn), work)
    lukasa, reference = (pooled(blocks, TURNS) for blocks in found)
    medians = compare(list(map(statistics.median, lukasa)), list(map(statistics.median, reference)))
    means = compare(list(map(statistics.fmean, lukasa)), list(map(statistics.fmean, reference)))
    bar = ADD_BAR_ON_SERVER if bench.on_server else ADD_BAR
    return [
        row("durable add, median", bench.size, "s", medians, bar),
        row("durable add, mean", bench.size, "s", means, bar),
    ]


def read(bench: Bench) -> list[Row]:
    def work(contender: Contender, ids: Sequence[str]) -> float:
        return statistics.fmean(seconds_each(contender.get, ids))

    return [row("read by key", bench.size, "s", compare(*alternate(bench.rounds, bench.pair, bench.sample, work)))]


def history(bench: Bench) -> list[Row]:
    def work(contender: Contender, ids: Sequence[str]) -> float:
        return statistics.fmean(seconds_each(contender.history, ids))

    found = alternate(bench.rounds, bench.pair, lambda: bench.revised * 5, work)
    return [row(f"history of {VERSIONS} versions", bench.size, "s", compare(*found))]


def match(bench: Bench) -> list[Row]:
    def work(contender: Contender, questions: Sequence[str]) -> float:
        return statistics.fmean(seconds_each(contender.find, questions))

    def prepare() -> list[str]:
        return bench.notes.questions(bench.effort.questions_at(bench.size))

    return [row("text match, top 10", bench.size, "s", compare(*alternate(bench.rounds, bench.pair, prepare, work)))]


def threads(bench: Bench) -> list[Row]:
    effort = bench.effort

    def work(contender: Contender, notes: Sequence[Note]) -> tuple[float, float]:
        alone, shared = notes[: effort.adds], notes[effort.adds :]
        before = seconds(lambda: _each(contender.add, alone[::2]))
        together = _together(contender.add, shared)
        after = seconds(lambda: _each(contender.add, alone[1::2]))
        return together, len(alone) / (before + after)

    def prepare() -> list[Note]:
        return bench.take(effort.adds + TOGETHER * effort.by_each_thread)

    found = alternate(bench.rounds, bench.pair, prepare, work)
    rates = compare(*([together for together, _ in rounds] for rounds in found))
    gains = compare(*([together / one for together, one in rounds] for rounds in found))
    return [
        row(f"add by {TOGETHER} threads", bench.size, "per_s", rates),
        row(f"{TOGETHER} threads over 1", bench.size, "times", gains, THREADS_BAR),
    ]


def processes(bench: Bench) -> list[Row]:
    worked: dict[str, list[Shift]] = {contender.name: [] for contender in bench.pair}
    with Crew(TOGETHER, bench.places, SEED * bench.size, bench.notes.moment) as crew:

        def prepare() -> int:
            return crew.prepare(bench.effort.by_each_process)

        def work(contender: Contender, _: int) -> float:
            shift = crew.write(contender.name)
            worked[contender.name].append(shift)
            return shift.rate

        rates = compare(*alternate(bench.rounds, bench.pair, prepare, work))
    slowest, errors, lost = (
        [measure(contender, worked[contender.name]) for contender in bench.pair]
        for measure in (_slowest, _errors, _lost)
    )
    name = f"{TOGETHER} processes"
    return [
        row(f"add by {name}", bench.size, "per_s", rates, PROCESSES_BAR),
        Row(f"{name}: slowest add", bench.size, "s", slowest[0], slowest[1], bar=SLOWEST_BAR),
        Row(f"{name}: errors", bench.size, "count", errors[0], errors[1], bar=NONE_BAR),
        Row(f"{name}: lost", bench.size, "count", lost[0], lost[1], bar=NONE_BAR),
    ]


def _slowest(_: Contender, shifts: Sequence[Shift]) -> float:
    return max(shift.slowest for shift in shifts)


def _errors(_: Contender, shifts: Sequence[Shift]) -> float:
    return sum(len(shift.errors) for shift in shifts)


def _lost(contender: Contender, shifts: Sequence[Shift]) -> float:
    """How many adds were acknowledged and are not there."""
    return sum(contender.get(id) is None for shift in shifts for id in shift.ids)


def bulk(bench: Bench) -> list[Row]:
    def prepare() -> list[list[Note]]:
        return [bench.take(BATCH) for _ in range(bench.effort.batches)]

    def work(contender: Contender, batches: Sequence[Sequence[Note]]) -> float:
        return BATCH * len(batches) / sum(seconds_each(contender.add_all, batches))

    found = alternate(bench.rounds, bench.pair, prepare, work)
    bar = BULK_BAR_ON_SERVER if bench.on_server else BULK_BAR
    return [row(f"bulk add, batches of {BATCH:,}", bench.size, "per_s", compare(*found), bar)]


CASES: tuple[Callable[[Bench], list[Row]], ...] = (read, history, match, add, threads, processes, bulk)
"""What runs at each size, in this order: those that leave the size alone first, those that add most last."""


def growth(large: Bench, small: Bench) -> list[Row]:
    """What an add costs in the large store beside one in a small store."""
    sides = [(contender, bench) for bench in (large, small) for contender in bench.pair]

    def prepare() -> dict[int, list[Note]]:
        return {bench.size: bench.take(bench.effort.adds_in_turn) for bench in (large, small)}

    def work(side: tuple[Contender, Bench], notes: dict[int, list[Note]]) -> list[float]:
        contender, bench = side
        return seconds_each(contender.add, notes[bench.size])

    found = alternate(large.rounds * TURNS, sides, prepare, work)
    means = [list(map(statistics.fmean, pooled(blocks, TURNS))) for blocks in found]
    lukasa, reference = ([a / b for a, b in zip(means[at], means[at + 2], strict=True)] for at in (0, 1))
    name = f"cost of an add over that at {short(small.size)}"
    return [row(name, large.size, "times", compare(lukasa, reference), GROWTH_BAR)]


def importing(rounds: int) -> list[Row]:
    """What ``import lukasa`` adds to the start of Python, and what the reference's own imports add."""

    def work(code: str, _: None) -> float:
        return seconds(lambda: subprocess.run([sys.executable, "-c", code], check=True))  # noqa: S603 - our own words

    sides = ("import lukasa", "import apsw, orjson", "pass")
    lukasa, reference, bare = alternate(rounds, sides, lambda: None, work)
    costs = [[max(own - start, 1e-6) for own, start in zip(each, bare, strict=True)] for each in (lukasa, reference)]
    return [row("import", None, "s", compare(*costs), IMPORT_BAR)]


def run(
    sizes: Sequence[int] = SIZES,
    rounds: int = ROUNDS,
    *,
    effort: Effort | None = None,
    keep: Path | None = None,
    server: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Measures everything; the stores are made in a temporary folder, or in ``keep`` and left there.

    With ``server``, the URL of a database on a PostgreSQL server, they are made in new databases there.
    """
    if server is not None:
        with Databases(server) as databases, TemporaryDirectory(prefix="lukasa-bench-") as folder:
            return _run(
                Path(folder), databases.new, sorted(set(sizes)), rounds, effort or Effort(), progress or _silent
            )
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        return _run(keep, partial(_files, keep), sorted(set(sizes)), rounds, effort or Effort(), progress or _silent)
    with TemporaryDirectory(prefix="lukasa-bench-") as folder:
        return _run(
            Path(folder),
            partial(_files, Path(folder)),
            sorted(set(sizes)),
            rounds,
            effort or Effort(),
            progress or _silent,
        )


def _files(folder: Path, name: str) -> Places:
    places = Places.within(folder, name)
    for path in places:
        if isinstance(path, Path) and path.exists():
            raise StoreError(f"{path} is already there; a benchmark starts with new stores.")
    return places


def _run(
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

    def build(size: int, name: str) -> Bench:
        places = new(name)
        bench = Bench(places, places.open(id_maker(SEED)), Notes(SEED), rounds, effort, progress)
        bench.build(size)
        return bench

    for size in sizes:
        bench = build(size, short(size))
        with closing(bench.pair):
            for done, case in enumerate(CASES):
                progress(f"measuring at {short(size)}", done, len(CASES))
                rows += case(bench)
            progress(f"measuring at {short(size)}", len(CASES), len(CASES))
            if size == sizes[-1] != sizes[0]:
                small = build(sizes[0], f"{short(sizes[0])}-beside-{short(size)}")
                with closing(small.pair):
                    rows += growth(bench, small)
    rows += importing(rounds)
    return Report("store", machine, rounds, SEED, perf_counter() - began, tuple(rows))


def parse_sizes(text: str) -> tuple[int, ...]:
    """``1k,100k,1m`` as numbers."""
    return tuple(_size(word.strip().lower()) for word in text.split(","))


def short(size: int) -> str:
    """``100000`` as ``100k``."""
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{name}"
    return f"{size:,}"


def _size(word: str) -> int:
    unit = {"k": 1_000, "m": 1_000_000}.get(word[-1:], 1)
    digits = word if unit == 1 else word[:-1]
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 9 and 0 < int(digits) * unit <= LARGEST):
        raise InvalidInput(f"{word[:20]!r} is not a number of records.", hint="Write 1k,100k,1m.")
    return int(digits) * unit


def _each(deed: Callable[[Note], object], notes: Sequence[Note]) -> None:
    for note in notes:
        deed(note)


def _together(deed: Callable[[Note], object], notes: Sequence[Note]) -> float:
    """Adds per second when several threads share the notes and start at the same moment."""
    ready = threading.Barrier(TOGETHER + 1)

    def share(own: Sequence[Note]) -> None:
        ready.wait()
        _each(deed, own)

    with ThreadPoolExecutor(TOGETHER) as pool:
        crew = [pool.submit(share, notes[at::TOGETHER]) for at in range(TOGETHER)]
        ready.wait()
        return len(notes) / seconds(lambda: [member.result() for member in crew])


def _silent(what: str, done: int, total: int) -> None: ...
