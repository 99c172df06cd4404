"""Open a store and hand out its services. This module only wires parts together; the rules live in the services."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from lukasa import own_stores
from lukasa.config import (
    default_read_url,
    default_session_id,
    embedder_key,
    embedder_name,
    find_hub,
    is_store_named,
    locate_files,
    locate_store,
    must_embed,
    open_configured_model,
    open_configured_reranker,
    read_profile,
    recall_deadline,
)
from lukasa.core.argument_types import check_arguments
from lukasa.core.clock import Clock, IdMaker, SortableIds, SystemClock, Time
from lukasa.core.outcome import Outcome
from lukasa.core.record import Key
from lukasa.core.scope import FULL_REACH, SHARED, Reach
from lukasa.errors import InvalidInput
from lukasa.jobs import Jobs
from lukasa.journal import Journal
from lukasa.journal.gate import Gate, KindSpec, override_pii
from lukasa.journal.journal import with_file_deletion
from lukasa.models.embedder import Embedder
from lukasa.storage.engine import Engine, LogCompactionResult, Progress, VerifyReport
from lukasa.storage.engines import EngineOptions, open_engine
from lukasa.storage.files import check_output_place, delete_copies, open_output_file
from lukasa.storage.location import StoreLocation
from lukasa.transfer.layouts import LAYOUTS, SERVICE_LAYOUTS, LayoutImportResult, load_layout, load_service_layout

if TYPE_CHECKING:
    from lukasa.context import Conversations
    from lukasa.experience import (
        Briefing,
        Consolidation,
        Continuity,
        Episodes,
        Handoffs,
        Knowledge,
        Ledgers,
        Lessons,
        Skills,
        TaskMetrics,
    )
    from lukasa.experience.briefing import RelevantMemories
    from lukasa.forecasts import Forecasts
    from lukasa.memory_graph import MemoryGraph
    from lukasa.network import Network, NetworkHub
    from lukasa.proposals import Proposals
    from lukasa.recall.memories import MemorySource
    from lukasa.recall.recall import Recall
    from lukasa.recall.vector_index import VectorIndex
    from lukasa.sessions import Sessions
    from lukasa.storage.archive import Archives, Manifest
    from lukasa.storage.files import FileStore
    from lukasa.transfer.backup import RestoreResult
    from lukasa.transfer.jsonl import LogImportResult
    from lukasa.transfer.sources.importer import SourceImportResult
    from lukasa.trust import Trust, TrustLookup, TrustSettings
    from lukasa.vault import Vault, VaultSettings


@dataclass(frozen=True, slots=True)
class StoreParts:
    """The parts of one open store that every caller's services share."""

    engine: Engine
    location: StoreLocation
    clock: Clock
    new_id: IdMaker
    rng: random.Random
    open_vector_index: Callable[[], VectorIndex]
    """Returns the vectors of the store; all callers share them."""
    open_trust_lookup: Callable[[], TrustLookup]
    vault_settings: VaultSettings | None = None
    trust_settings: TrustSettings | None = None


