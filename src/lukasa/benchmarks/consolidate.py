"""What consolidation costs: a first run over a whole history, a second right after, and runs after a few more episodes.

The reference of every row is the first run of the same size in the same store, so a ratio says how much of the work a
later run repeats. Quality is told beside it: how many of the planted patterns were found, and how many of those found
were planted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from lukasa.benchmarks.databases import Databases
from lukasa.benchmarks.histories import History
from lukasa.benchmarks.report import Bar, Machine, Report, Row
from lukasa.benchmarks.rounds import seconds
from lukasa.consolidation import Consolidated
from lukasa.memory import Memory, open_memory
from lukasa.outcome import Accepted

SEED = 7
_BATCH = 2_000
_EXAMPLES = 40
_LEAST = 3
_SHARE = 0.9
_MINUTES = 600.0
_AGAIN = 0.02
_LINEAR = 2.0

Progress = Callable[[str, int, int], None]


def run(
    sizes: Sequence[int], *, server: str | None = None, seed: int = SEED, progress: Progress | None = None
) -> Report:
    """Measures each size in a new store."""
    began = perf_counter()
    tell = progress or _silent
    rows: list[Row] = []
    each: list[float] = []
    with TemporaryDirectory(prefix="lukasa-bench-") as folder:
        machine = Machine.here(Path(folder))
        for size in sizes:
            with _store(server, Path(folder) / f"{size}.db") as memory:
                found, first = _measured(memory, size, seed, tell)
            each.append(first / size)
            rows += found
            if len(each) > 1:
                ratio = each[-1] / each[0]
                rows.append(
                    Row("cost of an episode over that at the smallest size", size, "s", each[-1], each[0], ratio,
                        bar=Bar("ratio", "most", _LINEAR))
                )  # fmt: skip
    return Report("consolidate", machine, 1, seed, perf_counter() - began, tuple(rows))


@contextmanager
def _store(server: str | None, file: Path) -> Iterator[Memory]:
    with ExitStack() as stack:
        place: Path | str = file
        if server is not None:
            place = stack.enter_context(Databases(server)).new("consolidate").lukasa
        yield stack.enter_context(open_memory(place))


def _measured(memory: Memory, size: int, seed: int, tell: Progress) -> tuple[list[Row], float]:
    history = History(seed, patterns=max(5, size // _EXAMPLES))
    follows = _fill(memory, history, size, tell)
    done: list[Consolidated] = []
    first = seconds(
        lambda: done.append(memory.consolidate(progress=lambda at, of: tell(f"{size:,}: first run", at, of)))
    )
    again = seconds(memory.consolidate)
    rows = [
        Row("first run", size, "s", first, first, bar=Bar("lukasa", "most", _MINUTES)),
        Row("second run right after", size, "s", again, first, again / first, bar=Bar("ratio", "most", _AGAIN)),
    ]
    for more in (1, 100):
        memory.episodes.add([episode for _, episode in history.episodes(more)])
        later = seconds(memory.consolidate)
        told = "1 more episode" if more == 1 else f"{more} more episodes"
        rows.append(Row(f"run after {told}", size, "s", later, first, later / first))
    recall, precision = quality(done[0], follows)
    rows.append(Row("planted patterns found", size, "times", recall, 1.0, bar=Bar("lukasa", "least", _SHARE)))
    rows.append(Row("patterns that were planted", size, "times", precision, 1.0, bar=Bar("lukasa", "least", _SHARE)))
    return rows, first


def _fill(memory: Memory, history: History, size: int, tell: Progress) -> dict[str, int | None]:
    """Writes the history; returns which planted pattern each episode follows."""
    follows: dict[str, int | None] = {}
    stream = history.episodes(size)
    for start in range(0, size, _BATCH):
        batch = [pair for _, pair in zip(range(min(_BATCH, size - start)), stream, strict=False)]
        outcome = memory.episodes.add([episode for _, episode in batch])
        assert isinstance(outcome, Accepted), outcome
        follows.update(zip((record.id for record in outcome.records), (number for number, _ in batch), strict=True))
        tell(f"{size:,}: episodes", start, size)
    return follows


def quality(done: Consolidated, follows: dict[str, int | None]) -> tuple[float, float]:
    """How many planted patterns with at least three examples were found, and how many of those found were planted."""
    examples = Counter(number for number in follows.values() if number is not None)
    wanted = {number for number, times in examples.items() if times >= _LEAST}
    found: set[int] = set()
    right = 0
    patterns = done.of("pattern")
    for pattern in patterns:
        number, times = Counter(follows[id] for id in pattern.sources).most_common(1)[0]
        if number is not None and times >= _SHARE * len(pattern.sources):
            found.add(number)
            right += 1
    return len(found & wanted) / max(1, len(wanted)), right / max(1, len(patterns))


def _silent(what: str, done: int, total: int) -> None: ...
