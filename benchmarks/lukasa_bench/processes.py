"""Several processes that write to the same two stores at once."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from datetime import datetime
from multiprocessing.connection import Connection
from time import perf_counter
from types import TracebackType
from typing import NamedTuple, Self

from lukasa_bench.corpus import CorpusNote, NoteCorpus, id_maker
from lukasa_bench.subjects import BenchmarkSubject, SubjectLocations

_TIMEOUT_SECONDS = 600.0


class WriterStats(NamedTuple):
    """What a crew, or one of it, did: adds per second, the slowest add, what was acknowledged, what went wrong."""

    rate: float
    slowest: float
    ids: list[str]
    errors: list[str]


class WriterProcesses:
    """Processes with both stores open, started once and then told when to write to which."""

    def __init__(self, size: int, locations: SubjectLocations, seed: int, start: datetime) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes = []
        for number in range(1, size + 1):
            near, far = context.Pipe()
            process = context.Process(target=_run_writer, args=(far, locations, seed + number, start), daemon=True)
            process.start()
            far.close()
            self._pipes.append(near)
            self._processes.append(process)
        self._receive_from_all()

    def prepare(self, notes_per_process: int) -> int:
        """Has every process take that many new notes; returns how many that makes."""
        self._send_to_all(notes_per_process)
        self._receive_from_all()
        return notes_per_process * len(self._pipes)

    def write(self, subject_name: str) -> WriterStats:
        """Has all of them add their notes to one store, one at a time each, all at once."""
        began = perf_counter()
        self._send_to_all(subject_name)
        shifts = [shift for shift in self._receive_from_all() if shift is not None]
        took = perf_counter() - began
        ids = [id for shift in shifts for id in shift.ids]
        errors = [error for shift in shifts for error in shift.errors]
        return WriterStats(len(ids) / took, max(shift.slowest for shift in shifts), ids, errors)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(10)
            if process.is_alive():
                process.terminate()
                process.join()
            process.close()

    def _send_to_all(self, message: int | str) -> None:
        for pipe in self._pipes:
            pipe.send(message)

    def _receive_from_all(self) -> list[WriterStats | None]:
        answers = []
        for pipe in self._pipes:
            if not pipe.poll(_TIMEOUT_SECONDS):
                raise TimeoutError("A writing process of the benchmark does not answer.")
            answers.append(pipe.recv())
        return answers


def _run_writer(pipe: Connection, locations: SubjectLocations, seed: int, start: datetime) -> None:
    """One process: a number says how many notes to take, a name says where to write them; the pipe's end is the end."""
    notes = NoteCorpus(seed, start)
    pair = locations.open(id_maker(seed, start))
    contenders = {contender.name: contender for contender in pair}
    taken: list[CorpusNote] = []
    pipe.send(None)
    try:
        while True:
            match pipe.recv():
                case int(count):
                    taken = notes.take(count)
                    pipe.send(None)
                case name:
                    pipe.send(_add_one_by_one(contenders[name], taken))
    except EOFError:
        pair.close()


def _add_one_by_one(subject: BenchmarkSubject, notes: Sequence[CorpusNote]) -> WriterStats:
    receipts, errors = [], []
    slowest = 0.0
    began = perf_counter()
    for note in notes:
        start = perf_counter()
        try:
            receipts.append(subject.add(note))
        except Exception as error:  # noqa: BLE001 - whatever a contender raises under load is the finding
            errors.append(f"{type(error).__name__}: {error}")
        slowest = max(slowest, perf_counter() - start)
    took = perf_counter() - began
    return WriterStats(len(receipts) / took, slowest, subject.ids(receipts), errors)
