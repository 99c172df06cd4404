"""Several processes that write to the same two stores at the same time."""

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
    """The result of one or several writers: adds per second, the slowest add, the acknowledged ids, the errors."""

    rate: float
    slowest: float
    ids: list[str]
    errors: list[str]


class WriterProcesses:
    """Processes with both stores open. They are started once and write on command."""

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
        """Let every process take new notes, and return their number in all."""
        self._send_to_all(notes_per_process)
        self._receive_from_all()
        return notes_per_process * len(self._pipes)

    def write(self, subject_name: str) -> WriterStats:
        """Let all processes add their notes to one store at the same time, each note in a separate call."""
        began = perf_counter()
        self._send_to_all(subject_name)
        results = [result for result in self._receive_from_all() if result is not None]
        seconds = perf_counter() - began
        ids = [id for result in results for id in result.ids]
        errors = [error for result in results for error in result.errors]
        return WriterStats(len(ids) / seconds, max(result.slowest for result in results), ids, errors)

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
                raise TimeoutError("A writer process of the benchmark does not answer.")
            answers.append(pipe.recv())
        return answers


def _run_writer(pipe: Connection, locations: SubjectLocations, seed: int, start: datetime) -> None:
    """Run one process: a number is how many notes to take, a name is the store to write to; it ends with the pipe."""
    notes = NoteCorpus(seed, start)
    pair = locations.open(id_maker(seed, start))
    subjects = {subject.name: subject for subject in pair}
    taken: list[CorpusNote] = []
    pipe.send(None)
    try:
        while True:
            match pipe.recv():
                case int(count):
                    taken = notes.take(count)
                    pipe.send(None)
                case name:
                    pipe.send(_add_one_by_one(subjects[name], taken))
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
        except Exception as error:  # noqa: BLE001 - every error under load is a result
            errors.append(f"{type(error).__name__}: {error}")
        slowest = max(slowest, perf_counter() - start)
    seconds = perf_counter() - began
    return WriterStats(len(receipts) / seconds, slowest, subject.ids(receipts), errors)
