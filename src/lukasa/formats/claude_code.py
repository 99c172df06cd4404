"""Claude Code's transcript of a session: JSON lines, read into turns and into what an episode tells.

Lines that are not messages of the main conversation (sub-agents, the program's own remarks, what the model thought) are
passed over, and so is a line that is damaged: the file is still being written while it is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from lukasa.clock import from_iso
from lukasa.errors import InvalidInput

LARGEST = 200_000_000
"""Bytes of the largest transcript that is read."""
OWN = "mcp__lukasa__"
"""What Claude Code calls our tools."""
_LONGEST = 20_000
_MARK = "[… {left:,} characters left out …]"
_TARGETS = ("file_path", "path", "notebook_path", "command", "pattern", "query", "url", "description")
_MAKES = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})


@dataclass(frozen=True, slots=True)
class Said:
    """One turn as the context room takes it, with the id that Claude Code gave it."""

    uuid: str
    turn: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Transcript:
    """A session: its turns, and what was wanted, done, broken and made in it."""

    turns: tuple[Said, ...]
    goal: str
    actions: tuple[Mapping[str, Any], ...]
    errors: tuple[Mapping[str, str], ...]
    artifacts: tuple[str, ...]
    began: datetime | None
    ended: datetime | None
    finished: bool
    """Whether the last word is the agent's, with no tool call left open."""


def read_transcript(path: Path) -> Transcript:
    """The session in a transcript file."""
    if path.stat().st_size > LARGEST:
        raise InvalidInput(f"{path.name} is larger than {LARGEST:,} bytes.")
    with path.open("rb") as file:
        return transcript_of(_lines(file))


def _lines(file: Iterable[bytes]) -> Iterator[Mapping[str, Any]]:
    for raw in file:
        try:
            line = json.loads(raw.decode("utf-8", "replace").encode("utf-8", "replace").decode())
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict):
            yield line


def transcript_of(lines: Iterable[Mapping[str, Any]]) -> Transcript:
    """The session that the lines tell."""
    turns: list[Said] = []
    actions: dict[str, dict[str, Any]] = {}
    errors: list[dict[str, str]] = []
    artifacts: dict[str, None] = {}
    goal, last = "", ""
    for line in lines:
        message = line.get("message")
        if not isinstance(message, dict) or line.get("isSidechain") or line.get("isMeta"):
            continue
        role, uuid = message.get("role"), line.get("uuid")
        if role not in ("user", "assistant") or not isinstance(uuid, str) or not uuid:
            continue
        blocks, when = _blocks(message.get("content")), _time(line.get("timestamp"))
        calls = [block for block in blocks if block.get("type") == "tool_use"]
        text = "\n".join(_text(block["text"]) for block in blocks if block.get("type") == "text" and block.get("text"))
        if text or calls:
            turns.append(_said(uuid, role, text, when, calls))
            last = "call" if calls else str(role)
            goal = goal or (text if role == "user" and not text.lstrip().startswith("<") else "")
        for call in calls:
            step = _action(call)
            actions[str(call.get("id"))] = step
            if call.get("name") in _MAKES and step["target"]:
                artifacts[step["target"]] = None
        for at, result in enumerate(block for block in blocks if block.get("type") == "tool_result"):
            told, last = _result(result.get("content")), "result"
            id = str(result.get("tool_use_id", ""))
            if actions.get(id, {}).get("action", "").startswith(OWN):
                continue  # what was recalled is kept already, and must not be found as if somebody had said it
            turn = {"role": "tool", "content": told, "timestamp": when, "tool_call_id": id}
            turns.append(Said(f"{uuid}/{at}", turn))
            if result.get("is_error"):
                step = actions.get(id, {"action": "tool"})
                step["error"] = told[:300]
                errors.append({"type": f"{step['action']} failed", "message": told[:1_000]})
    moments = [said.turn["timestamp"] for said in turns if said.turn["timestamp"] is not None]
    return Transcript(
        tuple(turns),
        " ".join(goal.split())[:500],
        tuple(actions.values()),
        tuple(errors),
        tuple(artifacts),
        min(moments, default=None),
        max(moments, default=None),
        last == "assistant",
    )


def _said(uuid: str, role: str, text: str, when: datetime | None, calls: Sequence[Mapping[str, Any]]) -> Said:
    called = [{"id": str(call.get("id", "")), "name": str(call.get("name", ""))} for call in calls]
    named = text or "\n".join(f"[{step['action']} {step['target']}]" for step in map(_action, calls))
    return Said(uuid, {"role": role, "content": named, "timestamp": when, "tool_calls": called})


def _action(call: Mapping[str, Any]) -> dict[str, Any]:
    told = call.get("input")
    given = told if isinstance(told, dict) else {}
    target = next((given[name] for name in _TARGETS if isinstance(given.get(name), str)), "")
    return {"action": str(call.get("name", "tool"))[:100], "target": " ".join(target.split())[:300]}


def _blocks(content: Any) -> list[Mapping[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _result(content: Any) -> str:
    texts = [block["text"] for block in _blocks(content) if isinstance(block.get("text"), str)]
    return _text("\n".join(texts)) or "(no output)"


def _text(text: Any) -> str:
    """A text as it is kept: without what no store can take, and of a length that somebody might read again."""
    clean = str(text).replace("\0", "")
    if len(clean) <= _LONGEST:
        return clean
    half = _LONGEST // 2
    return clean[:half] + _MARK.format(left=len(clean) - _LONGEST) + clean[-half:]


def _time(told: Any) -> datetime | None:
    try:
        return from_iso(told) if isinstance(told, str) else None
    except InvalidInput:
        return None
