"""A client of a Lukasa server: the operations of a memory over HTTP.

    memory = lukasa.connect("http://localhost:8765", token=token)
    memory.remember("We deploy on Tuesdays.")
    print(memory.recall("when do we deploy?").hits[0].text)

A call has the name, the parameters and the answer that it has in the library. A write carries an idempotency key, so that
a try whose answer was lost is repeated without writing twice. The agent and the scopes are those of the token.
``lukasa.aio.connect`` is the same for asyncio. The types are in ``client.pyi``, which ``tools/generate_aio.py`` writes.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from lukasa.api_connection import ApiConnection
from lukasa.config import hub_token
from lukasa.core.argument_types import check_arguments
from lukasa.operations import OVER_HTTP


class RemoteService:
    """A service of a memory on a server. Its methods are the operations of ``lukasa.operations`` under its name."""

    def __init__(self, connection: ApiConnection, name: str = "") -> None:
        self._connection = connection
        self._prefix = f"{name}." if name else ""

    def __getattr__(self, name: str) -> Any:
        """Build a method or a service when it is first used."""
        from lukasa.api_calls import build_method

        if name not in _list_names(self._prefix):
            raise AttributeError(f"{self!r} has no attribute {name!r}.")
        operation = OVER_HTTP.get(self._prefix + name)
        built: Any = (
            RemoteService(self._connection, self._prefix + name)
            if operation is None
            else build_method(self._connection, operation, {"_episodes": self})
        )
        setattr(self, name, built)
        return built

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_list_names(self._prefix)})

    def __repr__(self) -> str:
        return f"<{self._prefix.rstrip('.') or 'memory'} at {self._connection.url}>"


class RemoteMemory(RemoteService):
    """The memory of one agent on a server."""

    def close(self) -> None:
        """Close the connections to the server.

        Example:
            remote.close()
        """
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


@check_arguments
def connect(url: str, token: str = "", *, timeout: float = 30.0, retries: int = 4) -> RemoteMemory:
    """Connect to a server: ``lukasa.connect("http://localhost:8765", token=token)``.

    Without a token, the one in ``LUKASA_HUB_TOKEN`` is used. A request is tried again while the server is away or busy, for
    ``timeout`` seconds together.

    Args:
        url: The address of the server, such as ``http://host:8765``.
        token: The token of the agent; default: ``LUKASA_TOKEN``.
        timeout: How many seconds one call may take.
        retries: How often a call is repeated where that is safe.

    Example:
        with lukasa.connect(url, token) as remote:
            remote.remember("We deploy on Tuesdays.")
    """
    return RemoteMemory(ApiConnection(url, token or hub_token(), timeout, retries))


def _list_names(prefix: str) -> set[str]:
    """Return the names under a service: methods, and services of their own."""
    return {method.removeprefix(prefix).partition(".")[0] for method in OVER_HTTP if method.startswith(prefix)}
