"""The benchmark of quality runs the sections that exist and says which bars are met."""

import json

import pytest
from typer.testing import CliRunner

from lukasa.errors import InvalidInput
from lukasa.interfaces.cli.app import app
from lukasa_bench.quality import QualityRow, at_least, at_most, run


def test_a_row_says_whether_its_bar_is_met():
    assert QualityRow("s", "c", 2.0, "%", at_most(2)).meets_bar is True
    assert QualityRow("s", "c", 59.0, "%", at_least(60)).meets_bar is False
    assert QualityRow("s", "c", 59.0, "count").meets_bar is None


def test_an_unknown_section_is_refused_with_the_known_ones():
    with pytest.raises(InvalidInput, match="nonsense"):
        run(["nonsense"])


def test_the_report_is_printed_as_json():
    result = CliRunner().invoke(app, ["bench", "quality", "--section", "nonsense", "--json"])
    assert result.exit_code != 0
    assert (
        json.loads(CliRunner().invoke(app, ["bench", "quality", "--embedder", "hash", "--json"]).stdout)["rows"]
        is not None
    )
