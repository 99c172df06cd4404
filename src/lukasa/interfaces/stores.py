"""Access to one store for many callers, shared by the MCP server, the HTTP API and the hook daemon.

The store is opened by the first call that needs it, so a server starts even when the store is not usable yet.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from lukasa.config import locate_store
from lukasa.errors import LukasaError, NotAllowed, StoreClosed, StoreUnavailable
from lukasa.memory import Memory, open_memory
from lukasa.own_stores import require_own_store

CALLER_KEY = "lukasa.caller"
"""The entry of an ASGI scope in which the authentication stores the caller."""

CURRENT_REQUEST: ContextVar[Mapping[str, Any] | None] = ContextVar("lukasa.request")
"""The ASGI scope of the current request; ``None`` for a transport with one caller, such as standard input and output.

An interface sets it before it calls ``CallerStores.current``. There is no default: a request without it fails.
"""


@dataclass(frozen=True, slots=True)
class Caller:
    """An agent and the scopes it may use.

    Without scopes: the shared scope and the agent's own. Without an agent too: every scope, as the owner of the store.
    """

    agent: str = ""
    scopes: tuple[str, ...] | None = None
    read_only: bool = False


class CallerStores:
    """One open store, and a view of it with its own access rights for each caller.

    Only if the default caller is the owner of the store, other callers can get views. A store that nobody named, but that
    was found by its folder (``is_found``), is used only if the user made or allowed it.
    """

    def __init__(self, store: str | None, caller: Caller, *, is_found: bool = False, **options: Any) -> None:
        self._open_memory: Callable[..., Memory] = lambda **reach: open_memory(store, **options, **reach)
        self._location = locate_store(store)
        self._is_found = is_found
        self._default_caller = caller
        self.opened: dict[Caller, Memory] = {}
        """The store for each caller who had it since it was opened; empty while it is closed."""
        self._lock = threading.Lock()

    def current(self) -> Memory:
        """Return the store for the caller of ``CURRENT_REQUEST``."""
        return self.for_request(CURRENT_REQUEST.get())

    def for_request(self, scope: Mapping[str, Any] | None) -> Memory:
        """Return the store for the caller in an ASGI scope; for the default caller if there is no scope."""
        caller = self._default_caller if scope is None else scope.get(CALLER_KEY)
        if not isinstance(caller, Caller):
            raise NotAllowed("The request carries no token.")
        return self.for_caller(caller)

    def for_caller(self, caller: Caller) -> Memory:
        """Return the store for a caller. Opens it if it is closed."""
        with self._lock:
            default = self._default_caller
            if default not in self.opened:
                if self._is_found and self._location.path is not None:
                    require_own_store(self._location.path)
                self.opened[default] = self._open_memory(agent=default.agent, scopes=default.scopes)
            if caller not in self.opened:
                self.opened[caller] = self.opened[default].as_agent(
                    caller.agent, caller.scopes, read_only=caller.read_only
                )
            return self.opened[caller]

    def check(self) -> None:
        """Open the store if it is closed, and read its position; raise the error that prevents it."""
        self.for_caller(self._default_caller).journal.tip()

    def store_exists(self) -> bool:
        """Return whether the file of the store exists; always true for a store that is not a file."""
        return self._location.path is None or self._location.path.exists()

    def warm_up(self) -> None:
        """Open the store and load the index of recall, so that the first call is fast.

        Does not create a missing store. Ignores errors: the first call reports them.
        """
        with suppress(LukasaError, OSError):
            if self.store_exists():
                self.for_caller(self._default_caller).recall("warming up", 1)

    def close_if_broken(self, error: Exception) -> None:
        """Close the store after an error from which it does not recover; the next call opens it again."""
        if isinstance(error, StoreClosed | StoreUnavailable):
            self.close()

    def close(self) -> None:
        """Close the store for all callers."""
        with self._lock:
            memories, self.opened = list(self.opened.values()), {}
        for memory in reversed(memories):  # the one that was opened first, of which the others are views, is the last
            memory.close()
