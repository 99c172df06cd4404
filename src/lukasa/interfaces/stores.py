"""Who calls, and the store as they see it. Opened when first needed, so that a server starts beside any store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from mcp.server.mcpserver import Context

from lukasa.config import locate_store
from lukasa.errors import LukasaError, NotAllowed, StoreClosed, StoreUnavailable
from lukasa.memory import Memory, open_memory

CURRENT_REQUEST: ContextVar[Context[Any, Any]] = ContextVar("lukasa.request")
"""The request that is being answered, for what the protocol's library does not hand it to."""

CALLER_KEY = "lukasa.caller"
"""Where the HTTP door leaves who calls, beside the request."""


@dataclass(frozen=True, slots=True)
class Caller:
    """An agent and the scopes it reaches; without scopes the shared one and its own, without a name everything."""

    agent: str = ""
    scopes: tuple[str, ...] | None = None


class CallerStores:
    """One open store, lent to each caller with its own reach."""

    def __init__(self, store: str | None, caller: Caller, **options: Any) -> None:
        self._open_memory: Callable[..., Memory] = lambda **reach: open_memory(store, **options, **reach)
        self._location = locate_store(store)
        self._default_caller = caller
        self._default_memory: Memory | None = None
        self._memories: dict[Caller, Memory] = {}
        self._lock = threading.Lock()

    def for_request(self, ctx: Context[Any, Any]) -> Memory:
        """The store as whoever made this request sees it."""
        return self.for_caller(_caller_from_request(ctx) or self._default_caller)

    def for_caller(self, caller: Caller) -> Memory:
        """The store as a caller sees it; opened now if it is not yet, or was given up."""
        with self._lock:
            if caller == self._default_caller:
                return self._open_default()
            if caller not in self._memories:
                self._memories[caller] = self._open_default().as_agent(caller.agent, caller.scopes)
            return self._memories[caller]

    def _open_default(self) -> Memory:
        if self._default_memory is None:
            self._default_memory = self._open_memory(
                agent=self._default_caller.agent, scopes=self._default_caller.scopes
            )
        return self._default_memory

    def warm_up(self) -> None:
        """Opens the store and loads what recall needs, in the background, so that the first answer is quick.

        A store that is not there yet is not made for that; whatever fails now is told to whoever calls.
        """
        with suppress(LukasaError, OSError):
            path = self._location.path
            if path is None or path.exists():
                self.for_caller(self._default_caller).recall("warming up", 1)

    def close_if_broken(self, error: Exception) -> None:
        """After an error from which an open store does not recover by itself, the next call opens it anew."""
        if isinstance(error, StoreClosed | StoreUnavailable):
            self.close()

    def close(self) -> None:
        with self._lock:
            lent, owner = list(self._memories.values()), self._default_memory
            self._memories, self._default_memory = {}, None
        for memory in lent:
            memory.close()
        if owner is not None:
            owner.close()


def _caller_from_request(ctx: Context[Any, Any]) -> Caller | None:
    """Who the HTTP door says calls; nobody where there is no such door."""
    request = ctx.request_context.request
    if request is None:
        return None
    scope: Mapping[str, Any] = getattr(request, "scope", {})
    caller = scope.get(CALLER_KEY)
    if not isinstance(caller, Caller):
        raise NotAllowed("The request carries no token.")
    return caller
