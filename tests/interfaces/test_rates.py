"""The rate of a token holds for all servers on a store together, and the headers say what is really left."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import cycle, islice
from typing import Any

import pytest

pytest.importorskip("fastapi")

from starlette.testclient import TestClient

import lukasa
from lukasa.errors import NotAllowed
from lukasa.interfaces import api_tokens
from lukasa.interfaces.api_tokens import ApiToken, LocalCounters, TokenLimits, TooManyRequests
from lukasa.interfaces.auth import StoreTokenSource
from lukasa.interfaces.http.app import build_app
from lukasa.interfaces.stores import Caller, CallerStores

pytestmark = pytest.mark.requirement("DOO-4")


@pytest.fixture
def servers(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[StoreTokenSource]]:
    """Return the tokens of two servers on one PostgreSQL store, which ask the counter at every request."""
    monkeypatch.setattr(api_tokens, "RECOUNT_SECONDS", 0.0)
    with ExitStack() as stack:
        stores = [CallerStores(url, Caller(), embedder="hash") for _ in range(2)]
        for each in stores:
            stack.callback(each.close)
        yield [StoreTokenSource(each) for each in stores]


def read_rate(answer: Any) -> int:
    found = re.fullmatch(r'"default";r=(\d+);t=(\d+)', answer.headers["ratelimit"])
    assert found is not None
    assert 1 <= int(found[2]) <= 60
    return int(found[1])


def test_two_servers_on_one_store_admit_no_more_than_the_rate(servers: list[StoreTokenSource], url: str) -> None:
    secret = servers[0].open().add("guest", agent="guest", rate=8)
    clients = [
        TestClient(
            build_app(CallerStores(url, Caller()), source, ["testserver"]),
            headers={"Authorization": f"Bearer {secret}"},
        )
        for source in servers
    ]
    answers = [client.get("/v1/jobs/none") for client in islice(cycle(clients), 12)]
    admitted = [answer for answer in answers if answer.status_code == 404]
    if [answer.status_code for answer in answers[8:]] != [429] * 4:  # a minute ended between the requests
        assert any(read_rate(answer) == 7 for answer in answers[1:])
        return
    assert [read_rate(answer) for answer in admitted] == [7, 6, 5, 4, 3, 2, 1, 0]
    assert [read_rate(answer) for answer in answers[8:]] == [0] * 4
    assert all(int(answer.headers["retry-after"]) <= 60 for answer in answers[8:])


def test_a_token_revoked_at_one_server_is_refused_by_the_other_at_once(servers: list[StoreTokenSource]) -> None:
    secret = servers[0].open().add("guest", agent="guest")
    assert [source(secret) is not None for source in servers] == [True, True]
    assert servers[1].open().revoke("guest")
    assert [source(secret) for source in servers] == [None, None]


def test_a_server_takes_a_part_of_a_large_rate_at_a_time(servers: list[StoreTokenSource]) -> None:
    token = ApiToken("busy", "0" * 64, "ada", rate=1_000)
    each = [TokenLimits(count=source.count_requests) for source in servers]
    left = [state.left for one in islice(cycle(each), 300) if (state := one.count(token)) is not None]
    assert all(700 <= number <= 999 for number in left)
    used, seconds = servers[0].count_requests(token.sha256, 0)
    assert (used in (300, 310, 320) or used < 300, 1 <= seconds <= 60) == (True, True)


def test_a_counter_of_one_process_begins_again_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(api_tokens.time, "monotonic", lambda: now[0])
    one, token = TokenLimits(count=LocalCounters()), ApiToken("t", "0" * 64, "ada", rate=250)
    states = [one.count(token) for _ in range(250)]
    assert [state.left for state in states if state is not None] == list(range(249, -1, -1))
    with pytest.raises(TooManyRequests) as refused:
        one.count(token)
    assert (refused.value.state.left, refused.value.state.seconds) == (0, 60)
    now[0] += 60
    again = one.count(token)
    assert again is not None
    assert again.left == 249


def test_only_the_owner_counts_in_a_store(url: str) -> None:
    with lukasa.open(url) as memory, pytest.raises(NotAllowed):
        memory.as_agent("ada").journal.add_to_counter("x", 1, 60)
    with lukasa.open("memory:") as memory:
        assert memory.journal.add_to_counter("x", 1, 60) is None
