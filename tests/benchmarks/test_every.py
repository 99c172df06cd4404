"""``lukasa bench all`` runs commands that exist, and its page tells what failed."""

import json
import re
from dataclasses import asdict
from typing import Any

import pytest
import typer

from lukasa_bench import every
from lukasa_bench.cli import app, print_report
from lukasa_bench.report import BenchmarkBar, BenchmarkReport, BenchmarkRow, MachineInfo

ALL = (*every.BENCHMARKS, *every.SERVER_BENCHMARKS)


@pytest.mark.parametrize("words", [words for each in ALL for words in (each.quick, each.full)])
def test_its_commands_have_the_options_it_gives(words):
    name, *options = words.split()
    group: Any = typer.main.get_command(app)
    command = group.commands[name]
    with command.make_context(name, options) as context:
        assert context.params


def test_the_page_counts_bars_and_tells_what_failed(monkeypatch, tmp_path):
    good = every.Benchmark("Consolidation", "consolidate --sizes 100", "")
    bad = every.Benchmark("Broken", "guard --size nonsense", "")
    monkeypatch.setattr(every, "BENCHMARKS", (good, bad))
    page = every.run(reuse=tmp_path / "kept")
    assert re.search(r"\| Broken \| 0 of 0 \| [0-9.]+ \| not run \|", page)
    assert "bars met.**" in page
    assert "    lukasa bench consolidate --sizes 100\n\n| case" in page
    assert "Measure consolidation: a first run" in page
    assert "nonsense" in page.partition("## Broken")[2]
    headings = [line for line in page.splitlines() if line.startswith("#")]
    assert headings == ["# Benchmarks", every.HEAD_OF_MISSED, "## Consolidation", "## Broken"]
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["consolidation.json"], "a failure is tried again"
    assert every.run(only=["consolidate"], reuse=tmp_path / "kept").partition("## Cons")[2] in page


def test_a_server_is_measured_and_its_password_is_not_shown(monkeypatch):
    monkeypatch.setattr(every, "BENCHMARKS", ())
    url = "postgresql://ada:secret@127.0.0.1:9/nothing"
    page = every.run(server=url, only=["store"])
    assert "    lukasa bench all --quick --only store --server postgresql://…\n" in page
    assert "## The store on PostgreSQL" in page
    assert "secret" not in page
    assert "| not run |" in page, "no server is there"


def test_the_page_names_question_sets_without_their_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(every, "BENCHMARKS", ())
    page = every.run(questions=[tmp_path / "talks.json"])
    assert "    lukasa bench all --quick --questions talks.json\n" in page
    assert "    lukasa bench recall talks.json\n" in page


def test_no_cell_of_a_table_is_cut_short(capsys):
    case = "a long name of a case " * 4
    machine = MachineInfo(2, 0.5, "Linux", "3.11.7", "3.54.1", 0.0002)
    row = BenchmarkRow(case, 1_000, "s", 0.00171, 0.000678, 2.52, 1.99, 2.78, BenchmarkBar("ratio", "most", 1.5))
    print_report(BenchmarkReport("store", machine, 1, 1, 1.0, (row,)))
    printed = capsys.readouterr().out
    assert case.strip() in printed
    assert "…" not in printed
    assert "1.71 ms" in printed


def test_a_hostile_text_in_a_table_is_no_link(monkeypatch, tmp_path):
    section = every.Section("Guard", "guard", "Scan.", "2026-01-01", 1.0, "| <a@b.cd> | 3 ms |", "")
    (tmp_path / "guard.json").write_text(json.dumps(asdict(section)))
    monkeypatch.setattr(every, "BENCHMARKS", (every.Benchmark("Guard", "guard", "guard"),))
    assert "| \\<a\\@b.cd> | 3 ms |" in every.run(reuse=tmp_path)


def test_missed_bars_come_first():
    output = """| case | lukasa | bar | met |
|------|--------|-----|-----|
| add | 3 ms | ≤ 2 ms | missed |
| read | 1 ms | ≤ 2 ms | met |

1 of 2 bars met.
A verdict costs 2.1 × as much (bar ≤ 2: missed), an add 1 ×.
Bulk adds: 900 a second (bar ≥ 800: met)."""
    section = every.Section("Store", "store", "Measure.", "2026-01-01", 60.0, output, "")
    assert section.bars == (2, 4)
    assert section.missed_rows == ["add, 3 ms, ≤ 2 ms", "A verdict costs 2.1 × as much (bar ≤ 2: missed)"]
