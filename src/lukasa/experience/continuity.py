"""CONTINUITY.md: a file for people and agents that says what an agent is doing right now.

The store maintains four sections, which name memories by id and never repeat them in full:

    ## Current Goal
    ## Current State
    ## Relevant Memories (Auto-Retrieved)
    ## Mistakes to Avoid (From Learnings)

A section reaches from its heading to the next heading of the same or a higher level. Everything outside of the four stays
byte for byte as it is. A missing section is added at the end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lukasa.clock import Clock, to_iso
from lukasa.errors import FormatError
from lukasa.experience.briefing import build_briefing, find_relevant, summary_line
from lukasa.experience.episodes import Episodes
from lukasa.experience.ledgers import Ledgers
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
    """The result of an update: whether the file changed, and the lines of its sections."""

    path: Path
    changed: bool
    goal: str
    sections: Mapping[str, Sequence[str]]


class Continuity:
    """The continuity service of one agent."""

    def __init__(self, journal: Journal, recall: Recall, clock: Clock) -> None:
        self._journal = journal
        self._recall = recall
        self._clock = clock
        self._skills = Skills(journal, clock)

    def update(self, path: str | Path = "CONTINUITY.md", *, goal: str = "", agent: str = "") -> ContinuityUpdate:
        """Update the four sections of the file; a file that is current already is not written.

        The goal is the one given here, else that of the agent's unfinished episode or ledger, else the one in the file.
        """
        path = Path(path)
        before = b""
        if path.exists():
            if path.stat().st_size > _MAX_BYTES:
                raise FormatError(f"{path} is larger than {_MAX_BYTES:,} bytes; it was left untouched.")
            before = path.read_bytes()
        name = agent or self._journal.author
        unfinished = Episodes(self._journal, self._clock).unfinished()
        own = [episode for episode in unfinished if not name or episode.agent == name]
        running = own[-1] if own else None
        ledger = Ledgers(self._journal, self._clock).get(name) if name else None
        ledger_goal = ledger.context.get("current_goal") if ledger is not None else ""
        goal = goal or (running.goal if running else "") or (ledger_goal if isinstance(ledger_goal, str) else "")
        if not goal:
            section = dict(_split_sections(before)).get(GOAL, b"").decode("utf-8", "replace")
            goal = " ".join(section.splitlines()[1:]).strip()
            goal = "" if goal == _NO_GOAL_TEXT else goal
        if goal:
            now = self._clock.now()
            memories = find_relevant(self._journal, self._recall, self._skills, now, goal).lines()
            briefing = build_briefing(self._journal, self._recall, self._skills, now, goal)
            mistakes = [entry.line for entry in briefing.avoid]
        else:
            newest = self._journal.read(Query(kinds=("antipattern",), newest_first=True, limit=_MAX_MISTAKES))
            memories, mistakes = [], [summary_line(record) for record in newest]
        state = []
        if running is not None:
            task = f" ({_safe_line(running.task_id)})" if running.task_id else ""
            state.append(f"- In progress since {to_iso(running.timestamp)}: [{_safe_line(running.id)}]{task}")
        if ledger is not None:
            state.append(f"- Ledger of {_safe_line(ledger.agent_id)}: {ledger.tasks_completed} tasks completed")
            state += [f"- Current task: {_safe_line(ledger.current_task)}"] if ledger.current_task else []
            state.append(f"- Last checkpoint: {to_iso(ledger.last_checkpoint)}")
        sections: dict[str, Sequence[str]] = {
            GOAL: [_safe_line(goal).lstrip("#`~ ") or _NO_GOAL_TEXT],
            STATE: state or ["- Nothing is in progress"],
            MEMORIES: [f"- {line}" for line in memories] or ["- (none)"],
            MISTAKES: [f"- {line}" for line in mistakes] or ["- (none)"],
        }
        after = merge_sections(before, sections)
        if after != before:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as file:
                file.write(after)
        return ContinuityUpdate(path, after != before, goal, sections)

    def tip(self) -> int:
        """Return a number that grows with every write, for watchers that wait for a change."""
        return self._journal.tip()


def merge_sections(before: bytes, sections: Mapping[str, Sequence[str]]) -> bytes:
    """Return the file with the given sections replaced and everything else unchanged."""
    newline = b"\r\n" if b"\r\n" in before else b"\n"
    missing = dict(sections)
    parts: list[bytes] = []
    for name, raw in _split_sections(before):
        if name not in missing:
            parts.append(raw)
            continue
        heading = raw.splitlines(keepends=True)[0]
        if not heading.endswith((b"\n", b"\r")):
            heading += newline
        content = raw.rstrip(b"\r\n \t") + newline
        blank_end = raw[len(content) :] if raw.startswith(content) else b""
        parts.append(heading + _encode_lines(missing.pop(name), newline) + blank_end)
    text = b"".join(parts)
    for name, lines in missing.items():
        gap = b"" if not text else newline if text.endswith(b"\n") else newline + newline
        text += gap + b"## " + name.encode() + newline + _encode_lines(lines, newline)
    return text


def _encode_lines(lines: Sequence[str], newline: bytes) -> bytes:
    return b"".join(line.encode() + newline for line in lines)


def _split_sections(text: bytes) -> list[tuple[str, bytes]]:
    """Split the file into pieces: each of the four sections under its name, everything else under the empty name."""
    pieces: list[tuple[str, bytes]] = []
    name, level = "", 0
    lines = text.splitlines(keepends=True)
    fenced = _fenced_lines(lines)
    for index, line in enumerate(lines):
        heading = None if index in fenced else _HEADING.match(line.rstrip(b"\r\n"))
        if heading is not None:
            title = heading[2].decode("utf-8", "replace")
            if title in SECTIONS:
                name, level = title, len(heading[1])
                pieces.append((name if all(name != known for known, _ in pieces) else "", b""))
            elif len(heading[1]) <= level or not name:
                name, level = "", 0
                pieces.append(("", b""))
        if not pieces:
            pieces.append(("", b""))
        pieces[-1] = (pieces[-1][0], pieces[-1][1] + line)
    return pieces


def _fenced_lines(lines: Sequence[bytes]) -> set[int]:
    """Return the indexes of the lines in fenced blocks; a fence that is never closed opens no block."""
    fences = [(index, fence[1]) for index, line in enumerate(lines) if (fence := _FENCE.match(line)) is not None]
    inside: set[int] = set()
    while fences:
        start, kind = fences.pop(0)
        end = next((place for place, (_, other) in enumerate(fences) if other == kind), None)
        if end is not None:
            inside.update(range(start, fences[end][0] + 1))
            del fences[: end + 1]
    return inside


def _safe_line(text: str) -> str:
    return " ".join(neutralise(text).split())[:500]
