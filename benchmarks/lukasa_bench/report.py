"""What a benchmark found: rows of figures beside those of the reference, and the bars they are held to."""

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
    """What a row must reach: a limit on the ratio to the reference, or on Lukasa's own figure."""

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
    """A row of compared figures."""
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
    """Where it was measured. ``sync_s`` is what one durable write of a page costs there.

    ``load`` says how many others wanted the cores when the run began. Where they are taken, waiting for them hides
    what an add costs, so figures of a busy machine flatter.
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
    """A whole run."""

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
        """The report as plain JSON; times are in seconds."""
        return asdict(self) | {"rows": [asdict(row) | {"met": row.is_met} for row in self.rows]}


def _sync_seconds(path: Path, times: int = 50) -> float:
    """The median time to append one page to a file and have it on the disk."""
    sync = getattr(os, "fdatasync", os.fsync)
    took = []
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        for _ in range(times):
            began = perf_counter()
            os.write(descriptor, bytes(4096))
            sync(descriptor)
            took.append(perf_counter() - began)
    finally:
        os.close(descriptor)
        path.unlink()
    return statistics.median(took)
