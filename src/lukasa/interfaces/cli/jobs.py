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
from lukasa.errors import InvalidInput
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.exit_codes import CommandRefused
from lukasa.interfaces.cli.options import JsonOption, get_options, require_utf8
from lukasa.jobs import REGISTRY, Job, JobCounts, RunSummary
from lukasa.jobs.job import JOB_STATES, LEASE, AttemptResult, JobState
from lukasa.outcome import Refused

_MAX_ROWS = 50
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


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
    as_json: JsonOption = False,
) -> None:
    """Do jobs as they come, until interrupted; what is running then is finished first.

    Any number of workers may serve one store. A second interrupt leaves at once; others take up what was running.

    Example: lukasa worker --jobs crew.chores
    """
    call = get_options(ctx, as_json)
    _import_job_modules(jobs or ())
    if not REGISTRY and not once:
        raise InvalidInput("No jobs are registered.", hint="Name the module that registers them: --jobs PACKAGE.MODULE")
    with call.open(create=False) as memory, _stop_on_signal() as stop:
        if once:
            ran = memory.jobs.run_waiting(tell=_print_job_end, lease=lease)
        else:
            render.print_to_stderr(f"Working on {', '.join(sorted(REGISTRY))}. Ctrl-C to stop.")
            ran = memory.jobs.work(stop, tell=_print_job_end, trouble=_print_store_error, lease=lease)
        status = memory.jobs.status()
    if call.json:
        render.print_json({"ran": asdict(ran), "status": asdict(status)})
    else:
        render.print_line(f"{_format_run(ran)} Now {_format_counts(status)}")


def jobs(
    ctx: typer.Context,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help=f"Only those in this state: {', '.join(JOB_STATES)}.")
    ] = None,
    retry: Annotated[str | None, typer.Option(metavar="ID", help="Let this failed job be tried again.")] = None,
    drop: Annotated[str | None, typer.Option(metavar="ID", help="Give up this waiting or failed job.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the jobs that wait, run or have failed, or take one of them up again.

    Example: lukasa jobs --state failed
    """
    call = get_options(ctx, as_json)
    wanted: JobState | None = next((known for known in JOB_STATES if known == state), None)
    if state is not None and wanted is None:
        raise InvalidInput(f"{state[:60]!r} is not a state of a job.", hint=f"Say one of {', '.join(JOB_STATES)}.")
    with call.open(create=False) as memory:
        if retry is not None and not memory.jobs.retry(retry):
            raise CommandRefused(Refused("not_found", f"No job {retry[:60]} has failed."))
        if drop is not None and not memory.jobs.drop(drop):
            raise CommandRefused(Refused("not_found", f"No job {drop[:60]} waits or has failed."))
        status, found = memory.jobs.status(), memory.jobs.find(wanted)
    if call.json:
        render.print_json(asdict(status) | {"jobs": [_job_json(job) for job in found]})
        return
    _print_jobs(found)
    render.print_line(_format_counts(status))


def _import_job_modules(modules: Sequence[str]) -> None:
    """Imports what registers jobs."""
    for module in modules:
        require_utf8(module)
        try:
            importlib.import_module(module)
        except (ModuleNotFoundError, TypeError, ValueError) as error:
            if isinstance(error, ModuleNotFoundError) and not module.startswith(error.name or "."):
                raise
            hint = "It has to be installed, or its folder named in PYTHONPATH."
            raise InvalidInput(f"There is no module {module[:60]!r}.", hint=hint) from error


@contextmanager
def _stop_on_signal() -> Iterator[threading.Event]:
    """An event that the first signal sets; the second one is not held back any more."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in _STOP_SIGNALS}

    def restore_handlers() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def request_stop(_: int, __: object) -> None:
        stop.set()
        restore_handlers()
        render.print_to_stderr("Stopping once the running job is done.")

    for number in _STOP_SIGNALS:
        signal.signal(number, request_stop)
    try:
        yield stop
    finally:
        restore_handlers()


def _print_job_end(job: Job, ending: AttemptResult, why: str) -> None:
    render.print_to_stderr(f"{ending} {job.name} {job.id}" + (f": {why}" if why else ""))


def _print_store_error(error: Exception) -> None:
    render.print_to_stderr(f"Waiting for the store: {error}")


def _format_run(ran: RunSummary) -> str:
    parts = [f"{render.format_count(ran.done, 'job')} done"]
    parts += [f"{count} {word}" for word, count in asdict(ran).items() if count and word != "done"]
    return ", ".join(parts) + "."


def _format_counts(status: JobCounts) -> str:
    return ", ".join(f"{count:,} {state}" for state, count in asdict(status).items()) + "."


def _print_jobs(found: Sequence[Job]) -> None:
    columns = ("id", "job", "scope", "state", "attempts", "due", "error")
    rows = [
        (
            job.id,
            job.name,
            job.scope,
            job.state,
            job.attempts,
            render.format_time(job.due) if job.due else "",
            job.error,
        )
        for job in found[:_MAX_ROWS]
    ]
    if rows:
        render.print_table(columns, rows, wrap=("error",))
    if len(found) > _MAX_ROWS:
        render.print_line(f"and {render.format_count(len(found) - _MAX_ROWS, 'more', 'more')}")


def _job_json(job: Job) -> dict[str, Any]:
    return asdict(job) | {"due": None if job.due is None else to_iso(job.due), "arguments": dict(job.arguments)}
