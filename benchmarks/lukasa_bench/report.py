"""The report of a benchmark: figures of Lukasa and of the reference, and the bars they must meet."""

from __future__ import annotations

import os
import platform
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import apsw

from lukasa_bench.interleave import Comparison

Unit = Literal["s", "per_s", "times", "count", "bytes"]


@dataclass(frozen=True, slots=True)
class BenchmarkBar:
    """The bar of a row: a limit on the ratio to the reference, or on Lukasa's figure."""

    of: Literal["ratio", "lukasa"]
    at: Literal["most", "least"]
    limit: float


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """One case at one size. ``ratio`` is Lukasa's figure over the reference's; ``low`` and ``high`` are its extremes."""

    case: str
    size: int | None
    unit: Unit
    lukasa: float
    reference: float
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    bar: BenchmarkBar | None = None

    @property
    def is_met(self) -> bool | None:
        """Whether the bar is met, if there is one."""
        if self.bar is None:
            return None
        figure = self.lukasa if self.bar.of == "lukasa" else self.ratio
        if figure is None:
            return False
        return figure <= self.bar.limit if self.bar.at == "most" else figure >= self.bar.limit


def comparison_row(
    case: str, size: int | None, unit: Unit, comparison: Comparison, bar: BenchmarkBar | None = None
) -> BenchmarkRow:
    """Build a row from a comparison."""
    return BenchmarkRow(
        case,
        size,
        unit,
        comparison.lukasa,
        comparison.reference,
        comparison.ratio,
        comparison.low,
        comparison.high,
        bar,
    )


@dataclass(frozen=True, slots=True)
class MachineInfo:
    """The machine of a run. ``sync_s`` is the time of one durable write of a page.

    ``load`` is the load average at the start. On a busy machine both sides wait for the cores, which hides a part of the
    difference between them.
    """

    cores: int
    load: float
    system: str
    python: str
    sqlite: str
    sync_s: float

    @classmethod
    def measure(cls, folder: Path) -> MachineInfo:
        return cls(
            os.cpu_count() or 1,
            os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0,
            f"{platform.system()} {platform.machine()}",
            platform.python_version(),
            apsw.sqlite_lib_version(),
            _sync_seconds(folder / "sync"),
        )


@dataclass(frozen=True, slots=True)
class BenchmarkReport:
    """The result of a run."""

    benchmark: str
    machine: MachineInfo
    rounds: int
    seed: int
    seconds: float
    rows: tuple[BenchmarkRow, ...]

    @property
    def missed_rows(self) -> tuple[BenchmarkRow, ...]:
        return tuple(row for row in self.rows if row.is_met is False)

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON; times are in seconds."""
        return asdict(self) | {"rows": [asdict(row) | {"met": row.is_met} for row in self.rows]}


def _sync_seconds(path: Path, times: int = 50) -> float:
    """Return the median seconds of appending one page to a file and syncing it."""
    sync = getattr(os, "fdatasync", os.fsync)
    timings = []
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        for _ in range(times):
            began = perf_counter()
            os.write(descriptor, bytes(4096))
            sync(descriptor)
            timings.append(perf_counter() - began)
    finally:
        os.close(descriptor)
        path.unlink()
    return statistics.median(timings)
