"""Run the same calls on two equal stores, one through ``lukasa`` and one through ``lukasa.aio``.

    python aio_parity.py FOLDER

Writes what each library returned and exported to ``FOLDER/sync`` and ``FOLDER/awaited``, and the names of the calls that
were awaited to ``FOLDER/calls.txt``. The calls are those of ``tests/frozen/store.py`` and of ``other_calls``.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import inspect
import re
import shutil
import sys
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]


def load_store_script() -> Any:
    """Import tests/frozen/store.py, which also fixes the environment of this process."""
    spec = importlib.util.spec_from_file_location("frozen_store", TESTS / "frozen" / "store.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


store = load_store_script()

import lukasa.aio  # noqa: E402 - after the environment is fixed
from lukasa.core.async_proxy import AsyncCall, AsyncProxy  # noqa: E402
from lukasa.core.record import draft_from, entry_bytes  # noqa: E402
from lukasa.experience import LessonDraft  # noqa: E402
from lukasa.storage.parsed_records import ParsedRecords  # noqa: E402
from lukasa.text.terms import text_pair_keys  # noqa: E402


class BlockingView:
    """A synchronous view of an awaited object: every attribute and call is awaited on an event loop."""

    def __init__(self, target: Any, loop: asyncio.AbstractEventLoop, calls: set[str], class_name: str = "") -> None:
        self._target = target
        self._loop = loop
        self._calls = calls
        self._class_name = class_name

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not isinstance(value, AsyncProxy):
            return value
        resolved = self._run(_await(value))
        if not inspect.isroutine(resolved):
            self._calls.add(f"{type(self._target._resolve()).__name__}.{name}")
        return resolved if is_data(resolved) else BlockingView(value, self._loop, self._calls, self._class_name)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        method = self._run(_await(self._target))
        owner = self._class_name or type(getattr(method, "__self__", method)).__name__
        self._calls.add(f"{owner}.{getattr(method, '__name__', '__call__')}")
        call = self._target(*arguments, **options)
        result = self._run(_await(call))
        if isinstance(result, Iterator):  # created but not started: iterate it as a caller would
            return iter(self._run(_collect(self._target(*arguments, **options))))
        if isinstance(result, contextlib.AbstractContextManager) and not isinstance(result, AsyncProxy):
            return self._entered(call)
        return BlockingView(result, self._loop, self._calls) if isinstance(result, AsyncProxy) else result

    @contextlib.contextmanager
    def _entered(self, call: AsyncCall) -> Iterator[BlockingView]:
        """Enter a snapshot as ``async with`` does."""
        snapshot = self._run(call.__aenter__())
        yield BlockingView(snapshot, self._loop, self._calls, "Reader")
        self._run(call.__aexit__(None, None, None))

    def __enter__(self) -> BlockingView:
        self._run(self._target.__aenter__())
        return self

    def __exit__(self, *error: object) -> None:
        self._run(self._target.__aexit__(*error))

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(coroutine)


async def _await(value: AsyncProxy | AsyncCall) -> Any:
    return await value


async def _collect(call: AsyncCall) -> list[Any]:
    return [item async for item in call]


def is_data(value: Any) -> bool:
    """Tell values from methods, services and live objects."""
    if callable(value) or isinstance(value, AsyncProxy):
        return False
    return not type(value).__module__.startswith("lukasa") or is_dataclass(value) or isinstance(value, tuple)


@contextlib.contextmanager
def open_awaited(path: Path, clock: Any, calls: set[str]) -> Iterator[Any]:
    """Open a store through ``lukasa.aio``, with the options of the synchronous one."""
    loop = asyncio.new_event_loop()
    options = {"clock": clock, "new_id": store.CountingIds(), "embedder": "hash", "rng": store.random.Random(7)}
    memory = loop.run_until_complete(lukasa.aio.open(path, **options))
    with BlockingView(memory, loop, calls) as view:
        yield view
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def other_calls(memory: Any, folder: Path) -> Iterator[Any]:
    """Make the calls that ``store.py`` does not make, and yield their results."""
    yield from experience_calls(memory, folder)
    yield from journal_calls(memory, folder)
    yield from conversation_calls(memory)
    yield from session_calls(memory, folder)
    yield from trust_and_forecast_calls(memory)
    yield from vault_calls(memory)
    yield from store_calls(memory, folder)


def experience_calls(memory: Any, folder: Path) -> Iterator[Any]:
    """Call episodes, knowledge, skills, ledgers, handoffs and the graph."""
    episodes = memory.episodes
    yield episodes.add([{"context": {"goal": "Add a page"}, "outcome": "success"}])
    *_, newest = episodes.list(limit=5)
    yield newest
    yield episodes.list(agent="eng-001"), episodes.list(outcome="failure"), episodes.list(task_id="task-todos")
    yield episodes.list(day="2025-03-10"), episodes.list(since=store.BEGINNING), episodes.get(newest.id)
    (unfinished,) = episodes.list(unfinished=True)
    yield unfinished
    yield episodes.step(unfinished.id, "read_file"), episodes.error(unfinished.id, "Timeout", "slow")
    run = episodes.resume(unfinished.id).unwrap()
    yield run.step("write_file"), run.finish("success"), episodes.finish(unfinished.id, "failure")
    knowledge = memory.knowledge
    pattern, fact = knowledge.patterns()[0], knowledge.facts()[0]
    yield pattern, fact, knowledge.get(pattern.record.id), knowledge.antipatterns(), knowledge.learnings()
    yield knowledge.neighbours(pattern.record.id), knowledge.path(pattern.record.id, fact.record.id)
    yield knowledge.add("fact", {"fact": "The cache runs on port 6379"})
    skill, *_ = memory.skills.list()
    yield skill, memory.skills.get(skill.record.id), memory.skills.search("endpoint")
    skills = folder.parent / "skills"  # the same for both, because a skill remembers its file
    shutil.rmtree(skills, ignore_errors=True)
    skills.mkdir()
    (skills / "page.md").write_text("# Skill: Page\n\n## Steps\n1. Write it\n", "utf-8")
    yield memory.skills.sync(skills)
    yield memory.ledgers.get("eng-001"), memory.ledgers.get("unknown")
    lessons = memory.lessons
    kept = lessons.add("Run the linter before a commit.", about="convention", session="s1").unwrap()
    yield kept, lessons.extend([LessonDraft("The schema stands in one file.")], session="s1")
    yield lessons.list(), lessons.of_session("s1"), lessons.delete(kept.id), memory.metrics.gain().notes
    sent, *_ = memory.handoffs.sent("eng-001")
    yield sent, memory.handoffs.get(sent.id)
    yield memory.handoffs.put({"from_agent": "eng-001", "to_agent": "qa-001", "completed_work": "Wrote the page"})
    graph = memory.graph
    yield graph.read_graph(), graph.open_nodes(["Ben"]), graph.search_nodes("billing"), graph.scope
    yield graph.within("orion").scope, graph.within("orion").read_graph()
    yield memory.continuity.tip()


def journal_calls(memory: Any, folder: Path) -> Iterator[Any]:
    """Call the journal and the reader of a snapshot."""
    journal = memory.journal
    everything = list(journal.read())
    record = next(record for record in everything if record.kind == "note" and record.version > 1)
    yield everything, journal.get(record.key), journal.get(record.key, version=1), journal.history(record.key)
    yield journal.tip(), journal.home_scope, journal.quarantined(), journal.find("plain note")
    yield journal.neighbours(record.key), journal.preview_erase(record.key), journal.preview_restore(record.key)
    parsed = ParsedRecords(lambda record: record.text)
    yield journal.get_parsed(record.key, parsed), journal.read_parsed(lukasa.Query(kinds=("note",)), parsed)
    yield journal.change_stamp() == journal.change_stamp()
    yield journal.append_if(lambda reader: [lukasa.Draft("note", f"{len(reader.read())} records", id="counted")])
    yield journal.append_if(lambda _: lukasa.Refused("full", "The limit is reached."))
    yield journal.put_vectors("test", [(record.seq, 0, [1.0, 0.0])])
    entries = [(entry_bytes(record), record.digest) for record in everything[:3]]
    yield journal.replay(entries), journal.find_imports([record])
    limited = journal.with_reach(lukasa.Reach.of(["orion"]), "orion")
    yield limited.tally(), limited.author, limited.check_author("elysia"), limited.revise(draft_from(record))
    kept, proposals = journal.write("note", "Said by the owner", id="said", scope="orion").record, memory.proposals
    deletion = limited.delete(kept.key)
    change = limited.append(lukasa.Draft("note", "Another word", id="said", scope="orion"))
    yield deletion, change, proposals.list(), proposals.count(), proposals.get(change.details["proposal"])
    yield proposals.refuse(deletion.details["proposal"]), proposals.accept(change.details["proposal"])
    yield journal.for_request("k1", b"a").write("note", "Written once.")
    yield memory.for_request("k2", b"b").remember("Requests are written once.")
    ended = journal.for_request("k1", b"other")
    yield ended.end_request(), ended.write("note", "After the request."), journal.add_to_counter("requests", 1, 60)
    yield journal.list_damaged(), journal.set_aside(), journal.accept_losses()
    with journal.snapshot() as reader:
        yield reader.get(record.key), reader.history(record.key), reader.read(), reader.tally(), reader.tip()
        yield reader.names_at([record.seq])
        yield reader.get_parsed(record.key, parsed), reader.read_parsed(lukasa.Query(kinds=("note",)), parsed)
        yield reader.match_text("plain note"), reader.frequency(["note"]), reader.authors(100)
        yield reader.match_vector("test", [1.0, 0.0]), reader.cosines("test", [1.0, 0.0], [record.seq])
        yield reader.count_without_vectors("test"), reader.without_vectors("test", 3)
        yield reader.neighbours(record.key), reader.descendants([record.key]), reader.texts_at([record.seq])
        yield reader.adjacent_turns(everything, "session")
        keys = text_pair_keys("Deployments happen on Tuesdays only", "shared", "memory")
        yield reader.near_duplicates([keys], "shared", kind="memory", limit_per_key=3)
    yield journal.reindex(), journal.verify()
    yield journal.backup(folder / "journal.db"), journal.compact()


def conversation_calls(memory: Any) -> Iterator[Any]:
    """Call the conversations."""
    context = memory.context
    yield context.list_sessions(), context.list(), context.scope, context.versions("talk")
    yield context.facts("talk"), context.find_facts("talk", "Who maintains billing?")
    yield context.transcript("talk", limit=5, newest_first=True)
    yield context.using(None).list_sessions(), context.within("orion").list_sessions()
    yield context.restore(context.load("other"))
    yield context.counter("How many tokens are these?")


def session_calls(memory: Any, folder: Path) -> Iterator[Any]:
    """Call the sessions, one session, and one agent's jobs."""
    sessions = memory.sessions
    yield sessions.state("demo"), sessions.latest("demo"), sessions.load_latest_checkpoint("demo")
    yield sessions.checkpoints("demo"), sessions.verify("demo"), sessions.folder("demo"), sessions.archive("demo")
    yield sessions.compress_old_checkpoints("demo"), sessions.prune("demo"), sessions.recover("crashed")
    session = sessions.start("other")
    yield sessions.configuration(), sessions.checkpoint("demo", 1), session.configuration, session.scope
    yield session.number, session.closed, session.state, session.replace({"configuration": {"mode": "calm"}})
    yield session.refresh(), session.tick(), session.verify(), session.recovering(), session.mark_recovering()
    session.close()
    yield session.closed
    yield [file.name for file in sessions.blobs.list_files("")]
    yield sessions.backup("demo", folder / "sessions"), sessions.erase("demo")
    yield (
        sessions.restore("demo", folder / "sessions"),
        sessions.find_files(subject="Odd Name"),
        sessions.erase_files(subject="Odd Name"),
        sessions.list(),
    )
    stop = threading.Event()
    stop.set()
    failed = next(job for job in memory.jobs.list() if job.state == "failed")
    yield memory.jobs.status(), memory.jobs.retry(failed.id), memory.jobs.drop("unknown"), memory.jobs.work(stop)
    yield memory.jobs.result("unknown")


