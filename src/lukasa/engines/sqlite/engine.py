"""The SQLite engine: one file, real transactions, one writer at a time with group commit, any number of readers."""

from __future__ import annotations

import os
import shutil
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import apsw

from lukasa.clock import Clock, SystemClock, microseconds
from lukasa.engine import Compacted, Decision, Erased, Progress, Reader, Replayed, Verdict, chunks
from lukasa.engines.appending import sole
from lukasa.engines.sqlite import appending, files, upkeep
from lukasa.engines.sqlite.faults import translate, translated
from lukasa.engines.sqlite.reader import SqliteReader
from lukasa.engines.sqlite.sql import SQL
from lukasa.engines.sqlite.stage import Stage
from lukasa.engines.sqlite.writer import Brief, Work, Writer, checkpoint
from lukasa.errors import LukasaError, StoreBusy, StoreClosed, StoreDamaged, StoreFull, StoreReadOnly
from lukasa.outcome import Outcome
from lukasa.record import Key, Sealed
from lukasa.scope import EVERYTHING, Reach

_REPLAY_CHUNK = 1000
_IDLE_READERS = 8

T = TypeVar("T")
_Vector = tuple[str, int, int, bytes, bytes]


class SqliteEngine:
    """Keeps the engine promise in one SQLite file, or with ``path=None`` in memory."""

    def __init__(
        self,
        path: Path | None,
        *,
        clock: Clock | None = None,
        patience: float = 30.0,
        vfs: str | None = None,
    ) -> None:
        self.path = path
        self._clock = clock or SystemClock()
        self._patience = patience
        self._vfs = vfs
        self._read_only = False
        self._copy: TemporaryDirectory[str] | None = None
        self._remains = False  # something was erased whose old bytes may still be in the file
        self._shelves: dict[
            str, Any
        ] = {}  # filled when vectors are first asked for, which loads what computes with them
        self._idle: list[apsw.Connection] = []
        self._closed = False
        self._only: threading.RLock | None = None
        if path is None:
            self._only = threading.RLock()  # in memory there is one connection, so a writer keeps readers out
            database = apsw.Connection(":memory:")
            files.set_up(database, patience)
            files.migrate(database, None)
            self._writer = Writer(lambda: database)
            self._idle.append(database)
        else:
            files.make_store(path, vfs)
            files.inspect(path)
            self._writer = Writer(self._connect_writer)
            self._open_file()
        _open_engines.add(self)

    def _open_file(self) -> None:
        try:
            database = self._connect_writer()
            files.migrate(database, self.path)
            self._read_only = database.readonly("main")
            if self._read_only:
                self._idle.append(database)
            else:
                self._writer.adopt(database)
        except (apsw.ReadOnlyError, apsw.CantOpenError) as error:
            self._read_only = True
            try:
                self._idle.append(self._connect_reader())
            except apsw.Error:
                raise translate(error) from error
        except apsw.Error as error:
            raise translate(error) from error

    def _connect_writer(self) -> apsw.Connection:
        assert self.path is not None
        if self._read_only:
            raise StoreReadOnly
        return files.connect(self.path, patience=self._patience, vfs=self._vfs)

    def _connect_reader(self) -> apsw.Connection:
        assert self.path is not None
        if not self._read_only:
            return files.connect(self.path, patience=self._patience, vfs=self._vfs)
        try:
            database = files.connect(self.path, patience=self._patience, vfs=self._vfs, write=False)
            database.execute("SELECT count(*) FROM sqlite_schema")
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            # A read-only folder cannot hold the shared-memory file. With nothing left in the write-ahead log the
            # database file alone is the whole truth and nobody can change it; otherwise both are read from a copy.
            leftover = self.path.with_name(self.path.name + "-wal")
            if leftover.exists() and leftover.stat().st_size:
                return files.connect(self._copied(leftover), patience=self._patience, vfs=self._vfs)
            database = files.connect_unchangeable(self.path)
        return database

    def _copied(self, leftover: Path) -> Path:
        """A private copy of a store on a read-only disk, with what is still in its write-ahead log."""
        assert self.path is not None
        if self._copy is None:
            self._copy = TemporaryDirectory(prefix="lukasa-")
            for file in (self.path, leftover):
                shutil.copyfile(file, Path(self._copy.name) / file.name)
        return Path(self._copy.name) / self.path.name

    # Log

    @contextmanager
    def reading(self, reach: Reach, *, once: bool = False) -> Iterator[SqliteReader]:  # noqa: ARG002 - it costs nothing here
        with translated(), self._borrowed() as database:
            within = database.in_transaction  # in memory: a look inside another look, or inside a write
            if not within:
                database.execute("BEGIN")
            try:
                yield SqliteReader(database, reach, self._shelves)
            finally:
                if not within and database.in_transaction:
                    database.execute("COMMIT")

    def append(self, reach: Reach, batch: Sequence[Sealed] | Decision, *, key: str | None = None) -> Outcome:
        now = self._clock.now
        one = None if key is not None or callable(batch) else sole(reach, batch)
        return self._write(
            lambda stage: appending.append(stage, now(), reach, batch, key),
            None if one is None else lambda database: appending.add_sole(database, now(), one),
        )

    def replay(self, reach: Reach, lines: Iterable[tuple[bytes, bytes]]) -> Iterator[Replayed]:
        for chunk in chunks(lines, _REPLAY_CHUNK):
            yield from self._write(_replaying(reach, chunk))

    def put_vectors(self, model: str, vectors: Iterable[tuple[int, int, Sequence[float]]]) -> None:
        from lukasa.engines.sqlite.vectors import packed

        given = list(vectors)
        halves = packed([vector for _, _, vector in given])
        rows = [(model, seq, chunk, *both) for (seq, chunk, _), both in zip(given, halves, strict=True)]

        def work(stage: Stage) -> None:
            database = stage.settled()
            new = _unkept(database, model, rows)
            replaced = sorted({row[:2] for row in new})
            if replaced and database.execute(SQL["vectors_from"], replaced[0]).get:
                database.execute(SQL["new_edition"], (model,))
                database.executemany(SQL["forget_vectors"], replaced)
            database.executemany(SQL["put_vector"], new)

        self._write(work)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._remains:
            self._overwrite()
        while self._idle:
            self._idle.pop().close(True)
        self._writer.close()
        if self._copy is not None:
            self._copy.cleanup()

    # Upkeep

    def verify(self, progress: Progress | None = None) -> Verdict:
        if self._closed:
            raise StoreClosed
        with translated():
            if self.path is None:
                with self._borrowed() as database:
                    return upkeep.verify(database, progress, writable=True)
            database = self._connect_reader()  # a new one: an old one may check its own cached copy of the text index
            try:
                return upkeep.verify(database, progress, writable=not self._read_only)
            finally:
                database.close()

    def reindex(self, progress: Progress | None = None) -> None:
        try:
            self._write(lambda stage: upkeep.reindex(stage.settled(), progress))
        except StoreDamaged:
            self._write(lambda stage: upkeep.rebuild(stage.settled(), progress))
            self._writer.alone(_vacuum)

    def compact(self, *, before: datetime | None = None, progress: Progress | None = None) -> Compacted:
        bound = 2**63 - 1 if before is None else microseconds(before)
        bytes_before = self._size()
        dropped = self._write(lambda stage: upkeep.compact(stage.settled(), bound, progress))
        if dropped:
            with self._only or nullcontext():
                self._writer.alone(_vacuum)
                self._checkpoint()
        return Compacted(dropped, bytes_before, self._size())

    def erase(self, choose: Callable[[Reader], Sequence[Key]], receipt: Callable[[Erased], Sealed]) -> Erased:
        def work(stage: Stage) -> Erased:
            erased = upkeep.erase(stage.settled(), choose)
            if erased.versions:
                appending.append(stage, self._clock.now(), EVERYTHING, [receipt(erased)], None)
            return erased

        erased = self._write(work)
        self._remains = True
        return replace(erased, residue=self._overwrite())

    def _checkpoint(self) -> bool:
        """Moves the write-ahead log into the file and empties it, unless a reader is in the way."""
        return self._writer.alone(checkpoint)

    def _overwrite(self) -> str | None:
        """Rewrites the file without what was erased. Pages that were split or moved hold old bytes until then."""
        try:
            with self._only or nullcontext():
                self._writer.alone(_vacuum)
                emptied = self._checkpoint()
        except (StoreBusy, StoreFull) as error:
            return f"the file could not be rewritten yet: {error.message}"
        if not emptied:
            return "another process still reads an older page of the store"
        self._remains = False
        return None

    def backup(self, target: Path) -> None:
        with translated(), self._borrowed() as database:
            files.copy_to(database, target)

    def describe(self) -> Mapping[str, Any]:
        with translated(), self._borrowed() as database:
            facts: dict[str, Any] = {
                "engine": "sqlite",
                "sqlite": apsw.sqlite_lib_version(),
                "schema": files.SCHEMA_VERSION,
                "store": "memory" if self.path is None else str(self.path),
                "journal_mode": database.pragma("journal_mode"),
                "synchronous": database.pragma("synchronous"),
                "read_only": self._read_only,
            }
        if self.path is not None:
            facts["bytes"] = self._size()
            facts["file_mode"] = f"{self.path.stat().st_mode & 0o777:04o}"
        return facts

    def _size(self) -> int:
        if self.path is None:
            return 0
        side = [self.path.with_name(self.path.name + end) for end in ("", "-wal")]
        return sum(file.stat().st_size for file in side if file.exists())

    # Connections

    def _write(self, work: Work[T], brief: Brief[T] | None = None) -> T:
        if self._only is None:
            result = self._writer.run(work, brief)
            if self._remains:
                self._overwrite()
            return result
        with self._only:
            if self._idle and self._idle[0].in_transaction and not self._writer.deciding:
                raise LukasaError(
                    "This store lives in memory and has one look at a time.", hint="Write after the look."
                )
            return self._writer.run(work, brief)

    @contextmanager
    def _borrowed(self) -> Iterator[apsw.Connection]:
        if self._closed:
            raise StoreClosed
        if self._only is not None:
            with self._only:
                yield self._idle[0]
            return
        try:
            database = self._idle.pop()
        except IndexError:
            database = self._connect_reader()
        try:
            yield database
        except apsw.IOError:
            database.close(True)
            raise
        except BaseException:
            self._give_back(database)
            raise
        else:
            self._give_back(database)

    def _give_back(self, database: apsw.Connection) -> None:
        if self._closed or len(self._idle) >= _IDLE_READERS:
            database.close(True)
        else:
            self._idle.append(database)

    def _leave_parent(self) -> None:
        """A fork inherits connections it must not use: it starts with none of its own."""
        if self.path is not None:
            _inherited.extend((*self._idle, self._writer))
            self._idle = []
            self._writer = Writer(self._connect_writer)


def _unkept(database: apsw.Connection, model: str, rows: list[_Vector]) -> list[_Vector]:
    """The vectors without those that are there already: two processes often make the same ones at the same time."""
    newest = database.execute(SQL["newest_vector"], (model,)).get or 0
    by_position: dict[int, list[_Vector]] = {}
    for row in rows:
        by_position.setdefault(row[1], []).append(row)
    return [
        row
        for seq, own in by_position.items()
        if seq > newest or sorted(own) != database.execute(SQL["vectors_at"], (model, seq)).fetchall()
        for row in own
    ]


def _vacuum(database: apsw.Connection) -> None:
    database.execute("VACUUM")


def _replaying(reach: Reach, chunk: list[tuple[bytes, bytes]]) -> Work[list[Replayed]]:
    return lambda stage: appending.Replay(stage, reach).run(chunk)


_inherited: list[object] = []
"""Connections and writers of a parent process, kept so that they are never closed here: closing would drop the parent's locks."""

_open_engines: weakref.WeakSet[SqliteEngine] = weakref.WeakSet()


def _leave_parents() -> None:
    for engine in list(_open_engines):
        engine._leave_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_parents)
