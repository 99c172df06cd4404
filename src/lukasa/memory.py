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

from lukasa.clock import Clock, IdMaker, SortableIds, SystemClock
from lukasa.config import READ_VARIABLE, locate_files, locate_store, read_profile
from lukasa.errors import InvalidInput, MissingExtra, StoreMissing
from lukasa.gate import Gate, KindPolicy, RecordLimits, apply_pii_handlings
from lukasa.jobs import Jobs
from lukasa.journal import Journal
from lukasa.models.embedder import Embedder
from lukasa.scope import FULL_REACH, SHARED, Reach
from lukasa.storage.engine import Engine, LogCompactionResult, Progress, VerifyReport
from lukasa.storage.files import atomic_write
from lukasa.storage.location import StoreLocation
from lukasa.transfer import jsonl
from lukasa.transfer.layouts import LayoutImportResult, load_layout

if TYPE_CHECKING:
    from lukasa.context import Conversations
    from lukasa.experience.briefing import Briefing, RelevantMemories
    from lukasa.experience.consolidation import Consolidation
    from lukasa.experience.continuity import Continuity
    from lukasa.experience.episodes import Episodes
    from lukasa.experience.handoffs import Handoffs
    from lukasa.experience.knowledge import Knowledge
    from lukasa.experience.ledgers import Ledgers
    from lukasa.experience.metrics import TaskMetrics
    from lukasa.experience.skills import Skills
    from lukasa.forecasts import Forecasts
    from lukasa.memory_graph import MemoryGraph
    from lukasa.network import Network
    from lukasa.recall.recall import Recall
    from lukasa.recall.vector_index import VectorIndex
    from lukasa.sessions import Sessions
    from lukasa.storage.archive import Archives, Manifest
    from lukasa.storage.files import FileStore
    from lukasa.transfer.backup import RestoreResult
    from lukasa.trust import Trust
    from lukasa.vault import Vault, VaultSettings

_STATE_POLICY = KindPolicy(
    RecordLimits(record_bytes=17_000_000)
)  # what a session's state may hold, with what goes around it
_TURN_POLICY = KindPolicy(RecordLimits(record_bytes=32_000_000))  # what somebody says is kept whole, however long
KIND_POLICIES = {
    "turn": _TURN_POLICY,
    **dict.fromkeys(("checkpoint", "session_delta", "session_archive"), _STATE_POLICY),
}


@dataclass(frozen=True, slots=True)
class StoreParts:
    """What the rooms of one store are made of, whoever enters them."""

    engine: Engine
    location: StoreLocation
    clock: Clock
    new_id: IdMaker
    rng: random.Random
    open_recall: Callable[[Journal], Recall]
    owner_journal: Journal
    """The store's own view of itself: what rooms must know beyond a caller's reach, and never show as it is."""
    vault_settings: VaultSettings | None = None


