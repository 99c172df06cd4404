"""The configuration files of coding agents: add Lukasa to them, and remove it again.

The functions map the text of a file to its new text, so that a change can be shown before it is written. Entries of other
programs stay. A file that cannot be parsed is refused, not replaced.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lukasa.errors import FormatError
from lukasa.storage.files import open_output_file

Product = Literal["claude-code", "codex", "cursor"]
PRODUCTS: tuple[Product, ...] = ("claude-code", "codex", "cursor")
SERVER_NAME = "lukasa"
"""The name of the MCP server in the configuration of an agent."""

HOOK_EVENTS: Mapping[str, str] = {
    "SessionStart": "session-start",
    "UserPromptSubmit": "user-prompt-submit",
    "PreToolUse": "pre-tool-use",
    "SubagentStart": "subagent-start",
    "PreCompact": "pre-compact",
    "Stop": "stop",
    "SubagentStop": "subagent-stop",
    "SessionEnd": "session-end",
}
CODEX_HOOK_EVENTS = {
    event: name for event, name in HOOK_EVENTS.items() if event not in ("SessionEnd", "SubagentStart", "SubagentStop")
}
"""Codex has the same hooks, but for those of subagents and for the end of a session."""
TOOL_MATCHER = "Bash|Edit|MultiEdit|Write|NotebookEdit|Task|Agent"
"""The tools that the memory is asked about before they run."""
_HOOK_TIMEOUT_SECONDS = 5
_INDENT = re.compile(r'^([ \t]+)"', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FileChange:
    """The text of a file before and after a change; ``None`` means that there is no file."""

    path: Path
    before: str | None
    after: str | None

    @property
    def is_needed(self) -> bool:
        """Whether the change alters the file."""
        return self.before != self.after

    def difference(self) -> str:
        """Return the change as a unified diff."""
        texts = (self.before, self.after)
        old, new = (text.splitlines(keepends=True) if text else [] for text in texts)
        names = ["/dev/null" if text is None else str(self.path) for text in texts]
        lines = difflib.unified_diff(old, new, names[0], names[1])
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
    """Return the changes that add Lukasa to an agent's configuration in a folder, or with ``undo`` remove it.

    ``argv`` starts Lukasa as this agent: ``["lukasa", "--agent", "claude-code"]``. ``user`` means that the folder is the
    user's home, where Claude Code uses another file.
    """
    server: dict[str, Any] = {"command": argv[0], "args": [*argv[1:], "mcp"]}
    if environment:
        server["env"] = dict(environment)
    entry = None if undo else server
    updates: dict[str, Callable[[str | None], str | None]]
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in (environment or {}).items())
    command = None if undo else f"{variables} {shlex.join(argv)}".strip()
    if product == "codex":
        updates = {
            ".codex/config.toml": lambda text: update_codex_toml(text, entry),
            ".codex/hooks.json": lambda text: update_hooks(text, command, CODEX_HOOK_EVENTS),
        }
    elif product == "cursor":
        updates = {".cursor/mcp.json": lambda text: update_mcp_json(text, entry)}
    else:
        typed_entry = None if undo else {"type": "stdio", **server}
        updates = {
            ".claude.json" if user else ".mcp.json": lambda text: update_mcp_json(text, typed_entry),
            ".claude/settings.json": lambda text: update_hooks(text, command),
        }
    return [plan_change(folder / name, update) for name, update in updates.items()]


def plan_change(path: Path, update: Callable[[str | None], str | None]) -> FileChange:
    """Return the change that an update makes to a file."""
    path = path.resolve()  # change the target of a symbolic link, not the link
    try:
        before = path.read_bytes().decode("utf-8") if path.exists() else None
        return FileChange(path, before, update(before))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} cannot be parsed; it was left untouched.", hint=f"({error})") from error


def apply_change(change: FileChange) -> None:
    """Write a change atomically. The file keeps its permissions."""
    if change.after is None:
        change.path.unlink(missing_ok=True)
        return
    change.path.parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(change.path.stat().st_mode) if change.path.exists() else 0o644
    with open_output_file(change.path) as file:
        os.fchmod(file.fileno(), mode)
        file.write(change.after.encode())


def update_mcp_json(text: str | None, server: Mapping[str, Any] | None) -> str | None:
    """Return the JSON with our server in ``mcpServers``; without it if ``server`` is ``None``."""
    config = _parse_json_object(text)
    servers = _get_or_create(config, "mcpServers", dict)
    if servers.get(SERVER_NAME) == server:
        return text
    if server is not None:
        servers[SERVER_NAME] = dict(server)
    else:
        del servers[SERVER_NAME]
        if not servers:
            del config["mcpServers"]
    return _dump_json(config, text)


def update_hooks(text: str | None, command: str | None, events: Mapping[str, str] = HOOK_EVENTS) -> str | None:
    """Return the settings of Claude Code or the hooks of Codex with ours; without them if ``command`` is ``None``.

    Other hooks stay.
    """
    config = _parse_json_object(text)
    hooks = _get_or_create(config, "hooks", dict)
    before = json.dumps(config)
    for event, argument in events.items():
        groups = [_remove_own_hooks(group, argument) for group in _get_or_create(hooks, event, list)]
        groups = [group for group in groups if group is not None]
        if command is not None:
            hook = {"type": "command", "command": f"{command} hook {argument}", "timeout": _HOOK_TIMEOUT_SECONDS}
            groups.append({"matcher": TOOL_MATCHER, "hooks": [hook]} if event == "PreToolUse" else {"hooks": [hook]})
        if groups:
            hooks[event] = groups
        else:
            del hooks[event]
    if not hooks:
        del config["hooks"]
    if json.dumps(config) == before or (not config and text is None):
        return text
    return _dump_json(config, text)


def _remove_own_hooks(group: Any, event_name: str) -> Any:
    """Return a group of hooks without ours; ``None`` if it held no others."""
    if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
        return group
    others = [hook for hook in group["hooks"] if not _is_own_hook(hook, event_name)]
    if len(others) == len(group["hooks"]):
        return group
    return {**group, "hooks": others} if others else None


def _is_own_hook(hook: Any, event_name: str) -> bool:
    command = hook.get("command") if isinstance(hook, dict) else None
    if not isinstance(command, str) or not command.endswith(f" hook {event_name}"):
        return False
    try:
        words = [word for word in shlex.split(command) if not ("=" in word and word.partition("=")[0].isupper())]
    except ValueError:
        return False
    return bool(words) and Path(words[0]).stem == SERVER_NAME


def hook_files(folder: Path, home: Path) -> list[Path]:
    """Return the files that hold the hooks of coding agents in a folder and in the user's home."""
    names = (".claude/settings.json", ".claude/settings.local.json", ".codex/hooks.json")
    return [path for place in dict.fromkeys((folder, home)) for name in names if (path := place / name).is_file()]


