"""The first page comes at once, and a large store slows no page down."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import expect

import lukasa
from lukasa.core.record import Draft, Key, Link
from support.dashboard import DashboardServer, Visitor, serve_dashboard

pytestmark = [pytest.mark.requirement("DOO-5"), pytest.mark.slow]

SMALL, LARGE = 10_000, 100_000
MAX_SECONDS = 1.0
PATHS = ("/v1/caller", "/v1/overview", "/v1/vault", "/v1/records?kinds=memory&newest_first=true&limit=50", "/v1/graph", "/v1/graph?scope=shared&kind=memory&id=m500&limit=500&depth=4")  # fmt: skip


def fill(path: Path, count: int) -> None:
    """Write memories that are linked in a chain."""
    with lukasa.open(path, embedder="hash") as memory:
        for start in range(0, count, 1_000):
            memory.journal.append(
                [
                    Draft(
                        "memory",
                        f"Fact {number} about warehouse {number % 977} and shelf {number % 31}.",
                        {"tier": "canon", "category": f"c{number % 12}"},
                        id=f"m{number}",
                        labels=("tier=canon", f"category=c{number % 12}"),
                        links=(Link("related_to", Key("shared", "memory", f"m{number - 1}")),) if number else (),
                    )
                    for number in range(start, start + 1_000)
                ]
            )


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, DashboardServer]]:
    with ExitStack() as stack:
        found = {}
        for count in (SMALL, LARGE):
            path = tmp_path_factory.mktemp("speed") / f"{count}.db"
            fill(path, count)
            found[count] = stack.enter_context(serve_dashboard(path, embedder="hash"))
        yield found


def test_the_first_page_of_a_large_store_is_there_within_a_second(
    servers: dict[int, DashboardServer], sign_in: Callable[..., Visitor]
) -> None:
    taken = []
    for _ in range(3):
        visitor = sign_in(server=servers[LARGE])
        began = time.perf_counter()
        visitor.page.goto(servers[LARGE].url)
        expect(visitor.page.locator(".stat-value").first).to_have_text(f"{LARGE:,}")
        taken.append(time.perf_counter() - began)
    assert min(taken) < MAX_SECONDS


def test_ten_times_the_records_slow_no_request_of_a_page_by_more_than_twice(
    servers: dict[int, DashboardServer], sign_in: Callable[..., Visitor]
) -> None:
    for path in PATHS:
        seconds = {}
        for count, server in servers.items():
            context = sign_in(server=server).context
            taken = []
            for _ in range(7):
                began = time.perf_counter()
                assert context.request.get(server.url + path).ok
                taken.append(time.perf_counter() - began)
            seconds[count] = min(taken)
        assert seconds[LARGE] < 2 * seconds[SMALL] + 0.02, (path, seconds)
