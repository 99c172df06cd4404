"""The benchmark of growing stores measures every case, and the cost model is computed from its report. No test looks at a clock."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from lukasa.errors import InvalidInput
from lukasa.interfaces.cli.app import app
from lukasa_bench import scale, search_growth, weight
from lukasa_bench.conversations import RareWordEmbedder
from lukasa_bench.search_corpus import MadeConversations

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def report():
    return search_growth.run((1_000, 5_000), progress=lambda *_: None)


def test_every_case_is_measured_at_every_size(report):
    assert len(report.rows) == 2 * len(search_growth.GrownFigures._fields)
    assert all(row.lukasa > 0 for row in report.rows)
    found = {row.size: row.lukasa for row in report.rows if row.case == "exact nearest 10 found"}
    assert found[1_000] == 1.0, "few vectors are compared exactly"
    assert found[5_000] > 0.8


def test_made_conversations_are_the_same_for_the_same_seed_and_near_their_questions():
    corpus, again = MadeConversations(3), MadeConversations(3)
    turns, vectors = corpus.take_with_vectors(2_000)
    repeated, same = again.take_with_vectors(2_000)
    assert (turns, vectors.tolist()) == (repeated, same.tolist())
    assert np.linalg.norm(vectors, axis=1).mean() == pytest.approx(1.0, abs=0.1)
    session = turns[40].session
    words = [turn.text for turn in turns if turn.session == session]
    cosines = vectors @ RareWordEmbedder().embed([" ".join(words)])[0]
    best = [turns[index].session for index in np.argsort(-cosines)[:5]]
    assert best.count(session) == 5


def test_the_cost_of_more_records_is_computed_from_a_report(report, tmp_path):
    file = tmp_path / "report.json"
    file.write_text(json.dumps(report.as_json()))
    model = scale.read_model(file)
    assert model.largest_error() == pytest.approx(0.0, abs=1e-9), "two sizes are fitted exactly"
    small, large = model.plan(10**6), model.plan(10**9, 100_000)
    assert large["records_per_store"] == 10_000
    assert large["disk_bytes"] == pytest.approx(1_000 * small["disk_bytes"])
    answer = CliRunner().invoke(app, ["bench", "scale", str(file)])
    assert answer.exit_code == 0
    assert "100,000" in answer.output
    file.write_text(json.dumps({"rows": []}))
    with pytest.raises(InvalidInput, match="two sizes"):
        scale.read_model(file)


def test_a_memory_weighs_less_than_in_a_bare_index_with_a_matrix():
    rows = {row.case: row for row in weight.run((2_000,)).rows}
    assert rows["vectors"].lukasa < rows["vectors"].reference / 2
    assert (rows["a memory in all"].ratio or 1) < 1
    assert rows["a memory in all"].lukasa == pytest.approx(sum(row.lukasa for row in rows.values()) / 2)
