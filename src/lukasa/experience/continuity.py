"""CONTINUITY.md: a file for people and agents that says what an agent is doing right now.

The store maintains one block of four sections, which name memories by id and never repeat them in full:

    <!-- lukasa:begin -->
    ## Current Goal
    ## Current State
    ## Relevant Memories (Auto-Retrieved)
    ## Mistakes to Avoid (From Learnings)
    <!-- lukasa:end -->

Everything outside of the two markers stays byte for byte as it is, sections of the same names included. A file without
the block gets one at its end; after that the block may be moved. Markers in fenced code are text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lukasa.core.argument_types import check_arguments
from lukasa.core.clock import Clock, to_iso
from lukasa.errors import FormatError
from lukasa.experience.briefing import BriefingEntry, build_briefing, find_relevant, leave_out_unconfirmed
from lukasa.experience.episodes import EPISODE, Episode, Episodes
from lukasa.experience.ledgers import Ledgers
from lukasa.experience.lessons import Lessons
from lukasa.experience.skills import Skills
from lukasa.journal import CallerService, Journal
from lukasa.recall.prompt import to_one_line
from lukasa.recall.recall import Recall
from lukasa.storage.engine import Query
from lukasa.storage.files import check_output_path, open_output_file

GOAL, STATE = "Current Goal", "Current State"
MEMORIES, MISTAKES = "Relevant Memories (Auto-Retrieved)", "Mistakes to Avoid (From Learnings)"
SECTIONS = (GOAL, STATE, MEMORIES, MISTAKES)
_BEGIN, _END = b"<!-- lukasa:begin -->", b"<!-- lukasa:end -->"
_HEADING = re.compile(rb"^(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*\r?$")
_FENCE = re.compile(rb"^[ \t]{0,3}(```|~~~)")
_MAX_BYTES = 5_000_000
_MAX_MISTAKES = 5
_MAX_EPISODES = 20
_NO_GOAL_TEXT = "(none is known; say one with `lukasa continuity --goal`)"


@dataclass(frozen=True, slots=True)
class ContinuityUpdate:
    """The result of an update: whether the file changed, and the lines of its sections."""

    path: Path
    changed: bool
    goal: str
    sections: Mapping[str, Sequence[str]]


@check_arguments
class Continuity(CallerService):
    """The continuity service of one agent."""

    def __init__(self, journal: Journal, recall: Recall, clock: Clock) -> None:
        self._journal = journal
        self._recall = recall
        self._clock = clock
        self._skills = Skills(journal, clock)

    def update(self, path: str | Path = "CONTINUITY.md", *, goal: str = "", agent: str = "") -> ContinuityUpdate:
        """Update the block of four sections in the file; a file that is current already is not written.

        The goal is the one given here, else that of the agent's unfinished episode or ledger, else the one in the file.

        Args:
            path: The file to update; it is created if it is missing.
            goal: The goal; default: that of the agent's unfinished episode or ledger, else the one in the file.
            agent: The agent; default: the caller.

        Example:
            memory.continuity.update(folder / "CONTINUITY.md", goal="Ship the release")
        """
        path = Path(path)
        before = b""
        check_output_path(path)
        if path.exists():
            if path.stat().st_size > _MAX_BYTES:
                raise FormatError(f"{path} is larger than {_MAX_BYTES:,} bytes; it was left untouched.")
            before = path.read_bytes()
        name = agent or self._journal.author
        unfinished = Episodes(self._journal, self._clock).list(unfinished=True)
        own = [episode for episode in unfinished if not name or episode.agent == name]
        running = own[-1] if own else None
        ledger = Ledgers(self._journal, self._clock).get(name) if name else None
        ledger_goal = ledger.context.get("current_goal") if ledger is not None else ""
        goal = goal or (running.goal if running else "") or (ledger_goal if isinstance(ledger_goal, str) else "")
        if not goal:
            goal = _read_goal(before)
        if goal:
            now = self._clock.now()
            memories = find_relevant(self._journal, self._recall, self._skills, now, goal).lines()
            briefing = build_briefing(self._journal, self._recall, self._skills, now, goal)
            mistakes = [entry.line for entry in briefing.avoid]
        else:
            newest = self._journal.read(Query(kinds=("antipattern",), newest_first=True, limit=_MAX_MISTAKES))
            entries = leave_out_unconfirmed(self._journal, [BriefingEntry(record, 0, 0) for record in newest], {})
            memories, mistakes = [], [entry.line for entry in entries]
        state = []
        if running is not None:
            task = f" ({_safe_line(running.task_id)})" if running.task_id else ""
            state.append(f"- In progress since {to_iso(running.timestamp)}: [{_safe_line(running.id)}]{task}")
        if ledger is not None:
            state.append(f"- Ledger of {_safe_line(ledger.agent_id)}: {ledger.tasks_completed} tasks completed")
            state += [f"- Current task: {_safe_line(ledger.current_task)}"] if ledger.current_task else []
            state.append(f"- Last checkpoint: {to_iso(ledger.last_checkpoint)}")
        if (last := _last_outcome(self._journal)) is not None:
            state.append(
                f"- Last outcome [{_safe_line(last.id)}]: {_safe_line(' '.join(last.record.text.split())[:600])}"
            )
        lessons = [
            lesson for lesson in Lessons(self._journal, self._clock).list() if lesson.failure and lesson.count > 1
        ]
        mistakes += [f"[lesson: {lesson.id}] {_safe_line(lesson.text)}" for lesson in lessons[:_MAX_MISTAKES]]
        sections: dict[str, Sequence[str]] = {
            GOAL: [_safe_line(goal).lstrip("#`~ ") or _NO_GOAL_TEXT],
            STATE: state or ["- Nothing is in progress"],
            MEMORIES: [f"- {line}" for line in memories] or ["- (none)"],
            MISTAKES: [f"- {line}" for line in mistakes] or ["- (none)"],
        }
        after = merge_sections(before, sections)
        if after != before:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open_output_file(path) as file:
                file.write(after)
        return ContinuityUpdate(path, after != before, goal, sections)

    def tip(self) -> int:
        """Return a number that grows with every write, for watchers that wait for a change.

        Example:
            memory.continuity.tip()
        """
        return self._journal.tip()


def _last_outcome(journal: Journal) -> Episode | None:
    """Return the newest finished episode that says what was done."""
    newest = journal.read(Query(kinds=(EPISODE,), newest_first=True, limit=_MAX_EPISODES))
    return next(
        (episode for episode in map(Episode, newest) if episode.context.get("done") and not episode.running), None
    )


def merge_sections(before: bytes, sections: Mapping[str, Sequence[str]]) -> bytes:
    """Return the file with the sections in its block, and everything outside of the block unchanged."""
    newline = b"\r\n" if b"\r\n" in before else b"\n"
    texts = [newline.join((f"## {name}".encode(), *map(str.encode, lines), b"")) for name, lines in sections.items()]
    content = newline.join(texts)
    lines = before.splitlines(keepends=True)
    block = _find_block(lines)
    if block is not None:
        return b"".join((*lines[: block[0] + 1], content, *lines[block[1] :]))
    gap = b"" if not before else newline if before.endswith((b"\n", b"\r")) else newline + newline
    return before + gap + _BEGIN + newline + content + _END + newline


def _find_block(lines: Sequence[bytes]) -> tuple[int, int] | None:
    """Return the indexes of the first pair of markers outside of fenced code, or None."""
    fenced = _fenced_lines(lines)
    begin = None
    for index, line in enumerate(lines):
        if index not in fenced and line.strip() == _BEGIN and line.endswith((b"\n", b"\r")):
            begin = index
        elif index not in fenced and line.strip() == _END and begin is not None:
            return begin, index
    return None


def _read_goal(text: bytes) -> str:
    """Return the text of the first section Current Goal outside of the block, else of the one in the block."""
    lines = text.splitlines(keepends=True)
    begin, end = _find_block(lines) or (len(lines), len(lines))
    fenced = _fenced_lines(lines)
    for part in (range(begin), range(end, len(lines)), range(begin, end)):
        goal: list[str] | None = None
        for index in part:
            heading = None if index in fenced else _HEADING.match(lines[index].rstrip(b"\r\n"))
            if heading is not None and goal is not None:
                break
            if heading is not None and heading[2].decode("utf-8", "replace") == GOAL:
                goal = []
            elif goal is not None and lines[index].strip() not in (_BEGIN, _END):
                goal.append(lines[index].decode("utf-8", "replace"))
        if goal and (joined := " ".join("".join(goal).split())) and joined != _NO_GOAL_TEXT:
            return joined
    return ""


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
    return to_one_line(text)[:500]