def trust_and_forecast_calls(memory: Any) -> Iterator[Any]:
    """Call trust, the rubric, one agent's memory and the forecasts."""
    trust = memory.trust
    yield trust.dissent_depth("The plan ignores the cost of the migration.", ["Accuracy"]), trust.filed()
    yield trust.history("critic-1"), trust.influence(), trust.metrics(), trust.metrics("creator")
    yield trust.standing("critic-1"), trust.rebuild("critic-1")
    yield trust.quarantine("critic-2", reason="test"), trust.release("critic-2")
    proposals = trust.rubric.proposals()
    yield proposals, trust.rubric.get(), [trust.rubric.effect(proposal.id) for proposal in proposals]
    yield trust.rubric.reject("unknown", by="ada")
    agent = trust.agent("critic-1")
    yield agent.model, agent.primary_role, agent.probation_until, agent.rounds_participated, agent.trust_score
    yield agent.adjusted_score
    yield agent.dissent_history, agent.override_history, agent.trust_score_history, agent.long_term_stats
    yield agent.participate("round-9"), agent.log_dissent("The tests do not cover the old clients.", ["Accuracy"])
    yield agent.log_override("round-9", "Use GraphQL", "Stay with REST", by="ada")
    yield agent.check_reverts("round-9", "Use GraphQL", by="ada")
    forecasts = memory.forecasts
    yield forecasts.agent_id, forecasts.list(), forecasts.get("build-1"), forecasts.history("build-1")
    yield forecasts.calibrate(0.7), forecasts.estimate("release"), forecasts.reasoning("release")
    yield forecasts.max_active, forecasts.threshold, forecasts.received()
    hub = memory.hub
    yield hub.broadcast("north", "signal", {"signal_id": "s1"}), hub.fetch_state("north")
    yield hub.inbox("south"), hub.acknowledge("south", "s1", "north"), hub.acknowledged("north", "s1")
    yield [peer.agent_id for peer in hub.peers("west")]
    yield forecasts.scores(), forecasts.signals(), forecasts.take_in({"active_predictions": []})


