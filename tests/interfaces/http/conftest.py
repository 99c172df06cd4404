"""A server over one store, and clients with tokens of two agents."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from starlette.testclient import TestClient

from lukasa.interfaces.api_tokens import ApiTokens
from lukasa.interfaces.auth import StoreTokenSource
from lukasa.interfaces.http.app import build_app
from lukasa.interfaces.http_connection import CONNECTIONS
from lukasa.interfaces.http_server import build_server, list_host_names
from lukasa.interfaces.limits import ConnectionLimits
from lukasa.interfaces.stores import Caller, CallerStores


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[CallerStores]:
    stores = CallerStores(str(tmp_path / "agents.db"), Caller(), embedder="hash")
    yield stores
    stores.close()


@pytest.fixture
def tokens(stores: CallerStores) -> ApiTokens:
    return StoreTokenSource(stores).open()


@pytest.fixture
def secrets(tokens: ApiTokens) -> dict[str, str]:
    """Return a token of the owner, called "", and of two agents, by agent."""
    return {agent: tokens.add(agent or "owner", agent=agent) for agent in ("", "ada", "ben")}


@pytest.fixture
def connect(stores: CallerStores, secrets: dict[str, str]) -> Iterator[Callable[[str], TestClient]]:
    """Return a function that opens a client with the token of an agent, or with a token given; "" is the owner."""
    app = build_app(stores, StoreTokenSource(stores), ["testserver"])
    clients: list[TestClient] = []

    def open_client(agent: str) -> TestClient:
        secret = secrets.get(agent, agent)
        client = TestClient(app, raise_server_exceptions=False, headers={"Authorization": f"Bearer {secret}"})
        clients.append(client)
        return client

    yield open_client
    for client in clients:
        client.close()


@pytest.fixture
def ada(connect: Callable[[str], TestClient]) -> TestClient:
    return connect("ada")


@pytest.fixture
def owner(connect: Callable[[str], TestClient]) -> TestClient:
    return connect("")


@dataclass(frozen=True)
class RunningServer:
    """A server that really listens."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connect(self, data: bytes = b"", **headers: str) -> socket.socket:
        """Open a connection and send some bytes."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=15)
        connection.sendall(data)
        return connection

    def request(self, method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
        """Return the head of a request, with the body given."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.fixture
def parser() -> str:
    """Return the name of the parser that servers use."""
    return next(iter(CONNECTIONS))


@pytest.fixture
def start_server(stores: CallerStores, parser: str) -> Callable[..., object]:
    """Return a context manager that runs a server with the limits given."""

    @contextmanager
    def start(limits: ConnectionLimits | None = None) -> Iterator[RunningServer]:
        with socket.create_server(("127.0.0.1", 0)) as found:
            port = int(found.getsockname()[1])
        listening = threading.Event()
        app = build_app(stores, StoreTokenSource(stores), list_host_names("127.0.0.1", port))
        server = build_server(app, "127.0.0.1", port, lambda _: listening.set(), limits, parser)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            assert listening.wait(30)
            yield RunningServer(port)
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()

    return start
