"""Lines of Markdown: what a heading, an entry of a list and the mark of a code block are."""

from __future__ import annotations

_FENCES = ("```", "~~~")


def read_fence(line: str) -> str:
    """Return the mark with which a line begins or ends a block of code, or ""."""
    mark = line.lstrip()[:3]
    return mark if mark in _FENCES else ""


def read_heading(line: str) -> tuple[int, str]:
    """Return the level and the title of a heading; level 0 for any other line."""
    bare = line.rstrip()
    level = len(bare) - len(bare.lstrip("#"))
    rest = bare[level:]
    if not 1 <= level <= 6 or (rest and not rest[0].isspace()):
        return 0, ""
    return level, rest.strip().rstrip("#").rstrip()


def read_bullet(line: str) -> str | None:
    """Return the entry of a list without numbers, or None for any other line."""
    bare = line.lstrip()
    return bare[2:].strip() if bare[:1] in ("-", "*", "+") and bare[1:2].isspace() else None


def read_numbered(line: str) -> tuple[int, str] | None:
    """Return the number and the text of an entry of a numbered list, or None for any other line."""
    number = line[: len(line) - len(line.lstrip("0123456789"))]
    rest = line[len(number) :]
    if not 0 < len(number) <= 9 or rest[:1] not in (".", ")") or not rest[1:2].isspace():
        return None
    return int(number), rest[2:].strip()
