"""Claude Code's or Codex's transcript of a session: JSON lines, read as turns of a conversation and as content of an episode.

Lines that are not messages of the main conversation are skipped: sub-agents, remarks of the program, thoughts of the
model. Damaged lines are skipped too, because the file is still being written while it is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from lukasa.core.canonical_json import find_bracket_fault
from lukasa.core.clock import from_iso
from lukasa.errors import InvalidInput

MAX_TRANSCRIPT_BYTES = 200_000_000
"""Bytes of the largest transcript that is read."""
OWN_TOOL_PREFIX = "mcp__lukasa__"
"""The prefix that Claude Code gives to the names of Lukasa's tools."""
_MAX_TEXT_LENGTH = 20_000
_OMISSION = "[… {left:,} characters left out …]"
_TARGET_FIELDS = ("file_path", "path", "notebook_path", "command", "pattern", "query", "url", "description")
_EDITING_TOOLS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})


@dataclass(frozen=True, slots=True)
class TranscriptTurn:
    """A turn for ``memory.context``, with the id that Claude Code gave it."""

    uuid: str
    turn: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Transcript:
    """A session: its turns, and the goal, actions, errors and artifacts of its episode."""

    turns: tuple[TranscriptTurn, ...]
    goal: str
    actions: tuple[Mapping[str, Any], ...]
    errors: tuple[Mapping[str, str], ...]
    artifacts: tuple[str, ...]
    started_at: datetime | None
    ended_at: datetime | None
    is_finished: bool
    """Whether the agent spoke last, with no tool call left open."""


def read_transcript(path: Path) -> Transcript:
    """Read the session in a transcript file."""
    if path.stat().st_size > MAX_TRANSCRIPT_BYTES:
        raise InvalidInput(f"{path.name} is larger than {MAX_TRANSCRIPT_BYTES:,} bytes.")
    with path.open("rb") as file:
        lines = (line for line in map(_parse_line, file) if isinstance(line, dict))
        return parse_transcript(_as_claude_line(line, number) for number, line in enumerate(lines))


def _parse_line(raw: bytes) -> Any:
    try:
        text = raw.decode("utf-8", "replace")
        return json.loads(text) if find_bracket_fault(text) is None else None
    except (ValueError, RecursionError):
        return None


def _as_claude_line(line: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    """Return a message of a transcript of Codex as Claude Code would write it; any other line as it is.

    What Codex itself puts in front of a conversation begins with a tag and is marked as no message.
    """
    payload = line.get("payload")
    if line.get("type") != "response_item" or not isinstance(payload, dict) or payload.get("type") != "message":
        return line
    parts = [
        part for part in _content_blocks(payload.get("content")) if part.get("type") in ("input_text", "output_text")
    ]
    blocks = [{"type": "text", "text": part.get("text")} for part in parts]
    is_setup = bool(blocks) and str(blocks[0]["text"]).lstrip().startswith("<")
    message = {"role": payload.get("role"), "content": blocks}
    return {"message": message, "uuid": f"line {number}", "timestamp": line.get("timestamp"), "isMeta": is_setup}


def parse_transcript(lines: Iterable[Mapping[str, Any]]) -> Transcript:
    """Collect the session from its lines."""
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
        blocks, time = _content_blocks(message.get("content")), _parse_time(line.get("timestamp"))
        calls = [block for block in blocks if block.get("type") == "tool_use"]
        steps = [_parse_action(call) for call in calls]
        texts = [block["text"] for block in blocks if block.get("type") == "text" and block.get("text")]
        text = "\n".join(map(_clean_text, texts))
        if text or calls:
            content = text or "\n".join(f"[{step['action']} {step['target']}]" for step in steps)
            called = [{"id": str(call.get("id", "")), "name": str(call.get("name", ""))} for call in calls]
            turn = {"role": role, "content": content, "timestamp": time, "tool_calls": called}
            turns.append(TranscriptTurn(uuid, turn))
            last = "call" if calls else str(role)
            goal = goal or (text if role == "user" and not text.lstrip().startswith("<") else "")
        for call, step in zip(calls, steps, strict=True):
            actions[str(call.get("id"))] = step
            if call.get("name") in _EDITING_TOOLS and step["target"]:
                artifacts[step["target"]] = None
        for index, result in enumerate(block for block in blocks if block.get("type") == "tool_result"):
            id, last = str(result.get("tool_use_id", "")), "result"
            if actions.get(id, {}).get("action", "").startswith(OWN_TOOL_PREFIX):
                continue  # recalled records are stored already and must not be found again as new statements
            output = _result_text(result.get("content"))
            turn = {"role": "tool", "content": output, "timestamp": time, "tool_call_id": id}
            turns.append(TranscriptTurn(f"{uuid}/{index}", turn))
            if result.get("is_error"):
                step = actions.get(id, {"action": "tool"})
                step["error"] = output[:300]
                errors.append({"type": f"{step['action']} failed", "message": output[:1_000]})
    times = [item.turn["timestamp"] for item in turns if item.turn["timestamp"] is not None]
    return Transcript(
        tuple(turns), " ".join(goal.split())[:500], tuple(actions.values()), tuple(errors), tuple(artifacts),
        min(times, default=None), max(times, default=None), last == "assistant",
    )  # fmt: skip


def _parse_action(call: Mapping[str, Any]) -> dict[str, Any]:
    given = call.get("input")
    fields = given if isinstance(given, dict) else {}
    target = next((fields[name] for name in _TARGET_FIELDS if isinstance(fields.get(name), str)), "")
    return {"action": str(call.get("name", "tool"))[:100], "target": " ".join(target.split())[:300]}


def _content_blocks(content: Any) -> list[Mapping[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _result_text(content: Any) -> str:
    texts = [block["text"] for block in _content_blocks(content) if isinstance(block.get("text"), str)]
    return _clean_text("\n".join(texts)) or "(no output)"


def _clean_text(text: Any) -> str:
    """Return a text without NUL characters; the middle of a long text is left out."""
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
