"""A skill as Markdown: a title, then prerequisites, steps, common errors with their fixes, exit criteria.

    # Skill: API Endpoint Implementation

    ## Prerequisites          - one per line
    ## Steps                  1. in order
    ## Common Errors & Fixes  - Error: fix
    ## Exit Criteria          - one per line

Title and steps are required, the rest is optional; other sections are kept. Every fault is reported with its line.
"""

from __future__ import annotations

from dataclasses import dataclass

from lukasa.text.markdown import read_bullet, read_fence, read_heading, read_numbered

MAX_SKILL_CHARS = 200_000
PREREQUISITES, STEPS, ERRORS, CRITERIA = "prerequisites", "steps", "common errors & fixes", "exit criteria"
_SECTION_ALIASES = {
    "common errors and fixes": ERRORS, "common errors": ERRORS, "errors & fixes": ERRORS, "errors and fixes": ERRORS,
    "prerequisite": PREREQUISITES, "procedure": STEPS, "exit criterion": CRITERIA,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SkillFault:
    """A fault in a skill and its line, counted from 1."""

    line: int
    what: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.what}"


@dataclass(frozen=True, slots=True)
class SkillText:
    """The parts of a skill. ``errors`` are pairs of an error and its fix."""

    title: str
    prerequisites: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    errors: tuple[tuple[str, str], ...] = ()
    criteria: tuple[str, ...] = ()


def parse_skill(markdown: str) -> SkillText | list[SkillFault]:
    """Parse a skill, or return all of its faults."""
    if len(markdown) > MAX_SKILL_CHARS:
        return [SkillFault(1, f"the skill has {len(markdown):,} characters; at most {MAX_SKILL_CHARS:,} are allowed")]
    title, title_line, section, in_fence = "", 0, "", False
    sections: dict[str, list[tuple[int, str]]] = {}
    faults: list[SkillFault] = []
    lines = markdown.split("\n")
    for number, raw_line in enumerate(lines, 1):
        line = raw_line.rstrip("\r")
        is_fence = read_fence(line) != ""
        is_code = in_fence or is_fence
        in_fence = in_fence is not is_fence
        level, name = (0, "") if is_code else read_heading(line)
        if not level:
            if section and line.strip():
                sections[section].append((number, f"  {line}" if is_code else line))
            elif not title and line.strip():
                faults.append(SkillFault(number, "text before the title; the first line is '# Skill: …'"))
                title_line, title = number, "?"
        elif level == 1:
            if title_line:
                faults.append(SkillFault(number, f"a second title; the first one is in line {title_line}"))
            title, title_line = name[6 if name.lower().startswith("skill:") else 0 :].strip(), number
            if not title:
                faults.append(SkillFault(number, "the title is empty; write '# Skill: what it does'"))
                title = "?"
        elif level == 2:
            section = _SECTION_ALIASES.get(name.lower(), name.lower())
            if section in sections:
                faults.append(SkillFault(number, f"a second section {name!r}"))
            sections.setdefault(section, [])
    if not title_line:
        faults.insert(0, SkillFault(1, "there is no title; the first line is '# Skill: …'"))
    steps = _parse_entries(sections.get(STEPS, []), faults, numbered=True)
    if not steps and not any("step" in fault.what for fault in faults):
        faults.append(SkillFault(len(lines), "there are no steps; add a section '## Steps' with '1. …'"))
    errors: list[tuple[str, str]] = []
    for number, entry in _parse_entries(sections.get(ERRORS, []), faults):
        error, _, fix = entry.partition(":")
        if error.strip() and fix.strip():
            errors.append((error.strip(), fix.strip()))
        else:
            faults.append(SkillFault(number, f"an error without its fix: {entry[:60]!r}; write 'Error: fix'"))
    prerequisites = _parse_entries(sections.get(PREREQUISITES, []), faults)
    criteria = _parse_entries(sections.get(CRITERIA, []), faults)
    lists = [tuple(entry for _, entry in entries) for entries in (prerequisites, steps, criteria)]
    text = SkillText(title, lists[0], lists[1], tuple(errors), lists[2])
    return sorted(faults, key=lambda fault: fault.line) if faults else text


def _parse_entries(
    lines: list[tuple[int, str]], faults: list[SkillFault], *, numbered: bool = False
) -> list[tuple[int, str]]:
    """Return the entries of a list, each with the number of its first line; add a fault for any other line."""
    entries: list[tuple[int, str]] = []
    for number, line in lines:
        following = len(entries) + 1
        step = read_numbered(line)
        entry = step[1] if step else None if numbered or line[:1].isspace() else read_bullet(line)
        if entry is not None:
            if step and numbered and step[0] not in (following, 1):
                faults.append(SkillFault(number, f"step {step[0]} where step {following} should be"))
            entries.append((number, entry))
        elif entries and line[:1] in " \t":
            entries[-1] = (entries[-1][0], f"{entries[-1][1]} {line.strip()}")
        else:
            what, prefix = ("a step", f"{following}. ") if numbered else ("an entry of the list", "- ")
            faults.append(SkillFault(number, f"not {what}: {line.strip()[:60]!r}; begin it with '{prefix}'"))
    return entries


def render_skill(text: SkillText) -> str:
    """Render a skill as Markdown in the document's form."""
    errors = (f"{_one_line(error).replace(':', ' –')}: {_one_line(fix)}" for error, fix in text.errors)
    sections = [
        ("Prerequisites", [f"- {_one_line(entry)}" for entry in text.prerequisites]),
        ("Steps", [f"{number}. {_one_line(step)}" for number, step in enumerate(text.steps, 1)]),
        ("Common Errors & Fixes", [f"- {entry}" for entry in errors]),
        ("Exit Criteria", [f"- {_one_line(entry)}" for entry in text.criteria]),
    ]
    parts = ["\n".join([f"## {name}", *lines]) for name, lines in sections if lines or name == "Steps"]
    return "\n\n".join([f"# Skill: {_one_line(text.title)}", *parts]) + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())