class Memory:
    """An open store, seen with one caller's reach. One that is lent, as jobs get it, closes nothing."""

    SERVICES: ClassVar[frozenset[str]] = frozenset(
        {
            "journal", "jobs", "context", "continuity", "episodes", "forecasts", "graph", "handoffs", "knowledge",
            "ledgers", "metrics", "sessions", "skills", "trust", "vault",
        }
    )  # fmt: skip
    """The attributes that have methods of their own."""

    def __init__(self, parts: StoreParts, journal: Journal, jobs: Jobs, *, shares_engine: bool = False) -> None:
        self._parts = parts
        self._shares_engine = shares_engine
        self.place = parts.location
        self.journal = journal
        self.jobs = jobs

    @cached_property
    def recall(self) -> Recall:
        """Finds what answers a question: ``memory.recall("When is the release?")``."""
        return self._parts.open_recall(self.journal)

    @cached_property
    def context(self) -> Conversations:
        """Sessions: turns that are never lost, in views that never overflow."""
        from lukasa.context import Conversations
        from lukasa.models.llm import open_language_model

        parts = self._parts
        return Conversations(self.journal, lambda: self.recall, parts.clock, parts.new_id, model=open_language_model())

    @cached_property
    def vault(self) -> Vault:
        """Curated memory behind a write gate: ``memory.vault.add_memory("…", "shared", "mission")``."""
        from lukasa.vault import Vault

        parts = self._parts
        return Vault(self.journal, lambda: self.recall, parts.clock, parts.rng, parts.vault_settings)

    @cached_property
    def sessions(self) -> Sessions:
        """Sessions whose state survives crashes: ``memory.sessions.start("demo")``."""
        from lukasa.sessions import Sessions

        parts = self._parts
        return Sessions(self.journal, parts.clock, parts.new_id, lambda: _open_files(parts.location), self._open_hub())

    @cached_property
    def forecasts(self) -> Forecasts:
        """Predictions that are kept, signalled, resolved and scored."""
        from lukasa.forecasts import Forecasts

        return Forecasts(self.journal, self._parts.clock, self._parts.new_id, self._open_hub())

    def _open_hub(self) -> Network | None:
        """The agents that share this store, for those who reach the shared scope."""
        from lukasa.network.hub import NetworkHub

        reach = self.journal.reach
        return NetworkHub(self.journal, self._parts.clock) if reach.reads(SHARED) and reach.writes(SHARED) else None

    @cached_property
    def episodes(self) -> Episodes:
        """What happened, task by task."""
        from lukasa.experience.episodes import Episodes

        return Episodes(self.journal, self._parts.clock)

    @cached_property
    def knowledge(self) -> Knowledge:
        """Patterns, anti-patterns and facts, and the links between them."""
        from lukasa.experience.knowledge import Knowledge

        return Knowledge(self.journal, self._parts.clock, self._parts.new_id)

    @cached_property
    def skills(self) -> Skills:
        """How things are done."""
        from lukasa.experience.skills import Skills

        return Skills(self.journal, self._parts.clock)

    @cached_property
    def ledgers(self) -> Ledgers:
        """Where each agent stands."""
        from lukasa.experience.ledgers import Ledgers

        return Ledgers(self.journal, self._parts.clock)

    @cached_property
    def handoffs(self) -> Handoffs:
        """Work passed from one agent to another."""
        from lukasa.experience.handoffs import Handoffs

        return Handoffs(self.journal, self._parts.clock)

    @cached_property
    def metrics(self) -> TaskMetrics:
        """How tasks fare: time, agents, retries, rewards."""
        from lukasa.experience.metrics import TaskMetrics

        return TaskMetrics(self.journal, self._parts.clock)

    @cached_property
    def continuity(self) -> Continuity:
        """The file CONTINUITY.md, kept current."""
        from lukasa.experience.continuity import Continuity

        return Continuity(self.journal, self.recall, self._parts.clock)

    @cached_property
    def graph(self) -> MemoryGraph:
        """The knowledge graph of the reference MCP memory server: entities, observations, relations."""
        from lukasa.memory_graph import MemoryGraph

        return MemoryGraph(self.journal)

    @cached_property
    def consolidate(self) -> Consolidation:
        """Turns episodes into knowledge: ``memory.consolidate(dry_run=True)``."""
        from lukasa.experience.consolidation import Consolidation
        from lukasa.models.llm import open_language_model

        return Consolidation(self.journal, self._parts.new_id, open_language_model())

    def retrieve_relevant_memory(self, goal: str, k: int = 5) -> RelevantMemories:
        """The patterns, episodes and skills that matter for a goal, best first."""
        from lukasa.experience.briefing import find_relevant

        return find_relevant(self.journal, self.recall, self.skills, self._parts.clock.now(), goal, k)

    def before_task(self, task: str | Mapping[str, Any], *, budget: int | None = None) -> Briefing:
        """What is known that matters for a task, put into its context."""
        from lukasa.experience.briefing import build_briefing

        return build_briefing(self.journal, self.recall, self.skills, self._parts.clock.now(), task, budget=budget)

    @cached_property
    def trust(self) -> Trust:
        """Who has been right: dissents, overrides, and the trust that follows from them."""
        from lukasa.trust import Trust
        from lukasa.trust.lookup import TrustLookup

        parts = self._parts
        belief = TrustLookup(parts.owner_journal, parts.clock)
        return Trust(
            self.journal, parts.clock, parts.new_id, parts.rng, lambda: self.recall.index.embedder.embedder, belief
        )

    def as_agent(self, agent: str = "", scopes: Iterable[str] | None = None) -> Memory:
        """The same open store with another caller's reach; it closes nothing. Only the owner may hand it out."""
        journal = self.journal.with_reach(_build_reach(agent, scopes), agent)
        return Memory(self._parts, journal, self.jobs.seen_by(journal), shares_engine=True)

    def verify(self, progress: Progress | None = None) -> VerifyReport:
        """Proves the log whole and the indexes true to it."""
        return self.journal.verify(progress)

    def compact(self, progress: Progress | None = None) -> LogCompactionResult:
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
            return load_layout(format).write(self.journal, _require_folder(target), scope)
        if not isinstance(target, str | os.PathLike):
            return jsonl.export_log(self.journal, target, progress)
        path = Path(target).absolute()
        if self.place.path is not None and path.exists() and path.samefile(self.place.path):
            raise InvalidInput(f"{path} is the store itself.", hint="Export to another file.")
        with atomic_write(path) as file:
            return jsonl.export_log(self.journal, file, progress)

    def import_(
        self,
        source: str | os.PathLike[str] | BinaryIO,
        progress: Progress | None = None,
        *,
        format: str = "jsonl",
        scope: str = SHARED,
    ) -> jsonl.LogImportResult | LayoutImportResult:
        """Takes in an exported log. Lines that are already here are skipped, so it can be run again.

        Another ``format`` takes in the layout of a document (``loki``: a folder) into one scope.
        """
        if format != "jsonl":
            parts, folder = self._parts, _require_folder(source)
            return load_layout(format).read(self.journal, parts.clock, parts.new_id, folder, scope)
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
        from lukasa.storage.file_stores import is_url, open_file_store

        if not is_url(target):
            self.journal.backup(Path(target))
            return None
        from lukasa.transfer.backup import back_up_store

        parts, place = self._parts, open_file_store(target)
        files = self.sessions.blobs
        journal, ids = self.journal, parts.new_id
        return back_up_store(
            journal,
            parts.location,
            files,
            place,
            _open_as_owner,
            parts.clock,
            ids,
            secret=secret,
            keep=keep,
            alone=alone,
        )

    def describe(self) -> Mapping[str, Any]:
        """Facts about the store: place, engine, sizes."""
        return self._parts.engine.describe()

    def close(self) -> None:
        if "vault" in self.__dict__:
            self.vault.close()
        if "sessions" in self.__dict__:
            self.sessions.close()
        if not self._shares_engine:
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
    rng: random.Random | None = None,
    timeout: float = 30.0,
    read_url: str | None = None,
    create: bool = True,
    embedder: str | Embedder | None = None,
    profile: str | os.PathLike[str] | VaultSettings | None = None,
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
    place = locate_store(store)
    clock = clock or SystemClock()
    rng = rng or random.SystemRandom()
    new_id = new_id or SortableIds(clock, rng)
    engine = _open_engine(place, clock, timeout, read_url or os.environ.get(READ_VARIABLE), create=create)
    return build_memory(
        engine,
        place,
        clock,
        new_id,
        rng=rng,
        reach=_build_reach(agent, scopes),
        agent=agent,
        timeout=timeout,
        embedder=embedder,
        vault_settings=rules,
    )


