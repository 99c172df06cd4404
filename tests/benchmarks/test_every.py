"""``lukasa bench all`` runs commands that exist, and its page tells what failed."""

from typing import Any

import pytest
import typer

from lukasa_bench import every
from lukasa_bench.cli import app


@pytest.mark.parametrize("words", [words for each in every.BENCHMARKS for words in (each.quick, each.full)])
def test_its_commands_have_the_options_it_gives(words):
    name, *options = words.split()
    group: Any = typer.main.get_command(app)
    command = group.commands[name]
    with command.make_context(name, options) as context:
        assert context.params


def test_the_page_counts_bars_and_tells_what_failed(monkeypatch):
    good = every.Benchmark("Consolidation", "consolidate --sizes 100", "")
    bad = every.Benchmark("Broken", "guard --size nonsense", "")
    monkeypatch.setattr(every, "BENCHMARKS", (good, bad))
    page = every.run()
    assert "| Broken | 0 of 0 | failed |" in page
    assert "bars met.**" in page
    assert "    lukasa bench consolidate --sizes 100\n\n| case" in page
    assert "nonsense" in page.partition("## Broken")[2]
