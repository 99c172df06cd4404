"""Failures that a session measured: tool calls that failed, and what ended them.

A failure is known by its signature: the tool and, of a shell call, the command; of others, the first line of the error
without quoted code. Its remedy is what worked next: a variant of the command; where an edit did not match, the indentation
that the file has; of a commit or a release, what the agent found to be the cause.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from lukasa.agents.distil import sentences_of
from lukasa.transfer.layouts.agent_transcripts import ToolCall

_SEPARATORS = re.compile(r"\s*(?:&&|\|\||;|\||\n)\s*")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_TELLING_STARTS = ("error", "fatal", "✗", "×", "e ", "failed", "fail ", "panic", "traceback")
ORDERS = frozenset(["commit", "push", "release", "deploy", "merge", "rebase", "publish", "ship", "changelog", "pr"])
"""Words of the requests and commands that end a piece of work."""
_PLAIN_TOOLS = frozenset(
    {
        "cd",
        "ls",
        "cat",
        "head",
        "tail",
        "grep",
        "rg",
        "find",
        "echo",
        "sleep",
        "pwd",
        "which",
        "test",
        "sed",
        "awk",
        "wc",
        "true",
        "kill",
        "pkill",
        "curl",
        "jq",
        "source",
        "export",
        "rm",
        "mkdir",
        "cp",
        "mv",
    }
)
"""Programs whose failure says that something was not there, not how the project works."""
_ACTING_TOOLS = frozenset({"rm", "mv", "cp", "mkdir", "kill", "pkill", "chmod"})
_READ_NUMBER = re.compile(r"(?m)^ *\d+→")
_MAX_LATER_CALLS = 40
_MAX_LINE_LENGTH = 120


@dataclass(frozen=True, slots=True)
class MeasuredFailure:
    """A failure of a session: what failed, how often, and the remedy in a sentence, if one was seen."""

    signature: str
    command: str
    """The command that failed; empty for other tools."""
    count: int
    remedy: str
    """A sentence that says what failed and what worked; empty if nothing was seen to work."""


def find_failures(calls: Sequence[ToolCall]) -> list[MeasuredFailure]:
    """Return the failures of a session, the most frequent first."""
    positions: dict[str, list[int]] = {}
    for index, call in enumerate(calls):
        if call.is_failed and (signature := failure_signature(call)):
            positions.setdefault(signature, []).append(index)
    found = []
    for signature, indices in positions.items():
        remedies = (find_remedy(calls, index) for index in indices)
        remedy = next((remedy for remedy in remedies if remedy), "")
        found.append(MeasuredFailure(signature, command_head(calls[indices[-1]].command), len(indices), remedy))
    return sorted(found, key=lambda failure: -failure.count)


def failure_signature(call: ToolCall) -> str:
    """Return what a failure is known by in every session; empty if it says nothing of the project."""
    if call.command:
        head = command_head(call.command)
        return f"command {head}" if head else ""
    if call.name not in ("Edit", "MultiEdit", "apply_patch"):
        return ""
    line = call.output.partition("\n")[0].partition(":")[0].strip()[:_MAX_LINE_LENGTH]
    return f"{call.name}: {line} in {PurePosixPath(call.file).suffix or 'files'}" if line else ""


def command_head(command: str) -> str:
    """Return the first words of the last program of a command line: ``bun run lint`` of ``cd web && bun run lint 2>&1 | tail``."""
    for part in _SEPARATORS.split(command.strip()[:2_000]):
        words = [word for word in part.split() if "=" not in word or word.startswith("-")]
        if (
            not words
            or words[0] in _PLAIN_TOOLS
            or "/" in words[0][1:]
            or words[0].startswith(("(", "{", "#", "'", '"', "<"))
        ):
            continue
        head = words[:1]
        for word in words[1:4]:
            if word.startswith(("-", "$", "<", ">", '"', "'", "2>", "@")) or "/" in word or "." in word:
                break
            head.append(word)
        return " ".join(head) if len(head) > 1 else ""
    return ""


def telling_line(output: str) -> str:
    """Return the line of an error that says most: one that begins with a word for errors, else the first with words."""
    lines = [_ANSI.sub("", line).strip() for line in output[:20_000].splitlines()]
    lines = [line for line in lines if len(line) > 8 and not line.startswith(("Exit code", "$ ", "warning"))]
    telling = [line for line in lines if line.lower().startswith(_TELLING_STARTS)]
    line = (telling or lines or [""])[0]
    return line if len(line) <= _MAX_LINE_LENGTH else line[: _MAX_LINE_LENGTH - 1].rstrip() + "…"


def find_remedy(calls: Sequence[ToolCall], index: int) -> str:
    """Return in a sentence what ended the failure of a call; empty if nothing is known to have ended it."""
    failed = calls[index]
    later = calls[index + 1 : index + 1 + _MAX_LATER_CALLS]
    if not failed.command:
        return _explain_indentation(failed, [*calls[max(0, index - _MAX_LATER_CALLS) : index], *later])
    head = command_head(failed.command)
    between: list[ToolCall] = []
    for call in later:
        other = command_head(call.command)
        if other and not call.is_failed and other != head and _is_variant(head, other, telling_line(failed.output)):
            return f"`{head}` failed ({telling_line(failed.output)}); `{other}` works."
        if other == head and not call.is_failed:
            break
        between.append(call)
    else:
        return ""  # nothing is known to have ended it
    if ORDERS.isdisjoint(head.split()) or not _is_of_surroundings(calls[:index], between):
        return ""  # a check that failed on the work itself
    said = [text for _, text in sentences_of(failed.remark) if not text.lower().startswith("let me")][:2]
    return f"`{head}` failed: {' '.join(said)}" if said else ""


def _is_of_surroundings(before: Sequence[ToolCall], between: Sequence[ToolCall]) -> bool:
    """Return whether a failure was ended by a command or in files that the session had not changed, not by mending its work."""
    own = {file for call in before for file in call.changed_files}
    for call in between:
        if any(file not in own for file in call.changed_files):
            return True
        words = [word for part in _SEPARATORS.split(call.command) for word in part.split()[:1]]
        if not call.is_failed and not _ACTING_TOOLS.isdisjoint(words):
            return True
    return False


def _is_variant(head: str, other: str, error: str) -> bool:
    """Return whether a command worked in the place of another: ``lint:fix`` of ``lint``, or a word more or fewer.

    With a word more or fewer, the error must name a word of the command; else it was the work that failed, not the command.
    """
    words, others = head.split(), other.split()
    if len(words) == len(others) > 1:
        differing = [(word, another) for word, another in zip(words, others, strict=True) if word != another]
        return len(differing) == 1 and differing[0][1].startswith(f"{differing[0][0]}:")
    short, long = sorted((words, others), key=len)
    is_near = len(short) > 1 and len(long) - len(short) == 1 and set(short) < set(long)
    return is_near and not {word.strip("'\"`.,:;()") for word in error.split()}.isdisjoint(words)


def _explain_indentation(failed: ToolCall, others: Sequence[ToolCall]) -> str:
    """Say how a file is indented when a failed edit was right but for its indentation."""
    old = failed.fields.get("old_string")
    if not isinstance(old, str) or not failed.file:
        return ""
    tried, name = _indents(old), PurePosixPath(failed.file).name
    for call in others:
        if call.is_failed or (call.file != failed.file and name not in call.command):
            continue
        found = call.fields.get("old_string")
        actual = _indents(found if isinstance(found, str) else _READ_NUMBER.sub("", call.output))
        differing = [actual[line] for line in tried if line in actual and actual[line] != tried[line]]
        if differing and not any(actual.get(line) == tried[line] for line in tried):
            return _indentation_sentence(failed.file, is_tabbed=any("\t" in indent for indent in differing))
    return ""


def _indents(text: str) -> dict[str, str]:
    """Return the white space in front of each line of some length, by the rest of the line."""
    return {bare: line[: len(line) - len(line.lstrip())] for line in text.splitlines() if len(bare := line.strip()) > 8}


def _indentation_sentence(file: str, *, is_tabbed: bool) -> str:
    suffix = PurePosixPath(file).suffix
    files = f"`{suffix}` files are" if suffix else f"{PurePosixPath(file).name} is"
    return (
        f"{files} indented with {'tabs' if is_tabbed else 'spaces'}: an edit is refused as not found unless its old text "
        "has exactly the indentation of the file."
    )
