"""A disk that fails on demand, for tests of storage errors.

    disk = FaultyDisk()
    memory = disk.open(path)
    with disk.inject_fault("sync", errno.EIO, file="wal"):
        memory.journal.write("note", "…")  # raises StoreUnavailable

The disk is a SQLite VFS that forwards every call to the real file system, except where a fault is set. Every change of a
file is a numbered step, so that a hook can end the process at any of them. A fault that is never reached raises
``FaultNotReached``.

One difference from a real disk: SQLite ignores errors of the automatic checkpoint after a commit. Through this disk they
reach the caller, although the commit is complete.
"""

from __future__ import annotations

import errno
import itertools
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

import apsw

from lukasa.core.clock import Clock, IdMaker, SortableIds, SystemClock
from lukasa.memory import Memory, build_memory
from lukasa.storage.location import StoreLocation
from lukasa.storage.sqlite import SqliteEngine

Verb = Literal["write", "sync", "truncate", "delete"]
FileRole = Literal["database", "wal", "other"]

_DISK_NUMBERS = itertools.count(1)
_ERROR_CODES: dict[tuple[int, Verb], int] = {
    (errno.ENOSPC, "write"): apsw.SQLITE_FULL,
    (errno.EIO, "write"): apsw.SQLITE_IOERR_WRITE,
    (errno.EROFS, "write"): apsw.SQLITE_IOERR_WRITE,
}
_DEFAULT_ERROR_CODES: dict[Verb, int] = {
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "delete": apsw.SQLITE_IOERR_DELETE,
}


class FaultNotReached(AssertionError):
    """A fault was set and never reached, so the test proves nothing."""


@dataclass(frozen=True, slots=True)
class DiskStep:
    """A change of a file: its number on this disk, the verb, the file and the handle."""

    number: int
    verb: Verb
    file: FileRole
    handle: int
    size: int = 0


@dataclass(slots=True, eq=False)
class DiskFault:
    """Which steps fail, from which on and how often; ``reached`` counts the failures.

    ``keep`` is the share of a failing write that reaches the disk all the same, and ``then`` is called afterwards.
    """

    verb: Verb | None
    error: int
    file: FileRole | None
    nth: int
    times: int | None
    keep: float
    then: Callable[[], object] | None
    seen_count: int = 0
    reached_count: int = 0

    def should_fail(self, step: DiskStep) -> bool:
        """Count a matching step, and tell whether it fails."""
        if self.verb not in (None, step.verb) or self.file not in (None, step.file):
            return False
        self.seen_count += 1
        if self.seen_count < self.nth or (self.times is not None and self.reached_count >= self.times):
            return False
        self.reached_count += 1
        return True

    def raise_error(self, verb: Verb) -> NoReturn:
        """Raise the error that SQLite's file system would raise."""
        if self.then is not None:
            self.then()
        raise apsw.exception_for(_ERROR_CODES.get((self.error, verb), _DEFAULT_ERROR_CODES[verb]))


