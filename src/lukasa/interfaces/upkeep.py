"""Upkeep: consolidation and pruning that run by themselves, after tasks and when idle, as jobs like any other.

Hooks and the MCP server defer it after a task; a worker defers it once no episode has ended for a while. ``LUKASA_UPKEEP=off``
turns it off.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from lukasa.config import is_upkeep_on
from lukasa.core.clock import Clock, SystemClock
from lukasa.core.record import Record
from lukasa.errors import LukasaError, StoreClosed
from lukasa.experience.consolidation.jobs import PRUNE_NAME, TASK_NAME, find_new_episode
from lukasa.jobs import REGISTRY, TaskRegistry
from lukasa.jobs.job import TRANSIENT_ERRORS
from lukasa.memory import Memory
from lukasa.memory_graph import choose_write_scope

QUIET_SECONDS = 600.0
"""Seconds without a new episode after which a worker defers upkeep."""
_MAX_WAIT = 6
"""Times these seconds that a worker waits if new episodes keep coming."""
_MAX_POLL_SECONDS = 60.0
_STOP_SECONDS = 2.0
_TASKS = (TASK_NAME, PRUNE_NAME)
_MAX_JOBS = 4
_KEY = "upkeep"
_log = logging.getLogger(__name__)


def defer_upkeep(memory: Memory) -> None:
    """Defer a consolidation and a pruning, each once however often this is called before they run.

    Those of the owner are about every scope, those of an agent about the scope that it writes to.
    """
    if is_upkeep_on():
        for name in _TASKS:
            memory.jobs.defer(name, key=_KEY, scope=_choose_scope(memory))


def run_upkeep(memory: Memory) -> None:
    """Run the waiting jobs of upkeep, a few at a time, and no other jobs."""
    memory.jobs.serving(TaskRegistry({name: REGISTRY[name] for name in _TASKS})).run_waiting(_MAX_JOBS)


def find_new_task(memory: Memory) -> Record | None:
    """Return the newest episode that upkeep by this caller would consolidate, or None."""
    return find_new_episode(memory.valid_journal, _choose_scope(memory))


def _choose_scope(memory: Memory) -> str | None:
    return None if memory.journal.reach.unlimited else choose_write_scope(memory.journal)


class UpkeepWatch:
    """Defers upkeep when episodes ended since the last consolidation, and none for a while."""

    def __init__(self, quiet: float = QUIET_SECONDS, clock: Clock | None = None) -> None:
        self._quiet = timedelta(seconds=quiet)
        self._clock = clock or SystemClock()
        self._settled = 0
        self._noticed_at: datetime | None = None

    def check(self, memory: Memory) -> bool:
        """Defer upkeep if it is time; return whether it was."""
        episode = find_new_task(memory)
        if episode is None or episode.seq <= self._settled:
            self._noticed_at = None
            return False
        now = self._clock.now()
        self._noticed_at = self._noticed_at or now
        if now - episode.recorded_at < self._quiet and now - self._noticed_at < _MAX_WAIT * self._quiet:
            return False
        defer_upkeep(memory)
        self._settled, self._noticed_at = episode.seq, None
        return True


@contextmanager
def watch_upkeep(open_memory: Callable[[], Memory], *, quiet: float = QUIET_SECONDS) -> Iterator[None]:
    """Defer upkeep from a thread when it is time. A store that cannot be written ends the thread."""
    stop = threading.Event()
    pause = max(0.01, min(quiet / 10, _MAX_POLL_SECONDS))

    def watch_until_stopped() -> None:
        watch = UpkeepWatch(quiet)
        while not stop.wait(pause):
            try:
                watch.check(open_memory())
            except (*TRANSIENT_ERRORS, StoreClosed, OSError) as error:
                _log.info("no upkeep for now: %s", type(error).__name__)
            except LukasaError as error:
                _log.warning("This worker defers no upkeep: %s", type(error).__name__)
                return

    if not is_upkeep_on():
        yield
        return
    thread = threading.Thread(target=watch_until_stopped, name="lukasa-upkeep", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_STOP_SECONDS)
