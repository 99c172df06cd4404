"""The plugin and the configuration of Hermes Agent: add Lukasa as its memory provider, and remove it again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # its types come as another package

from lukasa.interfaces.hooks.config import FileChange, plan_change

PROVIDER = "lukasa"
_PLUGIN = '''"""The memory provider of Lukasa, written by `lukasa install hermes`."""

from lukasa.integrations.hermes import LukasaMemoryProvider


def register(ctx):
    ctx.register_memory_provider(LukasaMemoryProvider())
'''
_DESCRIPTION = """name: lukasa
description: "One durable memory: offline, in one file, with history and undo."
"""
_PROVIDER_LINE = re.compile(r"^([ ]+)provider[ ]*:.*$", re.MULTILINE)
_MEMORY_BLOCK = re.compile(r"^memory[ ]*:[ ]*(?:#.*)?\n((?:(?:[ ]+.*|[ ]*#.*)?(?:\n|\Z))*)", re.MULTILINE)


def plan_hermes_changes(home: Path, settings: Mapping[str, str], *, undo: bool) -> list[FileChange]:
    """Return the changes that make Lukasa the memory provider of Hermes, or with ``undo`` remove it."""
    folder = home / "plugins" / PROVIDER
    saved = json.dumps(dict(settings), indent=2) + "\n" if settings else None
    return [
        plan_change(folder / "__init__.py", lambda _: None if undo else _PLUGIN),
        plan_change(folder / "plugin.yaml", lambda _: None if undo else _DESCRIPTION),
        plan_change(home / "lukasa.json", lambda before: None if undo else saved or before),
        plan_change(home / "config.yaml", lambda before: update_hermes_yaml(before, undo=undo)),
    ]


def update_hermes_yaml(text: str | None, *, undo: bool = False) -> str | None:
    """Return the configuration of Hermes with Lukasa as its memory provider, or without it. The rest stays as it is."""
    before = text or ""
    config = _parse_yaml(before)
    memory = config.get("memory") or {}
    if (memory.get("provider") == PROVIDER) != undo:
        return text
    wanted = dict(memory) | {"provider": PROVIDER}
    line = f"provider: {PROVIDER}"
    block = _MEMORY_BLOCK.search(before)
    known = _PROVIDER_LINE.search(before, *block.span(1)) if block else None
    if undo:
        del wanted["provider"]
        after = before if known is None else before[: known.start()] + before[known.end() + 1 :]
        if not wanted and block is not None:
            after = before[: block.start()] + before[block.end() :]
    elif known is not None:
        after = f"{before[: known.start()]}{known[1]}{line}{before[known.end() :]}"
    elif block is not None:
        settings = [each for each in block[1].splitlines() if each.strip() and not each.lstrip().startswith("#")]
        indent = settings[0][: -len(settings[0].lstrip())] if settings else "  "
        after = f"{before[: block.start(1)]}{indent}{line}\n{before[block.start(1) :]}"
    else:
        gap = "" if not before or before.endswith("\n") else "\n"
        after = f"{before}{gap}memory:\n  {line}\n"
    others = {name: value for name, value in config.items() if name != "memory"}
    if _parse_yaml(after) != others | ({"memory": wanted} if wanted else {}):
        raise ValueError(f"set memory.provider to {'nothing' if undo else PROVIDER} by hand")
    return after if after.strip() else None


def _parse_yaml(text: str) -> dict[str, Any]:
    try:
        config = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    if not isinstance(config, dict) or not isinstance(config.get("memory") or {}, dict):
        raise ValueError("it is not a mapping with a mapping `memory`")
    return config
