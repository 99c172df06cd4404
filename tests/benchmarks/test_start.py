"""``lukasa bench start`` measures every command that it names."""

import pytest

from lukasa_bench import start


@pytest.mark.slow
def test_every_case_is_measured_beside_its_reference():
    report = start.run(size=20, rounds=1)
    assert [row.case for row in report.rows] == [case.name for case in start.CASES]
    assert all(row.lukasa > 0 < row.reference for row in report.rows)
