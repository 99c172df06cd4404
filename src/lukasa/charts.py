"""Pictures: a few shapes on a white ground, told in two languages, SVG for browsers and PNG for everything else.

SVG needs nothing. PNG needs the extra ``plots`` and is drawn at twice the size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

from lukasa.errors import InvalidInput, MissingExtra
from lukasa.storage.files import atomic_write

INK, GRID, BLUE, RED = "#1b1b1b", "#d9d9d9", "#1f6feb", "#c03030"
_FONT_SIZE = 12
_PNG_SCALE = 2
_DASH_COUNT = 40


@dataclass(frozen=True, slots=True)
class LineSegment:
    x1: float
    y1: float
    x2: float
    y2: float
    colour: str = INK
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Polyline:
    """A line through several points."""

    points: tuple[tuple[float, float], ...]
    colour: str = BLUE


@dataclass(frozen=True, slots=True)
class Dot:
    x: float
    y: float
    radius: float
    colour: str = BLUE


@dataclass(frozen=True, slots=True)
class TextLabel:
    """A text whose start, middle or end stands at a point."""

    x: float
    y: float
    text: str
    anchor: str = "middle"


Shape = LineSegment | Polyline | Dot | TextLabel


@dataclass(frozen=True, slots=True)
class Picture:
    """Shapes in the order in which they are drawn."""

    width: int
    height: int
    title: str
    shapes: tuple[Shape, ...]

    def svg(self) -> str:
        """The picture as an SVG file."""
        drawn = "\n".join(_shape_to_svg(shape) for shape in self.shapes)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" role="img" font-family="sans-serif" font-size="{_FONT_SIZE}" fill="{INK}">\n'
            f"<title>{escape(_replace_unprintable(self.title))}</title>\n"
            f'<rect width="100%" height="100%" fill="#ffffff"/>\n{drawn}\n</svg>\n'
        )

    def png(self) -> bytes:
        """The picture as a PNG file, at twice the size."""
        try:
            from PIL import Image, ImageDraw
        except ImportError as error:
            raise MissingExtra(
                "A PNG needs another package.", hint="Run: pip install 'lukasa[plots]', or write an SVG."
            ) from error
        image = Image.new("RGB", (_PNG_SCALE * self.width, _PNG_SCALE * self.height), "#ffffff")
        draw = ImageDraw.Draw(image)
        for shape in self.shapes:
            _paint_shape(draw, shape)
        file = BytesIO()
        image.save(file, "PNG")
        return file.getvalue()

    def save(self, path: Path) -> None:
        """Writes the picture, whole or not at all, in the language that the file's ending names."""
        ending = path.suffix.lower()
        if ending not in (".svg", ".png"):
            raise InvalidInput(f"{path} is neither an .svg nor a .png file.")
        data = self.png() if ending == ".png" else self.svg().encode()
        with atomic_write(path.absolute()) as file:
            file.write(data)


def _shape_to_svg(shape: Shape) -> str:
    match shape:
        case LineSegment():
            dashes = ' stroke-dasharray="5 4"' if shape.dashed else ""
            ends = f'x1="{shape.x1:.1f}" y1="{shape.y1:.1f}" x2="{shape.x2:.1f}" y2="{shape.y2:.1f}"'
            return f'<line {ends} stroke="{shape.colour}"{dashes}/>'
        case Polyline():
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in shape.points)
            return f'<polyline points="{points}" fill="none" stroke="{shape.colour}" stroke-width="2"/>'
        case Dot():
            return f'<circle cx="{shape.x:.1f}" cy="{shape.y:.1f}" r="{shape.radius:.1f}" fill="{shape.colour}"/>'
        case TextLabel():
            place = f'x="{shape.x:.1f}" y="{shape.y:.1f}" text-anchor="{shape.anchor}"'
            return f"<text {place}>{escape(_replace_unprintable(shape.text))}</text>"


def _paint_shape(draw: Any, shape: Shape) -> None:
    match shape:
        case LineSegment():
            for piece in _dash_segments(shape):
                draw.line(piece, fill=shape.colour, width=_PNG_SCALE)
        case Polyline():
            points = [(_PNG_SCALE * x, _PNG_SCALE * y) for x, y in shape.points]
            draw.line(points, fill=shape.colour, width=2 * _PNG_SCALE, joint="curve")
        case Dot():
            x, y, r = _PNG_SCALE * shape.x, _PNG_SCALE * shape.y, _PNG_SCALE * shape.radius
            draw.ellipse((x - r, y - r, x + r, y + r), fill=shape.colour)
        case TextLabel():
            anchor = {"start": "ls", "middle": "ms", "end": "rs"}[shape.anchor]
            place = (_PNG_SCALE * shape.x, _PNG_SCALE * shape.y)
            draw.text(
                place, _replace_unprintable(shape.text), fill=INK, anchor=anchor, font_size=_PNG_SCALE * _FONT_SIZE
            )


def _dash_segments(line: LineSegment) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    """A line, or the dashes it is made of, as large as it is painted."""
    parts = 2 * _DASH_COUNT - 1 if line.dashed else 1

    def point_at(part: int) -> tuple[float, float]:
        share = part / parts
        return (
            _PNG_SCALE * (line.x1 + share * (line.x2 - line.x1)),
            _PNG_SCALE * (line.y1 + share * (line.y2 - line.y1)),
        )

    for part in range(0, parts, 2):
        yield point_at(part), point_at(part + 1)


def _replace_unprintable(text: str) -> str:
    """The text without characters that XML cannot hold or a line cannot show."""
    return "".join(character if character.isprintable() else "�" for character in text)
