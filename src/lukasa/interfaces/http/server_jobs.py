"""Background jobs of the server: exports and backups that no request waits for, and the worker that runs all jobs.

Their files go to the place of ``lukasa serve --backups URL``; no request can name another. So only servers that have such
a place run these jobs, and ``POST /v1/jobs`` does not know them.
"""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lukasa.core.clock import SystemClock
from lukasa.core.outcome import Refused
from lukasa.errors import LukasaError, NotAllowed, StoreClosed
from lukasa.interfaces.outcomes import not_found
from lukasa.interfaces.serialise import to_json
from lukasa.interfaces.stores import Caller, CallerStores
from lukasa.interfaces.upkeep import QUIET_SECONDS, watch_upkeep
from lukasa.jobs import REGISTRY, DeferredJob, TaskRegistry
from lukasa.jobs.job import TRANSIENT_ERRORS
from lukasa.memory import Memory
from lukasa.storage.file_stores import open_file_store

BACKUP_JOB, EXPORT_JOB = "server.backup", "server.export"
EXPORT_FOLDER = "exports"
KEPT_EXPORTS = 2
_CHUNK_BYTES = 1024 * 1024
_STOP_SECONDS = 2.0
_log = logging.getLogger(__name__)


class ServerJobs:
    """The jobs that a server defers and runs. ``url`` is its place for backups; empty if it has none."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.tasks = TaskRegistry(REGISTRY)
        if url:
            self.tasks.job(BACKUP_JOB)(self.back_up)
            self.tasks.job(EXPORT_JOB)(self.export)

    def defer(self, memory: Memory, name: str) -> DeferredJob | Refused:
        """Defer a job of the owner, unless one of this name waits."""
        return memory.jobs.serving(self.tasks).defer(name, key="http")

    def back_up(self, memory: Memory) -> dict[str, Any]:
        """Back the store up and return the description of the backup."""
        return dict(to_json(memory.backup(self.url)))

    def export(self, memory: Memory) -> dict[str, Any]:
        """Write the log to a file at the place for backups, remove old exports, and return the name of the file."""
        files = open_file_store(self.url)
        name = f"{EXPORT_FOLDER}/log-{SystemClock().now():%Y%m%dT%H%M%S%f}.jsonl"
        with tempfile.TemporaryFile() as file:
            versions = memory.export(file)
            size = file.tell()
            file.seek(0)
            files.put(name, iter(lambda: file.read(_CHUNK_BYTES), b""))
        for old in sorted(info.name for info in files.list_files(EXPORT_FOLDER))[:-KEPT_EXPORTS]:
            files.delete(old)
        return {"exported_file": name, "versions": versions, "bytes": size}

    def read_export(self, memory: Memory, name: object) -> Iterator[bytes]:
        """Yield the file of an export. Only the owner, who asked for it, reads it, and no file but an export is read."""
        if not memory.journal.reach.unlimited:
            raise NotAllowed("Only the owner of the store reads the export of a job.")
        stamp = str(name).removeprefix(f"{EXPORT_FOLDER}/log-").removesuffix(".jsonl")
        is_stamp = stamp.replace("T", "").isdecimal()
        if not (self.url and isinstance(name, str) and is_stamp and name == f"{EXPORT_FOLDER}/log-{stamp}.jsonl"):
            raise not_found("This server has no such export.", "Export again.")
        return open_file_store(self.url).read(name)

    @contextmanager
    def run_worker(self, stores: CallerStores, *, quiet: float = QUIET_SECONDS) -> Iterator[None]:
        """Run jobs in a thread, and defer upkeep when no episode ended for ``quiet`` seconds.

        At the end a job that is not done soon is left to another worker.
        """
        logging.getLogger("procrastinate").setLevel(logging.CRITICAL)  # it logs the arguments and errors of jobs
        stop = threading.Event()
        thread = threading.Thread(target=self._work, args=(stores, stop), name="lukasa-worker", daemon=True)
        thread.start()
        try:
            with watch_upkeep(lambda: stores.for_caller(Caller()), quiet=quiet):
                yield
        finally:
            stop.set()
            thread.join(_STOP_SECONDS)

    def _work(self, stores: CallerStores, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                stores.for_caller(Caller()).jobs.serving(self.tasks).work(stop)
            except (*TRANSIENT_ERRORS, StoreClosed) as error:
                stores.close_if_broken(error)
                stop.wait(1.0)
            except LukasaError as error:
                _log.warning("This server runs no background jobs: %s", type(error).__name__)
                return
