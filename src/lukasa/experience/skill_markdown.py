"""A skill as Markdown: a title, then prerequisites, steps, common errors with their fixes, exit criteria.

    # Skill: API Endpoint Implementation

    ## Prerequisites          - one per line
    ## Steps                  1. in order
    ## Common Errors & Fixes  - Error: fix
    ## Exit Criteria          - one per line

Title and steps are needed, the rest may be missing; other sections are kept. Every fault is told with its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_SKILL_CHARS = 200_000
_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*\s*$")
_TITLE_PREFIX = re.compile(r"^skill\s*:\s*", re.IGNORECASE)
_BULLET = re.compile(r"^[-*+]\s+(.*)$")
_NUMBERED = re.compile(r"^(\d{1,9})[.)]\s+(.*)$")
_FENCE = re.compile(r"^\s*(```|~~~)")
PREREQUISITES, STEPS, ERRORS, CRITERIA = "prerequisites", "steps", "common errors & fixes", "exit criteria"
_SECTION_ALIASES = {
    "common errors and fixes": ERRORS, "common errors": ERRORS, "errors & fixes": ERRORS, "errors and fixes": ERRORS,
    "prerequisite": PREREQUISITES, "procedure": STEPS, "exit criterion": CRITERIA,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SkillFault:
    """What is wrong with a skill, and in which line (from 1)."""

    line: int
    what: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.what}"


@dataclass(frozen=True, slots=True)
class SkillText:
    """What a skill says. ``errors`` are pairs of what goes wrong and its fix."""

    title: str
    prerequisites: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    errors: tuple[tuple[str, str], ...] = ()
    criteria: tuple[str, ...] = ()


def parse_skill(markdown: str) -> SkillText | list[SkillFault]:
    """The skill that a text spells, or everything that is wrong with it."""
    if len(markdown) > MAX_SKILL_CHARS:
        return [SkillFault(1, f"the skill has {len(markdown):,} characters; at most {MAX_SKILL_CHARS:,} are allowed")]
    title, title_line, sections, faults = "", 0, dict[str, list[tuple[int, str]]](), list[SkillFault]()
    here, last = "", 1
    for number, line, fenced in _iter_lines(markdown):
        last = number
        heading = None if fenced else _HEADING.match(line)
        if heading is None:
            if here and line.strip():
                sections[here].append((number, f"  {line}" if fenced else line))
            elif not title and line.strip():
                faults.append(SkillFault(number, "text before the title; the first line is '# Skill: …'"))
                title_line, title = number, "?"
        elif len(heading[1]) == 1:
            if title_line:
                faults.append(SkillFault(number, f"a second title; the first one is in line {title_line}"))
            title, title_line = _TITLE_PREFIX.sub("", heading[2]).strip(), number
            if not title:
                faults.append(SkillFault(number, "the title is empty; write '# Skill: what it does'"))
                title = "?"
        elif len(heading[1]) == 2:
            name = heading[2].lower()
            here = _SECTION_ALIASES.get(name, name)
            if here in sections:
                faults.append(SkillFault(number, f"a second section {heading[2]!r}"))
            sections.setdefault(here, [])
    if not title_line:
        faults.insert(0, SkillFault(1, "there is no title; the first line is '# Skill: …'"))
    steps = list(_parse_steps(sections.get(STEPS, []), faults))
    if not steps and not any("step" in fault.what for fault in faults):
        faults.append(SkillFault(last, "there are no steps; add a section '## Steps' with '1. …'"))
    errors = tuple(_parse_errors(sections.get(ERRORS, []), faults))
    told = SkillText(
        title,
        tuple(_parse_bullets(sections.get(PREREQUISITES, []), faults)),
        tuple(steps),
        errors,
        tuple(_parse_bullets(sections.get(CRITERIA, []), faults)),
    )
    return sorted(faults, key=lambda fault: fault.line) if faults else told


def _iter_lines(markdown: str) -> Iterator[tuple[int, str, bool]]:
    """Each line with its number and whether it stands in a fenced block."""
    fenced = False
    for number, line in enumerate(markdown.split("\n"), 1):
        mark = _FENCE.match(line) is not None
        yield number, line.rstrip("\r"), fenced or mark
        fenced = fenced is not mark


def _parse_bullets(lines: list[tuple[int, str]], faults: list[SkillFault]) -> Iterator[str]:
    kept: list[str] = []
    for number, line in lines:
        bullet = _BULLET.match(line) or _NUMBERED.match(line)
        if bullet is not None:
            kept.append(bullet[bullet.lastindex or 1].strip())
        elif kept and line[:1] in " \t":
            kept[-1] += " " + line.strip()
        else:
            faults.append(SkillFault(number, f"not an entry of the list: {line.strip()[:60]!r}; begin it with '- '"))
    yield from kept


def _parse_steps(lines: list[tuple[int, str]], faults: list[SkillFault]) -> Iterator[str]:
    steps: list[str] = []
    for number, line in lines:
        found = _NUMBERED.match(line)
        if found is not None:
            if int(found[1]) not in (len(steps) + 1, 1):
                faults.append(SkillFault(number, f"step {found[1]} where step {len(steps) + 1} should be"))
            steps.append(found[2].strip())
        elif steps and line[:1] in " \t":
            steps[-1] += " " + line.strip()
        else:
            faults.append(SkillFault(number, f"not a step: {line.strip()[:60]!r}; begin it with '{len(steps) + 1}. '"))
    yield from steps


def _parse_errors(lines: list[tuple[int, str]], faults: list[SkillFault]) -> Iterator[tuple[str, str]]:
    found: list[SkillFault] = []
    entries = list(_parse_bullets(lines, found))
    faults += found
    numbers = [number for number, line in lines if _BULLET.match(line) or _NUMBERED.match(line)]
    for number, entry in zip(numbers, entries, strict=False):
        error, colon, fix = entry.partition(":")
        if not colon or not error.strip() or not fix.strip():
            faults.append(SkillFault(number, f"an error without its fix: {entry[:60]!r}; write 'Error: fix'"))
        else:
            yield error.strip(), fix.strip()


def render_skill(text: SkillText) -> str:
    """The skill in the document's form."""
    parts = [f"# Skill: {_one_line(text.title)}"]
    if text.prerequisites:
        parts.append("\n".join(["## Prerequisites", *(f"- {_one_line(entry)}" for entry in text.prerequisites)]))
    parts.append("\n".join(["## Steps", *(f"{at}. {_one_line(step)}" for at, step in enumerate(text.steps, 1))]))
    if text.errors:
        told = (f"- {_one_line(error).replace(':', ' –')}: {_one_line(fix)}" for error, fix in text.errors)
        parts.append("\n".join(["## Common Errors & Fixes", *told]))
    if text.criteria:
        parts.append("\n".join(["## Exit Criteria", *(f"- {_one_line(entry)}" for entry in text.criteria)]))
    return "\n\n".join(parts) + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())
