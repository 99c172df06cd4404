"""The command worker, which runs background jobs."""

from __future__ import annotations

import importlib
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from lukasa.errors import InvalidInput
from lukasa.interfaces.cli import render
from lukasa.interfaces.cli.answers import format_counts
from lukasa.interfaces.cli.options import Call, flag, option, require_utf8
from lukasa.interfaces.cli.render import format_count
from lukasa.jobs.job import LEASE, REGISTRY

if TYPE_CHECKING:
    from lukasa.jobs.job import AttemptResult, Job

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def worker(
    call: Call,
    jobs: Annotated[list[str] | None, option("MODULE", "A Python module that registers jobs (repeatable).")] = None,
    once: Annotated[bool, flag("--once", "Run the jobs that are due, then stop.")] = False,
    lease: Annotated[float, option("SECONDS", "After this much silence, other workers take over its jobs.")] = LEASE,
) -> None:
    """Run background jobs until interrupted; the current job is finished first.

    New episodes are consolidated and old ones pruned when none ended for ten minutes. Any number of workers may share one store. A second interrupt stops at once; other workers take over the job.

    Example: lukasa worker --jobs crew.chores
    """
    for module in jobs or ():
        require_utf8(module)
        try:
            importlib.import_module(module)
        except (ModuleNotFoundError, TypeError, ValueError) as error:
            if isinstance(error, ModuleNotFoundError) and not module.startswith(error.name or "."):
                raise
            hint = "Install it, or name its folder in PYTHONPATH."
            raise InvalidInput(f"There is no module {module[:60]!r}.", hint=hint) from error
    from lukasa.interfaces.upkeep import watch_upkeep  # registers its jobs, and loads the library

    memory = call.existing_memory
    with _stop_on_signal() as stop:
        if once:
            ran = memory.jobs.run_waiting(tell=_print_job_end, lease=lease)
        else:
            render.print_to_stderr(f"Working on {', '.join(sorted(REGISTRY))}. Ctrl-C to stop.")
            with watch_upkeep(lambda: memory):
                ran = memory.jobs.work(
                    stop,
                    tell=_print_job_end,
                    trouble=lambda error: render.print_to_stderr(f"Waiting for the store: {error}"),
                    lease=lease,
                )
        status = memory.jobs.status()
    counts = [f"{format_count(ran.done, 'job')} done"]
    counts += [f"{count} {word}" for word, count in asdict(ran).items() if count and word != "done"]
    call.show({"ran": ran, "status": status}, f"{', '.join(counts)}. Now {format_counts(asdict(status))}")


@contextmanager
def _stop_on_signal() -> Iterator[threading.Event]:
    """Yield an event that the first signal sets; a second signal gets the normal handlers again."""
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


def _print_job_end(job: Job, result: AttemptResult, why: str) -> None:
    render.print_to_stderr(f"{result} {job.name} {job.id}" + (f": {why}" if why else ""))
