"""Trust over time as a picture: a few characters for a terminal, or SVG that needs nothing but a browser."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from html import escape

from lukasa.clock import to_iso

_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 720, 240, 44, 34, 30

Point = tuple[datetime, float]


def sparkline(points: Sequence[Point], width: int = 60) -> str:
    """The course of trust in one line: equal steps of time, each the trust that held at its end."""
    if not points:
        return ""
    first, last = points[0][0], points[-1][0]
    span = (last - first) / max(width - 1, 1)
    if not span:
        return _BLOCKS[_level(points[-1][1])]
    line, at = "", 0
    for step in range(width):
        while at + 1 < len(points) and points[at + 1][0] <= first + span * step:
            at += 1
        line += _BLOCKS[_level(points[at if step < width - 1 else -1][1])]
    return line


def _level(score: float) -> int:
    return min(int(score * len(_BLOCKS)), len(_BLOCKS) - 1)


def svg(agent: str, points: Sequence[Point], *, least: float = 0.2) -> str:
    """The course of trust as a picture of steps, between 0 and 1; the line below which no critical role is given."""
    right, floor = _WIDTH - 16, _HEIGHT - _BOTTOM
    first = points[0][0] if points else None
    seconds = (points[-1][0] - points[0][0]).total_seconds() if points else 0.0

    def x(moment: datetime) -> float:
        share = (moment - first).total_seconds() / seconds if first is not None and seconds else 0.0
        return _LEFT + share * (right - _LEFT)

    def y(score: float) -> float:
        return floor - score * (floor - _TOP)

    steps = [f"M{x(points[0][0]):.1f} {y(points[0][1]):.1f}"] if points else []
    steps += [f"H{x(moment):.1f}V{y(score):.1f}" for moment, score in points[1:]]
    steps += [f"H{right}"] if points and not seconds else []
    grid = "".join(
        f'<path d="M{_LEFT} {y(mark):.1f}H{right}" stroke="#ddd"/>'
        f'<text x="{_LEFT - 8}" y="{y(mark) + 4:.1f}" text-anchor="end">{mark:.1f}</text>'
        for mark in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    )
    days = [(points[0][0], "start", _LEFT), (points[-1][0], "end", right)] if points else []
    dates = "".join(
        f'<text x="{place}" y="{floor + 18}" text-anchor="{anchor}">{to_iso(moment)[:10]}</text>'
        for moment, anchor, place in days
    )
    last = f", now {points[-1][1]:.2f}" if points else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'role="img" font-family="sans-serif" font-size="11" fill="#333">'
        f"<title>Trust of {escape(_plain(agent))}{last}</title>"
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>{grid}{dates}'
        f'<path d="M{_LEFT} {y(least):.1f}H{right}" stroke="#c33" stroke-dasharray="4 3"/>'
        f'<text x="{_LEFT}" y="{_TOP - 14}" font-size="14">Trust of {escape(_plain(agent))}{last}</text>'
        f'<path d="{"".join(steps)}" fill="none" stroke="#1f5fa8" stroke-width="2"/></svg>\n'
    )


def _plain(text: str) -> str:
    """The text without characters that XML cannot hold."""
    return "".join(character if character.isprintable() else "�" for character in text)
