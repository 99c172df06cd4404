"""The configuration of coding agents: what Lukasa writes into it, and how that is taken out again.

Everything here is a function from the text of a file to another: nothing is written before somebody has seen the
difference. What Lukasa did not write stays. A file that cannot be understood is refused, not replaced.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import stat
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lukasa.errors import FormatError
from lukasa.storage.files import atomic_write

Product = Literal["claude-code", "codex", "cursor"]
PRODUCTS: tuple[Product, ...] = ("claude-code", "codex", "cursor")
SERVER_NAME = "lukasa"
"""What the server is called in an agent's configuration."""

HOOK_EVENTS: Mapping[str, str] = {
    "SessionStart": "session-start",
    "UserPromptSubmit": "user-prompt-submit",
    "PreCompact": "pre-compact",
    "Stop": "stop",
    "SessionEnd": "session-end",
}
_HOOK_TIMEOUT_SECONDS = 5
_INDENT = re.compile(r'^([ \t]+)"', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file as it is and as it shall be; ``None`` where there is none."""

    path: Path
    before: str | None
    after: str | None

    @property
    def is_needed(self) -> bool:
        return self.before != self.after

    def difference(self) -> str:
        """The change as a unified diff."""
        old, new = (text.splitlines(keepends=True) if text else [] for text in (self.before, self.after))
        names = (
            "/dev/null" if self.before is None else str(self.path),
            "/dev/null" if self.after is None else str(self.path),
        )
        lines = difflib.unified_diff(old, new, *names)
        return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)


def plan_changes(
    product: Product,
    argv: Sequence[str],
    folder: Path,
    *,
    user: bool,
    undo: bool,
    environment: Mapping[str, str] | None = None,
) -> list[FileChange]:
    """The changes that install Lukasa for an agent in a project's folder, or for a user in their home, or take it out.

    ``words`` start Lukasa as this agent: ``["lukasa", "--agent", "claude-code"]``.
    """
    server: dict[str, Any] = {"command": argv[0], "args": [*argv[1:], "mcp"]}
    if environment:
        server["env"] = dict(environment)
    if product == "codex":
        return [
            _plan_change(
                folder / ".codex" / "config.toml", lambda text: update_codex_toml(text, None if undo else server)
            )
        ]
    if product == "cursor":
        return [
            _plan_change(folder / ".cursor" / "mcp.json", lambda text: update_mcp_json(text, None if undo else server))
        ]
    mcp = folder / ".claude.json" if user else folder / ".mcp.json"
    said = " ".join(f"{name}={shlex.quote(value)}" for name, value in (environment or {}).items())
    command = f"{said} {shlex.join(argv)}".strip()
    return [
        _plan_change(mcp, lambda text: update_mcp_json(text, None if undo else {"type": "stdio", **server})),
        _plan_change(
            folder / ".claude" / "settings.json", lambda text: update_claude_hooks(text, None if undo else command)
        ),
    ]


def _plan_change(path: Path, change: Callable[[str | None], str | None]) -> FileChange:
    path = path.resolve()  # a link stays a link: what it leads to is changed
    try:
        before = path.read_bytes().decode("utf-8") if path.exists() else None
        return FileChange(path, before, change(before))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} cannot be understood; it was left untouched.", hint=f"({error})") from error


def apply_change(change: FileChange) -> None:
    """Makes a change, at once and whole. The file keeps its permissions."""
    if change.after is None:
        change.path.unlink(missing_ok=True)
        return
    change.path.parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(change.path.stat().st_mode) if change.path.exists() else 0o644
    with atomic_write(change.path) as file:
        if hasattr(os, "fchmod"):
            os.fchmod(file.fileno(), mode)
        file.write(change.after.encode())


def update_mcp_json(text: str | None, server: Mapping[str, Any] | None) -> str | None:
    """The JSON with our server among ``mcpServers``, or without it."""
    told = _parse_json_object(text)
    servers = _get_or_create(told, "mcpServers", dict)
    if server is None:
        if servers.pop(SERVER_NAME, None) is None:
            return text
        if not servers:
            del told["mcpServers"]
    elif servers.get(SERVER_NAME) == server:
        return text
    else:
        servers[SERVER_NAME] = dict(server)
    return _dump_json(told, text)


def update_claude_hooks(text: str | None, command: str | None) -> str | None:
    """The settings of Claude Code with our hooks, or without any of them. Other hooks stay as they are."""
    told = _parse_json_object(text)
    hooks = _get_or_create(told, "hooks", dict)
    was = json.dumps(told)
    for event, word in HOOK_EVENTS.items():
        groups = [_remove_own_hooks(group, word) for group in _get_or_create(hooks, event, list)]
        kept = [group for group in groups if group is not None]
        if command is not None:
            kept.append(
                {"hooks": [{"type": "command", "command": f"{command} hook {word}", "timeout": _HOOK_TIMEOUT_SECONDS}]}
            )
        if kept:
            hooks[event] = kept
        else:
            del hooks[event]
    if not hooks:
        del told["hooks"]
    if json.dumps(told) == was or (not told and text is None):
        return text
    return _dump_json(told, text)


def _remove_own_hooks(group: Any, event_name: str) -> Any:
    """A group of hooks without ours; ``None`` when nothing else was in it."""
    if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
        return group
    left = [hook for hook in group["hooks"] if not _is_own_hook(hook, event_name)]
    if len(left) == len(group["hooks"]):
        return group
    return {**group, "hooks": left} if left else None


def _is_own_hook(hook: Any, event_name: str) -> bool:
    command = hook.get("command") if isinstance(hook, dict) else None
    if not isinstance(command, str) or not command.endswith(f" hook {event_name}"):
        return False
    try:
        words = [each for each in shlex.split(command) if not re.fullmatch(r"[A-Z_]+=.*", each, re.DOTALL)]
    except ValueError:
        return False
    return bool(words) and Path(words[0]).stem == SERVER_NAME


def update_codex_toml(text: str | None, server: Mapping[str, Any] | None) -> str | None:
    """Codex' TOML with our server, or without it. Only our own table is touched; comments and order stay."""
    told = tomllib.loads(text or "")
    there = dict(_list_toml_servers(told)).get(SERVER_NAME)
    if server is not None and there == dict(server):
        return text
    left = _remove_server_table(text or "") if there is not None else text or ""
    if tomllib.loads(left).get("mcp_servers", {}) != {
        name: each for name, each in _list_toml_servers(told) if name != SERVER_NAME
    }:
        raise ValueError(f"mcp_servers.{SERVER_NAME} is not a table of its own; take it out by hand")
    if server is None:
        return (left if left.strip() else None) if there is not None else text
    lines = [f"[mcp_servers.{SERVER_NAME}]", f"command = {_toml_string(server['command'])}"]
    lines.append(f"args = [{', '.join(_toml_string(word) for word in server['args'])}]")
    if "env" in server:
        lines.append(
            "env = { " + ", ".join(f"{name} = {_toml_string(value)}" for name, value in server["env"].items()) + " }"
        )
    gap = "" if not left else "\n" if left.endswith("\n") else "\n\n"
    after = left + gap + "\n".join(lines) + "\n"
    if tomllib.loads(after)["mcp_servers"][SERVER_NAME] != dict(server):
        raise ValueError("the table cannot be written into this file")
    return after


def _list_toml_servers(config: Mapping[str, Any]) -> list[tuple[str, Any]]:
    servers = config.get("mcp_servers", {})
    return list(servers.items()) if isinstance(servers, dict) else []


def _remove_server_table(text: str) -> str:
    """The text without our table: from its heading to the next, with the blank line that we put before it."""
    lines = text.splitlines(keepends=True)
    ours = re.compile(rf"""^\s*\[\s*mcp_servers\s*\.\s*["']?{SERVER_NAME}["']?\s*(\.[^\]]*)?\]""")
    kept: list[str] = []
    inside = False
    for line in lines:
        if re.match(r"^\s*\[", line):
            if ours.match(line) and not inside and kept and not kept[-1].strip():
                kept.pop()
            inside = bool(ours.match(line))
        if not inside:
            kept.append(line)
    return "".join(kept)


def _toml_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _parse_json_object(text: str | None) -> dict[str, Any]:
    told = json.loads(text) if text and text.strip() else {}
    if not isinstance(told, dict):
        raise ValueError("it is not a JSON object")
    return told


def _get_or_create(config: dict[str, Any], name: str, kind: type) -> Any:
    found = config.setdefault(name, kind())
    if not isinstance(found, kind):
        raise ValueError(f"{name} is not what it should be")
    return found


def _dump_json(config: Mapping[str, Any], before: str | None) -> str | None:
    """The JSON as its owner spells it; nothing when nothing is left of a file."""
    if not config:
        return None
    indent = _INDENT.search(before or "")
    newline = "" if before and not before.endswith("\n") else "\n"
    return json.dumps(config, indent=indent[1] if indent else 2, ensure_ascii=False) + newline
