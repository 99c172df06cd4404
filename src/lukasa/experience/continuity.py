"""CONTINUITY.md: what an agent is doing right now, in a file that people and agents read.

Four sections are the store's; they name memories by id and never repeat them in full:

    ## Current Goal
    ## Current State
    ## Relevant Memories (Auto-Retrieved)
    ## Mistakes to Avoid (From Learnings)

A section reaches from its heading to the next heading of the same or a higher level. Everything outside of the four stays
byte for byte as it is, whatever it is. A section that is missing is put at the end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lukasa.clock import Clock, to_iso
from lukasa.errors import FormatError
from lukasa.experience.briefing import RelevantMemories, build_briefing, find_relevant, summary_line
from lukasa.experience.episode import Episode
from lukasa.experience.episodes import Episodes
from lukasa.experience.ledgers import Ledger, Ledgers
from lukasa.experience.skills import Skills
from lukasa.journal import Journal
from lukasa.prompt import neutralise
from lukasa.recall.recall import Recall
from lukasa.storage.engine import Query
from lukasa.storage.files import atomic_write

GOAL, STATE = "Current Goal", "Current State"
MEMORIES, MISTAKES = "Relevant Memories (Auto-Retrieved)", "Mistakes to Avoid (From Learnings)"
SECTIONS = (GOAL, STATE, MEMORIES, MISTAKES)
_HEADING = re.compile(rb"^(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*\r?$")
_FENCE = re.compile(rb"^[ \t]{0,3}(```|~~~)")
_MAX_BYTES = 5_000_000
_MAX_MISTAKES = 5
_NO_GOAL_TEXT = "(none is known; say one with `lukasa continuity --goal`)"


@dataclass(frozen=True, slots=True)
class ContinuityUpdate:
    """What became of the file: whether it changed, and what its sections say."""

    path: Path
    changed: bool
    goal: str
    sections: Mapping[str, Sequence[str]]


class Continuity:
    """Keeps CONTINUITY.md current for one agent."""

    def __init__(self, journal: Journal, recall: Recall, clock: Clock) -> None:
        self._journal = journal
        self._recall = recall
        self._clock = clock
        self._skills = Skills(journal, clock)

    def update(self, path: str | Path = "CONTINUITY.md", *, goal: str = "", agent: str = "") -> ContinuityUpdate:
        """Brings the file's own sections up to date; a file that says so already is not touched.

        The goal is the one given here, else that of the agent's unfinished episode or ledger, else what the file says.
        """
        place = Path(path)
        before = _read_file(place)
        name = agent or self._journal.author
        running = self._running_episode(name)
        ledger = Ledgers(self._journal, self._clock).get(name) if name else None
        wanted = goal or (running.goal if running else "") or _goal_in_ledger(ledger) or _goal_in_file(before)
        found, mistakes = self._retrieve_memories(wanted)
        sections: dict[str, Sequence[str]] = {
            GOAL: [_safe_line(wanted).lstrip("#`~ ") or _NO_GOAL_TEXT],
            STATE: _state_lines(running, ledger),
            MEMORIES: [f"- {line}" for line in found.lines()] or ["- (none)"],
            MISTAKES: [f"- {line}" for line in mistakes] or ["- (none)"],
        }
        after = merge_sections(before, sections)
        if after != before:
            place.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(place) as file:
                file.write(after)
        return ContinuityUpdate(place, after != before, wanted, sections)

    def tip(self) -> int:
        """A number that grows whenever something is written: what a watcher waits for."""
        return self._journal.tip()

    def _running_episode(self, agent: str) -> Episode | None:
        unfinished = Episodes(self._journal, self._clock).unfinished()
        own = [episode for episode in unfinished if not agent or episode.agent == agent]
        return own[-1] if own else None

    def _retrieve_memories(self, goal: str) -> tuple[RelevantMemories, list[str]]:
        if not goal:
            newest = self._journal.read(Query(kinds=("antipattern",), newest_first=True, limit=_MAX_MISTAKES))
            return RelevantMemories("", ()), [summary_line(record) for record in newest]
        now = self._clock.now()
        found = find_relevant(self._journal, self._recall, self._skills, now, goal)
        return found, list(build_briefing(self._journal, self._recall, self._skills, now, goal).context["avoid_these"])


def merge_sections(before: bytes, sections: Mapping[str, Sequence[str]]) -> bytes:
    """The file with its own sections renewed and everything else as it was."""
    newline = b"\r\n" if b"\r\n" in before else b"\n"
    missing = dict(sections)
    parts: list[bytes] = []
    for name, raw in _split_sections(before):
        if name not in missing:
            parts.append(raw)
            continue
        heading = raw.splitlines(keepends=True)[0]
        ended = heading if heading.endswith((b"\n", b"\r")) else heading + newline
        last = raw.rstrip(b"\r\n \t") + newline
        tail = raw[len(last) :] if raw.startswith(last) else b""
        parts.append(ended + _encode_lines(missing.pop(name), newline) + (tail or b""))
    text = b"".join(parts)
    for name, lines in missing.items():
        gap = b"" if not text else newline if text.endswith(b"\n") else newline + newline
        text += gap + b"## " + name.encode() + newline + _encode_lines(lines, newline)
    return text


def _encode_lines(lines: Sequence[str], newline: bytes) -> bytes:
    return b"".join(line.encode() + newline for line in lines)


def _split_sections(text: bytes) -> list[tuple[str, bytes]]:
    """The file in pieces: what belongs to one of our sections under its name, everything else under none."""
    pieces: list[tuple[str, bytes]] = []
    name, level = "", 0
    lines = text.splitlines(keepends=True)
    fenced = _fenced_lines(lines)
    for at, line in enumerate(lines):
        heading = None if at in fenced else _HEADING.match(line.rstrip(b"\r\n"))
        if heading is not None:
            told = heading[2].decode("utf-8", "replace")
            if told in SECTIONS:
                name, level = told, len(heading[1])
                pieces.append((name if all(name != known for known, _ in pieces) else "", b""))
            elif len(heading[1]) <= level or not name:
                name, level = "", 0
                pieces.append(("", b""))
        if not pieces:
            pieces.append(("", b""))
        pieces[-1] = (pieces[-1][0], pieces[-1][1] + line)
    return pieces


def _fenced_lines(lines: Sequence[bytes]) -> set[int]:
    """The lines that stand in fenced blocks; a fence that is never closed is none."""
    marks = [(at, mark[1]) for at, line in enumerate(lines) if (mark := _FENCE.match(line)) is not None]
    inside: set[int] = set()
    while marks:
        start, kind = marks.pop(0)
        end = next((place for place, (_, other) in enumerate(marks) if other == kind), None)
        if end is not None:
            inside.update(range(start, marks[end][0] + 1))
            del marks[: end + 1]
    return inside


def _read_file(path: Path) -> bytes:
    if not path.exists():
        return b""
    if path.stat().st_size > _MAX_BYTES:
        raise FormatError(f"{path} is larger than {_MAX_BYTES:,} bytes; it was left untouched.")
    return path.read_bytes()


def _goal_in_file(text: bytes) -> str:
    """The goal that the file names."""
    for name, raw in _split_sections(text):
        if name == GOAL:
            said = " ".join(raw.decode("utf-8", "replace").splitlines()[1:]).strip()
            return "" if said == _NO_GOAL_TEXT else said
    return ""


def _goal_in_ledger(ledger: Ledger | None) -> str:
    found = ledger.context.get("current_goal") if ledger is not None else ""
    return found if isinstance(found, str) else ""


def _state_lines(running: Episode | None, ledger: Ledger | None) -> list[str]:
    lines = []
    if running is not None:
        task = f" ({_safe_line(running.task_id)})" if running.task_id else ""
        lines.append(f"- In progress since {to_iso(running.timestamp)}: [{_safe_line(running.id)}]{task}")
    if ledger is not None:
        lines.append(f"- Ledger of {_safe_line(ledger.agent_id)}: {ledger.tasks_completed} tasks completed")
        if ledger.current_task:
            lines.append(f"- Current task: {_safe_line(ledger.current_task)}")
        lines.append(f"- Last checkpoint: {to_iso(ledger.last_checkpoint)}")
    return lines or ["- Nothing is in progress"]


def _safe_line(text: str) -> str:
    return " ".join(neutralise(text).split())[:500]