Arguments = Callable[["Memory", StoreParts], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Service:
    """One service of a memory: the package that declares its kinds, its class there, and the arguments of that class."""

    package: str
    class_name: str
    arguments: Arguments = lambda memory, parts: (memory.valid_journal, parts.clock)


def _open_network(memory: Memory, _endpoint: str = "") -> Network | None:
    """Return the network of a caller: the hub of the environment, or that in the store if the caller may use the shared scope."""
    if (found := find_hub()) is not None:
        from lukasa.api_connection import ApiConnection
        from lukasa.network.http import HttpNetwork

        return HttpNetwork(ApiConnection(*found), memory.valid_journal)
    reach = memory.journal.reach
    return memory.hub if reach.reads(SHARED) and reach.writes(SHARED) else None


def _context_arguments(memory: Memory, parts: StoreParts) -> tuple[Any, ...]:
    model = open_configured_model()
    journal = memory.journal.with_valid_bodies(skip_damaged=False)
    return journal, lambda: memory.recall, parts.clock, parts.new_id, model, open_configured_model


def _sessions_arguments(memory: Memory, parts: StoreParts) -> tuple[Any, ...]:
    files, network = partial(_open_files, parts.location), partial(_open_network, memory)
    journal = memory.journal.with_valid_bodies(skip_damaged=False)
    return journal, parts.clock, parts.new_id, files, network, default_session_id, lambda: memory.forecasts


def _forecasts_arguments(memory: Memory, parts: StoreParts) -> tuple[Any, ...]:
    network = _open_network(memory)
    return memory.valid_journal, parts.clock, parts.new_id, network, lambda: memory.sessions.configuration()


def _trust_arguments(memory: Memory, parts: StoreParts) -> tuple[Any, ...]:
    def embedder() -> Embedder:
        return memory.recall.index.embedder.embedder

    lookup, settings = parts.open_trust_lookup(), parts.trust_settings
    return memory.valid_journal, parts.clock, parts.new_id, parts.rng, embedder, lookup, settings


def _count_memories(engine: Engine) -> int:
    """Count the active memories of the whole vault, in all scopes."""
    with engine.snapshot(FULL_REACH, single_query=True) as reader:
        return sum(row.live for row in reader.tally() if row.kind == "memory")


SERVICES: dict[str, Service] = {
    "consolidate": Service(
        "lukasa.experience",
        "Consolidation",
        lambda memory, parts: (
            memory.valid_journal,
            parts.new_id,
            open_configured_model(),
            lambda: parts.open_vector_index().choose_embedder().embedder,
        ),
    ),
    "context": Service("lukasa.context", "Conversations", _context_arguments),
    "continuity": Service(
        "lukasa.experience", "Continuity", lambda memory, parts: (memory.valid_journal, memory.recall, parts.clock)
    ),
    "episodes": Service("lukasa.experience", "Episodes"),
    "forecasts": Service("lukasa.forecasts", "Forecasts", _forecasts_arguments),
    "graph": Service("lukasa.memory_graph", "MemoryGraph", lambda memory, _: (memory.valid_journal,)),
    "handoffs": Service("lukasa.experience", "Handoffs"),
    "hub": Service(
        "lukasa.network",
        "NetworkHub",
        lambda memory, parts: (memory.valid_journal, parts.clock, parts.open_trust_lookup()),
    ),
    "knowledge": Service(
        "lukasa.experience",
        "Knowledge",
        lambda memory, parts: (
            memory.valid_journal,
            parts.clock,
            parts.new_id,
            lambda: parts.open_vector_index().choose_embedder().embedder,
        ),
    ),
    "ledgers": Service("lukasa.experience", "Ledgers"),
    "lessons": Service("lukasa.experience", "Lessons"),
    "metrics": Service("lukasa.experience", "TaskMetrics"),
    "proposals": Service("lukasa.proposals", "Proposals"),
    "recall": Service(
        "lukasa.recall",
        "Recall",
        lambda memory, parts: (
            memory.valid_journal,
            parts.open_vector_index(),
            parts.clock,
            parts.open_trust_lookup(),
            open_configured_reranker(),
        ),
    ),
    "sessions": Service("lukasa.sessions", "Sessions", _sessions_arguments),
    "skills": Service("lukasa.experience", "Skills"),
    "trust": Service("lukasa.trust", "Trust", _trust_arguments),
    "vault": Service(
        "lukasa.vault",
        "Vault",
        lambda memory, parts: (
            memory.valid_journal,
            lambda: memory.recall,
            parts.clock,
            parts.rng,
            parts.vault_settings,
            partial(_count_memories, parts.engine),
        ),
    ),
}
"""Every service of a memory by its attribute. A new service is its package and one line here."""


def declared_kinds() -> dict[str, KindSpec]:
    """Collect the kinds of record that the services declare."""
    packages = [
        "lukasa.integrations",
        "lukasa.jobs",
        "lukasa.transfer",
        *(service.package for service in SERVICES.values()),
    ]
    return {kind: spec for package in packages for kind, spec in import_module(package).KINDS.items()}


@check_arguments
class Memory:
    """An open store as one caller sees it.

    The services are built when they are first used. A memory made by ``as_agent``, and one that a job gets, shares the
    engine of another memory and does not close it.
    """

    journal: Journal
    """The log under all services: reads, writes, history, undo, quarantine, erasure."""
    valid_journal: Journal
    """The same log without records whose body is not as their kind declares; services read it."""
    jobs: Jobs
    """Background work."""
    consolidate: Consolidation
    """Draw knowledge from episodes: ``memory.consolidate(dry_run=True)``."""
    context: Conversations
    """Conversations: turns that are never lost, in views that never overflow."""
    continuity: Continuity
    """The file CONTINUITY.md, kept current."""
    episodes: Episodes
    """What happened, task by task."""
    forecasts: Forecasts
    """Predictions: stored, signalled, resolved and scored."""
    graph: MemoryGraph
    """The knowledge graph of the reference MCP memory server: entities, observations, relations."""
    handoffs: Handoffs
    """Work passed from one agent to another."""
    hub: NetworkHub
    """The network of the agents that share this store."""
    knowledge: Knowledge
    """Patterns, anti-patterns and facts, and the links between them."""
    ledgers: Ledgers
    """The progress of each agent."""
    lessons: Lessons
    """One-sentence learnings of sessions, counted across them."""
    metrics: TaskMetrics
    """Time, agents, retries and rewards of tasks."""
    proposals: Proposals
    """What agents would change of the owner's records."""
    recall: Recall
    """Answer a question from everything the caller may read: ``memory.recall("When is the release?")``."""
    sessions: Sessions
    """Agent state that survives crashes: ``memory.sessions.start("demo")``."""
    skills: Skills
    """Procedures as Markdown."""
    trust: Trust
    """Dissents, overrides, and how far each agent is trusted."""
    vault: Vault
    """Curated memory behind a write gate: ``memory.vault.add_memory("…", "shared", "mission")``."""

    def __init__(self, parts: StoreParts, journal: Journal, jobs: Jobs, *, shares_engine: bool = False) -> None:
        self._parts = parts
        self._shares_engine = shares_engine
        self.place = parts.location
        self.journal = with_file_deletion(journal, self._delete_files)
        self.valid_journal = journal.with_valid_bodies()
        self.jobs = jobs

    def _delete_files(self, keys: Sequence[Key], subject: str | None, exact: bool) -> tuple[str, ...]:
        """Delete the files of erased sessions, those that name a subject, and copies that were left next to the store."""
        names = self.sessions.erase_files(*keys, subject=subject, exact=exact)
        return (*names, *(() if self.place.path is None else delete_copies(self.place.path)))

    if not TYPE_CHECKING:  # a misspelt method is an error for type checkers

        def __getattr__(self, name: str) -> Any:
            """Build a service when it is first used."""
            service = SERVICES.get(name)
            if service is None:
                raise AttributeError(f"A memory has no attribute {name!r}.")
            built = getattr(import_module(service.package), service.class_name)(*service.arguments(self, self._parts))
            setattr(self, name, built)
            return built

    def __repr__(self) -> str:
        return f"<Memory of {self.journal}>"

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *SERVICES})

    def remember(
        self,
        text: str,
        *,
        scope: str | None = None,
        category: str = "general",
        topic: str | None = None,
        tags: Iterable[str] = (),
        distinct_from: str | Iterable[str] = (),
        expires_at: Time | None = None,
    ) -> Outcome:
        """Store a fact in the vault. The outcome is true when the fact is stored.

        A text that repeats a memory is refused; the refusal names the memory. What an agent stores is a register, which others
        can corroborate; the owner's word is canon. ``memory.vault`` has more options.

        Args:
            text: The fact, in plain words.
            scope: The scope; default: the shared one.
            category: A word that groups such entries.
            topic: A word for what the fact is about; the next fact with the same topic and scope replaces it.
            tags: Words to find it by; recall filters with ``labels=["tag=…"]``.
            distinct_from: The ids of memories that the text does not repeat, although it looks like it.
            expires_at: From this time on recall and prompts leave it out.

        Example:
            memory.remember("We deploy on Tuesdays.", topic="deploy day", tags=["ops"])
        """
        fields: dict[str, Any] = {"topic_id": topic, "tags": tags, "expires_at": expires_at}
        return self.vault.add_memory(text, scope or SHARED, category, distinct_from=distinct_from, **fields)

    def confirm(self, id: str, *, scope: str | None = None, expires_at: Time | None = None) -> Outcome:
        """Record that a memory of the vault still holds. Prompt blocks then say when it was last confirmed.

        Reading a memory never confirms it.

        Args:
            id: The id of the memory.
            scope: The scope; default: wherever the caller finds it.
            expires_at: From this time on recall and prompts leave it out.

        Example:
            kept = memory.remember("We deploy on Tuesdays.").unwrap()
            memory.confirm(kept.id)
        """
        return self.vault.confirm(id, scope=scope, expires_at=expires_at)

    def forget(self, id: str, *, scope: str | None = None) -> Outcome:
        """Delete a memory of the vault by its id. Its history stays; ``memory.journal.erase`` removes that too.

        Args:
            id: The id of the memory.
            scope: The scope; default: wherever the caller finds it.

        Example:
            kept = memory.remember("We deploy on Tuesdays.").unwrap()
            memory.forget(kept.id)
        """
        return self.vault.delete(id, scope=scope)

    def retrieve_relevant_memory(self, goal: str, k: int = 5) -> RelevantMemories:
        """Return the patterns, episodes and skills that matter for a goal, best first.

        Args:
            goal: What the task is to achieve.
            k: How many of each to return at most.

        Example:
            memory.knowledge.add_pattern("Run the migrations before the deploy")
            memory.retrieve_relevant_memory("deploy", k=3)
        """
        from lukasa.experience.briefing import find_relevant

        return find_relevant(self.valid_journal, self.recall, self.skills, self._parts.clock.now(), goal, k)

    def before_task(
        self, task: str | Mapping[str, Any], *, budget: int | None = 1_500, include: Iterable[MemorySource] = ()
    ) -> Briefing:
        """Collect what is known that matters for a task and put it into the task's context, lasting facts first.

        Args:
            task: The task in words, or a mapping with a ``goal``.
            budget: The most tokens that the result may take.
            include: Where else to look: ``vault``, ``knowledge``, ``conversations``.

        Example:
            memory.remember("We deploy on Tuesdays.")
            memory.before_task("Plan the next deploy", budget=1000, include=["vault"])
        """
        from lukasa.experience.briefing import build_briefing

        return build_briefing(
            self.valid_journal, self.recall, self.skills, self._parts.clock.now(), task, budget=budget, include=include
        )

    def as_agent(self, agent: str = "", scopes: Iterable[str] | None = None, *, read_only: bool = False) -> Memory:
        """Return a memory of the same store for another caller; closing it leaves the store open. Only the owner may do this.

        Args:
            agent: The name of the caller.
            scopes: The scopes that it may use; default: the shared one and its own.
            read_only: Let the caller write no scope.

        Example:
            orion = memory.as_agent("orion")
            orion.remember("I review pull requests.", scope="orion")
        """
        reach = _build_reach(agent, scopes)
        if read_only:
            reach = Reach(reach.readable, frozenset())
        return self._with_journal(self.journal.with_reach(reach, agent))

    def for_request(self, key: str, fingerprint: bytes) -> Memory:
        """Return a memory for one request: when it is repeated with the same key, its first write raises ``RepeatedRequest``.

        Closing this memory leaves the store open.

        Args:
            key: The key of the request.
            fingerprint: A digest of the request; a key that was used for another request is refused.
        """
        return self._with_journal(self.journal.for_request(key, fingerprint))

    def _with_journal(self, journal: Journal) -> Memory:
        return Memory(self._parts, journal, self.jobs.seen_by(journal.with_valid_bodies()), shares_engine=True)

    def verify(self, progress: Progress | None = None) -> VerifyReport:
        """Check every log entry against its digest and every index against the log.

        Args:
            progress: Called with the work done and the total.

        Example:
            assert memory.verify().sound
        """
        return self.journal.verify(progress)

    def compact(self, progress: Progress | None = None) -> LogCompactionResult:
        """Remove superseded versions and free their space.

        Args:
            progress: Called with the work done and the total.

        Example:
            memory.compact()
        """
        return self.journal.compact(progress=progress)

    def export(
        self,
        target: str | os.PathLike[str] | BinaryIO,
        progress: Progress | None = None,
        *,
        format: str = "jsonl",
        scope: str = SHARED,
        replace: bool = True,
    ) -> int:
        """Write the log as JSONL and return the number of versions. A plain file is replaced atomically, unless forbidden.

        Another ``format`` writes one scope in another file format (``loki``, ``voxsigil``, ``context``, ``trust``: a
        folder; ``vault``, ``memory-graph``: a file) and returns the number of records.

        Args:
            target: The file or folder to write, or an open binary file.
            progress: Called with the work done and the total.
            format: ``jsonl``, or a file format of one scope: ``loki``, ``voxsigil``, ``context``, ``trust``, ``vault``,
                ``memory-graph``.
            scope: The scope, for a format of one scope.
            replace: Replace a file that is there already.

        Example:
            memory.export(folder / "log.jsonl")
        """
        if format != "jsonl":
            check_output_place(folder := _require_folder(target), replace=replace)
        if format == "vault":
            from lukasa.transfer.layouts.vault_jsonl import export_vault

            with open_output_file((folder / "vault.jsonl" if folder.is_dir() else folder).absolute()) as file:
                return export_vault(self.journal, file, progress)
        if format in SERVICE_LAYOUTS:
            service, layout = load_service_layout(format)
            return layout.write_folder(getattr(self, service), folder, scope)
        if format != "jsonl":
            return load_layout(format).write(self.valid_journal, folder, scope)
        from lukasa.transfer.jsonl import export_log

        if not isinstance(target, str | os.PathLike):
            return export_log(self.journal, target, progress)
        path = Path(target).absolute()
        if self.place.path is not None and path.exists() and path.samefile(self.place.path):
            raise InvalidInput(f"{path} is the store itself.", hint="Export to another file.")
        with open_output_file(path, replace=replace) as file:
            return export_log(self.journal, file, progress)

    def import_(
        self,
        source: str | os.PathLike[str] | BinaryIO,
        progress: Progress | None = None,
        *,
        format: str = "jsonl",
        scope: str = SHARED,
    ) -> LogImportResult | LayoutImportResult | SourceImportResult:
        """Import an exported log. Entries that are already stored are skipped, so it can be run again.

        Another ``format`` imports another file format (``loki``, ``voxsigil``, ``context``, ``vault``, ``trust``,
        ``memory-graph``) or the memories of another program (``lukasa.transfer.sources`` lists them) into one scope.

        Args:
            source: The file or folder to read, or an open binary file.
            progress: Called with the work done and the total.
            format: The file format: ``jsonl``, one of those above, or the format of another program.
            scope: The scope to import into.

        Example:
            memory.export(folder / "log.jsonl")
            memory.import_(folder / "log.jsonl")
        """
        if format in SERVICE_LAYOUTS:
            service, layout = load_service_layout(format)
            return layout.read_folder(getattr(self, service), _require_folder(source), scope)
        if format in LAYOUTS:
            parts, folder = self._parts, _require_folder(source)
            return load_layout(format).read(self.valid_journal, parts.clock, parts.new_id, folder, scope)
        if format != "jsonl":
            return self._import_source(format, _require_folder(source), scope, progress)
        from lukasa.transfer.jsonl import import_log

        if isinstance(source, str | os.PathLike):
            with Path(source).open("rb") as file:
                return import_log(self.journal, file, progress)
        return import_log(self.journal, source, progress)

    def _import_source(self, format: str, source: Path, scope: str, progress: Progress | None) -> SourceImportResult:
        from lukasa.transfer.sources import SOURCE_FORMATS, read_source
        from lukasa.transfer.sources.importer import SourceImport

        if format not in SOURCE_FORMATS:
            load_layout(format, SOURCE_FORMATS)
        settings = self._parts.vault_settings
        pii = {} if settings is None else settings.pii
        task = SourceImport(format, self.valid_journal, self.vault, self.context, scope, pii)
        return task.run(read_source(format, source), progress)

    def backup(
        self, target: str | os.PathLike[str], *, secret: str = "", keep: int = 12, alone: bool = False
    ) -> Manifest | None:
        """Copy the store to a new file, or back it up to a URL and verify the backup by reading it.

        The copy of a PostgreSQL store is its exported log, as ``export`` writes it.
        A backup at a URL holds the store and the files of its sessions.

        Args:
            target: A new file, or a URL such as ``file:///backups`` or ``s3://bucket/path``.
            secret: The passphrase that encrypts the backup.
            keep: How many backups stay there.
            alone: Promise that no other process backs up to that bucket.

        Example:
            memory.backup(folder / "copy.db")
        """
        from lukasa.storage.file_stores import is_url, open_file_store

        if not is_url(target):
            self.journal.backup(Path(target))
            return None
        from lukasa.transfer.backup import back_up_store

        parts = self._parts
        return back_up_store(
            self.journal,
            parts.location,
            self.sessions.blobs,
            open_file_store(target),
            _open_to_restore,
            parts.clock,
            parts.new_id,
            secret=secret,
            keep=keep,
            alone=alone,
        )

    def describe(self) -> Mapping[str, Any]:
        """Return facts about the store: location, engine, sizes, embedder.

        Example:
            memory.describe()["embedder"]
        """
        found = self._parts.open_vector_index().describe()
        model = f" ({found['model']})" if found["model"] else ", not used yet"
        return {**self._parts.engine.describe(), "embedder": f"{found['embedder']}{model}"}

    def close(self) -> None:
        """Close the store. A memory made by ``as_agent`` leaves the store open.

        Example:
            memory.close()
        """
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


