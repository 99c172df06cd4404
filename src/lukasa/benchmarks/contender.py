"""Who is measured: Lukasa and the bare reference, behind the same few verbs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from lukasa.benchmarks.notes import Note
from lukasa.benchmarks.reference import Reference
from lukasa.clock import IdMaker
from lukasa.engine import Match, Query
from lukasa.errors import LukasaError
from lukasa.memory import open_memory
from lukasa.outcome import Accepted, Outcome
from lukasa.record import Draft, Key, Record
from lukasa.scope import SHARED

KIND = "note"
AUTHOR = "bench"
_TOP_TEN = Query(limit=10)


class Contender(Protocol):
    """Keeps notes. What ``add`` returns is a receipt that ``ids`` can read, outside any measured time."""

    @property
    def name(self) -> str: ...
    def add(self, note: Note) -> Any: ...
    def add_all(self, notes: Sequence[Note]) -> Any: ...
    def revise(self, note: Note, version: int) -> Any: ...
    def get(self, id: str) -> Any: ...
    def history(self, id: str) -> Sequence[Any]: ...
    def find(self, words: str) -> Sequence[Any]: ...
    def ids(self, receipts: Sequence[Any]) -> list[str]: ...
    def close(self) -> None: ...


class Lukasa:
    """Lukasa as a user calls it. It makes its own ids, by a maker that repeats those of the notes."""

    name = "lukasa"

    def __init__(self, store: Path | str, new_id: IdMaker) -> None:
        self._memory = open_memory(store, new_id=new_id)
        self._journal = self._memory.journal

    def add(self, note: Note) -> Accepted:
        return _accepted(self._journal.write(KIND, note.text, note.body, author=AUTHOR))

    def add_all(self, notes: Sequence[Note]) -> Accepted:
        return _accepted(self._journal.append(Draft(KIND, note.text, note.body, author=AUTHOR) for note in notes))

    def revise(self, note: Note, version: int) -> Accepted:
        before = version - 1
        return _accepted(self._journal.write(KIND, note.text, note.body, id=note.id, author=AUTHOR, expected=before))

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


class Pair(NamedTuple):
    """The two that are compared."""

    lukasa: Contender
    reference: Contender

    def close(self) -> None:
        for contender in self:
            contender.close()


class Places(NamedTuple):
    """Where the two keep what they are given: files, or databases of one server."""

    lukasa: Path | str
    reference: Path | str

    @classmethod
    def within(cls, folder: Path, name: str) -> Places:
        return cls(folder / f"lukasa-{name}.db", folder / f"reference-{name}.db")

    def open(self, new_id: IdMaker) -> Pair:
        if isinstance(self.reference, Path):
            return Pair(Lukasa(self.lukasa, new_id), Reference(self.reference))
        from lukasa.benchmarks.reference_postgres import PostgresReference

        return Pair(Lukasa(self.lukasa, new_id), PostgresReference(self.reference))


def _accepted(outcome: Outcome) -> Accepted:
    if not isinstance(outcome, Accepted):
        raise LukasaError(f"A benchmark's note was not accepted: {outcome.reason}")
    return outcome