class FaultyDisk(apsw.VFS):
    """A file system for SQLite with injected faults.

    ``hook`` is called with every step before it is done. ``read_only`` opens every file for reading only, as after
    the mount turned read-only. ``unsynced`` holds the files with writes that a power cut would lose.
    """

    def __init__(self) -> None:
        self.name = f"faulty-{next(_DISK_NUMBERS)}"
        self.steps: list[DiskStep] = []
        self.failed_steps: list[DiskStep] = []
        self.unsynced_files: set[FileRole] = set()
        self.hook: Callable[[DiskStep], None] | None = None
        self.read_only = False
        self._faults: list[DiskFault] = []
        self._lock = threading.Lock()
        self._handles = itertools.count(1)
        super().__init__(self.name, "", maxpathname=0)

    def open(
        self, path: Path, *, clock: Clock | None = None, new_id: IdMaker | None = None, timeout: float = 30.0
    ) -> Memory:
        """Open the store at ``path`` on this disk with full access."""
        clock = clock or SystemClock()
        new_id = new_id or SortableIds(clock, random.SystemRandom())
        engine = SqliteEngine(
            path, clock=clock, timeout=timeout, vfs=self.name, near_duplicate_kinds=frozenset({"memory"})
        )
        return build_memory(engine, StoreLocation("sqlite", path), clock, new_id)

    @contextmanager
    def inject_fault(
        self,
        verb: Verb | None,
        error: int = errno.EIO,
        *,
        file: FileRole | None = None,
        nth: int = 1,
        times: int | None = None,
        keep: float = 0.0,
        then: Callable[[], object] | None = None,
    ) -> Iterator[DiskFault]:
        """Fail the ``nth`` matching step and those after it, all or ``times`` of them, during the block.

        Without a ``verb`` any step counts, without a ``file`` any file.

        Raise ``FaultNotReached`` at the end of a block in which nothing failed.
        """
        fault = DiskFault(verb, error, file, nth, times, keep, then)
        self._faults.append(fault)
        try:
            yield fault
        finally:
            self._faults.remove(fault)
        if not fault.reached_count:
            raise FaultNotReached(f"{fault.seen_count} steps of this sort were taken, none failed: {fault}")

    def take_step(self, verb: Verb, file: FileRole, handle: int, size: int = 0) -> DiskFault | None:
        """Count the next step and return the fault that stops it, if any."""
        with self._lock:
            step = DiskStep(len(self.steps) + 1, verb, file, handle, size)
            self.steps.append(step)
            struck = next((fault for fault in self._faults if fault.should_fail(step)), None)
            if struck is not None:
                self.failed_steps.append(step)
        if self.hook is not None:
            self.hook(step)
        return struck

    def excepthook(self, *_: object) -> bool:
        """Print nothing about injected faults where SQLite cannot return an error."""
        return True

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> _FaultyFile:  # noqa: N802 - SQLite's name
        return _FaultyFile(self, next(self._handles), name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - SQLite's name
        struck = self.take_step("delete", "wal" if filename.endswith("-wal") else "other", 0)
        if struck is not None:
            struck.raise_error("delete")
        super().xDelete(filename, syncdir)


class _FaultyFile(apsw.VFSFile):
    """An open file of a faulty disk."""

    def __init__(self, disk: FaultyDisk, handle: int, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        self._handle = handle
        self._role = _file_role(flags[0])
        self._is_temporary = bool(flags[0] & _TEMPORARY)
        if disk.read_only:
            flags[0] = flags[0] & ~(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE) | apsw.SQLITE_OPEN_READONLY
        super().__init__("", name, flags)

    def excepthook(self, *_: object) -> bool:
        return True

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        struck = self._disk.take_step("write", self._role, self._handle, len(data))
        if struck is not None:
            if kept := bytes(data)[: int(len(data) * struck.keep)]:
                super().xWrite(kept, offset)
            struck.raise_error("write")
        if not self._is_temporary:
            self._disk.unsynced_files.add(self._role)
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        struck = self._disk.take_step("sync", self._role, self._handle)
        if struck is not None:
            struck.raise_error("sync")
        super().xSync(flags)
        self._disk.unsynced_files.discard(self._role)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's name
        struck = self._disk.take_step("truncate", self._role, self._handle, newsize)
        if struck is not None:
            struck.raise_error("truncate")
        super().xTruncate(newsize)


_TEMPORARY = (
    apsw.SQLITE_OPEN_TEMP_DB
    | apsw.SQLITE_OPEN_TRANSIENT_DB
    | apsw.SQLITE_OPEN_TEMP_JOURNAL
    | apsw.SQLITE_OPEN_SUBJOURNAL
    | apsw.SQLITE_OPEN_DELETEONCLOSE
)
"""Flags of files that hold nothing a power cut could take."""


def _file_role(flags: int) -> FileRole:
    if flags & apsw.SQLITE_OPEN_WAL:
        return "wal"
    return "database" if flags & apsw.SQLITE_OPEN_MAIN_DB else "other"