@check_arguments
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
    read_only: bool = False,
    embedder: str | Embedder | None = None,
    profile: str | os.PathLike[str] | VaultSettings | None = None,
    trust_settings: TrustSettings | None = None,
    progress: Progress | None = None,
) -> Memory:
    """Open a store. It is created if missing, unless ``create`` is false. With ``read_only`` nothing is ever written.

    Without ``agent`` and ``scopes`` the caller is the owner and may use every scope. An agent is the author of what it
    writes.

    Args:
        store: A file, or the URL of a database; default: ``LUKASA_STORE``, else the file of the user.
        agent: Who calls; default: the owner of the store.
        scopes: The scopes that the caller may use; default: those of the profile, else the shared one and the agent's
            own.
        clock: Another clock, for tests.
        new_id: Another source of ids, for tests.
        rng: Another source of random numbers, for tests.
        timeout: How many seconds to wait for a busy store.
        read_url: A PostgreSQL replica to read from; reads wait until it has caught up.
        create: Create the store if it is missing.
        read_only: Never write.
        embedder: What computes the vectors of a store that has none yet, such as ``minilm`` or ``static``; default: the
            best one installed.
        profile: A YAML file with the settings of the vault, or the settings; default: the file that ``LUKASA_PROFILE``
            names.
        trust_settings: Switches single rules of trust off.
        progress: Called with the work done and the total while an older store is migrated.

    Example:
        with lukasa.open(folder / "agents.db", agent="orion") as memory:
            memory.remember("We deploy on Tuesdays.")
    """
    rules = read_profile(profile)
    if scopes is None and rules is not None and rules.scopes is not None:
        scopes = rules.scopes
    place = locate_store(store)
    is_new = False
    if place.path is not None and own_stores.is_project_store(place.path):
        if not is_store_named(store):
            own_stores.require_own_store(place.path)
        is_new = not place.path.exists()
    clock = clock or SystemClock()
    rng = rng or random.SystemRandom()
    new_id = new_id or SortableIds(clock, rng)
    kinds = declared_kinds()
    engine = open_engine(
        place,
        EngineOptions(
            clock=clock,
            timeout=timeout,
            read_url=read_url or default_read_url(),
            create=create and not read_only,
            read_only=read_only,
            near_duplicate_kinds=frozenset(kind for kind, spec in kinds.items() if spec.near_duplicates),
            group_label="session",
            progress=progress,
            before_naming=own_stores.note_coming_store if is_new else None,
        ),
    )
    if is_new and place.path is not None:
        own_stores.note_new_store(place.path)
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
        trust_settings=trust_settings,
    )


