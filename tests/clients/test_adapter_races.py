"""Eight processes on one thread, session or file, one of them killed twice, on both engines."""

import pytest

pytest.importorskip("pydantic_ai", reason="run by `make test-clients`, which installs the frameworks")

from support.adapter_race import check_race
from support.postgres import shared_server

pytestmark = pytest.mark.slow
ADAPTERS = ["anthropic_file", "graph_saver", "graph_store", "openai_session", "pydantic_conversation"]


@pytest.mark.requirement("DOO-6")
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_eight_processes_lose_nothing_in_a_file(adapter, tmp_path):
    check_race(adapter, str(tmp_path / "memory.db"), tmp_path)


@pytest.mark.requirement("DOO-6")
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_eight_processes_lose_nothing_in_postgresql(adapter, tmp_path):
    with shared_server() as server, server.database() as url:
        check_race(adapter, url, tmp_path)
