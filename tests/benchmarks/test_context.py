"""The benchmark of sessions measures what it says."""

import json

import pytest
from typer.testing import CliRunner

from lukasa.interfaces.cli.app import app
from lukasa_bench.context import ContextEffort, measure_folded_recall, run

pytestmark = pytest.mark.slow

SMALL = ContextEffort(appends=3, loads=3, compactions=1, assemblies=1)


def test_every_case_is_measured_at_every_size():
    report = run((5, 60), 1, effort=SMALL)
    cases = {row.case for row in report.rows}
    assert len(report.rows) == 2 * len(cases) == 12
    assert all(row.lukasa > 0 and row.ratio is not None for row in report.rows)
    assert {row.case for row in report.rows if row.bar} == cases - {
        "assemble 4,000 tokens",
        "fold all 51 turns, own time",
    }


@pytest.fixture
def conversations(tmp_path):
    said = [f"Filler number {number} about nothing in particular, said at some length." for number in range(80)]
    said[3] = "The heron stands by the river in Bergen."
    turns = [
        {"id": str(at), "session": "x", "time": "2026-02-03T12:00:00Z", "speaker": "Anna", "text": text}
        for at, text in enumerate(said)
    ]
    questions = [
        {"id": "q1", "question": "Where does the heron stand?", "category": "x", "evidence": ["3"]},
        {"id": "q2", "question": "What was said last?", "category": "x", "evidence": ["79"]},
        {"id": "q3", "question": "Nothing?", "category": "x", "evidence": []},
    ]
    path = tmp_path / "set.json"
    found = {"set": "small", "conversations": [{"id": "c", "turns": turns, "questions": questions}]}
    path.write_text(json.dumps(found))
    return path


@pytest.mark.requirement("CTX-6")
def test_folded_evidence_is_found_by_recall(conversations):
    (found,) = measure_folded_recall([conversations], embedder="hash")
    assert (found.turns, found.questions, found.folded) == (80, 2, 1)
    assert found.compacted_tokens <= 0.1 * found.tokens
    assert (found.by_recall, found.assembled) == (1.0, 1.0)


def test_both_are_printed_as_a_table_and_as_json(conversations):
    runner = CliRunner()
    words = ["bench", "context", "--recall", str(conversations), "--embedder", "hash"]
    assert "| small" in runner.invoke(app, words).stdout
    assert json.loads(runner.invoke(app, [*words, "--json"]).stdout)[0]["by_recall"] == 1.0
    assert runner.invoke(app, ["bench", "context", "--sizes", "nonsense"]).exit_code == 2
