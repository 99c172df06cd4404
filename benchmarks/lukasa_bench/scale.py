"""What a number of records and agents costs, computed from a report of ``lukasa bench search --sizes 1m,10m --json``.

Each figure is a fixed part and a part per record, fitted through the first two measured sizes. The check is how far the fit is
from the figures of larger sizes that were measured too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lukasa.errors import InvalidInput

CASES = {
    "recall, top 10: mean": "recall",
    "one add": "add",
    "its resident memory": "resident",
    "first answer of a new process": "first_answer",
    "on disk, a record": "record_bytes",
}


@dataclass(frozen=True, slots=True)
class LinearCost:
    """A cost that is partly fixed and partly per record."""

    fixed: float
    per_record: float

    @classmethod
    def fit(cls, points: Sequence[tuple[int, float]]) -> LinearCost:
        (first, at_first), (last, at_last) = points[:2]
        slope = (at_last - at_first) / (last - first) if last > first else 0.0
        return cls(at_first - slope * first, slope)

    def at(self, records: int) -> float:
        return self.fixed + self.per_record * records


@dataclass(frozen=True, slots=True)
class ScaleModel:
    """The costs of a store by its number of records."""

    points: dict[str, list[tuple[int, float]]]
    costs: dict[str, LinearCost]

    @classmethod
    def from_report(cls, report: dict[str, Any]) -> ScaleModel:
        points: dict[str, list[tuple[int, float]]] = {}
        for row in report.get("rows", ()):
            if name := CASES.get(row["case"]):
                points.setdefault(name, []).append((row["size"], row["lukasa"]))
        if set(points) != set(CASES.values()) or any(len(found) < 2 for found in points.values()):
            raise InvalidInput(
                "The report has not the figures of two sizes.",
                hint="Make it with: lukasa bench search --sizes 1m,10m --json",
            )
        return cls(points, {name: LinearCost.fit(found) for name, found in points.items()})

    def plan(self, records: int, agents: int = 1) -> dict[str, float]:
        """Return what so many records cost when each agent has a store of its own, with an equal share."""
        share = max(1, records // agents)
        return {
            "records": records,
            "agents": agents,
            "records_per_store": share,
            "disk_bytes": records * max(self.points["record_bytes"][-1][1], 0.0),
            "recall_s": max(self.costs["recall"].at(share), 0.0),
            "add_s": max(self.costs["add"].at(share), 0.0),
            "first_answer_s": max(self.costs["first_answer"].at(share), 0.0),
            "resident_bytes": max(self.costs["resident"].at(share), 0.0),
        }

    def largest_error(self) -> float:
        """Return how far the fit is from a measured point at most, as a share of it."""
        errors = [
            abs(self.costs[name].at(size) / value - 1)
            for name, found in self.points.items()
            for size, value in found
            if value
        ]
        return max(errors, default=0.0)


PLANS = ((10**6, 1), (10**7, 1), (10**8, 100), (10**9, 1_000), (10**9, 100_000))


def read_model(report: Path) -> ScaleModel:
    """Read a report file."""
    try:
        return ScaleModel.from_report(json.loads(report.read_bytes()))
    except (OSError, ValueError) as error:
        raise InvalidInput(f"The report {report} cannot be read: {error}.") from error
