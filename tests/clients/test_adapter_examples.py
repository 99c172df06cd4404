"""Run the programs of examples/ that need another framework."""

import pytest

for name in ("agents", "anthropic", "langgraph", "pydantic_ai"):
    pytest.importorskip(name, reason="run by `make test-clients`, which installs the frameworks")

from test_examples import OF_ADAPTERS, check_example  # noqa: E402 - after the check that the frameworks are there

pytestmark = pytest.mark.slow


@pytest.mark.requirement("DOO-6")
@pytest.mark.parametrize("example", OF_ADAPTERS, ids=lambda path: path.stem)
def test_an_example_of_an_adapter_prints_what_its_docstring_says(example, tmp_path):
    check_example(example, tmp_path)
