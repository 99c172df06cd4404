"""SVG pictures made of a few shapes on a white background."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

from lukasa.errors import InvalidInput
from lukasa.storage.files import open_output_file

INK, GRID, BLUE, RED = "#1b1b1b", "#d9d9d9", "#1f6feb", "#c03030"
_FONT_SIZE = 12


@dataclass(frozen=True, slots=True)
class LineSegment:
    """A straight line between two points."""

    x1: float
    y1: float
    x2: float
    y2: float
    colour: str = INK
    dashed: bool = False

    def svg(self) -> str:
        """Return the SVG element."""
        dashes = ' stroke-dasharray="5 4"' if self.dashed else ""
        ends = f'x1="{self.x1:.1f}" y1="{self.y1:.1f}" x2="{self.x2:.1f}" y2="{self.y2:.1f}"'
        return f'<line {ends} stroke="{self.colour}"{dashes}/>'


@dataclass(frozen=True, slots=True)
class Polyline:
    """A line through several points."""

    points: tuple[tuple[float, float], ...]
    colour: str = BLUE

    def svg(self) -> str:
        """Return the SVG element."""
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in self.points)
        return f'<polyline points="{points}" fill="none" stroke="{self.colour}" stroke-width="2"/>'


@dataclass(frozen=True, slots=True)
class Dot:
    """A filled circle."""

    x: float
    y: float
    radius: float
    colour: str = BLUE

    def svg(self) -> str:
        """Return the SVG element."""
        return f'<circle cx="{self.x:.1f}" cy="{self.y:.1f}" r="{self.radius:.1f}" fill="{self.colour}"/>'


@dataclass(frozen=True, slots=True)
class TextLabel:
    """A text whose start, middle or end is at a point."""

    x: float
    y: float
    text: str
    anchor: str = "middle"

    def svg(self) -> str:
        """Return the SVG element."""
        attributes = f'x="{self.x:.1f}" y="{self.y:.1f}" text-anchor="{self.anchor}"'
        return f"<text {attributes}>{_escape_text(self.text)}</text>"


Shape = LineSegment | Polyline | Dot | TextLabel


@dataclass(frozen=True, slots=True)
class Picture:
    """Shapes in the order in which they are drawn."""

    width: int
    height: int
    title: str
    shapes: tuple[Shape, ...]

    def svg(self) -> str:
        """Return the picture as an SVG document."""
        elements = "\n".join(shape.svg() for shape in self.shapes)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" role="img" font-family="sans-serif" font-size="{_FONT_SIZE}" fill="{INK}">\n'
            f"<title>{_escape_text(self.title)}</title>\n"
            f'<rect width="100%" height="100%" fill="#ffffff"/>\n{elements}\n</svg>\n'
        )

    def save(self, path: Path, *, replace: bool = True) -> None:
        """Write the picture to an ``.svg`` file, completely or not at all; refuse any other suffix."""
        if path.suffix.lower() != ".svg":
            raise InvalidInput(f"{path} is not an .svg file.", hint="Pictures are SVG: use a file name ending in .svg.")
        with open_output_file(path.absolute(), replace=replace) as file:
            file.write(self.svg().encode())


def _escape_text(text: str) -> str:
    """Escape a text for XML and replace characters that XML cannot hold or a line cannot show."""
    return escape("".join(character if character.isprintable() else "�" for character in text))
