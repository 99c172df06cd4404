"""Opening a store and handing out its rooms. Wiring only; the rules live in the rooms."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Self

from lukasa.blob import replacing
from lukasa.clock import Clock, IdMaker, SortableIds, SystemClock
from lukasa.config import READ_VARIABLE, Place, locate
from lukasa.embedder import Embedder
from lukasa.engine import Compacted, Engine, Progress, Verdict
from lukasa.errors import InvalidInput, MissingExtra, StoreMissing
from lukasa.formats import jsonl
from lukasa.gate import Gate
from lukasa.jobs import Jobs
from lukasa.journal import Journal
from lukasa.scope import EVERYTHING, SHARED, Reach

if TYPE_CHECKING:
    from lukasa.recall.index import Index
    from lukasa.recall.room import Recall
    from lukasa.trust import Trust


@dataclass(frozen=True, slots=True)
class Parts:
    """What the rooms of one store are made of, whoever enters them."""

    engine: Engine
    place: Place
    clock: Clock
    new_id: IdMaker
    chance: random.Random
    recalling: Callable[[Journal], Recall]
    owner: Journal
    """The store's own view of itself: what rooms must know beyond a caller's reach, and never show as it is."""


class Memory:
    """An open store, seen with one caller's reach. One that is lent, as jobs get it, closes nothing."""

    ROOMS: ClassVar[frozenset[str]] = frozenset({"journal", "jobs", "trust"})
    """The attributes that have methods of their own."""

    def __init__(self, parts: Parts, journal: Journal, jobs: Jobs, *, lent: bool = False) -> None:
        self._parts = parts
        self._lent = lent
        self.place = parts.place
        self.journal = journal
        self.jobs = jobs

    @cached_property
    def recall(self) -> Recall:
        """Finds what answers a question: ``memory.recall("When is the release?")``."""
        return self._parts.recalling(self.journal)

    @cached_property
    def trust(self) -> Trust:
        """Who has been right: dissents, overrides, and the trust that follows from them."""
        from lukasa.trust import Trust
        from lukasa.trust.belief import Belief

        parts = self._parts
        belief = Belief(parts.owner, parts.clock)
        return Trust(self.journal, parts.clock, parts.new_id, parts.chance, lambda: self.recall.index.embedder, belief)

    def verify(self, progress: Progress | None = None) -> Verdict:
        """Proves the log whole and the indexes true to it."""
        return self.journal.verify(progress)

    def compact(self, progress: Progress | None = None) -> Compacted:
        """Drops superseded versions and gives the space back."""
        return self.journal.compact(progress=progress)

    def export(self, target: str | os.PathLike[str] | BinaryIO, progress: Progress | None = None) -> int:
        """Writes the log as JSONL; returns the number of versions. A file is replaced only once the new one is whole."""
        if not isinstance(target, str | os.PathLike):
            return jsonl.export_log(self.journal, target, progress)
        path = Path(target).absolute()
        if self.place.path is not None and path.exists() and path.samefile(self.place.path):
            raise InvalidInput(f"{path} is the store itself.", hint="Export to another file.")
        with replacing(path) as file:
            return jsonl.export_log(self.journal, file, progress)

    def import_(self, source: str | os.PathLike[str] | BinaryIO, progress: Progress | None = None) -> jsonl.Imported:
        """Takes in an exported log. Lines that are already here are skipped, so it can be run again."""
        if isinstance(source, str | os.PathLike):
            with Path(source).open("rb") as file:
                return jsonl.import_log(self.journal, file, progress)
        return jsonl.import_log(self.journal, source, progress)

    def backup(self, target: str | os.PathLike[str]) -> None:
        """Writes a consistent copy of the store to a new file."""
        self.journal.backup(Path(target))

    def describe(self) -> Mapping[str, Any]:
        """Facts about the store: place, engine, sizes."""
        return self._parts.engine.describe()

    def close(self) -> None:
        if not self._lent:
            self.jobs.close()
            self._parts.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_memory(
    store: str | os.PathLike[str] | None = None,
    *,
    agent: str = "",
    scopes: Iterable[str] | None = None,
    clock: Clock | None = None,
    new_id: IdMaker | None = None,
    chance: random.Random | None = None,
    patience: float = 30.0,
    read_url: str | None = None,
    make: bool = True,
    embedder: str | Embedder | None = None,
) -> Memory:
    """Opens a store, making it if there is none and unless ``make`` says not to.

    Without ``agent`` and ``scopes`` the caller owns the store and reaches everything. An agent reaches the shared
    scope and its own, or exactly ``scopes``, and is the author of what it writes. On PostgreSQL ``read_url`` names a
    replica to read from, as fresh as the server itself. ``embedder`` (``minilm``, ``static``, …) is who makes vectors
    for recall in a store that has none yet; without it, the best that is installed.
    """
    place = locate(store)
    clock = clock or SystemClock()
    chance = chance or random.SystemRandom()
    new_id = new_id or SortableIds(clock, chance)
    engine = _engine(place, clock, patience, read_url or os.environ.get(READ_VARIABLE), make=make)
    return memory_on(
        engine,
        place,
        clock,
        new_id,
        chance=chance,
        reach=_reach(agent, scopes),
        agent=agent,
        patience=patience,
        embedder=embedder,
    )


def memory_on(
    engine: Engine,
    place: Place,
    clock: Clock,
    new_id: IdMaker,
    *,
    chance: random.Random | None = None,
    reach: Reach = EVERYTHING,
    agent: str = "",
    patience: float = 30.0,
    embedder: str | Embedder | None = None,
) -> Memory:
    """Wires a memory onto an open engine."""
    gate = Gate()
    owner = Journal(engine, gate, EVERYTHING, clock, new_id)
    index: list[Index] = []  # one for all, made when something is first recalled: it loads what computes with numbers

    def recalling(journal: Journal) -> Recall:
        from lukasa.recall.index import Index
        from lukasa.recall.room import Recall
        from lukasa.trust.belief import Belief

        if not index:
            index.append(Index(owner, embedder))
        return Recall(journal, index[0], clock, believing=Belief(owner, clock))

    def lend(agent: str, reach: Reach, jobs: Jobs) -> Memory:
        journal = Journal(engine, gate, reach, clock, new_id, author=agent)
        return Memory(parts, journal, jobs.seen_by(journal), lent=True)

    parts = Parts(engine, place, clock, new_id, chance or random.SystemRandom(), recalling, owner)
    journal = Journal(engine, gate, reach, clock, new_id, author=agent)
    jobs = Jobs(journal, lend, clock, new_id, url=place.url, patience=patience)
    return Memory(parts, journal, jobs)


def _engine(place: Place, clock: Clock, patience: float, read_url: str | None, *, make: bool) -> Engine:
    if place.engine != "postgresql":
        if not make and place.path is not None and not place.path.exists():
            raise StoreMissing(f"There is no store at {place.path}.")
        from lukasa.engines.sqlite import SqliteEngine

        return SqliteEngine(place.path, clock=clock, patience=patience)
    try:
        from lukasa.engines.postgres import PostgresEngine
    except ImportError as error:
        raise MissingExtra(
            "The PostgreSQL engine is not installed.", hint="Run: pip install 'lukasa[postgres]'"
        ) from error
    return PostgresEngine(place.url, clock=clock, patience=patience, read_url=read_url or None, make=make)


def _reach(agent: str, scopes: Iterable[str] | None) -> Reach:
    if scopes is not None:
        return Reach.of(scopes)
    return Reach.of((SHARED, agent)) if agent else EVERYTHING
