"""The reliability diagram: what was said against what happened, as a picture or as text.

Each dot is a bin of predictions, the larger the more there are; on the diagonal, what was said is what happened. The
whiskers are where the true frequency lies with 95 %.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt

from lukasa.charts import BLUE, GRID, INK, Dot, LineSegment, Picture, Shape, TextLabel
from lukasa.forecasts.scoring import ForecastScores, ReliabilityBin

_SIZE, _LEFT, _TOP, _SIDE = 480, 60, 40, 380
_BAR_WIDTH = 24


def draw_diagram(scores: ForecastScores) -> Picture:
    """The diagram of these scores."""
    return Picture(_SIZE, _SIZE, f"Reliability diagram: {format_title(scores)}", tuple(_shapes(scores)))


def _shapes(scores: ForecastScores) -> Iterator[Shape]:
    for at in range(6):
        share = at / 5
        yield LineSegment(_x(share), _y(0), _x(share), _y(1), GRID)
        yield LineSegment(_x(0), _y(share), _x(1), _y(share), GRID)
        yield TextLabel(_x(share), _y(0) + 18, f"{share:.1f}")
        yield TextLabel(_x(0) - 8, _y(share) + 4, f"{share:.1f}", "end")
    yield LineSegment(_x(0), _y(0), _x(1), _y(1), INK, dashed=True)
    most = max((row.count for row in scores.reliability), default=1)
    for row in scores.reliability:
        x = _x(row.mean_probability)
        yield LineSegment(x, _y(row.interval[0]), x, _y(row.interval[1]), BLUE)
        yield Dot(x, _y(row.observed), 3 + 7 * sqrt(row.count / most))
    yield TextLabel(_LEFT + _SIDE / 2, _SIZE - 18, "said")
    yield TextLabel(_LEFT - 22, _TOP - 12, "happened")
    yield TextLabel(_LEFT + _SIDE, _TOP - 12, format_title(scores), "end")


def format_title(scores: ForecastScores) -> str:
    """The scores in one line."""
    if not scores.count:
        return "no resolved predictions"
    counted = f"{scores.count:,} prediction{'' if scores.count == 1 else 's'}"
    return f"{counted}, Brier {scores.brier_score:.3f}, calibration {scores.calibration_score:.3f}"


def format_bar_rows(table: Sequence[ReliabilityBin]) -> list[tuple[str, str, str, str, str]]:
    """The table for a terminal: bin, count, said, happened, and a bar with ``|`` at what was said."""
    rows = []
    for row in table:
        filled, said = round(row.observed * _BAR_WIDTH), min(round(row.mean_probability * _BAR_WIDTH), _BAR_WIDTH - 1)
        bar = ["█" if at < filled else "·" for at in range(_BAR_WIDTH)]
        bar[said] = "|"
        rows.append(
            (
                f"{row.lower:.1f}–{row.upper:.1f}",
                f"{row.count:,}",
                f"{row.mean_probability:.3f}",
                f"{row.observed:.3f}",
                "".join(bar),
            )
        )
    return rows


def _x(share: float) -> float:
    return _LEFT + share * _SIDE


def _y(share: float) -> float:
    return _TOP + (1 - share) * _SIDE
