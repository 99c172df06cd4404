"""Transcripts of Claude Code and Codex: JSON lines, read as the turns of a conversation and as exchanges.

An exchange is a request of a person, the tool calls that it led to, and the agent's final answer. What nobody said is no
turn: reminders and outputs that the program wraps in tags, its commands, summaries of a compaction, the instructions that
Codex puts first. Tool calls and their output are turns that are not said (``is_unsaid``): they stay readable in their
conversation. Damaged lines are skipped, because the file is still being written while it is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
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
EDITING_TOOLS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit", "apply_patch"})
_MAX_TEXT_LENGTH = 20_000
_MAX_SPOKEN_LENGTH = 1_000_000
_OMISSION = "[… {left:,} characters left out …]"
_TARGET_FIELDS = ("file_path", "path", "notebook_path", "command", "cmd", "pattern", "query", "url", "description")
_FILE_FIELDS = ("file_path", "notebook_path")
_WRAPPED = re.compile(r"<([a-zA-Z]+(?:[-_][a-zA-Z]+)+|INSTRUCTIONS)\b[^>]*>.*?</\1>", re.DOTALL)
"""What a program adds to a message: an element whose name has several words."""
_COMMAND = re.compile(r"<command-name>/?(.*?)</command-name>.*?(?:<command-args>(.*?)</command-args>|$)", re.DOTALL)
_PROGRAM_STARTS = (
    "Caveat: The messages below", "[Request interrupted", "# AGENTS.md instructions", "[Image: source:",
    "This session is being continued from a previous conversation",
)  # fmt: skip
_INTERRUPTED = "[Request interrupted"
_HARNESS_ERRORS = (
    "Sibling tool call",
    "The user doesn't want",
    "[Request interrupted",
    "User rejected",
    "Permission to use",
)
"""How an error begins that says nothing of the work: the program refused or stopped the call."""
_EXIT_CODE = re.compile(r"(?:Exit code:?|Process exited with code|\"exit_code\":) ?(\d+)")
_COMMIT = re.compile(r"(?m)^\[[^\]\n]*?([0-9a-f]{7,40})\] (.+)$")
_PULL_REQUEST = re.compile(r"https?://[^\s/]+/[^\s/]+/[^\s/]+/(?:pull|merge_requests)/\d+")
_PATCHED_FILE = ("*** Add File: ", "*** Update File: ")


@dataclass(frozen=True, slots=True)
class TranscriptTurn:
    """A turn for ``memory.context``, with the id that the agent's program gave it."""

    uuid: str
    turn: Mapping[str, Any]

    @property
    def is_said(self) -> bool:
        """Whether somebody said it; a tool call and its output are not said."""
        return not self.turn.get("is_unsaid")


@dataclass(slots=True)
class ToolCall:
    """A tool call and its output."""

    id: str
    name: str
    fields: Mapping[str, Any]
    output: str = ""
    is_failed: bool = False
    remark: str = ""
    """What the agent said next, before another call."""

    @property
    def target(self) -> str:
        """The file, command or words that the tool worked on, in one line."""
        value = next((self.fields[name] for name in _TARGET_FIELDS if isinstance(self.fields.get(name), str)), "")
        return " ".join(value.split())[:300]

    @property
    def command(self) -> str:
        """The command line of a shell call; empty for other tools."""
        value = self.fields.get("command", self.fields.get("cmd"))
        if isinstance(value, list):  # Codex: ["bash", "-lc", "make test"]
            return str(value[-1]) if value else ""
        return value if isinstance(value, str) else ""

    @property
    def file(self) -> str:
        """The file that the tool read or changed; empty for other tools."""
        return next((self.fields[name] for name in _FILE_FIELDS if isinstance(self.fields.get(name), str)), "")

    @property
    def changed_files(self) -> tuple[str, ...]:
        """The files that the call changed."""
        if self.is_failed or self.name not in EDITING_TOOLS:
            return ()
        patch = self.fields.get("patch")
        if isinstance(patch, str):
            return tuple(line.partition(": ")[2] for line in patch.splitlines() if line.startswith(_PATCHED_FILE))
        return (self.file,) if self.file else ()


