"""The benchmark of the adapters runs and compares every case; its figures are not judged here."""

import pytest

pytest.importorskip("langgraph.checkpoint.sqlite", reason="run by `make test-clients`, which installs the frameworks")
pytest.importorskip("agents", reason="run by `make test-clients`, which installs the frameworks")

from lukasa_bench.adapters import run

pytestmark = pytest.mark.slow


@pytest.mark.requirement("DOO-6")
def test_every_adapter_is_compared_with_the_stock_implementation():
    report = run((30,), 1)
    assert {row.case.split(":")[0] for row in report.rows} == {"saver", "thread", "store", "session", "conversation"}
    assert all(row.ratio and row.bar is not None for row in report.rows)
