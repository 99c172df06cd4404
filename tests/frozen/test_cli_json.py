"""Freeze the exit code and the shape of the JSON of every command."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from cli_running import isolate, leaf_paths, path_of, play
from cli_scenarios import NOT_RUN, SCENARIOS, write_files


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "bench" else name for name in sorted(SCENARIOS)]
)
def test_a_scenario_answers_as_before(
    name: str, frozen: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run the command lines of a scenario and compare exit codes and shapes with the golden file."""
    isolate(tmp_path, monkeypatch)
    write_files(tmp_path)
    frozen(f"cli_json_{name}.txt", play(SCENARIOS[name], tmp_path))


def test_every_command_is_run_or_listed_with_a_reason() -> None:
    """Check that the scenarios and the list of commands that are not run cover the whole command tree."""
    run = {path_of(step.line) for steps in SCENARIOS.values() for step in steps}
    listing_groups = {("proposals",)}
    assert run - listing_groups | set(NOT_RUN) == set(leaf_paths())
    assert not run & set(NOT_RUN)
