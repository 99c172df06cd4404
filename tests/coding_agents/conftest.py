"""Transcripts for the tests of agents: lines as Claude Code and Codex write them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

Line = dict[str, Any]


class TranscriptLines:
    """Builds the lines of a session of Claude Code."""

    def __init__(self, branch: str = "main") -> None:
        self.lines: list[Line] = []
        self.branch = branch
        self._numbers = count(1)

    def _add(self, role: str, content: Any, **more: Any) -> None:
        number = next(self._numbers)
        self.lines.append(
            {
                "type": role,
                "uuid": f"u{number}",
                "timestamp": f"2026-03-01T10:{number // 60:02}:{number % 60:02}Z",
                "gitBranch": self.branch,
                "cwd": "/srv/shop",
                "message": {"role": role, "content": content},
                **more,
            }
        )

    def ask(self, text: str, **more: Any) -> None:
        """Add what a person typed."""
        self._add("user", text, **more)

    def say(self, text: str) -> None:
        """Add what the agent said."""
        self._add("assistant", [{"type": "text", "text": text}])

    def call(self, name: str, output: str = "ok", *, is_error: bool = False, **fields: Any) -> None:
        """Add a tool call and its output."""
        id = f"t{next(self._numbers)}"
        self._add("assistant", [{"type": "tool_use", "id": id, "name": name, "input": fields}])
        self._add("user", [{"type": "tool_result", "tool_use_id": id, "content": output, "is_error": is_error}])


@pytest.fixture
def lines() -> TranscriptLines:
    return TranscriptLines()


@pytest.fixture
def new_lines() -> Callable[[str], TranscriptLines]:
    return TranscriptLines
