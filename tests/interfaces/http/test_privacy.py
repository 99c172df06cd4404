"""Metrics, logs, problems and the description of the API hold no text of a memory and no token."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from lukasa.interfaces.stores import CallerStores
from lukasa.memory import Memory

pytestmark = pytest.mark.requirement("DOO-4")
CANARY = "The canary sings at quarter past seven in the harbour."
JSON = {"Content-Type": "application/json"}
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def failing_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make one call of the library fail with a message that quotes a memory."""

    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError(CANARY)

    monkeypatch.setattr(Memory, "before_task", fail)


def test_nothing_but_answers_to_readers_holds_a_memory_or_a_token(
    connect: Callable[[str], TestClient],
    stores: CallerStores,
    secrets: dict[str, str],
    failing_memory: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    ada, ben = connect("ada"), connect("ben")
    made = ada.post("/v1/memories", json={"text": CANARY, "scope": "ada"}, headers={"traceparent": TRACE})
    assert made.status_code == 201
    id = made.json()["id"]
    ada.post("/v1/recall", json={"query": CANARY})
    problems = [
        ada.post("/v1/memories", json={"text": CANARY, "scope": "ada"}),
        ada.post("/v1/memories", json={"text": CANARY, "colour": CANARY}),
        ada.post("/v1/memories", content=f'{{"text": "{CANARY}"'.encode(), headers=JSON),
        ada.post("/v1/before-task", json={"task": "harbour"}),
        ada.post("/v1/memories", json={"text": CANARY}, headers={"Authorization": f"Bearer {secrets['ada']}x"}),
        ada.get("/v1/memories", params={"tier": CANARY}),
        ben.get(f"/v1/memories/{id}"),
        ben.post("/v1/memories", json={"text": CANARY, "scope": "ada"}),
        ben.patch(f"/v1/memories/{id}", json={"text": "Something else."}, headers={"If-Match": '"v9"'}),
    ]
    assert {answer.status_code for answer in problems} == {400, 401, 403, 404, 409, 422, 500}
    shown = [answer.text for answer in problems]
    shown += [ben.get(path).text for path in ("/metrics", "/openapi.json", "/v1/stats", "/v1/events?after=0", "/")]
    logged = [record for record in caplog.records if not record.name.startswith("httpx")]  # httpx is the client
    shown += [record.getMessage() + str(record.exc_info) for record in logged]
    for text in shown:
        assert "canary" not in text
        assert "quarter past" not in text
        assert not any(secret in text for secret in secrets.values())
    access = [record.getMessage() for record in caplog.records if record.name == "lukasa.access"]
    assert any("/v1/memories 201" in line and "4bf92f3577b34da6a3ce929d0e0e4736" in line for line in access)
    assert any("ZeroDivisionError" in record.getMessage() for record in caplog.records)


SENT = "A wombat keeps the ledger of the lighthouse"
"""What the requests below carry; none of it was stored before."""


def fill(schema: Any, schemas: Any, text: str) -> Any:
    """Return a value of the shape that a schema describes, with a text wherever it takes one."""
    schema = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    for name in ("anyOf", "oneOf", "allOf"):
        if name in schema:
            return fill(schema[name][0], schemas, text)
    if "enum" in schema or "const" in schema:
        return schema.get("const", schema.get("enum", [""])[0])
    match schema.get("type"):
        case "object":
            fields = {name: fill(part, schemas, text) for name, part in schema.get("properties", {}).items()}
            return fields or {text[:60]: text}
        case "array":
            return [fill(schema.get("items", {}), schemas, text)]
        case "integer" | "number":
            return max(1, schema.get("minimum", 1))
        case "boolean":
            return False
    return text[: schema.get("maxLength", len(text))]


@pytest.mark.parametrize("ending", [".", '\n\t\', "twice" {json: [} \U0001f98a \u202e\x07'])
def test_no_operation_tells_what_others_stored_or_logs_what_it_was_sent(
    connect: Callable[[str], TestClient], secrets: dict[str, str], caplog: pytest.LogCaptureFixture, ending: str
) -> None:
    ada = connect("ada")
    assert ada.post("/v1/memories", json={"text": CANARY, "scope": "ada"}).status_code == 201
    assert ada.post("/v1/conversations/c1/turns", json={"role": "user", "content": CANARY}).status_code == 201
    assert ada.post("/v1/episodes", json={"goal": CANARY, "scope": "ada"}).status_code == 201
    document = ada.get("/openapi.json").json()
    caplog.set_level(logging.DEBUG)
    caplog.clear()
    clients = [connect("ada"), connect("ben"), connect("lks_" + "x" * 40)]
    problems, statuses = [], set()
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            parameters = operation.get("parameters", [])
            values = {
                each["name"]: fill(each["schema"], document["components"]["schemas"], SENT + ending)
                for each in parameters
            }
            place = (
                path.replace("{", "{0[")
                .replace("}", "]}")
                .format({name: quote(str(values[name]), safe="") for name in values})
            )
            query = {each["name"]: values[each["name"]] for each in parameters if each["in"] == "query"} | {"wait": 0}
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            body = (
                None if content is None else fill(content["schema"], document["components"]["schemas"], SENT + ending)
            )
            for client in clients:
                answer = client.request(verb, place, params=query, json=body, headers={"User-Agent": SENT})
                statuses.add(answer.status_code)
                problems += [answer.text] if answer.status_code >= 400 else []
    assert {200, 401, 403, 404, 422} <= statuses
    assert statuses & {500, 503} == set()
    for text in problems:
        assert "canary" not in text.lower()
        assert not any(secret in text for secret in secrets.values())
    logged = [record for record in caplog.records if not record.name.startswith("httpx")]  # httpx is the client
    shown = [record.getMessage() + str(record.exc_info) for record in logged]
    shown += [client.get(path).text for client in clients for path in ("/metrics", "/openapi.json")]
    assert len(shown) > 400
    for text in shown:
        assert not any(word in text.lower() for word in ("canary", "wombat", "lighthouse"))
        assert not any(secret in text for secret in secrets.values())
