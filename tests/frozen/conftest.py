"""Fixtures of the frozen tests: they compare what a caller can see with the files in ``golden/``."""

from __future__ import annotations

import difflib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"
UPDATE = "LUKASA_UPDATE_FROZEN"


def compare_with_golden(name: str, actual: str) -> None:
    """Compare a text with golden/<name>, or write it there when LUKASA_UPDATE_FROZEN=1 is set."""
    path = GOLDEN / name
    if os.environ.get(UPDATE) == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(actual.encode())
        return
    if not path.exists():
        pytest.fail(f"golden/{name} does not exist. Set {UPDATE}=1 to write it.", pytrace=False)
    expected = path.read_bytes().decode()
    if actual == expected:
        return
    lines = difflib.unified_diff(
        expected.splitlines(keepends=True), actual.splitlines(keepends=True), f"golden/{name}", "actual", n=2
    )
    shown = "".join(line if line.endswith("\n") else f"{line}\n\\ no newline at end\n" for line in lines)
    pytest.fail(
        f"The behaviour differs from golden/{name}:\n{shown}\n"
        f"If the change is on purpose, run the test once with {UPDATE}=1 and review the difference in git.",
        pytrace=False,
    )


@pytest.fixture(scope="session")
def frozen() -> Callable[[str, str], None]:
    """Give the function that compares a text with a golden file."""
    return compare_with_golden


@pytest.fixture(scope="session")
def frozen_tree() -> Callable[[str, Path], None]:
    """Give the function that compares every file of a folder with a golden folder."""
    return compare_tree_with_golden


def compare_tree_with_golden(name: str, folder: Path) -> None:
    """Compare the names and the contents of all files in a folder with golden/<name>/."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    golden = GOLDEN / name
    if os.environ.get(UPDATE) == "1":
        shutil.rmtree(golden, ignore_errors=True)
    else:
        known = {path.relative_to(golden).as_posix() for path in golden.rglob("*") if path.is_file()}
        missing, added = sorted(known - set(found)), sorted(set(found) - known)
        if missing or added:
            pytest.fail(
                f"The files differ from golden/{name}: missing {missing}, added {added}.\n"
                f"If the change is on purpose, run the test once with {UPDATE}=1 and review the difference in git.",
                pytrace=False,
            )
    for relative, path in sorted(found.items()):
        compare_with_golden(f"{name}/{relative}", path.read_bytes().decode())


def build_store(folder: Path, hash_seed: str) -> Path:
    """Run store.py in a separate process and return the folder with what it wrote."""
    script = Path(__file__).parent / "store.py"
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script), str(folder)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder of the store that all tests look at."""
    return build_store(tmp_path_factory.mktemp("frozen") / "built", "1")


@pytest.fixture(scope="session")
def built_again(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder of a second store, built with another hash seed."""
    return build_store(tmp_path_factory.mktemp("frozen") / "again", "4711")
