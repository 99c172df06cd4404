"""Commands for background work: do it, and see how it stands."""

from __future__ import annotations

import importlib
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer

from lukasa.clock import to_iso
from lukasa.doors.cli import show
from lukasa.doors.cli.caller import AsJson, caller, require_text
from lukasa.doors.cli.outcome import Unmet
from lukasa.errors import InvalidInput
from lukasa.jobs import REGISTER, Job, Ran, Status
from lukasa.jobs.job import LEASE, STATES, Ending, State
from lukasa.outcome import Refused

_SHOWN = 50
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def worker(
    ctx: typer.Context,
    jobs: Annotated[
        list[str] | None,
        typer.Option("--jobs", metavar="MODULE", help="Import this module first: it registers jobs. May be repeated."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Do what is due, then leave.")] = False,
    lease: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long a worker may be silent before others take its jobs.")
    ] = LEASE,
    as_json: AsJson = False,
) -> None:
    """Do jobs as they come, until interrupted; what is running then is finished first.

    Any number of workers may serve one store. A second interrupt leaves at once; others take up what was running.

    Example: lukasa worker --jobs crew.chores
    """
    call = caller(ctx, as_json)
    _load(jobs or ())
    if not REGISTER and not once:
        raise InvalidInput("No jobs are registered.", hint="Name the module that registers them: --jobs PACKAGE.MODULE")
    with call.open(make=False) as memory, _told_to_stop() as stop:
        if once:
            ran = memory.jobs.run_waiting(tell=_tell, lease=lease)
        else:
            show.whisper(f"Working on {', '.join(sorted(REGISTER))}. Ctrl-C to stop.")
            ran = memory.jobs.work(stop, tell=_tell, trouble=_trouble, lease=lease)
        status = memory.jobs.status()
    if call.json:
        show.as_json({"ran": asdict(ran), "status": asdict(status)})
    else:
        show.say(f"{_summary(ran)} Now {_counts(status)}")


def jobs(
    ctx: typer.Context,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help=f"Only those in this state: {', '.join(STATES)}.")
    ] = None,
    retry: Annotated[str | None, typer.Option(metavar="ID", help="Let this failed job be tried again.")] = None,
    drop: Annotated[str | None, typer.Option(metavar="ID", help="Give up this waiting or failed job.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the jobs that wait, run or have failed, or take one of them up again.

    Example: lukasa jobs --state failed
    """
    call = caller(ctx, as_json)
    wanted: State | None = next((known for known in STATES if known == state), None)
    if state is not None and wanted is None:
        raise InvalidInput(f"{state[:60]!r} is not a state of a job.", hint=f"Say one of {', '.join(STATES)}.")
    with call.open(make=False) as memory:
        if retry is not None and not memory.jobs.retry(retry):
            raise Unmet(Refused("not_found", f"No job {retry[:60]} has failed."))
        if drop is not None and not memory.jobs.drop(drop):
            raise Unmet(Refused("not_found", f"No job {drop[:60]} waits or has failed."))
        status, found = memory.jobs.status(), memory.jobs.find(wanted)
    if call.json:
        show.as_json(asdict(status) | {"jobs": [_job_json(job) for job in found]})
        return
    _show(found)
    show.say(_counts(status))


def _load(modules: Sequence[str]) -> None:
    """Imports what registers jobs."""
    for module in modules:
        require_text(module)
        try:
            importlib.import_module(module)
        except (ModuleNotFoundError, TypeError, ValueError) as error:
            if isinstance(error, ModuleNotFoundError) and not module.startswith(error.name or "."):
                raise
            hint = "It has to be installed, or its folder named in PYTHONPATH."
            raise InvalidInput(f"There is no module {module[:60]!r}.", hint=hint) from error


@contextmanager
def _told_to_stop() -> Iterator[threading.Event]:
    """An event that the first signal sets; the second one is not held back any more."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def leave(_: int, __: object) -> None:
        stop.set()
        restore()
        show.whisper("Stopping once the running job is done.")

    for number in _SIGNALS:
        signal.signal(number, leave)
    try:
        yield stop
    finally:
        restore()


def _tell(job: Job, ending: Ending, why: str) -> None:
    show.whisper(f"{ending} {job.name} {job.id}" + (f": {why}" if why else ""))


def _trouble(error: Exception) -> None:
    show.whisper(f"Waiting for the store: {error}")


def _summary(ran: Ran) -> str:
    parts = [f"{show.counted(ran.done, 'job')} done"]
    parts += [f"{count} {word}" for word, count in asdict(ran).items() if count and word != "done"]
    return ", ".join(parts) + "."


def _counts(status: Status) -> str:
    return ", ".join(f"{count:,} {state}" for state, count in asdict(status).items()) + "."


def _show(found: Sequence[Job]) -> None:
    columns = ("id", "job", "scope", "state", "attempts", "due", "error")
    rows = [
        (job.id, job.name, job.scope, job.state, job.attempts, show.when(job.due) if job.due else "", job.error)
        for job in found[:_SHOWN]
    ]
    if rows:
        show.table(columns, rows, fold=("error",))
    if len(found) > _SHOWN:
        show.say(f"and {show.counted(len(found) - _SHOWN, 'more', 'more')}")


def _job_json(job: Job) -> dict[str, Any]:
    return asdict(job) | {"due": None if job.due is None else to_iso(job.due), "arguments": dict(job.arguments)}
