"""Benchmark of consolidation: a first run over a whole history, a second right after, and runs after a few more episodes.

The reference of every row is the first run of the same size in the same store, so a ratio is the share of the work that a
later run repeats. The store has the default embedder, so that a first run includes the vectors it computes. The quality is
measured too: how many of the planted patterns were found, and how many of those found were
planted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from lukasa.core.outcome import Accepted
from lukasa.experience.consolidation import ConsolidationResult
from lukasa.memory import Memory, open_memory
from lukasa_bench.databases import BenchmarkDatabases
from lukasa_bench.episodes import EpisodeCorpus
from lukasa_bench.interleave import time_call
from lukasa_bench.report import BenchmarkBar, BenchmarkReport, BenchmarkRow, MachineInfo

SEED = 7
_BATCH_SIZE = 2_000
_EXAMPLES_PER_PATTERN = 40
_MIN_EXAMPLES = 3
_MIN_SHARE = 0.9
_MAX_FIRST_RUN_SECONDS = 600.0
_MAX_SECOND_RUN_RATIO = 0.02
_MAX_GROWTH_RATIO = 2.0

Progress = Callable[[str, int, int], None]


def run(
    sizes: Sequence[int], *, server: str | None = None, seed: int = SEED, progress: Progress | None = None
) -> BenchmarkReport:
    """Measure each size in a new store."""
    began = perf_counter()
    report_progress = progress or _ignore_progress
    rows: list[BenchmarkRow] = []
    episode_seconds: list[float] = []
    with TemporaryDirectory(prefix="lukasa-bench-") as folder:
        machine = MachineInfo.measure(Path(folder))
        for size in sizes:
            with _open_store(server, Path(folder) / f"{size}.db") as memory:
                found, first = _measure_size(memory, size, seed, report_progress)
            episode_seconds.append(first / size)
            rows += found
            if len(episode_seconds) > 1:
                ratio = episode_seconds[-1] / episode_seconds[0]
                rows.append(
                    BenchmarkRow("cost of an episode over that at the smallest size", size, "s", episode_seconds[-1], episode_seconds[0], ratio,
                        bar=BenchmarkBar("ratio", "most", _MAX_GROWTH_RATIO))
                )  # fmt: skip
    return BenchmarkReport("consolidate", machine, 1, seed, perf_counter() - began, tuple(rows))


@contextmanager
def _open_store(server: str | None, file: Path) -> Iterator[Memory]:
    with ExitStack() as stack:
        place: Path | str = file
        if server is not None:
            place = stack.enter_context(BenchmarkDatabases(server)).create_pair("consolidate").lukasa
        yield stack.enter_context(open_memory(place))


def _measure_size(memory: Memory, size: int, seed: int, progress: Progress) -> tuple[list[BenchmarkRow], float]:
    history = EpisodeCorpus(seed, pattern_count=max(5, size // _EXAMPLES_PER_PATTERN))
    follows = _write_history(memory, history, size, progress)
    results: list[ConsolidationResult] = []
    first = time_call(
        lambda: results.append(
            memory.consolidate(progress=lambda done, total: progress(f"{size:,}: first run", done, total))
        )
    )
    again = time_call(memory.consolidate)
    rows = [
        BenchmarkRow("first run", size, "s", first, first, bar=BenchmarkBar("lukasa", "most", _MAX_FIRST_RUN_SECONDS)),
        BenchmarkRow(
            "second run right after",
            size,
            "s",
            again,
            first,
            again / first,
            bar=BenchmarkBar("ratio", "most", _MAX_SECOND_RUN_RATIO),
        ),
    ]
    for more in (1, 100):
        memory.episodes.add([episode for _, episode in history.episodes(more)])
        later = time_call(memory.consolidate)
        episodes = "1 more episode" if more == 1 else f"{more} more episodes"
        rows.append(BenchmarkRow(f"run after {episodes}", size, "s", later, first, later / first))
    recall, precision = measure_quality(results[0], follows)
    rows.append(
        BenchmarkRow(
            "planted patterns found", size, "times", recall, 1.0, bar=BenchmarkBar("lukasa", "least", _MIN_SHARE)
        )
    )
    rows.append(
        BenchmarkRow(
            "patterns that were planted", size, "times", precision, 1.0, bar=BenchmarkBar("lukasa", "least", _MIN_SHARE)
        )
    )
    return rows, first


def _write_history(memory: Memory, history: EpisodeCorpus, size: int, progress: Progress) -> dict[str, int | None]:
    """Write the history and return the number of the planted pattern that each episode follows."""
    follows: dict[str, int | None] = {}
    stream = history.episodes(size)
    for start in range(0, size, _BATCH_SIZE):
        batch = [pair for _, pair in zip(range(min(_BATCH_SIZE, size - start)), stream, strict=False)]
        outcome = memory.episodes.add([episode for _, episode in batch])
        assert isinstance(outcome, Accepted), outcome
        follows.update(zip((record.id for record in outcome.records), (number for number, _ in batch), strict=True))
        progress(f"{size:,}: episodes", start, size)
    return follows


def measure_quality(result: ConsolidationResult, follows: dict[str, int | None]) -> tuple[float, float]:
    """Return the share of planted patterns with at least three examples that was found, and the share of those found that was planted."""
    examples = Counter(number for number in follows.values() if number is not None)
    wanted = {number for number, times in examples.items() if times >= _MIN_EXAMPLES}
    found: set[int] = set()
    right = 0
    patterns = result.of("pattern")
    for pattern in patterns:
        number, times = Counter(follows[id] for id in pattern.sources).most_common(1)[0]
        if number is not None and times >= _MIN_SHARE * len(pattern.sources):
            found.add(number)
            right += 1
    return len(found & wanted) / max(1, len(wanted)), right / max(1, len(patterns))


def _ignore_progress(what: str, done: int, total: int) -> None: ...
