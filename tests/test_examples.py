"""Run every program of examples/ as a user would and compare its output with its docstring."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
OF_ADAPTERS = [example for example in EXAMPLES if "Needs the extra" in example.read_text("utf-8")]
"""Examples that need another framework; ``tests/clients`` runs them."""


def test_there_are_five_examples() -> None:
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize("example", [path for path in EXAMPLES if path not in OF_ADAPTERS], ids=lambda path: path.stem)
def test_an_example_prints_what_its_docstring_says(example: Path, tmp_path: Path) -> None:
    check_example(example, tmp_path)


def check_example(example: Path, folder: Path) -> None:
    """Run an example and compare what it prints with its docstring."""
    documented = ast.get_docstring(ast.parse(example.read_text("utf-8"))) or ""
    expected = textwrap.dedent(documented.partition("Prints:\n")[2]).strip()
    assert expected
    run = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, cwd=folder, timeout=120)
    assert (run.returncode, run.stdout.strip()) == (0, expected), run.stderr
