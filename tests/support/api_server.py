"""A real server of the HTTP API on a port of this machine, in a thread."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from lukasa.interfaces.api_tokens import token_from_environment
from lukasa.interfaces.http.app import build_app
from lukasa.interfaces.stores import Caller, CallerStores


def token_for(agent: str) -> str:
    """Return the token of an agent on every test server; "" is the owner."""
    return f"the-test-token-of-{agent or 'the-owner'}"


@contextmanager
def serve_app(build: Callable[[str], ASGIApp]) -> Iterator[str]:
    """Serve an app in a thread and yield its address. ``build`` gets host and port.

    Streams that are open at the end are cut off.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # A socket that is made here misses what asyncio sets, and then each answer waits 40 ms for an acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(build(address), log_level="critical", access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        try:
            yield f"http://{address}"
        finally:
            server.should_exit = server.force_exit = True
            thread.join(timeout=30)


@contextmanager
def run_api_server(location: str, agents: tuple[str, ...] = ("", "a", "b", "c"), **options: Any) -> Iterator[str]:
    """Serve a store to agents, and yield the address."""
    stores = CallerStores(location, Caller(), embedder="hash", **options)
    tokens = {token_for(agent): token_from_environment(token_for(agent), agent, None) for agent in agents}
    try:
        with serve_app(lambda address: build_app(stores, tokens.get, [address])) as url:
            yield url
    finally:
        stores.close()
