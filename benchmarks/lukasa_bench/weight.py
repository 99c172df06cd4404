"""Benchmark of a store's weight: the bytes of a memory on disk, by part, against a bare text index and matrix.

Both hold the same conversations and vectors. Lukasa also keeps history, digests, scopes, labels and the order of each session.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import apsw

from lukasa_bench.report import BenchmarkBar, BenchmarkReport, BenchmarkRow, MachineInfo
from lukasa_bench.search import SEED, SearchBench, SearchEffort, ignore_progress
from lukasa_bench.store import Progress, format_size
from lukasa_bench.subjects import SubjectLocations

SIZES = (10_000, 100_000)
WEIGHT_BAR = BenchmarkBar("ratio", "most", 0.7)
_PARTS = {
    "log": "records", "log_by_key": "keys and order", "log_by_kind": "keys and order", "label": "labels", "words": "words",
    "past_words": "words", "vector": "vectors", "sketch_block": "sign-bit codes", "record": "records",
    "sqlite_autoindex_record_1": "keys and order",
}  # fmt: skip
_SELECT_PARTS = "SELECT name, sum(pgsize) FROM dbstat GROUP BY name"


def weigh_parts(path: Path) -> dict[str, int]:
    """Return the bytes of a database by part."""
    parts: dict[str, int] = {}
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as database:
        for name, size in database.execute(_SELECT_PARTS):
            part = _PARTS.get(str(name)) or _PARTS.get(str(name).rpartition("_")[0], "other")
            parts[part] = parts.get(part, 0) + int(str(size))
    return parts


def run(sizes: Sequence[int] = SIZES, *, progress: Progress | None = None) -> BenchmarkReport:
    """Build both stores at each size and weigh them."""
    began, rows = perf_counter(), list[BenchmarkRow]()
    with TemporaryDirectory(prefix="lukasa-bench-") as place:
        folder = Path(place)
        machine = MachineInfo.measure(folder)
        for size in sizes:
            locations = SubjectLocations.in_folder(folder, format_size(size))
            with closing(SearchBench.open(size, locations, folder, 1, SearchEffort())) as bench:
                bench.build(progress or ignore_progress)
                matrix = bench.matrix.stat().st_size
            own, bare = weigh_parts(Path(locations.lukasa)), weigh_parts(Path(locations.reference))
            bare["vectors"] = matrix
            for part in sorted(own.keys() | bare.keys(), key=lambda part: -own.get(part, 0)):
                rows.append(BenchmarkRow(part, size, "bytes", own.get(part, 0) / size, bare.get(part, 0) / size))
            total, other = sum(own.values()) / size, sum(bare.values()) / size
            rows.append(
                BenchmarkRow("a memory in all", size, "bytes", total, other, ratio=total / other, bar=WEIGHT_BAR)
            )
    return BenchmarkReport("weight", machine, 1, SEED, perf_counter() - began, tuple(rows))
