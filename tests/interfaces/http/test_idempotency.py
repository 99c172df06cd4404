"""Requests that are repeated with their key."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from lukasa.core.record import Key
from lukasa.core.scope import SYSTEM
from lukasa.interfaces.stores import Caller, CallerStores

pytestmark = pytest.mark.requirement("DOO-4")
STEP = {"action": "test", "target": "tests", "result": "passed"}
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("memories", {"text": "We deploy on Tuesdays."}),
    ("memories/bulk", {"items": [{"text": "Tea is at four."}, {"text": "my password is hunter2-4711"}]}),
    ("conversations/c1/turns", {"role": "user", "content": "Staging is called heron."}),
    ("episodes", {"goal": "Fix the login page", "action_log": [STEP]}),
    ("episodes/running", {"goal": "Write the docs"}),
    ("knowledge/patterns", {"pattern": "Read the switch for each request"}),
    ("handoffs", {"to_agent": "ben", "what_was_done": "The page is written."}),
    ("forecasts", {"question": "Will it rain?", "probability": 0.7}),
    ("ledgers", {"current_task": "login", "completed": 1}),
    ("sessions/s1/checkpoints", {"state": {"goal": "ship"}}),
    ("trust/dissents", {"text": "The plan has no way back if the deploy fails."}),
]


@pytest.mark.parametrize(("path", "body"), REQUESTS, ids=[path for path, _ in REQUESTS])
def test_a_repeated_request_writes_once_and_gets_the_first_answer(
    ada: TestClient, stores: CallerStores, path: str, body: dict[str, Any]
) -> None:
    first = ada.post(f"/v1/{path}", json=body, headers={"Idempotency-Key": "k1"})
    assert 200 <= first.status_code < 300, first.text
    tip = stores.for_caller(Caller()).journal.tip()
    again = ada.post(f"/v1/{path}", json=body, headers={"Idempotency-Key": "k1"})
    assert (again.status_code, again.json()) == (first.status_code, first.json())
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers.get("etag") == first.headers.get("etag")
    assert stores.for_caller(Caller()).journal.tip() == tip


def test_a_key_of_another_request_is_refused(ada: TestClient) -> None:
    key = {"Idempotency-Key": "k1"}
    assert ada.post("/v1/memories", json={"text": "We deploy on Tuesdays."}, headers=key).status_code == 201
    for path, body in (("memories", {"text": "Tea is at four."}), ("episodes", {"goal": "Fix the login page"})):
        refused = ada.post(f"/v1/{path}", json=body, headers=key)
        assert (refused.status_code, refused.json()["code"]) == (422, "key_reused")
    assert ada.post("/v1/memories", json={"text": "x y z"}, headers={"Idempotency-Key": "k" * 201}).status_code == 422


def test_a_refused_request_leaves_its_key_free(ada: TestClient) -> None:
    key = {"Idempotency-Key": "k1"}
    refused = ada.post("/v1/memories", json={"text": "tick marker for burst 5"}, headers=key)
    assert refused.json()["code"] == "noise"
    assert ada.post("/v1/memories", json={"text": "Tea is at four."}, headers=key).status_code == 201


def test_two_tokens_never_share_a_key(connect: Callable[[str], TestClient]) -> None:
    for agent in ("ada", "ben"):
        body = {"role": "user", "content": f"I am {agent}."}
        answer = connect(agent).post("/v1/conversations/c1/turns", json=body, headers={"Idempotency-Key": "k1"})
        assert (answer.status_code, answer.json()["scope"]) == (201, agent)


def test_a_request_whose_answer_was_lost_is_not_done_again(ada: TestClient, stores: CallerStores) -> None:
    """Delete the stored answer, as if the server had died between the write and the answer."""
    body, key = {"role": "user", "content": "Staging is called heron."}, {"Idempotency-Key": "k1"}
    ada.post("/v1/conversations/c1/turns", json=body, headers=key)
    journal = stores.for_caller(Caller()).journal
    (answer,) = [record for record in journal.read() if record.kind == "http_answer"]
    journal.delete(Key(SYSTEM, "http_answer", answer.id))
    again = ada.post("/v1/conversations/c1/turns", json=body, headers=key)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (200, "true")
    assert len(ada.get("/v1/conversations/c1/turns").json()["turns"]) == 1


def test_ten_equal_requests_at_once_write_once(start_server: Callable[..., Any], secrets: dict[str, str]) -> None:
    headers = {"Authorization": f"Bearer {secrets['ada']}", "Idempotency-Key": "k1"}
    body = {"role": "user", "content": "Staging is called heron."}
    with start_server() as server, ThreadPoolExecutor(10) as threads:
        url = f"{server.url}/v1/conversations/c1/turns"
        answers = list(threads.map(lambda _: httpx2.post(url, json=body, headers=headers, timeout=30), range(10)))
        assert {answer.status_code for answer in answers} == {201}
        assert len({answer.json()["id"] for answer in answers}) == 1
        assert len(httpx2.get(url, headers=headers, timeout=30).json()["turns"]) == 1


def test_erasing_a_record_erases_the_answers_that_hold_it(connect: Callable[[str], TestClient]) -> None:
    ada, owner = connect("ada"), connect("")
    facts = {"items": [{"text": "The spare key is under the mat."}]}
    made = ada.post("/v1/memories/bulk", json=facts, headers={"Idempotency-Key": "k1"}).json()
    record = made["outcomes"][0]["record"]
    key = {name: record[name] for name in ("scope", "kind", "id")}
    assert owner.post("/v1/journal/erasures", json={"keys": [key]}).status_code == 200
    assert b"under the mat" not in owner.get("/v1/export").content


@pytest.mark.requirement("LOG-5")
def test_the_answer_of_a_request_that_only_reads_is_not_stored(connect: Callable[[str], TestClient]) -> None:
    owner = connect("")
    owner.post("/v1/memories", json={"text": "The staging database is called heron."})
    for path, body in (("/v1/recall", {"query": "heron"}), ("/v1/before-task", {"task": "Move the heron database"})):
        for _ in range(2):
            answer = owner.post(path, json=body, headers={"Idempotency-Key": "k"})
            assert answer.status_code == 200
            assert "Idempotent-Replayed" not in answer.headers
    assert owner.get("/v1/records", params={"kinds": "http_answer"}).json()["records"] == []