def restore_store(
    source: str | os.PathLike[str],
    into: str | os.PathLike[str],
    *,
    name: str | None = None,
    number: int | None = None,
    secret: str = "",
) -> RestoreResult:
    """Brings a store back from a backup to a place where there is none, and proves that it is the same log.

    ``name`` and ``number`` say which backup; without them, the newest of the only store that is backed up there.
    """
    from lukasa.transfer.backup import restore

    place = locate_store(into)
    root = locate_files(place)
    files = None if root is None or "://" in root else Path(root)
    archives = find_backups(source, name=name)
    return restore(archives, place, files, _open_as_owner, _restore_dump, number=number, secret=secret)


def find_backups(source: str | os.PathLike[str], *, name: str | None = None) -> Archives:
    """The backups of a store at a place: ``find_backups(url).verify()`` reads the newest back and proves it."""
    from lukasa.storage.file_stores import open_file_store
    from lukasa.transfer.backup import find_archives

    clock = SystemClock()
    return find_archives(open_file_store(source), name, clock, SortableIds(clock, random.SystemRandom()))


def build_memory(
    engine: Engine,
    location: StoreLocation,
    clock: Clock,
    new_id: IdMaker,
    *,
    rng: random.Random | None = None,
    reach: Reach = FULL_REACH,
    agent: str = "",
    timeout: float = 30.0,
    embedder: str | Embedder | None = None,
    vault_settings: VaultSettings | None = None,
) -> Memory:
    """Wires a memory onto an open engine."""
    gate = Gate(apply_pii_handlings(vault_settings.pii if vault_settings is not None else {}, KIND_POLICIES))
    owner = Journal(engine, gate, FULL_REACH, clock, new_id)
    index: list[
        VectorIndex
    ] = []  # one for all, made when something is first recalled: it loads what computes with numbers

    def open_recall(journal: Journal) -> Recall:
        from lukasa.recall.recall import Recall
        from lukasa.recall.vector_index import VectorIndex
        from lukasa.trust.lookup import TrustLookup

        if not index:
            index.append(VectorIndex(owner, embedder))
        return Recall(journal, index[0], clock, trust_provider=TrustLookup(owner, clock))

    def open_for_job(agent: str, reach: Reach, jobs: Jobs) -> Memory:
        journal = Journal(engine, gate, reach, clock, new_id, author=agent)
        return Memory(parts, journal, jobs.seen_by(journal), shares_engine=True)

    parts = StoreParts(
        engine, location, clock, new_id, rng or random.SystemRandom(), open_recall, owner, vault_settings
    )
    journal = Journal(engine, gate, reach, clock, new_id, author=agent)
    jobs = Jobs(journal, open_for_job, clock, new_id, url=location.url, timeout=timeout)
    return Memory(parts, journal, jobs)


