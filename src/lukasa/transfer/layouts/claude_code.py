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

MAX_TRANSCRIPT_BYTES = 200_000_000
"""Bytes of the largest transcript that is read."""
OWN_TOOL_PREFIX = "mcp__lukasa__"
"""What Claude Code calls our tools."""
_MAX_TEXT_LENGTH = 20_000
_OMISSION = "[… {left:,} characters left out …]"
_TARGET_FIELDS = ("file_path", "path", "notebook_path", "command", "pattern", "query", "url", "description")
_EDITING_TOOLS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})


@dataclass(frozen=True, slots=True)
class TranscriptTurn:
    """One turn as the context room takes it, with the id that Claude Code gave it."""

    uuid: str
    turn: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Transcript:
    """A session: its turns, and what was wanted, done, broken and made in it."""

    turns: tuple[TranscriptTurn, ...]
    goal: str
    actions: tuple[Mapping[str, Any], ...]
    errors: tuple[Mapping[str, str], ...]
    artifacts: tuple[str, ...]
    started_at: datetime | None
    ended_at: datetime | None
    is_finished: bool
    """Whether the last word is the agent's, with no tool call left open."""


def read_transcript(path: Path) -> Transcript:
    """The session in a transcript file."""
    if path.stat().st_size > MAX_TRANSCRIPT_BYTES:
        raise InvalidInput(f"{path.name} is larger than {MAX_TRANSCRIPT_BYTES:,} bytes.")
    with path.open("rb") as file:
        return parse_transcript(_parse_lines(file))


def _parse_lines(file: Iterable[bytes]) -> Iterator[Mapping[str, Any]]:
    for raw in file:
        try:
            line = json.loads(raw.decode("utf-8", "replace").encode("utf-8", "replace").decode())
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict):
            yield line


def parse_transcript(lines: Iterable[Mapping[str, Any]]) -> Transcript:
    """The session that the lines tell."""
    turns: list[TranscriptTurn] = []
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
        blocks, when = _content_blocks(message.get("content")), _parse_time(line.get("timestamp"))
        calls = [block for block in blocks if block.get("type") == "tool_use"]
        text = "\n".join(
            _clean_text(block["text"]) for block in blocks if block.get("type") == "text" and block.get("text")
        )
        if text or calls:
            turns.append(_make_turn(uuid, role, text, when, calls))
            last = "call" if calls else str(role)
            goal = goal or (text if role == "user" and not text.lstrip().startswith("<") else "")
        for call in calls:
            step = _parse_action(call)
            actions[str(call.get("id"))] = step
            if call.get("name") in _EDITING_TOOLS and step["target"]:
                artifacts[step["target"]] = None
        for at, result in enumerate(block for block in blocks if block.get("type") == "tool_result"):
            told, last = _result_text(result.get("content")), "result"
            id = str(result.get("tool_use_id", ""))
            if actions.get(id, {}).get("action", "").startswith(OWN_TOOL_PREFIX):
                continue  # what was recalled is kept already, and must not be found as if somebody had said it
            turn = {"role": "tool", "content": told, "timestamp": when, "tool_call_id": id}
            turns.append(TranscriptTurn(f"{uuid}/{at}", turn))
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


def _make_turn(
    uuid: str, role: str, text: str, when: datetime | None, calls: Sequence[Mapping[str, Any]]
) -> TranscriptTurn:
    called = [{"id": str(call.get("id", "")), "name": str(call.get("name", ""))} for call in calls]
    named = text or "\n".join(f"[{step['action']} {step['target']}]" for step in map(_parse_action, calls))
    return TranscriptTurn(uuid, {"role": role, "content": named, "timestamp": when, "tool_calls": called})


def _parse_action(call: Mapping[str, Any]) -> dict[str, Any]:
    told = call.get("input")
    given = told if isinstance(told, dict) else {}
    target = next((given[name] for name in _TARGET_FIELDS if isinstance(given.get(name), str)), "")
    return {"action": str(call.get("name", "tool"))[:100], "target": " ".join(target.split())[:300]}


def _content_blocks(content: Any) -> list[Mapping[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _result_text(content: Any) -> str:
    texts = [block["text"] for block in _content_blocks(content) if isinstance(block.get("text"), str)]
    return _clean_text("\n".join(texts)) or "(no output)"


def _clean_text(text: Any) -> str:
    """A text as it is kept: without what no store can take, and of a length that somebody might read again."""
    clean = str(text).replace("\0", "")
    if len(clean) <= _MAX_TEXT_LENGTH:
        return clean
    half = _MAX_TEXT_LENGTH // 2
    return clean[:half] + _OMISSION.format(left=len(clean) - _MAX_TEXT_LENGTH) + clean[-half:]


def _parse_time(value: Any) -> datetime | None:
    try:
        return from_iso(value) if isinstance(value, str) else None
    except InvalidInput:
        return None
