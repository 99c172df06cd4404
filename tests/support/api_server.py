"""A real server of the HTTP API on a port of this machine, in a thread."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from lukasa.interfaces.api_tokens import token_from_environment
from lukasa.interfaces.http.app import build_app
from lukasa.interfaces.stores import Caller, CallerStores


def token_for(agent: str) -> str:
    """Return the token of an agent on every test server; "" is the owner."""
    return f"the-test-token-of-{agent or 'the-owner'}"


@contextmanager
def run_api_server(location: str, agents: tuple[str, ...] = ("", "a", "b", "c"), **options: object) -> Iterator[str]:
    """Serve a store to agents, and yield the address."""
    stores = CallerStores(location, Caller(), embedder="hash", **options)
    tokens = {token_for(agent): token_from_environment(token_for(agent), agent, None) for agent in agents}
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    app = build_app(stores, tokens.get, [address])
    config = uvicorn.Config(app, log_level="error", access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield f"http://{address}"
    finally:
        server.should_exit = True
        thread.join(timeout=30)
        listener.close()
        stores.close()