def _open_engine(
    location: StoreLocation, clock: Clock, timeout: float, read_url: str | None, *, create: bool
) -> Engine:
    if location.engine != "postgresql":
        if not create and location.path is not None and not location.path.exists():
            raise StoreMissing(f"There is no store at {location.path}.")
        from lukasa.storage.sqlite import SqliteEngine

        return SqliteEngine(location.path, clock=clock, timeout=timeout)
    try:
        from lukasa.storage.postgres import PostgresEngine
    except ImportError as error:
        raise MissingExtra(
            "The PostgreSQL engine is not installed.", hint="Run: pip install 'lukasa[postgres]'"
        ) from error
    return PostgresEngine(location.url, clock=clock, timeout=timeout, read_url=read_url or None, create=create)


def _require_folder(path: str | os.PathLike[str] | BinaryIO) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput("This format is a folder of files.", hint="Name a folder.")
    return Path(path)


def _build_reach(agent: str, scopes: Iterable[str] | None) -> Reach:
    if scopes is not None:
        return Reach.of(scopes)
    return Reach.of((SHARED, agent)) if agent else FULL_REACH


@contextmanager
def _open_as_owner(location: StoreLocation) -> Iterator[Journal]:
    """The store at a place as its owner sees it, for as long as it is looked at."""
    with open_memory(location.url or location.path) as memory:
        yield memory.journal


def _restore_dump(url: str, file: Path) -> None:
    """Puts the snapshot of a server's store into an empty database."""
    from lukasa.storage.postgres import PostgresEngine

    PostgresEngine.restore(url, file)


def _open_files(location: StoreLocation) -> FileStore:
    """What keeps the files of the store at a place."""
    from lukasa.storage.file_stores import open_file_store
    from lukasa.storage.memory_files import MemoryFiles

    root = locate_files(location)
    return MemoryFiles() if root is None else open_file_store(root)