@check_arguments
def restore_store(
    source: str | os.PathLike[str],
    into: str | os.PathLike[str],
    *,
    name: str | None = None,
    number: int | None = None,
    secret: str = "",
) -> RestoreResult:
    """Restore a store from a backup to a location that has none, and prove that the log is the same.

    ``name`` and ``number`` select the backup; without them, the newest of the only store that is backed up there.

    Args:
        source: The folder or the URL that holds the backups.
        into: Where to restore; there must be no store yet.
        name: The name of the store, if several are backed up there.
        number: The number of the backup; default: the newest.
        secret: The passphrase of the backup.

    Example:
        memory.backup(f"file://{folder}/backups")
        lukasa.restore(f"file://{folder}/backups", folder / "restored.db")
    """
    from lukasa.transfer.backup import restore

    place = locate_store(into)
    root = locate_files(place)
    files = None if root is None or "://" in root else Path(root)
    archives = find_backups(source, name=name)
    result = restore(archives, place, files, _open_to_restore, number=number, secret=secret)
    if place.path is not None and own_stores.is_project_store(place.path):
        own_stores.note_new_store(place.path)
    return result


@check_arguments
def find_backups(source: str | os.PathLike[str], *, name: str | None = None) -> Archives:
    """Return the backups of a store at a location: ``find_backups(url).verify()`` reads the newest one and proves it.

    Args:
        source: The folder or the URL that holds the backups.
        name: The name of the store, if several are backed up there.

    Example:
        memory.backup(f"file://{folder}/backups")
        lukasa.find_backups(f"file://{folder}/backups").verify()
    """
    from lukasa.storage.file_stores import open_file_store
    from lukasa.transfer.backup import find_archives

    clock = SystemClock()
    return find_archives(open_file_store(source), name, clock, SortableIds(clock, random.SystemRandom()))


