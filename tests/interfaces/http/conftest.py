"""A server over one store, and clients with tokens of two agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from starlette.testclient import TestClient

from lukasa.interfaces.api_tokens import ApiToken, token_from_environment
from lukasa.interfaces.http.app import build_app
from lukasa.interfaces.stores import Caller, CallerStores

SECRETS = {"": "the-token-of-the-owner", "ada": "the-token-of-ada-here", "ben": "the-token-of-ben-here"}


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[CallerStores]:
    stores = CallerStores(str(tmp_path / "agents.db"), Caller(), embedder="hash")
    yield stores
    stores.close()


@pytest.fixture
def connect(stores: CallerStores) -> Iterator[Callable[[str], TestClient]]:
    """Return a function that opens a client with the token of an agent; "" is the owner."""
    tokens: list[ApiToken] = [token_from_environment(secret, agent, None) for agent, secret in SECRETS.items()]
    app = build_app(stores, lambda: tokens, ["testserver"])
    clients: list[TestClient] = []

    def open_client(agent: str) -> TestClient:
        client = TestClient(app, raise_server_exceptions=False, headers={"Authorization": f"Bearer {SECRETS[agent]}"})
        clients.append(client)
        return client

    yield open_client
    for client in clients:
        client.close()


@pytest.fixture
def ada(connect: Callable[[str], TestClient]) -> TestClient:
    return connect("ada")
