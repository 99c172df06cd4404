"""Deferring jobs and doing them, for one caller."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from lukasa import canonical
from lukasa.clock import Clock, IdMaker
from lukasa.errors import InvalidInput, MissingExtra
from lukasa.jobs.job import (
    LARGEST_CALL,
    LEASE,
    REGISTER,
    STATES,
    Deferred,
    Ending,
    Job,
    Keeper,
    Ran,
    Register,
    Shift,
    State,
    Status,
    Tell,
    Trouble,
    Work,
)
from lukasa.jobs.keepers.log import LogKeeper
from lukasa.journal import Journal
from lukasa.outcome import Refused
from lukasa.scope import EVERYTHING, SHARED, SYSTEM, Reach

Lend = Callable[[str, Reach, "Jobs"], Any]
"""The memory that a job is handed: the same store as an author with a reach sees it, with jobs to defer by."""

_LONGEST_KEY = 1000


class Jobs:
    """Defers jobs, does them, and tells how they stand.

    ``url`` names the PostgreSQL server that keeps the jobs; without it the journal's own store does.
    """

    def __init__(
        self,
        journal: Journal,
        lend: Lend,
        clock: Clock,
        new_id: IdMaker,
        *,
        url: str = "",
        patience: float = 30.0,
        register: Register = REGISTER,
    ) -> None:
        self._journal = journal
        self._lend = lend
        self._clock = clock
        in_log = partial(LogKeeper, journal, clock, new_id)
        self._keeper = _Late(partial(_postgres, url, in_log, journal.reach, patience) if url else in_log)
        self.register = register

    # Deferring

    def defer(
        self, name: str, /, *, key: str | None = None, scope: str | None = None, delay: float = 0.0, **arguments: Any
    ) -> Deferred | Refused:
        """Keeps a job for later, ``delay`` seconds from now at the earliest. Once this returns, no crash loses it.

        ``key`` says which work it is: while a job with the same name, scope and key waits, no second one is made.
        ``scope`` is where it stands and all it will reach; without it, that is the caller's own.
        """
        scope = self._own_scope() if scope is None else scope
        if (refused := self._objection(name, key, scope, delay, arguments)) is not None:
            return refused
        due = self._clock.now() + timedelta(seconds=delay) if delay else None
        return self._keeper().put(Job("", name, arguments, scope, self._journal.author, key, due=due))

    def _own_scope(self) -> str:
        """Where the caller's jobs stand: the owner's in the store's scope, an agent's in its own or the shared one."""
        reach, author = self._journal.reach, self._journal.author
        if reach.unlimited:
            return SYSTEM
        scope = next((name for name in (author, SHARED) if name and reach.reads(name) and reach.writes(name)), None)
        if scope is None:
            raise InvalidInput("This caller has no scope of its own for a job to stand in.", hint="Name one: scope=…")
        return scope

    def _objection(
        self, name: str, key: str | None, scope: str, delay: float, arguments: Mapping[str, Any]
    ) -> Refused | None:
        work = self.register.get(name)
        if work is None:
            return Refused("unknown_job", f"No function is registered as the job {name!r:.80}.")
        if not (self._journal.reach.reads(scope) and self._journal.reach.writes(scope)):
            return Refused("scope_closed", f"The scope {scope!r:.80} is outside the caller's reach.")
        if key is not None and (
            key.__class__ is not str or not 0 < len(key) <= _LONGEST_KEY or canonical.fault_of(key)
        ):
            return Refused("bad_key", f"The key must be text of 1 to {_LONGEST_KEY} characters.")
        if not 0 <= delay < 10**9:
            return Refused("bad_delay", "The delay must be a number of seconds, and not negative.")
        return _objection_to_call(work, arguments)

    # Doing

    def run_waiting(self, limit: int | None = None, *, tell: Tell | None = None, lease: float = LEASE) -> Ran:
        """Does here and now what is due, until nothing is, or as many attempts as ``limit`` says."""
        ran = Ran()
        if limit is None or limit > 0:
            self._keeper().run(self._shift(ran, tell, _raise, threading.Event(), lease), limit)
        return ran

    def work(
        self,
        stop: threading.Event,
        *,
        tell: Tell | None = None,
        trouble: Trouble | None = None,
        lease: float = LEASE,
    ) -> Ran:
        """Does jobs as they come until ``stop`` is set; what is running then is finished first.

        While the store is busy, full or out of reach, ``trouble`` is told and work goes on once it is back.
        """
        ran = Ran()
        self._keeper().serve(self._shift(ran, tell, trouble or _ignore, stop, lease))
        return ran

    def _shift(self, ran: Ran, tell: Tell | None, trouble: Trouble, stop: threading.Event, lease: float) -> Shift:
        if not lease > 0:
            raise InvalidInput("A lease lasts longer than no time at all.")

        def count(job: Job, ending: Ending, why: str) -> None:
            setattr(ran, ending, getattr(ran, ending) + 1)
            if tell is not None:
                tell(job, ending, why)

        return Shift(dict(self.register), self._perform, count, trouble, stop, lease)

    def _perform(self, job: Job) -> None:
        reach = EVERYTHING if job.scope == SYSTEM else Reach.of((job.scope,))
        self.register[job.name].function(self._lend(job.author, reach, self), **job.arguments)

    # Looking

    def status(self) -> Status:
        """How many jobs wait, run and have failed, among those the caller may see."""
        return self._keeper().status()

    def find(self, state: State | None = None) -> list[Job]:
        """The jobs themselves, oldest first; with ``state``, only those that wait, run or have failed."""
        if state is not None and state not in STATES:
            raise InvalidInput(f"{state!r:.60} is not a state of a job.", hint=f"Say one of {', '.join(STATES)}.")
        return self._keeper().find(state)

    def retry(self, id: str) -> bool:
        """Lets a failed job wait again, with all its attempts before it."""
        return self._keeper().retry(id)

    def drop(self, id: str) -> bool:
        """Gives up a job that waits or has failed."""
        return self._keeper().drop(id)

    def serving(self, register: Register) -> Jobs:
        """The same jobs with the functions of another register."""
        other = copy(self)
        other.register = register
        return other

    def seen_by(self, journal: Journal) -> Jobs:
        """The same jobs with the reach of another journal on the same store."""
        other, keeper = copy(self), self._keeper
        other._journal = journal
        other._keeper = _Late(lambda: keeper().seen_by(journal))
        return other

    def close(self) -> None:
        """Lets go of what keeps the jobs. The store itself stays open."""
        self._keeper.close()


class _Late:
    """A keeper that is made when it is first needed: most callers never defer anything."""

    def __init__(self, make: Callable[[], Keeper]) -> None:
        self._make = make
        self._made: Keeper | None = None
        self._maker = os.getpid()
        self._making = threading.Lock()

    def __call__(self) -> Keeper:
        with self._making:
            if self._made is None or self._maker != os.getpid():  # a fork must not use its parent's connections
                self._made, self._maker = self._make(), os.getpid()
            return self._made

    def close(self) -> None:
        if self._made is not None and self._maker == os.getpid():
            self._made.close()


def _postgres(url: str, in_log: Callable[[], LogKeeper], reach: Reach, patience: float) -> Keeper:
    try:
        from lukasa.jobs.keepers.postgres import PostgresKeeper
    except ModuleNotFoundError as error:
        raise MissingExtra("Jobs on PostgreSQL need more packages.", hint="pip install lukasa[postgres]") from error
    keeper = PostgresKeeper(url, reach, patience=patience)
    if reach.unlimited:
        _move(in_log(), keeper)
    return keeper


def _move(source: LogKeeper, target: Keeper) -> None:
    """Takes over jobs that came in with the log of another store, where they were records."""
    for job in source.find():
        target.put(replace(job, id="", key=job.key or f"once {job.id}"))
        source.forget(job)


def _objection_to_call(work: Work, arguments: Mapping[str, Any]) -> Refused | None:
    if (misfit := work.misfit(arguments)) is not None:
        return Refused("bad_arguments", f"The job {work.name!r} cannot be called like that: {misfit}.")
    if (fault := canonical.fault_of(dict(arguments), characters=LARGEST_CALL)) is not None:
        return Refused("bad_arguments", f"The arguments of the job {work.name!r} cannot be stored: {fault}")
    if len(canonical.encode(arguments)) > LARGEST_CALL:
        return Refused(
            "bad_arguments",
            f"The arguments of the job {work.name!r} are too large; name records instead of sending them.",
        )
    return None


def _raise(error: Exception) -> None:
    raise error


def _ignore(_: Exception) -> None:
    """Nobody wanted to know."""
