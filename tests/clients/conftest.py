"""Programs of others, installed by ``make test-clients``. One that is missing is a failure in CI and a skip elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "build" / "clients" / "node_modules"
BIN = Path(sys.executable).parent


def needed(path: Path) -> Path:
    if path.exists():
        return path
    sentence = f"{path.name} is not installed; run: make test-clients"
    if os.environ.get("CI") == "true":
        pytest.fail(sentence)
    pytest.skip(sentence)


@pytest.fixture
def node():
    """How to run a program of a package: ``node("@scope/name", "dist/index.js")``."""

    def words(package: str, program: str) -> list[str]:
        return [str(needed(BIN / "node")), str(needed(PACKAGES / package / program))]

    return words


@pytest.fixture
def claude():
    """The real Claude Code."""
    return str(needed(PACKAGES / "@anthropic-ai" / "claude-code" / "bin" / "claude.exe"))


@pytest.fixture
def lukasa_program():
    return str(BIN / "lukasa")


@pytest.fixture
def run_program(tmp_path):
    """Runs a program to its end, in a folder of its own."""

    def run(words, **options):
        options = {"cwd": tmp_path, "timeout": 120, "stdin": subprocess.DEVNULL, **options}
        return subprocess.run(words, capture_output=True, text=True, check=False, **options)

    return run
