"""Upkeep of the MCP server: deferred after an episode, run in a thread while no tool is called."""

from __future__ import annotations

import logging
import threading
from queue import Empty, SimpleQueue
from typing import Self

from lukasa.config import is_upkeep_on
from lukasa.errors import LukasaError
from lukasa.interfaces.stores import CallerStores
from lukasa.memory import Memory

IDLE_SECONDS = 10.0
_STOP_SECONDS = 1.0
_log = logging.getLogger(__name__)


class IdleUpkeep:
    """The upkeep of one server, which no tool call waits for. It does nothing until it is entered, nor if it is turned off.

    Once the server was idle, it also takes up what an earlier process left.
    """

    def __init__(self, stores: CallerStores) -> None:
        self.idle_seconds = IDLE_SECONDS
        self._stores = stores
        self._events: SimpleQueue[Memory | bool] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._looks_back, self._has_jobs = True, False

    def __enter__(self) -> Self:
        if is_upkeep_on():
            self._thread = threading.Thread(target=self._work, name="lukasa-upkeep", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._events.put(False)
            self._thread.join(_STOP_SECONDS)  # another worker takes over a job that is not done by then
            self._thread = None

    def note_call(self) -> None:
        """Note that a tool was called, so the server is not idle."""
        if self._thread is not None:
            self._events.put(True)

    def note_episode(self, memory: Memory) -> None:
        """Note that a caller recorded an episode, so that upkeep is deferred."""
        if self._thread is not None:
            self._events.put(memory)

    def _work(self) -> None:
        seconds: float | None = None
        while True:
            event: Memory | bool | None
            try:
                event = self._events.get(timeout=seconds)
            except Empty:
                event = None
            if event is False:
                return
            seconds = None if event is None else self.idle_seconds
            try:
                if event is None:
                    self._run_jobs()
                elif isinstance(event, Memory):
                    self._defer(event)
            except (LukasaError, OSError) as error:  # on PostgreSQL a worker of the owner runs the jobs of an agent
                self._stores.close_if_broken(error)
                _log.info("no upkeep for now: %s", type(error).__name__)

    def _defer(self, memory: Memory) -> None:
        from lukasa.interfaces.upkeep import defer_upkeep  # only now: a client waits for the server to start

        self._has_jobs = True
        defer_upkeep(memory)

    def _run_jobs(self) -> None:
        from lukasa.interfaces.upkeep import find_new_task, run_upkeep

        memory = self._stores.for_request(None)
        if self._looks_back:
            self._looks_back = False
            if find_new_task(memory) is not None:
                self._defer(memory)
        if self._has_jobs:
            run_upkeep(memory)
            self._has_jobs = False