@check_arguments
def audit_source(
    source: str | os.PathLike[str], *, format: str = "", progress: Progress | None = None
) -> SourceImportResult:
    r"""Return what an import of another program's memories would store and refuse. Nothing is stored.

    Without ``format`` the content tells it. Each entry is judged by itself and against the others of the source, with the
    settings of the profile but for the capacity.

    Args:
        source: The file or folder of the other program.
        format: Its format; default: the content tells it.
        progress: Called with the work done and the total.

    Example:
        (folder / "notes.md").write_text("# Deploys\n\n- We deploy on Tuesdays.\n")
        lukasa.audit_source(folder, format="basic-memory").added
    """
    from lukasa.transfer.sources import detect_format, read_source
    from lukasa.transfer.sources.importer import SourceImport
    from lukasa.vault import VaultSettings

    path = Path(source)
    name = format or detect_format(path)
    settings = replace(read_profile(None) or VaultSettings(), capacity=1_000_000_000, scopes=None)
    with open_memory("memory:", profile=settings) as trial:
        task = SourceImport(name, trial.valid_journal, trial.vault, trial.context, SHARED, settings.pii)
        return task.run(read_source(name, path), progress)


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
    trust_settings: TrustSettings | None = None,
) -> Memory:
    """Build a memory on an open engine."""
    kinds = override_pii(declared_kinds(), {} if vault_settings is None else vault_settings.pii)
    if vault_settings is not None and vault_settings.agents_write_canon:
        kinds["memory"] = replace(kinds["memory"], agent_check=None)
    gate = Gate(kinds)
    owner = Journal(engine, gate, FULL_REACH, clock, new_id)  # for lookups inside services, never for a caller
    index: list[VectorIndex] = []  # built at the first recall because it imports numpy

    def open_vector_index() -> VectorIndex:
        from lukasa.recall.vector_index import VectorIndex

        if not index:
            options: Any = {"default": embedder_name(), "key": embedder_key(), "fail_closed": must_embed()}
            index.append(VectorIndex(owner.with_valid_bodies(), embedder, deadline=recall_deadline(), **options))
        return index[0]

    def open_trust_lookup() -> TrustLookup:
        from lukasa.trust import TrustLookup

        return TrustLookup(owner.with_valid_bodies(), clock)

    def trust_of(authors: Iterable[str]) -> Mapping[str, float]:
        lookup, names = open_trust_lookup(), list(authors)
        return dict.fromkeys(names, lookup.initial) | lookup(names)

    def open_for_job(agent: str, reach: Reach, jobs: Jobs) -> Memory:
        journal = Journal(engine, gate, reach, clock, new_id, author=agent, trust_of=trust_of)
        return Memory(parts, journal, jobs.seen_by(journal.with_valid_bodies()), shares_engine=True)

    parts = StoreParts(
        engine, location, clock, new_id, rng or random.SystemRandom(), open_vector_index, open_trust_lookup,
        vault_settings, trust_settings,
    )  # fmt: skip
    journal = Journal(engine, gate, reach, clock, new_id, author=agent, trust_of=trust_of)
    jobs = Jobs(journal.with_valid_bodies(), open_for_job, clock, new_id, url=location.url, timeout=timeout)
    return Memory(parts, journal, jobs)


def _require_folder(path: str | os.PathLike[str] | BinaryIO) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput("This format is a folder of files.", hint="Name a folder.")
    return Path(path)


def _build_reach(agent: str, scopes: Iterable[str] | None) -> Reach:
    if scopes is not None:
        return Reach.of(scopes)
    return Reach.of((SHARED, agent)) if agent else FULL_REACH


@contextmanager
def _open_to_restore(store: str | Path) -> Iterator[Journal]:
    """Open a store as its owner, with a gate that accepts personal data: it was checked when it was first written."""
    with open_memory(store) as memory:
        parts, kinds = memory._parts, declared_kinds()
        gate = Gate(override_pii(kinds, dict.fromkeys(kinds, "allow")))
        yield Journal(parts.engine, gate, FULL_REACH, parts.clock, parts.new_id)


def _open_files(location: StoreLocation) -> FileStore:
    """Open the file store that belongs to a store."""
    from lukasa.storage.file_stores import open_file_store
    from lukasa.storage.memory_files import MemoryFiles

    root = locate_files(location)
    return MemoryFiles() if root is None else open_file_store(root)
