"""The reliability diagram: what was said against what happened, as text, SVG or PNG.

The diagram is a list of shapes in a square of 480, drawn once and told in two languages. Each dot is a bin of predictions,
the larger the more there are; on the diagonal, what was said is what happened. The whiskers are where the true frequency
lies with 95 %.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from math import sqrt
from typing import Any

from lukasa.errors import MissingExtra
from lukasa.forecasts.scoring import Bin, Scores

_SIZE, _LEFT, _TOP, _SIDE = 480, 60, 40, 380
_INK, _GRID, _DOT = "#1b1b1b", "#d9d9d9", "#1f6feb"
_BAR = 24


@dataclass(frozen=True, slots=True)
class Line:
    x1: float
    y1: float
    x2: float
    y2: float
    colour: str
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Dot:
    x: float
    y: float
    radius: float


@dataclass(frozen=True, slots=True)
class Words:
    x: float
    y: float
    text: str
    anchor: str = "middle"


Shape = Line | Dot | Words


def shapes(scores: Scores) -> Iterator[Shape]:
    """The diagram of these scores."""
    for at in range(6):
        share = at / 5
        yield Line(_x(share), _y(0), _x(share), _y(1), _GRID)
        yield Line(_x(0), _y(share), _x(1), _y(share), _GRID)
        yield Words(_x(share), _y(0) + 18, f"{share:.1f}")
        yield Words(_x(0) - 8, _y(share) + 4, f"{share:.1f}", "end")
    yield Line(_x(0), _y(0), _x(1), _y(1), _INK, dashed=True)
    most = max((row.count for row in scores.reliability), default=1)
    for row in scores.reliability:
        x = _x(row.mean_probability)
        yield Line(x, _y(row.interval[0]), x, _y(row.interval[1]), _DOT)
        yield Dot(x, _y(row.observed), 3 + 7 * sqrt(row.count / most))
    yield Words(_LEFT + _SIDE / 2, _SIZE - 18, "said")
    yield Words(_LEFT - 22, _TOP - 12, "happened")
    yield Words(_LEFT + _SIDE, _TOP - 12, title(scores), "end")


def title(scores: Scores) -> str:
    """The scores in one line."""
    if not scores.count:
        return "no resolved predictions"
    counted = f"{scores.count:,} prediction{'' if scores.count == 1 else 's'}"
    return f"{counted}, Brier {scores.brier_score:.3f}, calibration {scores.calibration_score:.3f}"


def svg(scores: Scores) -> str:
    """The diagram as an SVG file."""
    drawn = "\n".join(_svg(shape) for shape in shapes(scores))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE} {_SIZE}" width="{_SIZE}" height="{_SIZE}" '
        f'font-family="sans-serif" font-size="12" fill="{_INK}">\n'
        f"<title>Reliability diagram: {escape(title(scores))}</title>\n"
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{drawn}\n</svg>\n'
    )


def _svg(shape: Shape) -> str:
    match shape:
        case Line():
            dashes = ' stroke-dasharray="5 4"' if shape.dashed else ""
            ends = f'x1="{shape.x1:.1f}" y1="{shape.y1:.1f}" x2="{shape.x2:.1f}" y2="{shape.y2:.1f}"'
            return f'<line {ends} stroke="{shape.colour}"{dashes}/>'
        case Dot():
            return f'<circle cx="{shape.x:.1f}" cy="{shape.y:.1f}" r="{shape.radius:.1f}" fill="{_DOT}"/>'
        case Words():
            return f'<text x="{shape.x:.1f}" y="{shape.y:.1f}" text-anchor="{shape.anchor}">{escape(shape.text)}</text>'


def png(scores: Scores) -> bytes:
    """The diagram as a PNG file, at twice the size."""
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise MissingExtra(
            "A PNG needs another package.", hint="Run: pip install 'lukasa[plots]', or write an SVG."
        ) from error
    image = Image.new("RGB", (2 * _SIZE, 2 * _SIZE), "#ffffff")
    draw = ImageDraw.Draw(image)
    for shape in shapes(scores):
        _paint(draw, shape)
    file = BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def _paint(draw: Any, shape: Shape) -> None:
    match shape:
        case Line():
            for start, end in _dashes(shape):
                draw.line((start, end), fill=shape.colour, width=2)
        case Dot():
            x, y, r = 2 * shape.x, 2 * shape.y, 2 * shape.radius
            draw.ellipse((x - r, y - r, x + r, y + r), fill=_DOT)
        case Words():
            anchor = {"middle": "ms", "end": "rs"}[shape.anchor]
            draw.text((2 * shape.x, 2 * shape.y), shape.text, fill=_INK, anchor=anchor, font_size=24)


def _dashes(line: Line) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    """A line, or the dashes it is made of, at twice the size."""
    pieces = 40 if line.dashed else 1
    for at in range(0, 2 * pieces - 1, 2):
        low, high = (at / (2 * pieces - 1), (at + 1) / (2 * pieces - 1)) if line.dashed else (0.0, 1.0)
        yield (
            (2 * (line.x1 + low * (line.x2 - line.x1)), 2 * (line.y1 + low * (line.y2 - line.y1))),
            (2 * (line.x1 + high * (line.x2 - line.x1)), 2 * (line.y1 + high * (line.y2 - line.y1))),
        )


def bars(table: Sequence[Bin]) -> list[tuple[str, str, str, str, str]]:
    """The table for a terminal: bin, count, said, happened, and a bar with ``|`` at what was said."""
    rows = []
    for row in table:
        filled, said = round(row.observed * _BAR), min(round(row.mean_probability * _BAR), _BAR - 1)
        bar = ["█" if at < filled else "·" for at in range(_BAR)]
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
