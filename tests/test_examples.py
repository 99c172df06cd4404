"""Run every program of examples/ as a user would and compare its output with its docstring."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


def test_there_are_five_examples() -> None:
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_its_docstring_says(example: Path, tmp_path: Path) -> None:
    documented = ast.get_docstring(ast.parse(example.read_text("utf-8"))) or ""
    expected = textwrap.dedent(documented.partition("Prints:\n")[2]).strip()
    assert expected
    run = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert (run.returncode, run.stdout.strip()) == (0, expected), run.stderr
