"""Opening a store and handing out its rooms. Wiring only; the rules live in the rooms."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Self

from lukasa.blob import replacing
from lukasa.clock import Clock, IdMaker, SortableIds, SystemClock
from lukasa.config import READ_VARIABLE, Place, files_of, locate, read_profile
from lukasa.embedder import Embedder
from lukasa.engine import Compacted, Engine, Progress, Verdict
from lukasa.errors import InvalidInput, MissingExtra, StoreMissing
from lukasa.formats import Taken, jsonl, layout
from lukasa.gate import Gate, Limits, Policy, guarding
from lukasa.jobs import Jobs
from lukasa.journal import Journal
from lukasa.scope import EVERYTHING, SHARED, Reach

if TYPE_CHECKING:
    from lukasa.archive import Archives, Manifest
    from lukasa.backup import Restored
    from lukasa.blob import Blobs
    from lukasa.briefing import Briefing, Relevant
    from lukasa.consolidation import Consolidation
    from lukasa.context import Contexts
    from lukasa.continuity import Continuity
    from lukasa.episodes import Episodes
    from lukasa.forecasts import Forecasts
    from lukasa.graph import Graph
    from lukasa.knowledge import Knowledge
    from lukasa.metrics import Metrics
    from lukasa.network import Network
    from lukasa.recall.index import Index
    from lukasa.recall.room import Recall
    from lukasa.sessions import Sessions
    from lukasa.skills import Skills
    from lukasa.teamwork import Handoffs, Ledgers
    from lukasa.trust import Trust
    from lukasa.vault import Rules, Vault

_WHOLE_STATE = Policy(Limits(record_bytes=17_000_000))  # what a session's state may hold, with what goes around it
_WHOLE_TURN = Policy(Limits(record_bytes=32_000_000))  # what somebody says is kept whole, however long
POLICIES = {"turn": _WHOLE_TURN, **dict.fromkeys(("checkpoint", "session_delta", "session_archive"), _WHOLE_STATE)}


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
    rules: Rules | None = None


class Memory:
    """An open store, seen with one caller's reach. One that is lent, as jobs get it, closes nothing."""

    ROOMS: ClassVar[frozenset[str]] = frozenset(
        {
            "journal", "jobs", "context", "continuity", "episodes", "forecasts", "graph", "handoffs", "knowledge",
            "ledgers", "metrics", "sessions", "skills", "trust", "vault",
        }
    )  # fmt: skip
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
    def context(self) -> Contexts:
        """Sessions: turns that are never lost, in views that never overflow."""
        from lukasa.context import Contexts
        from lukasa.llm import open_model

        parts = self._parts
        return Contexts(self.journal, lambda: self.recall, parts.clock, parts.new_id, model=open_model())

    @cached_property
    def vault(self) -> Vault:
        """Curated memory behind a write gate: ``memory.vault.add_memory("…", "shared", "mission")``."""
        from lukasa.vault import Vault

        parts = self._parts
        return Vault(self.journal, lambda: self.recall, parts.clock, parts.chance, parts.rules)

    @cached_property
    def sessions(self) -> Sessions:
        """Sessions whose state survives crashes: ``memory.sessions.start("demo")``."""
        from lukasa.sessions import Sessions

        parts = self._parts
        return Sessions(self.journal, parts.clock, parts.new_id, lambda: _files(parts.place), self._hub())

    @cached_property
    def forecasts(self) -> Forecasts:
        """Predictions that are kept, signalled, resolved and scored."""
        from lukasa.forecasts import Forecasts

        return Forecasts(self.journal, self._parts.clock, self._parts.new_id, self._hub())

    def _hub(self) -> Network | None:
        """The agents that share this store, for those who reach the shared scope."""
        from lukasa.network.hub import Hub

        reach = self.journal.reach
        return Hub(self.journal, self._parts.clock) if reach.reads(SHARED) and reach.writes(SHARED) else None

    @cached_property
    def episodes(self) -> Episodes:
        """What happened, task by task."""
        from lukasa.episodes import Episodes

        return Episodes(self.journal, self._parts.clock)

    @cached_property
    def knowledge(self) -> Knowledge:
        """Patterns, anti-patterns and facts, and the links between them."""
        from lukasa.knowledge import Knowledge

        return Knowledge(self.journal, self._parts.clock, self._parts.new_id)

    @cached_property
    def skills(self) -> Skills:
        """How things are done."""
        from lukasa.skills import Skills

        return Skills(self.journal, self._parts.clock)

    @cached_property
    def ledgers(self) -> Ledgers:
        """Where each agent stands."""
        from lukasa.teamwork import Ledgers

        return Ledgers(self.journal, self._parts.clock)

    @cached_property
    def handoffs(self) -> Handoffs:
        """Work passed from one agent to another."""
        from lukasa.teamwork import Handoffs

        return Handoffs(self.journal, self._parts.clock)

    @cached_property
    def metrics(self) -> Metrics:
        """How tasks fare: time, agents, retries, rewards."""
        from lukasa.metrics import Metrics

        return Metrics(self.journal, self._parts.clock)

    @cached_property
    def continuity(self) -> Continuity:
        """The file CONTINUITY.md, kept current."""
        from lukasa.continuity import Continuity

        return Continuity(self.journal, self.recall, self._parts.clock)

    @cached_property
    def graph(self) -> Graph:
        """The knowledge graph of the reference MCP memory server: entities, observations, relations."""
        from lukasa.graph import Graph

        return Graph(self.journal)

    @cached_property
    def consolidate(self) -> Consolidation:
        """Turns episodes into knowledge: ``memory.consolidate(dry_run=True)``."""
        from lukasa.consolidation import Consolidation
        from lukasa.llm import open_model

        return Consolidation(self.journal, self._parts.new_id, open_model())

    def retrieve_relevant_memory(self, goal: str, k: int = 5) -> Relevant:
        """The patterns, episodes and skills that matter for a goal, best first."""
        from lukasa.briefing import relevant

        return relevant(self.journal, self.recall, self.skills, self._parts.clock.now(), goal, k)

    def before_task(self, task: str | Mapping[str, Any], *, budget: int | None = None) -> Briefing:
        """What is known that matters for a task, put into its context."""
        from lukasa.briefing import brief

        return brief(self.journal, self.recall, self.skills, self._parts.clock.now(), task, budget=budget)

    @cached_property
    def trust(self) -> Trust:
        """Who has been right: dissents, overrides, and the trust that follows from them."""
        from lukasa.trust import Trust
        from lukasa.trust.belief import Belief

        parts = self._parts
        belief = Belief(parts.owner, parts.clock)
        return Trust(
            self.journal, parts.clock, parts.new_id, parts.chance, lambda: self.recall.index.embedder.embedder, belief
        )

    def seen_by(self, agent: str = "", scopes: Iterable[str] | None = None) -> Memory:
        """The same open store with another caller's reach; it closes nothing. Only the owner may hand it out."""
        journal = self.journal.seen_by(_reach(agent, scopes), agent)
        return Memory(self._parts, journal, self.jobs.seen_by(journal), lent=True)

    def verify(self, progress: Progress | None = None) -> Verdict:
        """Proves the log whole and the indexes true to it."""
        return self.journal.verify(progress)

    def compact(self, progress: Progress | None = None) -> Compacted:
        """Drops superseded versions and gives the space back."""
        return self.journal.compact(progress=progress)

    def export(
        self,
        target: str | os.PathLike[str] | BinaryIO,
        progress: Progress | None = None,
        *,
        format: str = "jsonl",
        scope: str = SHARED,
    ) -> int:
        """Writes the log as JSONL; returns the number of versions. A file is replaced only once the new one is whole.

        Another ``format`` writes one scope in the layout of a document (``loki``: a folder) and returns how many records.
        """
        if format != "jsonl":
            return layout(format).write(self.journal, _folder(target), scope)
        if not isinstance(target, str | os.PathLike):
            return jsonl.export_log(self.journal, target, progress)
        path = Path(target).absolute()
        if self.place.path is not None and path.exists() and path.samefile(self.place.path):
            raise InvalidInput(f"{path} is the store itself.", hint="Export to another file.")
        with replacing(path) as file:
            return jsonl.export_log(self.journal, file, progress)

    def import_(
        self,
        source: str | os.PathLike[str] | BinaryIO,
        progress: Progress | None = None,
        *,
        format: str = "jsonl",
        scope: str = SHARED,
    ) -> jsonl.Imported | Taken:
        """Takes in an exported log. Lines that are already here are skipped, so it can be run again.

        Another ``format`` takes in the layout of a document (``loki``: a folder) into one scope.
        """
        if format != "jsonl":
            parts, folder = self._parts, _folder(source)
            return layout(format).read(self.journal, parts.clock, parts.new_id, folder, scope)
        if isinstance(source, str | os.PathLike):
            with Path(source).open("rb") as file:
                return jsonl.import_log(self.journal, file, progress)
        return jsonl.import_log(self.journal, source, progress)

    def backup(
        self, target: str | os.PathLike[str], *, secret: str = "", keep: int = 12, alone: bool = False
    ) -> Manifest | None:
        """Writes a consistent copy of the store to a new file, or, to a URL, a backup that was read back and proved.

        A backup (``file:///…``, ``s3://…``) holds the store and the files of its sessions. ``secret`` encrypts it,
        ``keep`` is how many stay there, ``alone`` says that nobody else backs up to that bucket.
        """
        from lukasa.blobs import is_url, open_blobs

        if not is_url(target):
            self.journal.backup(Path(target))
            return None
        from lukasa.backup import back_up

        parts, place = self._parts, open_blobs(target)
        files = self.sessions.blobs
        journal, ids = self.journal, parts.new_id
        return back_up(
            journal, parts.place, files, place, _owned, parts.clock, ids, secret=secret, keep=keep, alone=alone
        )

    def describe(self) -> Mapping[str, Any]:
        """Facts about the store: place, engine, sizes."""
        return self._parts.engine.describe()

    def close(self) -> None:
        if "vault" in self.__dict__:
            self.vault.close()
        if "sessions" in self.__dict__:
            self.sessions.close()
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
    profile: str | os.PathLike[str] | Rules | None = None,
) -> Memory:
    """Opens a store, making it if there is none and unless ``make`` says not to.

    Without ``agent`` and ``scopes`` the caller owns the store and reaches everything. An agent reaches the shared
    scope and its own, or exactly ``scopes``, and is the author of what it writes. On PostgreSQL ``read_url`` names a
    replica to read from, as fresh as the server itself. ``embedder`` (``minilm``, ``static``, …) is who makes vectors
    for recall in a store that has none yet; without it, the best that is installed. ``profile`` is a YAML file with the
    vault's rules, or the rules themselves; else ``LUKASA_PROFILE``. Its scopes are the reach of whoever names none.
    """
    rules = read_profile(profile)
    if scopes is None and rules is not None and rules.scopes is not None:
        scopes = rules.scopes
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
        rules=rules,
    )


