"""Who calls, and the store as they see it. Opened when first needed, so that a server starts beside any store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from mcp.server.mcpserver import Context

from lukasa.config import locate
from lukasa.errors import LukasaError, NotAllowed, StoreClosed, StoreUnavailable
from lukasa.memory import Memory, open_memory

CURRENT: ContextVar[Context[Any, Any]] = ContextVar("lukasa.request")
"""The request that is being answered, for what the protocol's library does not hand it to."""

CALLER = "lukasa.caller"
"""Where the HTTP door leaves who calls, beside the request."""


@dataclass(frozen=True, slots=True)
class Caller:
    """An agent and the scopes it reaches; without scopes the shared one and its own, without a name everything."""

    agent: str = ""
    scopes: tuple[str, ...] | None = None


class Stores:
    """One open store, lent to each caller with its own reach."""

    def __init__(self, store: str | None, caller: Caller, **options: Any) -> None:
        self._open: Callable[..., Memory] = lambda **reach: open_memory(store, **options, **reach)
        self._place = locate(store)
        self._caller = caller
        self._owner: Memory | None = None
        self._lent: dict[Caller, Memory] = {}
        self._turn = threading.Lock()

    def of(self, ctx: Context[Any, Any]) -> Memory:
        """The store as whoever made this request sees it."""
        return self.seen_by(_caller_of(ctx) or self._caller)

    def seen_by(self, caller: Caller) -> Memory:
        """The store as a caller sees it; opened now if it is not yet, or was given up."""
        with self._turn:
            if caller == self._caller:
                return self._opened()
            if caller not in self._lent:
                self._lent[caller] = self._opened().seen_by(caller.agent, caller.scopes)
            return self._lent[caller]

    def _opened(self) -> Memory:
        if self._owner is None:
            self._owner = self._open(agent=self._caller.agent, scopes=self._caller.scopes)
        return self._owner

    def warm(self) -> None:
        """Opens the store and loads what recall needs, in the background, so that the first answer is quick.

        A store that is not there yet is not made for that; whatever fails now is told to whoever calls.
        """
        with suppress(LukasaError, OSError):
            path = self._place.path
            if path is None or path.exists():
                self.seen_by(self._caller).recall("warming up", 1)

    def note(self, error: Exception) -> None:
        """After an error from which an open store does not recover by itself, the next call opens it anew."""
        if isinstance(error, StoreClosed | StoreUnavailable):
            self.close()

    def close(self) -> None:
        with self._turn:
            lent, owner = list(self._lent.values()), self._owner
            self._lent, self._owner = {}, None
        for memory in lent:
            memory.close()
        if owner is not None:
            owner.close()


def _caller_of(ctx: Context[Any, Any]) -> Caller | None:
    """Who the HTTP door says calls; nobody where there is no such door."""
    request = ctx.request_context.request
    if request is None:
        return None
    scope: Mapping[str, Any] = getattr(request, "scope", {})
    caller = scope.get(CALLER)
    if not isinstance(caller, Caller):
        raise NotAllowed("The request carries no token.")
    return caller
