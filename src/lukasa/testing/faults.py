"""A disk that fails on demand, to prove what a store does when storage lets it down.

    disk = FaultyDisk()
    memory = disk.open(path)
    with disk.failing("sync", errno.EIO, file="wal"):
        memory.journal.write("note", "…")  # raises StoreUnavailable

It is a file system of SQLite that passes everything on to the real one, except where a fault is set. Every change of a
file is a step; steps are numbered, so that a hook can end the process at each of them in turn. A fault that was never
reached proves nothing, so ``failing`` complains about one.

It is louder than a real disk in one place: SQLite swallows errors of the automatic checkpoint that follows a commit,
but through this disk they reach the caller, although the commit stands.
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

from lukasa.clock import Clock, IdMaker, SortableIds, SystemClock
from lukasa.config import Place
from lukasa.engines.sqlite import SqliteEngine
from lukasa.memory import Memory, memory_on

Verb = Literal["write", "sync", "truncate", "delete"]
File = Literal["database", "wal", "other"]

_NAMES = itertools.count(1)
_CODES: dict[tuple[int, Verb], int] = {
    (errno.ENOSPC, "write"): apsw.SQLITE_FULL,
    (errno.EIO, "write"): apsw.SQLITE_IOERR_WRITE,
    (errno.EROFS, "write"): apsw.SQLITE_IOERR_WRITE,
}
_OTHERWISE: dict[Verb, int] = {
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "delete": apsw.SQLITE_IOERR_DELETE,
}


class FaultNotReached(AssertionError):
    """The fault was set but nothing ran into it, so nothing was proved."""


@dataclass(frozen=True, slots=True)
class Step:
    """One change of a file: the how-manieth of this disk, what was done, to which file, through which handle."""

    number: int
    verb: Verb
    file: File
    handle: int
    size: int = 0


@dataclass(slots=True, eq=False)
class Fault:
    """What fails, from when on and how often; ``reached`` counts how often it did.

    ``keep`` is the share of a failing write that still gets onto the disk, and ``then`` is what happens next.
    """

    verb: Verb | None
    error: int
    file: File | None
    nth: int
    times: int | None
    keep: float
    then: Callable[[], object] | None
    seen: int = 0
    reached: int = 0

    def strikes(self, step: Step) -> bool:
        """Counts the step if it is of this fault's sort, and says whether it fails."""
        if self.verb not in (None, step.verb) or self.file not in (None, step.file):
            return False
        self.seen += 1
        if self.seen < self.nth or (self.times is not None and self.reached >= self.times):
            return False
        self.reached += 1
        return True

    def fail(self, verb: Verb) -> NoReturn:
        """Raises what SQLite's own file system would answer."""
        if self.then is not None:
            self.then()
        raise apsw.exception_for(_CODES.get((self.error, verb), _OTHERWISE[verb]))


class FaultyDisk(apsw.VFS):
    """A file system for SQLite that fails where it is told to.

    ``hook`` is called with every step before it is done. ``read_only`` opens every file for reading only, as after
    the mount turned read-only. ``unsynced`` holds the files with writes that a power cut would lose.
    """

    def __init__(self) -> None:
        self.name = f"faulty-{next(_NAMES)}"
        self.steps: list[Step] = []
        self.failed: list[Step] = []
        self.unsynced: set[File] = set()
        self.hook: Callable[[Step], None] | None = None
        self.read_only = False
        self._faults: list[Fault] = []
        self._door = threading.Lock()
        self._handles = itertools.count(1)
        super().__init__(self.name, "", maxpathname=0)

    def open(
        self, path: Path, *, clock: Clock | None = None, new_id: IdMaker | None = None, patience: float = 30.0
    ) -> Memory:
        """The store at ``path`` on this disk, as its owner sees it."""
        clock = clock or SystemClock()
        new_id = new_id or SortableIds(clock, random.SystemRandom())
        engine = SqliteEngine(path, clock=clock, patience=patience, vfs=self.name)
        return memory_on(engine, Place("sqlite", path), clock, new_id)

    @contextmanager
    def failing(
        self,
        verb: Verb | None,
        error: int = errno.EIO,
        *,
        file: File | None = None,
        nth: int = 1,
        times: int | None = None,
        keep: float = 0.0,
        then: Callable[[], object] | None = None,
    ) -> Iterator[Fault]:
        """Within the block the ``nth`` such step and those after it fail, all or ``times`` of them.

        Without a ``verb`` any step counts, without a ``file`` any file.

        Raises ``FaultNotReached`` at the end of a block in which nothing failed.
        """
        fault = Fault(verb, error, file, nth, times, keep, then)
        self._faults.append(fault)
        try:
            yield fault
        finally:
            self._faults.remove(fault)
        if not fault.reached:
            raise FaultNotReached(f"{fault.seen} steps of this sort were taken, none failed: {fault}")

    def step(self, verb: Verb, file: File, handle: int, size: int = 0) -> Fault | None:
        """Counts a step that is about to be taken; returns the fault that stops it, if one does."""
        with self._door:
            step = Step(len(self.steps) + 1, verb, file, handle, size)
            self.steps.append(step)
            struck = next((fault for fault in self._faults if fault.strikes(step)), None)
            if struck is not None:
                self.failed.append(step)
        if self.hook is not None:
            self.hook(step)
        return struck

    def excepthook(self, *_: object) -> bool:
        """Faults at places where SQLite cannot take an error are meant to be; nobody needs to hear of them."""
        return True

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> _FaultyFile:  # noqa: N802 - SQLite's name
        return _FaultyFile(self, next(self._handles), name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - SQLite's name
        struck = self.step("delete", "wal" if filename.endswith("-wal") else "other", 0)
        if struck is not None:
            struck.fail("delete")
        super().xDelete(filename, syncdir)


class _FaultyFile(apsw.VFSFile):
    """One open file of a faulty disk."""

    def __init__(self, disk: FaultyDisk, handle: int, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        self._handle = handle
        self._file = _file_of(flags[0])
        if disk.read_only:
            flags[0] = flags[0] & ~(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE) | apsw.SQLITE_OPEN_READONLY
        super().__init__("", name, flags)

    def excepthook(self, *_: object) -> bool:
        return True

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        struck = self._disk.step("write", self._file, self._handle, len(data))
        if struck is not None:
            if kept := bytes(data)[: int(len(data) * struck.keep)]:
                super().xWrite(kept, offset)
            struck.fail("write")
        self._disk.unsynced.add(self._file)
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        struck = self._disk.step("sync", self._file, self._handle)
        if struck is not None:
            struck.fail("sync")
        super().xSync(flags)
        self._disk.unsynced.discard(self._file)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's name
        struck = self._disk.step("truncate", self._file, self._handle, newsize)
        if struck is not None:
            struck.fail("truncate")
        super().xTruncate(newsize)


def _file_of(flags: int) -> File:
    if flags & apsw.SQLITE_OPEN_WAL:
        return "wal"
    return "database" if flags & apsw.SQLITE_OPEN_MAIN_DB else "other"
