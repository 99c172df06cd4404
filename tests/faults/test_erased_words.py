"""Erased words: none is left in any object of the process that erased them."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

SCRIPT = Path(__file__).with_name("erased_words.py")


@pytest.mark.requirement("LOG-5")
@pytest.mark.parametrize(("engine", "how"), [("sqlite", "by key"), ("sqlite", "by subject"), ("postgresql", "by key")])
def test_after_every_operation_no_object_of_the_process_holds_an_erased_word(engine, how, request, tmp_path):
    location = request.getfixturevalue("url") if engine == "postgresql" else str(tmp_path / "store.db")
    run = subprocess.run(
        [sys.executable, SCRIPT, tmp_path, location, how], capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr
    held, left = run.stdout.splitlines()[0], run.stdout.splitlines()[-1]
    assert int(held.split()[1]) > 100  # the look would find what is there
    assert int(held.split()[3]) > 50
    assert left == "words left 0", run.stdout
