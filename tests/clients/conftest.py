"""Fixtures for programs that ``make test-clients`` installs. A missing one fails in CI and skips elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "build" / "clients" / "node_modules"
BIN = Path(sys.executable).parent


def require_program(path: Path) -> Path:
    """Return the path of an installed program, or skip the test."""
    if path.exists():
        return path
    message = f"{path.name} is not installed; run: make test-clients"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture
def node():
    """Return a function that gives the command for a program: ``node("@scope/name", "dist/index.js")``."""

    def build_command(package: str, program: str) -> list[str]:
        return [str(require_program(BIN / "node")), str(require_program(PACKAGES / package / program))]

    return build_command


@pytest.fixture
def claude():
    """Return the path of Claude Code."""
    return str(require_program(PACKAGES / "@anthropic-ai" / "claude-code" / "bin" / "claude.exe"))


@pytest.fixture
def lukasa_program():
    """Return the path of the installed program."""
    return str(BIN / "lukasa")


@pytest.fixture
def run_program(tmp_path):
    """Return a function that runs a command to its end, by default in an empty folder."""

    def run(command, **options):
        options = {"cwd": tmp_path, "timeout": 120, "stdin": subprocess.DEVNULL, **options}
        return subprocess.run(command, capture_output=True, text=True, check=False, **options)

    return run
