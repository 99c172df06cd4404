"""Every official example passes ``mypy --strict``: those of the documents, of the docstrings and of ``examples/``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from test_docs import EXAMPLES as DOCUMENTS
from test_docstrings import EXAMPLES as DOCSTRINGS
from test_examples import EXAMPLES as PROGRAMS
from test_examples import OF_ADAPTERS

ROOT = Path(__file__).parent.parent
NAMES = """
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
import lukasa
from lukasa.client import RemoteMemory
from lukasa.memory_graph import Entity, Relation
from lukasa.sessions import Session
from lukasa.storage.engine import Reader
"""
PARAMETERS = (
    "memory: lukasa.Memory, session: Session, reader: Reader, remote: RemoteMemory, folder: Path, url: str, token: str"
)


@pytest.mark.requirement("DOO-1")
def test_every_official_example_is_well_typed(tmp_path: Path) -> None:
    for example in DOCUMENTS:
        (tmp_path / f"{re.sub(r'[^a-z0-9]', '_', str(example.id).lower())}.py").write_text(str(example.values[0]))
    examples = [
        f"def example_{number}({PARAMETERS}) -> None:\n    {name!r}\n{textwrap.indent(code, '    ')}\n"
        for number, (name, code) in enumerate(DOCSTRINGS.items())
    ]
    (tmp_path / "docstrings.py").write_text(NAMES + "\n\n" + "\n\n".join(examples))
    for program in PROGRAMS:
        if program not in OF_ADAPTERS:
            shutil.copy(program, tmp_path / f"program_{program.name}")
    options = ["--strict", "--ignore-missing-imports", "--cache-dir", str(tmp_path / "cache")]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *map(str, sorted(tmp_path.glob("*.py")))],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
    )
    assert run.returncode == 0, run.stdout + run.stderr