def restore_store(
    source: str | os.PathLike[str],
    into: str | os.PathLike[str],
    *,
    name: str | None = None,
    number: int | None = None,
    secret: str = "",
) -> Restored:
    """Brings a store back from a backup to a place where there is none, and proves that it is the same log.

    ``name`` and ``number`` say which backup; without them, the newest of the only store that is backed up there.
    """
    from lukasa.backup import restore

    place = locate(into)
    root = files_of(place)
    files = None if root is None or "://" in root else Path(root)
    archives = find_backups(source, name=name)
    return restore(archives, place, files, _owned, _load_dump, number=number, secret=secret)


def find_backups(source: str | os.PathLike[str], *, name: str | None = None) -> Archives:
    """The backups of a store at a place: ``find_backups(url).verify()`` reads the newest back and proves it."""
    from lukasa.backup import find_archives
    from lukasa.blobs import open_blobs

    clock = SystemClock()
    return find_archives(open_blobs(source), name, clock, SortableIds(clock, random.SystemRandom()))


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
    rules: Rules | None = None,
) -> Memory:
    """Wires a memory onto an open engine."""
    gate = Gate(guarding(rules.pii if rules is not None else {}, POLICIES))
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

    parts = Parts(engine, place, clock, new_id, chance or random.SystemRandom(), recalling, owner, rules)
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


def _folder(place: str | os.PathLike[str] | BinaryIO) -> Path:
    if not isinstance(place, str | os.PathLike):
        raise InvalidInput("This format is a folder of files.", hint="Name a folder.")
    return Path(place)


def _reach(agent: str, scopes: Iterable[str] | None) -> Reach:
    if scopes is not None:
        return Reach.of(scopes)
    return Reach.of((SHARED, agent)) if agent else EVERYTHING


@contextmanager
def _owned(place: Place) -> Iterator[Journal]:
    """The store at a place as its owner sees it, for as long as it is looked at."""
    with open_memory(place.url or place.path) as memory:
        yield memory.journal


def _load_dump(url: str, file: Path) -> None:
    """Puts the snapshot of a server's store into an empty database."""
    from lukasa.engines.postgres import PostgresEngine

    PostgresEngine.restore(url, file)


def _files(place: Place) -> Blobs:
    """What keeps the files of the store at a place."""
    from lukasa.blobs import MemoryBlobs, open_blobs

    root = files_of(place)
    return MemoryBlobs() if root is None else open_blobs(root)