def own_hook_command(path: Path) -> str:
    """Return a command with which a file starts our hooks; empty if it has none."""
    try:
        hooks = _parse_json_object(path.read_text("utf-8")).get("hooks")
    except (OSError, ValueError, RecursionError):
        return ""
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for group in groups if isinstance(groups, list) else ():
            entries = group.get("hooks") if isinstance(group, dict) else None
            for hook in entries if isinstance(entries, list) else ():
                if _is_own_hook(hook, HOOK_EVENTS.get(event, "")):
                    return str(hook["command"])
    return ""


def update_codex_toml(text: str | None, server: Mapping[str, Any] | None) -> str | None:
    """Return the TOML of Codex with our server; without it if ``server`` is ``None``. Everything else stays as it is written."""
    import tomlkit  # a slow import, and only an installation needs it

    document = tomlkit.parse(text or "")
    servers = document.setdefault("mcp_servers", tomlkit.table(is_super_table=True))
    if not isinstance(servers, dict):
        raise ValueError("mcp_servers is not a table")
    present = servers.get(SERVER_NAME)
    if (None if present is None else present.unwrap()) == (None if server is None else dict(server)):
        return text
    servers.pop(SERVER_NAME, None)
    if server is not None:
        table = tomlkit.inline_table() if isinstance(servers, tomlkit.items.InlineTable) else tomlkit.table()
        table.update({name: value for name, value in server.items() if name != "env"})
        if "env" in server:
            environment = tomlkit.inline_table()
            environment.update(server["env"])
            table["env"] = environment
        servers[SERVER_NAME] = table
    elif not servers:
        del document["mcp_servers"]
    after = tomlkit.dumps(document)
    if server is None and after.endswith("\n\n"):
        after = after[:-1]  # the blank line before our table
    return after if after.strip() else None


def _parse_json_object(text: str | None) -> dict[str, Any]:
    config = json.loads(text) if text and text.strip() else {}
    if not isinstance(config, dict):
        raise ValueError("it is not a JSON object")
    return config


def _get_or_create(config: dict[str, Any], name: str, kind: type) -> Any:
    value = config.setdefault(name, kind())
    if not isinstance(value, kind):
        raise ValueError(f"{name} is not a JSON {'object' if kind is dict else 'array'}")
    return value


def _dump_json(config: Mapping[str, Any], before: str | None) -> str | None:
    """Return the JSON with the indentation of the old text; ``None`` if nothing is left in it."""
    if not config:
        return None
    indent = _INDENT.search(before or "")
    newline = "" if before and not before.endswith("\n") else "\n"
    return json.dumps(config, indent=indent[1] if indent else 2, ensure_ascii=False) + newline
