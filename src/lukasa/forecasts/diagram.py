"""The reliability diagram: predicted probability against observed frequency, as an SVG picture or as rows of text.

Each dot is a bin of predictions; the more predictions, the larger the dot. On the diagonal, probability and frequency
agree. The whiskers are the 95 % confidence interval of the true frequency.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from lukasa.charts import BLUE, GRID, INK, Dot, LineSegment, Picture, Shape, TextLabel
from lukasa.forecasts.scoring import ForecastScores, ReliabilityBin

_SIZE, _LEFT, _TOP, _SIDE = 480, 60, 40, 380
_BAR_WIDTH = 24


def draw_diagram(scores: ForecastScores) -> Picture:
    """Draw the reliability diagram of scores."""
    shapes: list[Shape] = []
    for step in range(6):
        share = step / 5
        shapes += [
            LineSegment(_x(share), _y(0), _x(share), _y(1), GRID),
            LineSegment(_x(0), _y(share), _x(1), _y(share), GRID),
            TextLabel(_x(share), _y(0) + 18, f"{share:.1f}"),
            TextLabel(_x(0) - 8, _y(share) + 4, f"{share:.1f}", "end"),
        ]
    shapes.append(LineSegment(_x(0), _y(0), _x(1), _y(1), INK, dashed=True))
    largest = max((row.count for row in scores.reliability), default=1)
    for row in scores.reliability:
        x = _x(row.mean_probability)
        shapes.append(LineSegment(x, _y(row.interval[0]), x, _y(row.interval[1]), BLUE))
        shapes.append(Dot(x, _y(row.observed), 3 + 7 * sqrt(row.count / largest)))
    title = format_title(scores)
    shapes += [
        TextLabel(_LEFT + _SIDE / 2, _SIZE - 18, "said"),
        TextLabel(_LEFT - 22, _TOP - 12, "happened"),
        TextLabel(_LEFT + _SIDE, _TOP - 12, title, "end"),
    ]
    return Picture(_SIZE, _SIZE, f"Reliability diagram: {title}", tuple(shapes))


def format_title(scores: ForecastScores) -> str:
    """Format the scores in one line."""
    if not scores.count:
        return "no resolved predictions"
    count = f"{scores.count:,} prediction{'' if scores.count == 1 else 's'}"
    return f"{count}, Brier {scores.brier_score:.3f}, calibration {scores.calibration_score:.3f}"


def format_bar_rows(table: Sequence[ReliabilityBin]) -> list[tuple[str, str, str, str, str]]:
    """Format the bins for a terminal: range, count, mean probability, frequency, and a bar of the frequency.

    The ``|`` in the bar marks the mean probability.
    """
    rows = []
    for row in table:
        filled = round(row.observed * _BAR_WIDTH)
        bar = ["█" if index < filled else "·" for index in range(_BAR_WIDTH)]
        bar[min(round(row.mean_probability * _BAR_WIDTH), _BAR_WIDTH - 1)] = "|"
        limits, numbers = f"{row.lower:.1f}–{row.upper:.1f}", (f"{row.mean_probability:.3f}", f"{row.observed:.3f}")
        rows.append((limits, f"{row.count:,}", *numbers, "".join(bar)))
    return rows


def _x(share: float) -> float:
    return _LEFT + share * _SIDE


def _y(share: float) -> float:
    return _TOP + (1 - share) * _SIDE
