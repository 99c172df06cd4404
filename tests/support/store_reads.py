"""Every read call of a store that the golden log fills, for tests of what one bad record does to them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from lukasa.agents.speak import Shown, Speaker
from lukasa.core.record import Draft, encode_draft
from lukasa.core.scope import FULL_REACH

GOLDEN_LOG = Path(__file__).parents[1] / "frozen" / "golden" / "log.jsonl"
NOW = datetime(2025, 3, 12, 12, tzinfo=UTC)
"""A time just after the golden log."""
_GOAL = "Implement POST /api/todos endpoint"
_AGENTS = ("creator", "critic-1", "critic-2", "Visitor 1")


def write_unchecked(memory: Any, *drafts: Draft) -> None:
    """Write drafts as a program without the gate would."""
    assert memory._parts.engine.append(FULL_REACH, [encode_draft(draft, draft.id) for draft in drafts])


def list_reads(memory: Any, folder: Path) -> dict[str, Callable[[], object]]:
    """Return the read calls of every service by name; some of them write files into the folder."""
    vault, trust, graph, jobs = memory.vault, memory.trust, memory.graph, memory.jobs
    calls: dict[str, Callable[[], object]] = {
        "recall": lambda: memory.recall("Which database? release Anna API endpoint billing", 10).records,
        "before_task": lambda: memory.before_task({"goal": _GOAL, "type": "api-endpoint"}),
        "relevant memory": lambda: memory.retrieve_relevant_memory(_GOAL).lines(),
        "continuity": lambda: memory.continuity.update(folder / "CONTINUITY.md", agent="eng-001"),
        "consolidate": lambda: memory.consolidate(dry_run=True),
        "episodes": lambda: _read_episodes(memory),
        "metrics": lambda: [getattr(memory.metrics, name)(100) for name in ("efficiency", "rewards", "dashboard")],
        "knowledge": lambda: _read_knowledge(memory.knowledge),
        "lessons": lambda: (
            [(lesson.as_json(), lesson.count) for lesson in (*memory.lessons.list(), *memory.lessons.of_session("s1"))],
            memory.metrics.gain(since="30d"),
        ),
        "what agents are shown": lambda: (
            Speaker().at_start(memory, "", "main", "s2", Shown()),
            Speaker().at_prompt(memory, "Which database did we choose for the release yesterday?", "s2", Shown()),
            Speaker().at_tool(memory, "Bash", {"command": "make test"}, "s2", Shown()),
        ),
        "skills": lambda: [
            (skill.title, skill.markdown, list(skill.steps), skill.success_rate)
            for skill in (*memory.skills.list(), *memory.skills.search("api endpoint handler tests"))
        ],
        "skill files": lambda: memory.skills.sync(folder / "skills"),
        "handoffs": lambda: [
            (handoff.as_json(), handoff.what_was_done, handoff.status)
            for agent in ("qa-001", "eng-001", "eng-002")
            for handoff in (*memory.handoffs.inbox(agent, completed=True), *memory.handoffs.sent(agent))
        ],
        "ledgers": lambda: [
            (ledger.as_json(), ledger.last_checkpoint, ledger.tasks_completed, ledger.current_task)
            for ledger in memory.ledgers.list()
        ],
        "sessions": lambda: _read_sessions(memory.sessions),
        "conversations": lambda: _read_conversations(memory.context),
        "trust": lambda: _read_trust(trust),
        "trust changes": lambda: (trust.check_reverts(), trust.rubric.propose()),
        "graph": lambda: (graph.read_graph(), graph.search_nodes("bill"), graph.open_nodes(["Billing", "Ben"])),
        "jobs": lambda: (jobs.list(), jobs.status()),
        "journal": lambda: (memory.journal.quarantined(), list(memory.journal.read()), memory.journal.tally()),
        "vault": lambda: [
            *(getattr(vault, name)() for name in ("list", "notes", "directives", "ticks", "vault_stats")),
            vault.search("database project release"),
            vault.find_consolidation_candidates(),
            vault.propose_deletions(),
            vault.build_snapshot(),
            vault.build_memory_block(query="Which database? current projects style tone"),
        ],
    }
    for name in ("loki", "voxsigil", "context", "memory-graph"):
        calls[f"export {name}"] = partial(memory.export, folder / f"as-{name}", format=name)
    for agent in ("", "orion", "vega"):
        caller = memory.as_agent(agent) if agent else memory
        calls[f"forecasts {agent}".strip()] = partial(_read_forecasts, caller.forecasts)
    return calls


def _read_episodes(memory: Any) -> None:
    episodes, start = memory.episodes, datetime(2020, 1, 1, tzinfo=UTC)
    found = (
        *episodes.list(since=start, archived=True),
        *episodes.list(limit=50, archived=True),
        *episodes.list(unfinished=True),
    )
    for episode in (*found, *episodes.list(agent="eng-001"), *episodes.list(outcome="success")):
        _ = episode.goal, episode.actions, episode.as_json(), episode.errors, episode.duration_seconds
    episodes.prune(dry_run=True)


def _read_knowledge(knowledge: Any) -> None:
    for name in ("patterns", "antipatterns", "facts"):
        for item in getattr(knowledge, name)(superseded=True):
            _ = item.as_json(), item.says, item.approach, item.sources, item.last_used, item.voices
    knowledge.learnings()
    knowledge.contradictions()
    knowledge.merge_duplicates(dry_run=True)


def _read_sessions(sessions: Any) -> None:
    sessions.list()
    sessions.configuration()
    for name in ("state", "latest", "events", "archive", "incidents", "checkpoints", "verify"):
        getattr(sessions, name)("demo")


def _read_conversations(context: Any) -> None:
    context.list()
    for id in context.list_sessions():
        context.load(id)
        list(context.transcript(id))
        context.find_facts(id, "Which database?")
        context.assemble(id, query="Which database?")
        context.versions(id)


def _read_trust(trust: Any) -> None:
    for agent in _AGENTS:
        for name in ("score", "standing", "diversity", "metrics", "eligibility"):
            getattr(trust, name)(agent)
        trust.agent(agent).as_json()
    for name in ("agents", "metrics", "influence", "controversy", "filed", "check"):
        getattr(trust, name)()
    trust.predict("GraphQL tooling")
    trust.rubric.get()
    trust.rubric.versions()
    for proposal in trust.rubric.proposals():
        trust.rubric.effect(proposal.id)


def _read_forecasts(forecasts: Any) -> None:
    for status in (None, "active", "resolved", "expired"):
        forecasts.list(status)
    for name in ("scores", "learning", "metrics", "sections", "signals", "received"):
        getattr(forecasts, name)()
    forecasts.estimate("release")
    forecasts.history("ship")
    forecasts.network.fetch_state("orion")
    forecasts.network.inbox("nobody")
    forecasts.network.peers("x")
