"""The benchmark of quality runs the sections that exist and says which bars are met."""

import pytest
from typer.testing import CliRunner

from lukasa.errors import InvalidInput
from lukasa.interfaces.cli.app import app
from lukasa_bench.quality import QualityReport, QualityRow, at_least, at_most, load_cases, run
from lukasa_bench.quality.duplicates import list_proposed, list_refused


def test_a_row_says_whether_its_bar_is_met():
    assert QualityRow("s", "c", 2.0, "%", at_most(2)).meets_bar is True
    assert QualityRow("s", "c", 59.0, "%", at_least(60)).meets_bar is False
    assert QualityRow("s", "c", 59.0, "count").meets_bar is None


def test_an_unknown_section_is_refused_with_the_known_ones():
    with pytest.raises(InvalidInput, match="nonsense"):
        run(["nonsense"])


def test_a_report_as_json_says_which_bars_are_met():
    row = QualityRow("s", "c", 2.0, "%", at_most(2))
    assert QualityReport((row,), "hash", 1.0).as_json()["rows"][0]["met"] is True
    assert CliRunner().invoke(app, ["bench", "quality", "--section", "nonsense", "--json"]).exit_code == 2


@pytest.mark.requirement("VLT-6")
def test_different_facts_are_kept_and_repeated_ones_refused_on_the_development_pairs():
    cases = load_cases("duplicates")
    assert all(len(pairs) >= 60 for pairs in cases.values())
    development = {sort: [pair for pair in pairs if pair["half"] == "development"] for sort, pairs in cases.items()}
    assert list_refused(development["different"]) == []
    assert len(list_refused(development["repeated"])) >= 0.95 * len(development["repeated"])


def test_paraphrases_are_proposed_on_the_development_pairs():
    pairs = [pair for pair in load_cases("duplicates")["paraphrased"] if pair["half"] == "development"]
    proposed, _ = list_proposed(pairs, [], "static")
    assert len(proposed) >= 0.6 * len(pairs)
