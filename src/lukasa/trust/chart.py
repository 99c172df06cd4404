"""Trust over time, as one line of text or as a chart."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from lukasa.charts import GRID, RED, LineSegment, Picture, Polyline, Shape, TextLabel
from lukasa.core.clock import to_iso

_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDTH, _HEIGHT = 720, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 704, 34, 210

TrustPoint = tuple[datetime, float]


def sparkline(points: Sequence[TrustPoint], width: int = 60) -> str:
    """Draw trust over time as a line of block characters, one for the trust at the end of each equal step of time."""
    if not points:
        return ""
    first, last = points[0][0], points[-1][0]
    step = (last - first) / max(width - 1, 1)
    if not step:
        return _block(points[-1][1])
    line, index = "", 0
    for column in range(width - 1):
        while index + 1 < len(points) and points[index + 1][0] <= first + step * column:
            index += 1
        line += _block(points[index][1])
    return line + _block(points[-1][1])


def draw_trust_chart(agent: str, points: Sequence[TrustPoint], *, min_trust: float = 0.2) -> Picture:
    """Draw trust as steps between 0 and 1, with a dashed line at the trust that critical roles require."""
    title = f"Trust of {agent}{f', now {points[-1][1]:.2f}' if points else ''}"
    shapes: list[Shape] = []
    for trust in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        shapes.append(LineSegment(_LEFT, _y(trust), _RIGHT, _y(trust), GRID))
        shapes.append(TextLabel(_LEFT - 8, _y(trust) + 4, f"{trust:.1f}", "end"))
    shapes.append(LineSegment(_LEFT, _y(min_trust), _RIGHT, _y(min_trust), RED, dashed=True))
    shapes.append(TextLabel(_LEFT, _TOP - 14, title, "start"))
    if points:
        first, last = points[0][0], points[-1][0]
        seconds = (last - first).total_seconds()
        shapes.append(TextLabel(_LEFT, _BOTTOM + 18, to_iso(first)[:10], "start"))
        shapes.append(TextLabel(_RIGHT, _BOTTOM + 18, to_iso(last)[:10], "end"))
        steps: list[tuple[float, float]] = []
        previous = points[0][1]
        for moment, trust in points:
            x = _LEFT + (moment - first).total_seconds() / seconds * (_RIGHT - _LEFT) if seconds else _LEFT
            steps += [(x, _y(previous)), (x, _y(trust))]
            previous = trust
        shapes.append(Polyline((*steps, (_RIGHT, _y(previous)))))
    return Picture(_WIDTH, _HEIGHT, title, tuple(shapes))


def _block(trust: float) -> str:
    return _BLOCKS[min(int(trust * len(_BLOCKS)), len(_BLOCKS) - 1)]


def _y(trust: float) -> float:
    return _BOTTOM - trust * (_BOTTOM - _TOP)