@dataclass(slots=True)
class Exchange:
    """A request of a person, the tool calls that it led to, and the agent's final answer."""

    request: str
    time: datetime | None
    calls: list[ToolCall] = field(default_factory=list)
    answer: str = ""
    is_interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Transcript:
    """A session: its turns and exchanges, where it worked, and what it brought to version control."""

    turns: tuple[TranscriptTurn, ...]
    exchanges: tuple[Exchange, ...]
    folder: str
    branch: str
    """The branch that the session ended on; empty if unknown."""
    title: str
    """The title that the program gave the session; mostly empty."""
    pull_requests: tuple[str, ...]
    is_finished: bool
    """Whether the agent spoke last, with no tool call left open."""

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Every tool call, in order."""
        return tuple(call for exchange in self.exchanges for call in exchange.calls)

    @property
    def goal(self) -> str:
        """The first request, in one line."""
        return " ".join(next((each.request for each in self.exchanges if each.request), "").split())[:500]

    @property
    def commits(self) -> tuple[tuple[str, str], ...]:
        """The commits that were made: short name and subject."""
        outputs = (call.output for call in self.calls if "git" in call.command and "commit" in call.command)
        return tuple(dict.fromkeys(pair for output in outputs for pair in _COMMIT.findall(output)))

    @property
    def files(self) -> tuple[str, ...]:
        """The files that were changed, in order of their first change."""
        return tuple(dict.fromkeys(file for call in self.calls for file in call.changed_files))

    @property
    def times(self) -> tuple[datetime | None, datetime | None]:
        """The times of the first and the last turn."""
        times = [time for item in self.turns if (time := item.turn["timestamp"]) is not None]
        return min(times, default=None), max(times, default=None)


def read_transcript(path: Path) -> Transcript:
    """Read the session in a transcript file."""
    if path.stat().st_size > MAX_TRANSCRIPT_BYTES:
        raise InvalidInput(f"{path.name} is larger than {MAX_TRANSCRIPT_BYTES:,} bytes.")
    with path.open("rb") as file:
        return parse_transcript(line for line in map(_parse_line, file) if isinstance(line, dict))


def read_branch(path: Path, limit: int = 100_000) -> str:
    """Return the branch that the beginning of a transcript names; empty if it names none."""
    with path.open("rb") as file:
        for line in map(_parse_line, file.read(limit).splitlines()):
            if isinstance(line, dict) and (branch := _text(line.get("gitBranch"))):
                return branch
    return ""


def _parse_line(raw: bytes) -> Any:
    try:
        text = raw.decode("utf-8", "replace")
        return json.loads(text) if find_bracket_fault(text) is None else None
    except (ValueError, RecursionError):
        return None


def parse_transcript(lines: Iterable[Mapping[str, Any]]) -> Transcript:
    """Collect the session from its lines."""
    builder = _TranscriptBuilder()
    for number, line in enumerate(lines):
        builder.add_line(line, number)
    return builder.build()


def spoken_text(text: str) -> str:
    """Return what a person said in a message, without what the program added; a command becomes ``/name arguments``."""
    if (command := _COMMAND.search(text[:_MAX_SPOKEN_LENGTH])) is not None:
        return f"/{command[1].strip()} {(command[2] or '').strip()}".strip()
    said = _WRAPPED.sub("", text) if "<" in text and len(text) <= _MAX_SPOKEN_LENGTH else text
    return "" if said.lstrip().startswith(_PROGRAM_STARTS) else said.strip()


class _TranscriptBuilder:
    """Collects a session line by line."""

    def __init__(self) -> None:
        self.turns: list[TranscriptTurn] = []
        self.exchanges: list[Exchange] = []
        self.calls: dict[str, ToolCall] = {}
        self.pull_requests: dict[str, None] = {}
        self.folder = self.branch = self.title = self.last = ""

    def build(self) -> Transcript:
        """Return the session; a command of the program itself, which led to nothing, is no exchange."""
        exchanges = [each for each in self.exchanges if each.calls or each.answer or each.request[:1] not in ("/", "")]
        empty = {each.request for each in self.exchanges} - {each.request for each in exchanges}
        turns = (item for item in self.turns if item.turn["role"] != "user" or item.turn["content"] not in empty)
        return Transcript(
            tuple(turns), tuple(exchanges), self.folder, self.branch, self.title, tuple(self.pull_requests),
            self.last == "assistant",
        )  # fmt: skip

    def add_line(self, line: Mapping[str, Any], number: int) -> None:
        """Add a line of either program."""
        payload = line.get("payload")
        if isinstance(payload, dict):
            self._add_codex_line(str(line.get("type")), payload, _parse_time(line.get("timestamp")), f"line {number}")
            return
        self.folder = _text(line.get("cwd")) or self.folder
        self.branch = _text(line.get("gitBranch")) or self.branch
        if line.get("type") == "summary":
            self.title = _text(line.get("summary")) or self.title
        elif line.get("type") == "pr-link" and (url := _text(line.get("prUrl"))):
            self.pull_requests[url] = None
        message, uuid = line.get("message"), line.get("uuid")
        if not isinstance(message, dict) or not isinstance(uuid, str) or not uuid:
            return
        if any(line.get(mark) for mark in ("isSidechain", "isMeta", "isCompactSummary", "isApiErrorMessage")):
            return
        time, blocks = _parse_time(line.get("timestamp")), _content_blocks(message.get("content"))
        texts = [_text(block.get("text")) for block in blocks if block.get("type") == "text"]
        calls = [block for block in blocks if block.get("type") == "tool_use"]
        if message.get("role") == "user":
            self._add_request("\n".join(texts), uuid, time)
        elif message.get("role") == "assistant":
            self._add_answer("\n".join(text for text in texts if text), calls, uuid, time)
        for index, result in enumerate(block for block in blocks if block.get("type") == "tool_result"):
            id = _text(result.get("tool_use_id"))
            self._add_output(
                id, _result_text(result.get("content")), bool(result.get("is_error")), f"{uuid}/{index}", time
            )

    def _add_codex_line(self, type: str, payload: Mapping[str, Any], time: datetime | None, uuid: str) -> None:
        git, kind = payload.get("git"), payload.get("type")
        if type in ("session_meta", "turn_context"):
            self.folder = _text(payload.get("cwd")) or self.folder
            self.branch = (_text(git.get("branch")) if isinstance(git, dict) else "") or self.branch
        if type != "response_item":
            return
        if kind == "message":
            parts = _content_blocks(payload.get("content"))
            texts = [
                _text(part.get("text")) for part in parts if part.get("type") in ("input_text", "output_text", "text")
            ]
            if payload.get("role") == "user":
                self._add_request("\n".join(texts), uuid, time)
            elif payload.get("role") == "assistant":
                self._add_answer("\n".join(texts), [], uuid, time)
        elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
            given: Any = payload.get("arguments", payload.get("input", payload.get("action")))
            name = _text(payload.get("name")) or "shell"
            fields = _parse_line(given.encode()) if isinstance(given, str) else given
            if not isinstance(fields, dict):
                fields = {"patch" if name == "apply_patch" else "input": given}
            call = {"id": payload.get("call_id"), "name": name, "input": fields}
            self._add_answer("", [call], uuid, time)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            output = payload.get("output")
            text = _result_text(output if not isinstance(output, dict) else output.get("content"))
            code = _EXIT_CODE.search(text[:300]) or _EXIT_CODE.search(text[-300:])
            if (
                (inner := _parse_line(text.encode()))
                and isinstance(inner, dict)
                and isinstance(inner.get("output"), str)
            ):
                text = inner["output"]
            self._add_output(_text(payload.get("call_id")), text, code is not None and code[1] != "0", uuid, time)

    def _add_request(self, raw: str, uuid: str, time: datetime | None) -> None:
        if raw.lstrip().startswith(_INTERRUPTED) and self.exchanges:
            self.exchanges[-1].is_interrupted = True
        said = _clean_text(spoken_text(raw))
        if said:
            self.exchanges.append(Exchange(said, time))
            self.turns.append(TranscriptTurn(uuid, {"role": "user", "content": said, "timestamp": time}))
            self.last = "user"

    def _add_answer(self, raw: str, calls: list[Mapping[str, Any]], uuid: str, time: datetime | None) -> None:
        said = _clean_text(raw)
        if not said.strip() and not calls:
            return
        if not self.exchanges:
            self.exchanges.append(Exchange("", time))
        exchange = self.exchanges[-1]
        if said and exchange.calls and not exchange.calls[-1].remark:
            exchange.calls[-1].remark = said
        made = []
        for block in calls:
            fields = block.get("input")
            call = ToolCall(
                _text(block.get("id")),
                _text(block.get("name"))[:100] or "tool",
                fields if isinstance(fields, dict) else {},
            )
            self.calls[call.id] = call
            made.append(call)
        exchange.calls += made
        exchange.answer = "" if made else said
        turn: dict[str, Any] = {"role": "assistant", "content": said, "timestamp": time}
        if made:
            turn["tool_calls"] = [{"id": call.id, "name": call.name} for call in made]
        if not said.strip():
            turn |= {"content": "\n".join(f"[{call.name} {call.target}]" for call in made), "is_unsaid": True}
        self.turns.append(TranscriptTurn(uuid, turn))
        self.last = "call" if made else "assistant"

    def _add_output(self, id: str, output: str, is_error: bool, uuid: str, time: datetime | None) -> None:
        call, self.last = self.calls.get(id), "result"
        if call is not None and call.name.startswith(OWN_TOOL_PREFIX):
            return  # recalled records are stored already and must not be found again as new statements
        if call is not None:
            call.output = output
            call.is_failed = is_error and not output.startswith(_HARNESS_ERRORS)
            if "gh pr create" in call.command or "glab mr create" in call.command:
                self.pull_requests |= dict.fromkeys(_PULL_REQUEST.findall(output))
        turn = {"role": "tool", "content": output, "timestamp": time, "tool_call_id": id, "is_unsaid": True}
        self.turns.append(TranscriptTurn(uuid, turn))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _content_blocks(content: Any) -> list[Mapping[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _result_text(content: Any) -> str:
    text = "\n".join(block["text"] for block in _content_blocks(content) if isinstance(block.get("text"), str))
    text = text.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")
    return _clean_text(text) or "(no output)"


def _clean_text(text: str) -> str:
    """Return a text without NUL characters; the middle of a long text is left out."""
    clean = text.replace("\0", "")
    if len(clean) <= _MAX_TEXT_LENGTH:
        return clean
    half = _MAX_TEXT_LENGTH // 2
    return clean[:half] + _OMISSION.format(left=len(clean) - _MAX_TEXT_LENGTH) + clean[-half:]


def _parse_time(value: Any) -> datetime | None:
    try:
        return from_iso(value) if isinstance(value, str) else None
    except InvalidInput:
        return None
