"""The benchmark of scripts meets its bars without a model."""

import pytest

from lukasa_bench.quality import scripts


@pytest.mark.requirement("RCL-10")
def test_words_and_questions_of_every_script_meet_their_bars():
    rows = {row.case: row for row in scripts.measure("hash")}
    assert rows["words found first"].value == 100
    assert all(row.meets_bar is not False for row in rows.values())
