"""Metrics, logs, problems and the description of the API hold no text of a memory and no token."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

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
