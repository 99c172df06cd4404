"""The subjects of the benchmarks: Lukasa and the bare reference, with the same methods."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from lukasa.core.clock import IdMaker
from lukasa.core.outcome import Accepted, Outcome
from lukasa.core.record import Draft, Key, Record
from lukasa.core.scope import SHARED
from lukasa.errors import LukasaError
from lukasa.memory import open_memory
from lukasa.storage.engine import Match, Query
from lukasa_bench.corpus import CorpusNote
from lukasa_bench.reference_sqlite import SqliteReference

KIND = "note"
AUTHOR = "bench"
_TOP_TEN = Query(limit=10)


class BenchmarkSubject(Protocol):
    """Stores notes. ``add`` returns a receipt; ``ids`` reads receipts outside the measured time."""

    @property
    def name(self) -> str: ...
    def add(self, note: CorpusNote) -> Any: ...
    def add_all(self, notes: Sequence[CorpusNote]) -> Any: ...
    def revise(self, note: CorpusNote, version: int) -> Any: ...
    def get(self, id: str) -> Any: ...
    def history(self, id: str) -> Sequence[Any]: ...
    def find(self, words: str) -> Sequence[Any]: ...
    def ids(self, receipts: Sequence[Any]) -> list[str]: ...
    def close(self) -> None: ...


class LukasaSubject:
    """Lukasa as a user calls it. Its id maker repeats the ids of the notes."""

    name = "lukasa"

    def __init__(self, store: Path | str, new_id: IdMaker) -> None:
        self._memory = open_memory(store, new_id=new_id)
        self._journal = self._memory.journal

    def add(self, note: CorpusNote) -> Accepted:
        return _require_accepted(self._journal.write(KIND, note.text, note.body, author=AUTHOR))

    def add_all(self, notes: Sequence[CorpusNote]) -> Accepted:
        return _require_accepted(
            self._journal.append(Draft(KIND, note.text, note.body, author=AUTHOR) for note in notes)
        )

    def revise(self, note: CorpusNote, version: int) -> Accepted:
        before = version - 1
        return _require_accepted(
            self._journal.write(KIND, note.text, note.body, id=note.id, author=AUTHOR, expected=before)
        )

    def get(self, id: str) -> Record | None:
        return self._journal.get(Key(SHARED, KIND, id))

    def history(self, id: str) -> list[Record]:
        return self._journal.history(Key(SHARED, KIND, id))

    def find(self, words: str) -> list[Match]:
        return self._journal.find(words, _TOP_TEN)

    def ids(self, receipts: Sequence[Accepted]) -> list[str]:
        return [receipt.record.id for receipt in receipts]

    def close(self) -> None:
        self._memory.close()


class SubjectPair(NamedTuple):
    """Lukasa and its reference."""

    lukasa: BenchmarkSubject
    reference: BenchmarkSubject

    def close(self) -> None:
        for subject in self:
            subject.close()


class SubjectLocations(NamedTuple):
    """The locations of both stores: files, or databases of one server."""

    lukasa: Path | str
    reference: Path | str

    @classmethod
    def in_folder(cls, folder: Path, name: str) -> SubjectLocations:
        return cls(folder / f"lukasa-{name}.db", folder / f"reference-{name}.db")

    def open(self, new_id: IdMaker) -> SubjectPair:
        if isinstance(self.reference, Path):
            return SubjectPair(LukasaSubject(self.lukasa, new_id), SqliteReference(self.reference))
        from lukasa_bench.reference_postgres import PostgresReference

        return SubjectPair(LukasaSubject(self.lukasa, new_id), PostgresReference(self.reference))


def _require_accepted(outcome: Outcome) -> Accepted:
    if not isinstance(outcome, Accepted):
        raise LukasaError(f"A benchmark's note was not accepted: {outcome.reason}")
    return outcome
