"""The HTTP API: what each route does, and how it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from lukasa.interfaces.limits import MAX_BODY_BYTES

Connect = Callable[[str], TestClient]


def remember(client: TestClient, text: str, **fields: Any) -> str:
    answer = client.post("/v1/memories", json={"text": text, **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def test_a_remembered_fact_is_recalled_with_reasons_and_a_block(ada: TestClient) -> None:
    id = remember(ada, "We deploy on Tuesdays.")
    question = {"query": "when do we deploy?", "explain": True, "budget": 300}
    answer = ada.post("/v1/recall", json=question).json()
    assert answer["hits"][0]["record"]["id"] == id
    assert answer["hits"][0]["signals"]["words"]["value"] > 0
    assert "We deploy on Tuesdays." in answer["block"]["text"]


def test_the_author_is_the_agent_of_the_token(ada: TestClient) -> None:
    answer = ada.post("/v1/memories", json={"text": "The staging database is called heron."})
    assert answer.json()["author"] == "ada"
    refused = ada.post("/v1/memories", json={"text": "Ben owns the deploys.", "author": "ben"})
    assert (refused.status_code, refused.json()["code"]) == (422, "usage")


def test_a_confirmed_memory_gets_a_new_expiry(ada: TestClient) -> None:
    id = remember(ada, "We deploy on Tuesdays.", expires_at="2030-01-01T00:00:00Z")
    answer = ada.post(f"/v1/memories/{id}/confirmations", json={"expires_at": "2031-01-01T00:00:00Z"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["body"]["expires_at"] == "2031-01-01T00:00:00Z"
    assert ada.post("/v1/memories/none/confirmations", json={}).status_code == 404


@pytest.mark.parametrize("number", ["5.0", "1_0", "+5", " 5", "5e0", "0x5", "", "٥"])
def test_a_number_in_a_query_is_written_in_digits(ada: TestClient, number: str) -> None:
    assert ada.get("/v1/memories", params={"limit": "5"}).status_code == 200
    assert ada.get("/v1/memories", params={"limit": number}).status_code == 422


def test_an_update_needs_the_version_that_if_match_names(ada: TestClient) -> None:
    id = remember(ada, "We deploy on Tuesdays.")
    first = ada.get(f"/v1/memories/{id}")
    assert first.headers["etag"] == '"v1"'
    change = {"text": "We deploy on Thursdays from now on."}
    updated = ada.patch(f"/v1/memories/{id}", json=change, headers={"If-Match": first.headers["etag"]})
    assert (updated.status_code, updated.headers["etag"]) == (200, '"v2"')
    late = ada.patch(f"/v1/memories/{id}", json={"text": "We deploy on Fridays."}, headers={"If-Match": '"v1"'})
    details = {"key": {"scope": "shared", "kind": "memory", "id": id}, "expected": 1, "found": 2}
    assert (late.status_code, late.json()["details"]) == (412, details)
    texts = [version["text"] for version in ada.get(f"/v1/memories/{id}/history").json()["versions"]]
    assert texts == ["We deploy on Tuesdays.", "We deploy on Thursdays from now on."]


def test_an_unchanged_record_is_not_sent_again(ada: TestClient) -> None:
    id = remember(ada, "We deploy on Tuesdays.")
    path = f"/v1/records/shared/memory/{id}"
    tag = ada.get(path).headers["etag"]
    assert ada.get(path, headers={"If-None-Match": tag}).status_code == 304
    assert ada.get(path, headers={"If-None-Match": '"v9"'}).status_code == 200


def test_a_forgotten_memory_is_gone_but_its_history_stays(ada: TestClient) -> None:
    id = remember(ada, "We deploy on Tuesdays.")
    assert ada.delete(f"/v1/memories/{id}").status_code == 200
    assert ada.get(f"/v1/memories/{id}").json()["code"] == "not_found"
    assert len(ada.get(f"/v1/memories/{id}/history").json()["versions"]) == 2


def test_many_facts_get_one_verdict_each(ada: TestClient) -> None:
    facts = [{"text": "We deploy on Tuesdays."}, {"text": "my password is hunter2-4711"}, {"text": "Tea at four."}]
    outcomes = ada.post("/v1/memories/bulk", json={"items": facts}).json()["outcomes"]
    assert [outcome["status"] for outcome in outcomes] == [201, 422, 201]
    assert outcomes[1]["code"] == "pii"
    assert "hunter2" not in json.dumps(outcomes)


def test_a_repeated_turn_with_the_same_key_is_stored_once(ada: TestClient) -> None:
    turn = {"role": "user", "content": "Staging is called heron."}
    answers = [ada.post("/v1/conversations/c1/turns", json=turn, headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json()["id"] == answers[1].json()["id"]
    assert "idempotent-replayed" not in answers[0].headers
    assert answers[1].headers["idempotent-replayed"] == "true"
    assert len(ada.get("/v1/conversations/c1/turns").json()["turns"]) == 1
    assert "heron" in ada.get("/v1/conversations/c1/prompt").json()["text"]


def test_a_caller_sees_nothing_of_the_private_scope_of_another(connect: Connect) -> None:
    ada, ben = connect("ada"), connect("ben")
    id = remember(ada, "The spare key is under the mat.", scope="ada")
    assert ben.get(f"/v1/memories/{id}").status_code == 404
    assert ben.get(f"/v1/records/ada/memory/{id}").status_code == 404
    assert ben.post("/v1/recall", json={"query": "spare key"}).json()["hits"] == []
    assert ben.get("/v1/events?after=0").json()["events"] == []
    assert ben.post("/v1/memories", json={"text": "Ben was here.", "scope": "ada"}).status_code == 403
    assert "ada" not in json.dumps(ben.get("/v1/stats").json())


def test_pages_of_records_follow_each_other_without_gap_or_repeat(ada: TestClient) -> None:
    facts = ("We deploy on Tuesdays.", "Tea is served at four.", "The staging database is called heron.")
    ids = [remember(ada, fact) for fact in facts]
    found, cursor = [], None
    while True:
        query: dict[str, Any] = {"kinds": "memory", "limit": 2} | ({"cursor": cursor} if cursor else {})
        page = ada.get("/v1/records", params=query).json()
        found += [record["id"] for record in page["records"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert found == ids
    first = ada.get("/v1/records", params={"kinds": "memory", "limit": 1}).json()["next"]
    other = ada.get("/v1/records", params={"kinds": "turn", "cursor": first})
    assert (other.status_code, other.json()["code"]) == (422, "invalid_input")
    assert ada.get("/v1/records", params={"cursor": "bad!"}).status_code == 422


def test_events_continue_after_a_position(ada: TestClient) -> None:
    remember(ada, "We deploy on Tuesdays.")
    first = ada.get("/v1/events", params={"after": 0}).json()
    assert [event["text"] for event in first["events"]] == ["We deploy on Tuesdays."]
    remember(ada, "Tea is served at four.")
    following = ada.get("/v1/events", params={"after": first["position"], "wait": 5}).json()
    assert [event["text"] for event in following["events"]] == ["Tea is served at four."]
    assert ada.get("/v1/events", params={"after": following["position"]}).json()["events"] == []


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/v1/memories", b"\xff\xfe", 400, "usage"),
        ("POST", "/v1/memories", b"{", 400, "usage"),
        ("POST", "/v1/memories", b"[]", 422, "usage"),
        ("POST", "/v1/memories", b'{"text": "x", "colour": 1}', 422, "usage"),
        ("POST", "/v1/memories", b'{"text": "tick marker for burst 5"}', 422, "noise"),
        ("POST", "/v1/recall", b'{"query": "x", "since": "yesterday"}', 422, "usage"),
        ("POST", "/v1/recall", b'{"query": "x", "k": 0}', 422, "usage"),
        ("PATCH", "/v1/memories/nothing", b'{"text": "x y z"}', 404, "not_found"),
        ("DELETE", "/v1/memories/nothing", b"", 404, "not_found"),
        ("GET", "/v1/nothing", b"", 404, "no_such_path"),
        ("PUT", "/v1/memories", b"{}", 405, "no_such_method"),
    ],
)
def test_a_bad_request_gets_a_problem_with_a_code_and_advice(
    ada: TestClient, method: str, path: str, body: bytes, status: int, code: str
) -> None:
    answer = ada.request(method, path, content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["next"]


def test_a_body_without_a_declared_length_is_limited(ada: TestClient) -> None:
    def chunks() -> Any:
        for _ in range(MAX_BODY_BYTES // 1_000_000 + 2):
            yield b" " * 1_000_000

    answer = ada.post("/v1/recall", content=chunks(), headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


@pytest.mark.parametrize("path", ["/v1/memories", "/v1/recall", "/openapi.json", "/metrics", "/v1/events", "/mcp"])
def test_every_path_but_health_and_the_start_page_needs_a_token(connect: Connect, path: str) -> None:
    client = connect("ada")
    assert client.get(path, headers={"Authorization": "Bearer wrong"}).status_code == 401
    for open_path in ("/", "/healthz", "/readyz"):
        assert client.get(open_path, headers={"Authorization": ""}).status_code == 200


def test_metrics_count_requests_and_hold_no_content(ada: TestClient) -> None:
    remember(ada, "We deploy on Tuesdays.")
    text = ada.get("/metrics").text
    assert 'lukasa_http_requests_total{method="POST",route="/v1/memories",status="201"}' in text
    assert 'lukasa_records{kind="memory"}' in text
    assert "Tuesdays" not in text


def test_the_description_of_the_api_names_every_route(ada: TestClient) -> None:
    paths = ada.get("/openapi.json").json()["paths"]
    assert {
        "/v1/memories",
        "/v1/recall",
        "/v1/records",
        "/v1/events",
        "/v1/conversations/{conversation_id}/turns",
    } <= set(paths)
    assert "401" in paths["/v1/recall"]["post"]["responses"]