def vault_calls(memory: Any) -> Iterator[Any]:
    """Call the vault and the two verbs of the memory that write to it."""
    vault = memory.vault
    kept = vault.list()
    yield memory.vault.refusals()
    yield kept, vault.get(kept[0].id), vault.history(kept[0].id), vault.directives(), vault.notes()
    yield vault.judge("tick marker for burst 9"), vault.judge("The office has two floors")
    yield vault.bulk_delete([kept[0].id, "unknown"]), vault.restore([vault.history(kept[1].id)])
    outcome = memory.remember("The office has two floors", tags=("office",))
    yield outcome, memory.confirm(outcome.record.id), vault.confirm(outcome.record.id)
    yield memory.forget(outcome.record.id), vault.compact()


def store_calls(memory: Any, folder: Path) -> Iterator[Any]:
    """Call what concerns the whole store, and close everything."""
    yield memory.recall.reembed("hash"), memory.describe(), memory.verify()
    yield memory.export(folder / "export.jsonl"), memory.import_(folder / "export.jsonl")
    yield memory.backup(folder / "backup.db"), memory.compact()
    yield memory.vault.close(), memory.sessions.close()


def comparable(value: Any, folder: Path) -> str:
    """Return a text that two equal stores have in common: without addresses, folders and random words of fences."""
    if isinstance(value, tuple) and type(value) is tuple:
        return "\n".join(comparable(item, folder) for item in value)
    if isinstance(value, Iterator):
        value = list(value)
    text = "a live object" if isinstance(value, BlockingView) or " at 0x" in repr(value) else repr(value)
    text = re.sub(r"sha256='\w+'", "sha256", text.replace(str(folder), "FOLDER"))  # archives hold times of files
    return str(store.NONCE.sub(r"\g<1>NONCE", text))


def run_calls(memory: Any, clock: Any, folder: Path) -> None:
    """Make every call and write the results and the log to a folder."""
    store.fill(memory, clock)
    clock.tick(3600)
    store.prompts(memory, folder / "prompts")
    (folder / "answers.json").write_text(store.answers(memory), "utf-8")
    store.layouts(memory, folder / "layouts")
    with (folder / "results.txt").open("w", encoding="utf-8") as results:
        for result in other_calls(memory, folder):
            clock.tick()
            results.write(comparable(result, folder) + "\n")
    memory.export(folder / "log.jsonl")
    memory.close()


def main(folder: Path) -> None:
    """Run the calls through both libraries."""
    calls: set[str] = set()
    for name in ("sync", "awaited"):
        (folder / name).mkdir(parents=True)
    clock = store.Clock(store.BEGINNING)
    with store.open_store(folder / "sync" / "memory.db", clock) as memory:
        run_calls(memory, clock, folder / "sync")
    clock = store.Clock(store.BEGINNING)
    with open_awaited(folder / "awaited" / "memory.db", clock, calls) as memory:
        run_calls(memory, clock, folder / "awaited")
    (folder / "calls.txt").write_text("\n".join(sorted(calls)), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
