"""Trust over time: a few characters for a terminal, or a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from lukasa.charts import GRID, RED, LineSegment, Picture, Polyline, Shape, TextLabel
from lukasa.clock import to_iso

_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDTH, _HEIGHT = 720, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 704, 34, 210

TrustPoint = tuple[datetime, float]


def sparkline(points: Sequence[TrustPoint], width: int = 60) -> str:
    """The course of trust in one line: equal steps of time, each the trust that held at its end."""
    if not points:
        return ""
    first, last = points[0][0], points[-1][0]
    span = (last - first) / max(width - 1, 1)
    if not span:
        return _BLOCKS[_block_index(points[-1][1])]
    line, at = "", 0
    for step in range(width):
        while at + 1 < len(points) and points[at + 1][0] <= first + span * step:
            at += 1
        line += _BLOCKS[_block_index(points[at if step < width - 1 else -1][1])]
    return line


def _block_index(score: float) -> int:
    return min(int(score * len(_BLOCKS)), len(_BLOCKS) - 1)


def draw_trust_chart(agent: str, points: Sequence[TrustPoint], *, min_trust: float = 0.2) -> Picture:
    """The course of trust in steps, between 0 and 1, with the line below which no critical role is given."""
    last = f", now {points[-1][1]:.2f}" if points else ""
    return Picture(
        _WIDTH, _HEIGHT, f"Trust of {agent}{last}", tuple(_shapes(f"Trust of {agent}{last}", points, min_trust))
    )


def _shapes(title: str, points: Sequence[TrustPoint], min_trust: float) -> Iterator[Shape]:
    for mark in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        yield LineSegment(_LEFT, _y(mark), _RIGHT, _y(mark), GRID)
        yield TextLabel(_LEFT - 8, _y(mark) + 4, f"{mark:.1f}", "end")
    yield LineSegment(_LEFT, _y(min_trust), _RIGHT, _y(min_trust), RED, dashed=True)
    yield TextLabel(_LEFT, _TOP - 14, title, "start")
    if points:
        yield TextLabel(_LEFT, _BOTTOM + 18, to_iso(points[0][0])[:10], "start")
        yield TextLabel(_RIGHT, _BOTTOM + 18, to_iso(points[-1][0])[:10], "end")
        yield Polyline(tuple(_step_points(points)))


def _step_points(points: Sequence[TrustPoint]) -> Iterator[tuple[float, float]]:
    """Each score from when it was reached until the next one was."""
    first, seconds = points[0][0], (points[-1][0] - points[0][0]).total_seconds()
    before = points[0][1]
    for moment, score in points:
        x = _LEFT + (moment - first).total_seconds() / seconds * (_RIGHT - _LEFT) if seconds else _LEFT
        yield x, _y(before)
        yield x, _y(score)
        before = score
    yield _RIGHT, _y(before)


def _y(score: float) -> float:
    return _BOTTOM - score * (_BOTTOM - _TOP)
